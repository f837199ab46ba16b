//! How pictures are read: once for all who wait, with pauses, and cancelled at any point.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Cluster, ClusterBuilder, Shared, TopicState};
use crate::discovery::{
    BrokerInfo, BrokerReader, Metadata, PartitionMetadata, TopicMetadata, TopicSelection,
};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{BoxFuture, BrokerAddress};
use crate::protocol::ErrorCode;

/// What a reader says, and what it was asked.
#[derive(Debug, Default)]
struct Script {
    reads: AtomicUsize,
    rotations: AtomicUsize,
    restarts: AtomicUsize,
    /// When each read began.
    begun: Mutex<Vec<(Instant, TopicSelection)>>,
    /// Leader of every partition, or the error.
    leader: Mutex<Option<Result<i32>>>,
}

/// Takes a second for each read; every topic named has one partition.
#[derive(Debug, Clone, Default)]
struct Reader(Arc<Script>);

impl BrokerReader for Reader {
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
        Box::pin(async move {
            self.0.reads.fetch_add(1, Ordering::SeqCst);
            self.0.begun.lock().unwrap().push((Instant::now(), topics.clone()));
            sleep(Duration::from_secs(1)).await;
            let leader = self.0.leader.lock().unwrap().clone().unwrap_or(Ok(1))?;
            let TopicSelection::Named(names) = topics else { return Ok(Metadata::new(vec![], vec![])) };
            let topics = names.iter().map(|name| {
                let mut partition = PartitionMetadata::new(0, Some(leader));
                partition.leader_epoch = Some(leader);
                TopicMetadata::new(name.as_str(), vec![partition])
            });
            let brokers = (1..=3).map(|id| BrokerInfo::new(id, BrokerAddress::new("localhost", id as u16)));
            Ok(Metadata::new(brokers.collect(), topics.collect()))
        })
    }

    fn rotate(&self) {
        self.0.rotations.fetch_add(1, Ordering::SeqCst);
    }

    fn restart(&self) {
        self.0.restarts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Reader {
    fn says(&self, leader: Result<i32>) {
        *self.0.leader.lock().unwrap() = Some(leader);
    }

    fn reads(&self) -> usize {
        self.0.reads.load(Ordering::SeqCst)
    }

    /// Time between the beginnings of reads, less the second that each takes, in ms.
    fn pauses(&self) -> Vec<u128> {
        let begun = self.0.begun.lock().unwrap();
        begun.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis() - 1000).collect()
    }
}

fn shared(settings: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> (Arc<Shared>, Reader) {
    let reader = Reader::default();
    let cluster = settings(Cluster::builder([""; 0]).reader(reader.clone())).build().unwrap();
    (Arc::clone(cluster.shared()), reader)
}

fn leader(shared: &Shared) -> Option<i32> {
    match shared.picture().topic("t") {
        Some(TopicState::Known(topic)) => topic.partitions[0].leader,
        _ => None,
    }
}

fn refused() -> Error {
    Error::new(ErrorKind::Closed)
}

#[tokio::test(start_paused = true)]
async fn one_read_serves_all_who_wait_whether_it_succeeds_or_fails() {
    let (shared, reader) = shared(|it| it);
    for outcome in [Ok(1), Err(refused())] {
        reader.says(outcome.clone());
        let before = reader.reads();
        let seen = shared.picture().serial;
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { shared.refresh(seen).await })
            })
            .collect();
        for task in waiting {
            assert_eq!(task.await.unwrap().is_ok(), outcome.is_ok());
        }
        assert_eq!(reader.reads(), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_change_nothing_are_ever_further_apart_and_a_change_brings_them_together() {
    let (shared, reader) = shared(|it| it);
    shared.want_topic("t");
    for _ in 0..10 {
        let serial = shared.refresh(shared.picture().serial).await.unwrap().serial;
        assert_eq!(serial, shared.picture().serial);
    }
    let about = [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000];
    for (pause, about) in reader.pauses().into_iter().zip(about) {
        assert!((about * 8 / 10..=about * 12 / 10 + 1).contains(&pause), "{pause} for {about}");
    }
    assert!(reader.0.rotations.load(Ordering::SeqCst) > 3, "another broker is asked meanwhile");
    reader.says(Ok(2));
    shared.refresh(shared.picture().serial).await.unwrap();
    assert_eq!(leader(&shared), Some(2));
    shared.refresh(shared.picture().serial).await.unwrap();
    assert!(*reader.pauses().last().unwrap() <= 121);
    // Long after, the past says nothing.
    sleep(Duration::from_secs(60)).await;
    let begin = Instant::now();
    shared.refresh(shared.picture().serial).await.unwrap();
    shared.refresh(shared.picture().serial).await.unwrap();
    assert!(begin.elapsed() < Duration::from_millis(2_300));
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_wanted_anew_need_not_wait_for_the_pause() {
    let (shared, _) = shared(|it| it);
    for _ in 0..8 {
        shared.refresh(shared.picture().serial).await.unwrap();
    }
    // Somebody waits for the pause to end, too.
    let (other, seen) = (Arc::clone(&shared), shared.picture().serial);
    let waits = tokio::spawn(async move { other.refresh(seen).await });
    tokio::task::yield_now().await;
    shared.want_topic("t");
    let begin = Instant::now();
    let picture = shared.refresh(seen).await.unwrap();
    assert!(picture.topic("t").is_some());
    assert_eq!(waits.await.unwrap().unwrap().serial, picture.serial);
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn wanted_topics_are_counted() {
    let (shared, _) = shared(|it| it);
    let mut pictures = Vec::new();
    shared.want_topic("t");
    shared.want_topic("t");
    pictures.push(shared.refresh(shared.picture().serial).await.unwrap());
    shared.forget_topic("t");
    pictures.push(shared.refresh(shared.picture().serial).await.unwrap());
    shared.forget_topic("t");
    shared.forget_topic("t");
    pictures.push(shared.refresh(shared.picture().serial).await.unwrap());
    let has: Vec<bool> = pictures.iter().map(|picture| picture.topic("t").is_some()).collect();
    assert_eq!(has, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn kip_951_a_hint_ends_the_wait_for_a_newer_picture() {
    let (shared, reader) = shared(|it| it);
    shared.want_topic("t");
    for _ in 0..8 {
        shared.refresh(shared.picture().serial).await.unwrap();
    }
    let (other, seen, reads) = (Arc::clone(&shared), shared.picture().serial, reader.reads());
    let waits = tokio::spawn(async move { other.refresh(seen).await });
    tokio::task::yield_now().await;
    let begin = Instant::now();
    assert!(!shared.hint("t", 0, 3, 1, None), "not newer");
    assert!(shared.hint("t", 0, 3, 2, None));
    assert_eq!(waits.await.unwrap().unwrap().serial, seen + 1);
    assert_eq!((leader(&shared), begin.elapsed(), reader.reads()), (Some(3), Duration::ZERO, reads));
    assert!(shared.refresh(seen).await.is_ok(), "a newer one is there already");
    assert_eq!(reader.reads(), reads);
}

#[tokio::test(start_paused = true)]
async fn metadata_that_is_older_than_its_age_is_read_again() {
    let (shared, reader) = shared(|it| it.metadata_max_age(Duration::from_secs(30)));
    shared.refresh(0).await.unwrap();
    sleep(Duration::from_secs(29)).await;
    shared.refresh(0).await.unwrap();
    assert_eq!(reader.reads(), 1);
    sleep(Duration::from_secs(1)).await;
    shared.refresh(0).await.unwrap();
    assert_eq!(reader.reads(), 2);
}

#[tokio::test(start_paused = true)]
async fn c7_a_refresh_that_is_dropped_at_any_point_leaves_the_next_one_right() {
    let (shared, _) = shared(|it| it);
    shared.want_topic("t");
    for ms in [0, 1, 50, 99, 100, 101, 500, 999, 1000, 1001, 1100, 1500] {
        let seen = shared.picture().serial;
        let dropped = timeout(Duration::from_millis(ms), shared.refresh(seen)).await;
        let begin = Instant::now();
        let next = timeout(Duration::from_secs(30), shared.refresh(seen)).await.unwrap().unwrap();
        assert!(next.serial > seen && next.topic("t").is_some(), "{ms}");
        assert!(dropped.is_ok() || begin.elapsed() < Duration::from_secs(4), "{ms}: {:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn c3_case_67_error_129_begins_anew_ever_more_slowly_until_somebody_answers() {
    let (shared, reader) = shared(|it| it);
    shared.want_topic("t");
    shared.refresh(0).await.unwrap();
    let restarts = || reader.0.restarts.load(Ordering::SeqCst);
    reader.says(Err(Error::broker_code(ErrorCode::REBOOTSTRAP_REQUIRED)));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(600) {
        assert!(shared.refresh(shared.picture().serial).await.is_err());
    }
    assert!((20..60).contains(&restarts()), "{}", restarts());
    assert_eq!((leader(&shared), shared.picture().brokers.len()), (None, 0));
    reader.says(Ok(2));
    shared.refresh(shared.picture().serial).await.unwrap();
    let after = restarts();
    assert_eq!(leader(&shared), Some(2));
    shared.refresh(shared.picture().serial).await.unwrap();
    assert_eq!(restarts(), after);
}

#[tokio::test(start_paused = true)]
async fn kip_1102_it_begins_anew_when_metadata_could_not_be_read_for_long() {
    let (shared, reader) = shared(|it| it.rebootstrap_after(Duration::from_secs(120)));
    shared.refresh(0).await.unwrap();
    let restarts = || reader.0.restarts.load(Ordering::SeqCst);
    // Nobody asked for an hour: that is no failure.
    sleep(Duration::from_secs(3_600)).await;
    reader.says(Err(refused()));
    let begin = Instant::now();
    let mut at = Vec::new();
    while at.len() < 3 {
        let before = restarts();
        assert!(shared.refresh(shared.picture().serial).await.is_err());
        if restarts() > before {
            at.push(begin.elapsed().as_secs());
        }
    }
    assert!((120..125).contains(&at[0]), "{at:?}");
    assert!((240..250).contains(&at[1]) && (360..375).contains(&at[2]), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_wait() {
    let (shared, _) = shared(|it| it);
    for _ in 0..8 {
        shared.refresh(shared.picture().serial).await.unwrap();
    }
    let (other, seen) = (Arc::clone(&shared), shared.picture().serial);
    let waits = tokio::spawn(async move { other.refresh(seen).await });
    tokio::task::yield_now().await;
    let begin = Instant::now();
    shared.close();
    assert!(matches!(waits.await.unwrap().unwrap_err().kind(), ErrorKind::ClientClosed));
    assert!(matches!(shared.control(1).await.unwrap_err().kind(), ErrorKind::ClientClosed));
    assert!(matches!(shared.open(1).await.unwrap_err().kind(), ErrorKind::ClientClosed));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_nobody_named_is_an_error_of_its_own() {
    let (shared, _) = shared(|it| it);
    shared.refresh(0).await.unwrap();
    let why = shared.control(9).await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::UnknownBroker(9)), "{why}");
}
