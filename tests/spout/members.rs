//! Several spouts of one id, whose members agree in ZooKeeper, and keep their positions there.

#![cfg(feature = "zookeeper")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use downspout::checkpoint::ZooKeeperCheckpoints;
use downspout::testing::MemoryZooKeeper;
use downspout::zookeeper::ZooKeeper;
use tokio::task::JoinHandle;

use super::*;

const PARTITIONS: i32 = 8;
const AT_A_TIME: usize = 300;

/// A record, and who has done it.
type Done = Arc<Mutex<Vec<((i32, i64), &'static str)>>>;

fn many_partitions() -> Arc<EmbeddedBroker> {
    let brokers = EmbeddedBroker::builder().release(Release::V4_4).brokers(3).topic("t", PARTITIONS);
    Arc::new(brokers.in_memory())
}

struct Worker {
    zookeeper: MemoryZooKeeper,
    handle: SpoutHandle,
    task: JoinHandle<Spout>,
}

/// A member that takes `time` for a record.
async fn worker(
    brokers: &EmbeddedBroker,
    zookeeper: &MemoryZooKeeper,
    name: &'static str,
    time: Duration,
    done: &Done,
) -> Worker {
    let zookeeper = zookeeper.connect();
    let shared: Arc<dyn ZooKeeper> = Arc::new(zookeeper.clone());
    let spout = Spout::builder(cluster(brokers).await)
        .topic("t")
        .id("test")
        .commit_interval(Duration::from_millis(500))
        // All partitions are at work at a time.
        .window(30, 1 << 20)
        .checkpoints(ZooKeeperCheckpoints::over(Arc::clone(&shared), "/downspout"))
        .members(Membership::over(shared, "/downspout"))
        .build()
        .await
        .unwrap();
    let handle = spout.handle();
    let done = Arc::clone(done);
    let task = tokio::spawn(work(spout, name, time, done));
    Worker { zookeeper, handle, task }
}

/// Many records at a time, of several partitions.
async fn work(mut spout: Spout, name: &'static str, time: Duration, done: Done) -> Spout {
    let places = Arc::new(tokio::sync::Semaphore::new(AT_A_TIME));
    while let Some(delivery) = spout.next().await.unwrap() {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            sleep(time).await;
            done.lock().unwrap().push(((delivery.partition(), delivery.offset()), name));
            delivery.ack();
            drop(place);
        });
    }
    spout
}

/// How often each record was done.
fn times(done: &Done) -> BTreeMap<(i32, i64), usize> {
    let mut times = BTreeMap::new();
    for (record, _) in done.lock().unwrap().iter() {
        *times.entry(*record).or_insert(0) += 1;
    }
    times
}

async fn until_all_done(done: &Done, per_partition: i64) {
    let all = PARTITIONS as usize * per_partition as usize;
    for _ in 0..1_000 {
        sleep(Duration::from_millis(500)).await;
        if times(done).len() == all {
            return;
        }
    }
    let times = times(done);
    let missing = (0..PARTITIONS).flat_map(|p| (0..per_partition).map(move |o| (p, o)));
    let missing: Vec<_> = missing.filter(|record| !times.contains_key(record)).take(10).collect();
    panic!("{} of {all} are done; not {missing:?}", times.len());
}

/// Who has worked since the last look.
fn at_work(done: &Done) -> BTreeMap<i32, BTreeSet<&'static str>> {
    let mut who: BTreeMap<i32, BTreeSet<&'static str>> = BTreeMap::new();
    for ((partition, _), name) in done.lock().unwrap().iter() {
        who.entry(*partition).or_default().insert(*name);
    }
    who
}

fn append_all(brokers: &EmbeddedBroker, count: i64) {
    (0..PARTITIONS).for_each(|partition| append(brokers, partition, count, 10));
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_in_order_and_each_record_is_done_once() {
    let (brokers, zookeeper, done) = (many_partitions(), MemoryZooKeeper::new(), Done::default());
    append_all(&brokers, 4_000);
    // Longer than it takes to hear of a deal.
    let time = Duration::from_millis(400);
    let first = worker(&brokers, &zookeeper, "a", time, &done).await;
    sleep(Duration::from_secs(5)).await;
    let second = worker(&brokers, &zookeeper, "b", time, &done).await;
    let third = worker(&brokers, &zookeeper, "c", time, &done).await;
    sleep(Duration::from_secs(10)).await;
    let owners: Vec<usize> =
        [&first, &second, &third].map(|one| one.handle.metrics().partitions.len()).into();
    assert_eq!(owners.iter().sum::<usize>(), PARTITIONS as usize, "{owners:?}");
    assert!(owners.iter().all(|count| (2..=3).contains(count)), "{owners:?}");
    let report = second.handle.close_within(Duration::from_secs(20)).await.unwrap();
    assert!(report.unfinished.is_empty() && report.failed.is_empty(), "{report:?}");
    second.task.await.unwrap();
    until_all_done(&done, 4_000).await;
    let times = times(&done);
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).take(10).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(at_work(&done).values().flatten().any(|name| *name == "b"));
    for one in [first, third] {
        one.handle.close_within(Duration::from_secs(20)).await.unwrap();
    }
    let names: Vec<String> = zookeeper.paths().into_iter().filter(|path| path.contains("/m-")).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_member_had_goes_to_the_others_once_its_session_is_over() {
    let (brokers, zookeeper, done) = (many_partitions(), MemoryZooKeeper::new(), Done::default());
    append_all(&brokers, 4_000);
    let time = Duration::from_millis(400);
    let first = worker(&brokers, &zookeeper, "a", time, &done).await;
    let second = worker(&brokers, &zookeeper, "b", time, &done).await;
    sleep(Duration::from_secs(10)).await;
    second.zookeeper.set_reachable(false);
    second.task.abort();
    until_all_done(&done, 4_000).await;
    // Half a second between commits, 400 ms for a record, 300 at a time: about what was done since, and is out.
    let repeats = times(&done).values().map(|times| times - 1).sum::<usize>();
    assert!(repeats <= 1_000, "{repeats}");
    first.handle.close_within(Duration::from_secs(20)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_cut_off_past_its_session_stops_by_its_own_clock_and_its_commits_are_refused() {
    let (brokers, zookeeper, done) = (many_partitions(), MemoryZooKeeper::new(), Done::default());
    append_all(&brokers, 20_000);
    let time = Duration::from_millis(400);
    let first = worker(&brokers, &zookeeper, "a", time, &done).await;
    let second = worker(&brokers, &zookeeper, "b", time, &done).await;
    sleep(Duration::from_secs(10)).await;
    let offsets = || -> BTreeMap<String, i64> {
        let documents = zookeeper.paths().into_iter().filter(|path| path.contains("partition_"));
        let offset = |path: &String| {
            let document: serde_json::Value = serde_json::from_slice(&zookeeper.peek(path)?.data).ok()?;
            document["offset"].as_i64()
        };
        documents.filter_map(|path| Some((path.clone(), offset(&path)?))).collect()
    };
    for round in 0..3 {
        second.zookeeper.set_reachable(false);
        let mut last = offsets();
        let mut idle_since = None;
        for tick in 0..400 {
            sleep(Duration::from_millis(100)).await;
            let now = offsets();
            for (path, offset) in &last {
                assert!(now.get(path) >= Some(offset), "round {round}: {path} went back");
            }
            last = now;
            if second.handle.health().why.is_some() {
                idle_since.get_or_insert(tick);
            }
        }
        // Ten seconds is the session, two thirds of it what counts, and calls take one.
        assert!(idle_since.is_some_and(|tick| tick <= 85), "{idle_since:?}");
        assert_eq!(first.handle.metrics().partitions.len(), PARTITIONS as usize, "all are the other one's");
        second.zookeeper.set_reachable(true);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(
            second.handle.metrics().partitions.len(),
            PARTITIONS as usize / 2,
            "and half of it again later"
        );
    }
    until_all_done(&done, 20_000).await;
    for one in [first, second] {
        let report = one.handle.close_within(Duration::from_secs(20)).await.unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_position_changed_by_hand_stops_its_partition_and_so_does_an_owner_that_is_no_member() {
    let (brokers, zookeeper, done) = (many_partitions(), MemoryZooKeeper::new(), Done::default());
    append_all(&brokers, 10);
    let one = worker(&brokers, &zookeeper, "a", Duration::ZERO, &done).await;
    until_all_done(&done, 10).await;
    sleep(Duration::from_secs(2)).await;
    let node = |partition: i32| format!("/downspout/test/t/partition_{partition}");
    let stopped = || one.handle.health().stopped;
    let changed = |partition, from: &str, to: &str| {
        let document = String::from_utf8(zookeeper.peek(&node(partition)).unwrap().data).unwrap();
        assert!(document.contains(from), "{document}");
        zookeeper.put(&node(partition), document.replace(from, to));
        append(&brokers, partition, 1, 1);
    };
    changed(0, "\"offset\":10", "\"offset\":7");
    sleep(Duration::from_secs(5)).await;
    assert!(stopped()[&TopicPartition::new("t", 0)].contains("changed to 7"), "{:?}", stopped());

    // Somebody else writes, and goes on writing.
    let foreign = r#"{"topology":{"id":"other-1","name":"other"},"offset":8,"partition":1,"broker":{"host":"h","port":9092},"topic":"t"}"#;
    for (round, stops) in [(0, false), (1, true)] {
        zookeeper.put(&node(1), foreign);
        append(&brokers, 1, 1, 1);
        sleep(Duration::from_secs(5)).await;
        let why = stopped().remove(&TopicPartition::new("t", 1));
        assert_eq!(why.is_some(), stops, "round {round}: {why:?}");
        assert!(why.is_none_or(|why| why.contains("another owner")));
    }
    one.handle.close_within(Duration::from_secs(5)).await.unwrap();
}
