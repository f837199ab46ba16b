//! Spouts that share their partitions and keep their positions in a ZooKeeper to which everything happens: meanwhile
//! they go on, nothing is lost, and no position goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use downspout::checkpoint::ZooKeeperCheckpoints;
use downspout::client::Cluster;
use downspout::records::NewRecord;
use downspout::spout::{Membership, Spout, SpoutHandle};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::clusters::start;
use crate::harness::{Driver, Ensemble, Kafka, Options, Proxy, Release, ZooKeeper};
use crate::stage::Turn;

const PARTITIONS: i32 = 6;

type Done = Arc<Mutex<Vec<(i32, i64)>>>;

struct Member {
    session: Arc<Session>,
    handle: SpoutHandle,
    task: JoinHandle<()>,
}

async fn member(brokers: &str, servers: &str, done: &Done) -> Member {
    let session = Arc::new(session(servers).await);
    let spout = Spout::builder(Cluster::connect(brokers.split(',')).await.unwrap())
        .topic("numbers")
        .id("billing")
        .commit_interval(Duration::from_millis(200))
        .checkpoints(ZooKeeperCheckpoints::over(session.clone(), "/spouts"))
        .members(Membership::over(session.clone(), "/spouts").settle_delay(Duration::from_secs(1)))
        .build()
        .await
        .unwrap();
    let handle = spout.handle();
    let task = tokio::spawn(work(spout, Arc::clone(done)));
    Member { session, handle, task }
}

async fn work(mut spout: Spout, done: Done) {
    while let Some(delivery) = spout.next().await.unwrap() {
        done.lock().unwrap().push((delivery.partition(), delivery.offset()));
        delivery.ack();
    }
}

/// Produces until told to stop; where each partition ends.
async fn produce(brokers: String, over: Arc<AtomicBool>) -> Vec<i64> {
    let cluster = Cluster::connect(brokers.split(',')).await.unwrap();
    let mut ends = vec![0; PARTITIONS as usize];
    while !over.load(Ordering::Relaxed) {
        for partition in 0..PARTITIONS {
            let records: Vec<NewRecord<'_>> = (0..5).map(|_| NewRecord::value(b"x")).collect();
            cluster.produce("numbers", partition, &records).await.unwrap();
            ends[partition as usize] += 5;
        }
        sleep(Duration::from_millis(50)).await;
    }
    ends
}

/// The positions as they were seen last.
type Kept = Arc<Mutex<BTreeMap<i32, i64>>>;

/// Looks at the positions, through a session of its own, until told to stop.
async fn watch(servers: String, over: Arc<AtomicBool>, kept: Kept) {
    let session = session(&servers).await;
    while !over.load(Ordering::Relaxed) {
        for partition in 0..PARTITIONS {
            let path = format!("/spouts/billing/numbers/partition_{partition}");
            let Ok(Some(node)) = session.get(&path).await else { continue };
            let document: serde_json::Value = serde_json::from_slice(&node.data).unwrap();
            let offset = document["offset"].as_i64().unwrap();
            let before = kept.lock().unwrap().insert(partition, offset);
            assert!(before <= Some(offset), "{path} went back from {before:?} to {offset}");
        }
        sleep(Duration::from_millis(100)).await;
    }
    session.close().await;
}

/// Two spouts at work while `faults` go on, and afterwards until all is done.
async fn run(
    kafka: &Kafka,
    watched: &str,
    servers: [&str; 2],
    faults: impl Future<Output = ()>,
) -> (usize, usize, f64) {
    let brokers = kafka.bootstrap();
    let (done, kept) = (Done::default(), Kept::default());
    let (stop, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let watching = tokio::spawn(watch(watched.to_owned(), Arc::clone(&over), Arc::clone(&kept)));
    let members = [member(&brokers, servers[0], &done).await, member(&brokers, servers[1], &done).await];
    let producing = tokio::spawn(produce(brokers.clone(), Arc::clone(&stop)));
    let (cores, ()) = cores_used(faults).await;
    stop.store(true, Ordering::Relaxed);
    let ends = producing.await.unwrap();
    let all: BTreeSet<(i32, i64)> = (0..)
        .zip(&ends)
        .flat_map(|(partition, end)| (0..*end).map(move |offset| (partition, offset)))
        .collect();
    let missing = || {
        let done: BTreeSet<(i32, i64)> = done.lock().unwrap().iter().copied().collect();
        all.difference(&done).count()
    };
    eventually("all records are done", Duration::from_secs(60), async || missing() == 0).await;
    // What a member did that had lost its partition meanwhile comes again at its owner.
    eventually("all is kept", Duration::from_secs(30), async || kept.lock().unwrap().values().eq(&ends))
        .await;
    for one in members {
        let report = one.handle.close_within(Duration::from_secs(10)).await.unwrap();
        assert!(report.failed.is_empty() && report.unfinished.is_empty(), "{report:?}");
        one.task.await.unwrap();
        one.session.close().await;
    }
    over.store(true, Ordering::Relaxed);
    watching.await.unwrap();
    let repeats = done.lock().unwrap().len() - all.len();
    (all.len(), repeats, cores)
}

fn kafka() -> Option<Kafka> {
    let kafka = start(Release::named("4.4.0"), Options::default())?;
    let mut admin = Driver::start(&kafka).unwrap();
    admin.create_topic(&kafka, "numbers", PARTITIONS as usize, &[]).unwrap();
    Some(kafka)
}

async fn no_session_stays(server: &ZooKeeper) {
    eventually("no session stays", Duration::from_secs(10), async || {
        server.sessions().is_ok_and(|sessions| sessions.is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spouts_go_on_while_their_zookeeper_is_cut_off_frozen_killed_and_started_again() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let Some(kafka) = kafka() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let (direct, through) = (alone.connect_string(), proxy.address().to_string());
    let rest = || sleep(Duration::from_secs(3));
    let (all, repeats, cores) = run(&kafka, &direct, [&direct, &through], async {
        rest().await;
        proxy.cut();
        rest().await;
        // One of them is cut off for longer than its session: the other one takes over.
        proxy.blackhole(true);
        sleep(SESSION * 2).await;
        proxy.blackhole(false);
        rest().await;
        proxy.delay(Duration::from_millis(300));
        rest().await;
        proxy.delay(Duration::ZERO);
        // Both of them, at once.
        alone.server.freeze().unwrap();
        sleep(SESSION + Duration::from_secs(2)).await;
        alone.server.resume().unwrap();
        rest().await;
        alone.server.kill().unwrap();
        rest().await;
        alone.server.start_again().unwrap();
        rest().await;
    })
    .await;
    println!("one ZooKeeper: {all} records, {repeats} came again, {cores:.2} cores for sessions");
    assert!(cores < 0.3, "{cores}");
    no_session_stays(&alone.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spouts_go_on_while_an_ensemble_loses_a_member_and_its_quorum() {
    let _turn = Turn::take();
    let Some(java) = java(ZOOKEEPER) else { return };
    let mut ensemble = Ensemble::start(&java).unwrap();
    let Some(kafka) = kafka() else { return };
    let servers = ensemble.connect_string();
    let rest = || sleep(Duration::from_secs(3));
    let (all, repeats, cores) = run(&kafka, &servers.clone(), [&servers, &servers], async {
        rest().await;
        let leader = ensemble.leader().unwrap();
        ensemble.members[leader].kill().unwrap();
        rest().await;
        // And a second one: the quorum is lost.
        let other = (leader + 1) % 3;
        ensemble.members[other].kill().unwrap();
        sleep(SESSION + Duration::from_secs(1)).await;
        ensemble.members[leader].start_again().unwrap();
        rest().await;
        ensemble.members[other].start_again().unwrap();
        let leader = ensemble.leader().unwrap();
        ensemble.members[leader].freeze().unwrap();
        sleep(SESSION * 2).await;
        ensemble.members[leader].resume().unwrap();
        rest().await;
    })
    .await;
    println!("three ZooKeepers: {all} records, {repeats} came again, {cores:.2} cores for sessions");
    assert!(cores < 0.3, "{cores}");
}
