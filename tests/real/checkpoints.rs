//! Checkpoints kept by real brokers: in ZooKeeper by 0.8.1, in Kafka from 0.8.2 on; alone, and under a spout that
//! crashes.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use downspout::checkpoint::*;
use downspout::client::{Cluster, GroupOffset, TopicPartition};
use downspout::protocol::{JoinGroupProtocol, JoinGroupRequest};
use downspout::records::NewRecord;
use downspout::spout::{Delivery, Spout};
use downspout::{Error, ErrorKind};
use tokio::time::{Instant, sleep, timeout};

use crate::harness::{Driver, Kafka, Options, Prepared, Release, Result, wait_for};
use crate::stage::{Stage, Turn, left_out};

const TOPIC: &str = "checkpoints";

/// What every release that keeps offsets does.
pub fn all(stage: &mut Stage) -> Result<()> {
    stage.driver.create_topic(&stage.kafka, TOPIC, 3, &[])?;
    stage.kafka.wait_topic(TOPIC, 3)?;
    let release = stage.release;
    block_on(async {
        let cluster = cluster(&stage.kafka).await?;
        let has_room = release.since(&[0, 8, 2]);
        positions_come_back(&cluster, release).await?;
        if has_room {
            two_owners(&cluster).await?;
        }
        changed_by_hand(&cluster).await?;
        if release.since(&[0, 9]) {
            live_members(&cluster).await?;
        }
        a_spout_that_crashes(&cluster, has_room).await
    })
}

async fn cluster(kafka: &Kafka) -> Result<Cluster> {
    Cluster::connect([kafka.address().to_string()]).await.map_err(text)
}

/// A set, with and without what fits beside it.
async fn positions_come_back(cluster: &Cluster, release: &Release) -> Result<()> {
    let has_room = release.since(&[0, 8, 2]);
    let store = KafkaCheckpoints::new(cluster.clone());
    let first = own(&store, "positions", "a").await?;
    assert_eq!(first.keeps_extras(), has_room);
    for partition in 0..3 {
        assert_eq!(load(&*first, partition).await?, Loaded::default());
    }
    let mut large = offer(1, 5, "a", 1);
    let done: Vec<_> = (0..5000).map(|n| 6 + 2 * n..7 + 2 * n).collect();
    large.checkpoint.extras.as_mut().unwrap().done = done.clone();
    let offers = [offer(0, 0, "a", 1), large];
    let outcomes = first.commit(&offers).await;
    let stored: Vec<i64> =
        outcomes.into_iter().map(|one| one.map(|it| it.done_until).map_err(text)).collect::<Result<_>>()?;
    if has_room {
        assert_eq!(stored[0], 5);
        assert!((3000..5000).contains(&stored[1]), "4,096 bytes are used: {stored:?}");
    } else {
        assert_eq!(stored, [0, 5]);
    }

    let second = own(&store, "positions", "b").await?;
    let small = load(&*second, 0).await?;
    assert_eq!(small.discarded, None);
    let small = small.checkpoint.ok_or("no checkpoint at offset 0")?;
    assert_eq!(small.offset, 0);
    let large = load(&*second, 1).await?.checkpoint.ok_or("no checkpoint")?;
    assert_eq!(large.offset, 5);
    if has_room {
        assert_eq!(
            (&small.owner, &small.extras),
            (&offers[0].checkpoint.owner, &offers[0].checkpoint.extras)
        );
        let kept: Vec<_> = done.into_iter().filter(|run| run.end <= stored[1]).collect();
        assert_eq!(large.extras.ok_or("no extras")?.done, kept);
        let found = cluster.fetch_offsets("positions", &[(TOPIC, 0)]).await.map_err(text)?;
        assert_eq!(found[0].leader_epoch, release.since(&[2, 1]).then_some(0), "kept by the broker too");
    } else {
        assert_eq!(small, Checkpoint::at(0));
    }
    assert_eq!(load(&*second, 2).await?, Loaded::default());
    assert_eq!(second.list().await.map_err(text)?, [at(0), at(1)]);
    commit(&*second, offer(0, 1, "b", 1)).await.map_err(text)?;
    assert_eq!(load(&*second, 0).await?.checkpoint.map(|it| it.offset), Some(1));
    Ok(())
}

async fn two_owners(cluster: &Cluster) -> Result<()> {
    let store = KafkaCheckpoints::new(cluster.clone());
    let (first, second) = (own(&store, "two", "a").await?, own(&store, "two", "b").await?);
    commit(&*first, offer(0, 1, "a", 1)).await.map_err(text)?;
    load(&*second, 0).await?;
    commit(&*first, offer(0, 2, "a", 2)).await.map_err(text)?;
    let why = commit(&*second, offer(0, 1, "b", 1)).await.err().ok_or("two owners at once")?;
    assert!(matches!(problem(&why), Some(Problem::Foreign { .. })), "{why}");
    commit(&*first, offer(0, 3, "a", 3)).await.map_err(text)?;
    assert_eq!(load(&*second, 0).await?.checkpoint.map(|it| it.offset), Some(3));
    Ok(())
}

async fn changed_by_hand(cluster: &Cluster) -> Result<()> {
    let store = KafkaCheckpoints::new(cluster.clone());
    let opened = own(&store, "hand", "a").await?;
    commit(&*opened, offer(0, 5, "a", 1)).await.map_err(text)?;
    let next = own(&store, "hand", "b").await?;
    load(&*next, 0).await?;
    let by_hand = cluster.commit_offsets("hand", &[GroupOffset::new(TOPIC, 0, 3)]).await.map_err(text)?;
    assert!(by_hand[0].error.is_none(), "{by_hand:?}");
    let why = commit(&*next, offer(0, 6, "b", 1)).await.err().ok_or("written over a change by hand")?;
    assert!(matches!(problem(&why), Some(Problem::Changed { expected: Some(5), found: Some(3) })), "{why}");
    Ok(())
}

/// A member of the classic protocol, which never says anything again.
async fn live_members(cluster: &Cluster) -> Result<()> {
    let store = KafkaCheckpoints::new(cluster.clone()).group("positions-and-members");
    let opened = own(&store, "positions-and-members", "a").await?;
    load(&*opened, 0).await?;
    let coordinator = cluster.coordinator("positions-and-members").await.map_err(text)?;
    let protocol = JoinGroupProtocol { name: "range".to_owned(), metadata: Bytes::from_static(&[0; 6]) };
    let join = JoinGroupRequest {
        group_id: "positions-and-members".to_owned(),
        session_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    };
    let joined = cluster.consumer(coordinator.id).map_err(text)?.send_version(join, 0).await.map_err(text)?;
    assert_eq!(joined.error_code.0, 0, "{joined:?}");
    let why =
        commit(&*opened, offer(0, 5, "a", 1)).await.err().ok_or("committed for a group with members")?;
    assert!(matches!(problem(&why), Some(Problem::Members { .. })), "{why}");
    Ok(())
}

/// The classic picture: 40 are handed out, 1–20, 24–30 and 35–40 are done, and the process is gone.
async fn a_spout_that_crashes(cluster: &Cluster, has_room: bool) -> Result<()> {
    let values: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let records: Vec<NewRecord<'_>> = values.iter().map(|value| NewRecord::value(value.as_bytes())).collect();
    cluster.produce(TOPIC, 2, &records).await.map_err(text)?;
    let mut spout = spout(cluster).await?;
    let mut held: BTreeMap<i64, Delivery> = BTreeMap::new();
    while held.len() < 40 {
        let delivery = next(&mut spout).await?.ok_or("too few")?;
        held.insert(delivery.offset(), delivery);
    }
    let done = (0..20).chain(23..30).chain(34..40);
    for offset in done {
        held.remove(&offset).ok_or("not handed out")?.ack();
    }
    let report = spout.handle().commit_now().await.map_err(text)?;
    assert!(report.failed.is_empty(), "{report:?}");
    assert!(report.committed.contains(&(at(2), 20)), "{report:?}");
    drop(spout);
    drop(held);

    let mut spout = self::spout(cluster).await?;
    let expected: Vec<i64> = if has_room { (20..23).chain(30..34).collect() } else { (20..40).collect() };
    let mut again = Vec::new();
    while again.len() < expected.len() {
        let delivery = next(&mut spout).await?.ok_or("too few")?;
        again.push(delivery.offset());
        delivery.ack();
    }
    again.sort_unstable();
    assert_eq!(again, expected);
    if let Some(more) =
        timeout(Duration::from_millis(500), spout.next()).await.ok().transpose().map_err(text)?
    {
        return Err(format!("one too many: {:?}", more.map(|it| it.offset())));
    }
    let report = spout.close().await.map_err(text)?;
    assert!(report.failed.is_empty(), "{report:?}");
    let found = cluster.fetch_offsets("crashing", &[(TOPIC, 2)]).await.map_err(text)?;
    assert_eq!(found[0].offset, Some(40));
    Ok(())
}

async fn spout(cluster: &Cluster) -> Result<Spout> {
    let store = KafkaCheckpoints::new(cluster.clone());
    let builder = Spout::builder(cluster.clone()).topic(TOPIC).id("crashing").checkpoints(store);
    builder.build().await.map_err(text)
}

async fn next(spout: &mut Spout) -> Result<Option<Delivery>> {
    let delivery = timeout(Duration::from_secs(30), spout.next()).await;
    delivery.map_err(|_| "nothing came for 30 s")?.map_err(text)
}

/// A broker that forgets positions after a minute, and has little room beside them. A spout that is idle keeps its
/// position; one that nobody commits again is gone.
fn short_retention(name: &str) {
    let _turn = Turn::take();
    let release = Release::named(name);
    let prepared = match Prepared::of(release) {
        Ok(prepared) => prepared,
        Err(why) => return left_out(release, &why),
    };
    let options = Options::default()
        .set("offsets.retention.minutes", "1")
        .set("offsets.topic.retention.minutes", "1") // its name in 0.8.2
        .set("offsets.retention.check.interval.ms", "1000")
        .set("offset.metadata.max.bytes", "500");
    let kafka = Kafka::start(release, &prepared, options).unwrap();
    Driver::start(&kafka).unwrap().create_topic(&kafka, TOPIC, 3, &[]).unwrap();
    kafka.wait_topic(TOPIC, 3).unwrap();
    let kept: Result<()> = block_on(async {
        let cluster = cluster(&kafka).await?;
        let store = KafkaCheckpoints::new(cluster.clone());
        let opened = own(&store, "short", "a").await?;
        let mut large = offer(0, 7, "a", 1);
        large.checkpoint.extras.as_mut().unwrap().done = (0..2000).map(|n| 9 + 2 * n..10 + 2 * n).collect();
        let stored = commit(&*opened, large).await.map_err(text)?;
        assert!((9..1000).contains(&stored.done_until), "it has 320 bytes for it: {stored:?}");
        let alone = cluster.commit_offsets("alone", &[GroupOffset::new(TOPIC, 0, 7)]).await.map_err(text)?;
        assert!(alone[0].error.is_none(), "{alone:?}");
        let begin = Instant::now();
        let mut missing = Vec::new();
        while begin.elapsed() < Duration::from_secs(200) {
            opened.commit(&[]).await;
            let found = cluster.fetch_offsets("short", &[(TOPIC, 0)]).await.map_err(text)?;
            if found[0].offset.is_none() {
                missing.push(begin.elapsed());
            }
            sleep(Duration::from_secs(1)).await;
        }
        let lost = cluster.fetch_offsets("alone", &[(TOPIC, 0)]).await.map_err(text)?;
        assert_eq!(lost[0].offset, None, "the broker forgets what nobody commits again");
        let reader = own(&store, "short", "b").await?;
        assert_eq!(load(&*reader, 0).await?.checkpoint.map(|it| it.offset), Some(7));
        assert!(
            missing.iter().all(|at| *at < Duration::from_secs(150)),
            "gone once, never again: {missing:?}"
        );
        Ok(())
    });
    kept.unwrap_or_else(|why| panic!("{release}: {why}"));
}

#[test]
#[ignore = "with tests/run --all"]
fn short_retention_on_0_8_2_2() {
    short_retention("0.8.2.2");
}

#[test]
#[ignore = "with tests/run --all"]
fn short_retention_on_0_10_2_2() {
    short_retention("0.10.2.2");
}

#[test]
#[ignore = "with tests/run --all"]
fn short_retention_on_4_4_0() {
    short_retention("4.4.0");
}

/// The coordinator dies and another broker takes over: what was kept is there, and never "none".
#[test]
fn positions_outlive_their_coordinator() {
    let _turn = Turn::take();
    let release = Release::named("0.8.2.2");
    let prepared = match Prepared::of(release) {
        Ok(prepared) => prepared,
        Err(why) => return left_out(release, &why),
    };
    let options = Options { brokers: 2, session_timeout: Duration::from_secs(2), ..Options::default() }
        .set("offsets.topic.replication.factor", "2");
    let mut kafka = Kafka::start(release, &prepared, options).unwrap();
    let mut driver = Driver::start(&kafka).unwrap();
    driver.create_topic(&kafka, TOPIC, 3, &[]).unwrap();
    kafka.wait_topic(TOPIC, 3).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let addresses = [0, 1].map(|broker| kafka.broker_address(broker).to_string());
        let cluster = Cluster::connect(addresses).await.unwrap();
        let store = KafkaCheckpoints::new(cluster.clone());
        let opened = own(&store, "moving", "a").await.unwrap();
        let mut offset = 0;
        for round in 0..2 {
            let coordinator = cluster.coordinator("moving").await.unwrap();
            let broker = [0, 1]
                .into_iter()
                .find(|broker| kafka.broker_address(*broker).port() == coordinator.address.port)
                .unwrap();
            offset += 1;
            commit_patiently(&*opened, offer(2, offset, "a", offset as u64)).await;
            kafka.kill(broker).unwrap();
            let next = own(&store, "moving", "b").await.unwrap();
            let begin = Instant::now();
            // An error is honest; "none" would be a fresh start.
            let found = loop {
                match load(&*next, 2).await {
                    Ok(found) => break found,
                    Err(why) => assert!(begin.elapsed() < Duration::from_secs(120), "{round}: {why}"),
                }
                sleep(Duration::from_millis(200)).await;
            };
            assert_eq!(found.checkpoint.map(|it| it.offset), Some(offset), "round {round}");
            kafka.start_again(broker).unwrap();
            wait_for("the in-sync set of the offsets topic", Duration::from_secs(60), || {
                Ok((driver.in_sync("__consumer_offsets", 0)? == 2).then_some(()))
            })
            .unwrap();
        }
    });
}

async fn commit_patiently(checkpoints: &dyn Checkpoints, offer: Offer) {
    let begin = Instant::now();
    while let Err(why) = commit(checkpoints, offer.clone()).await {
        assert!(begin.elapsed() < Duration::from_secs(120), "{why}");
        sleep(Duration::from_millis(200)).await;
    }
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

fn owner(run: &str) -> Owner {
    Owner { instance: "i".into(), name: "real".into(), run: run.into() }
}

fn offer(partition: i32, offset: i64, run: &str, serial: u64) -> Offer {
    let done = std::iter::once(offset + 2..offset + 5).collect();
    let extras = Extras { serial, leader_epoch: Some(0), done, ..Extras::default() };
    let checkpoint = Checkpoint { owner: Some(owner(run)), extras: Some(extras), ..Checkpoint::at(offset) };
    Offer { partition: at(partition), epoch: 1, checkpoint, reset: false }
}

async fn own(store: &KafkaCheckpoints, id: &str, run: &str) -> Result<Box<dyn Checkpoints>> {
    store.open(id, Access::Own(owner(run))).await.map_err(text)
}

async fn load(checkpoints: &dyn Checkpoints, partition: i32) -> Result<Loaded> {
    checkpoints.load(&[at(partition)]).await.remove(0).map_err(text)
}

async fn commit(checkpoints: &dyn Checkpoints, offer: Offer) -> downspout::Result<Stored> {
    checkpoints.commit(&[offer]).await.remove(0)
}

fn problem(why: &Error) -> Option<&Problem> {
    match why.kind() {
        ErrorKind::Checkpoint(problem) => Some(problem),
        _ => None,
    }
}

fn text(why: Error) -> String {
    why.to_string()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}
