//! Reading from a follower in the same rack (KIP-392), and back to the leader.

use super::*;

/// Brokers in racks a, b and c; all of `t/0` is led by broker 1.
fn racks(release: Release) -> Arc<EmbeddedBroker> {
    let brokers = EmbeddedBroker::builder().release(release).brokers(3).topic("t", 1);
    let racks = ["a", "b", "c"].map(str::to_owned).to_vec();
    Arc::new(brokers.settings(|settings| settings.racks = racks).in_memory())
}

async fn open(brokers: &EmbeddedBroker, rack: &str) -> (Cluster, PartitionStream) {
    let cluster = builder(brokers).rack(rack).connect().await.unwrap();
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(2_000);
    (cluster, stream.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn kip_392_records_come_from_the_follower_in_the_same_rack() {
    for release in [Release::V2_4, Release::V2_8, Release::V4_4] {
        for (rack, near) in [("a", 1), ("b", 2), ("c", 3), ("d", 1)] {
            let brokers = racks(release);
            append(&brokers, "t", 0, 5_000, 10);
            let (_cluster, mut stream) = open(&brokers, rack).await;
            assert_eq!(read(&mut stream, 5_000).await, to(5_000), "{release}");
            let asked = [1, 2, 3].map(|node| fetches(&brokers, node));
            assert!(asked[near - 1] > 20, "{release} {rack}: {asked:?}");
            // The leader is asked once where to go.
            let others: usize = asked.iter().sum::<usize>() - asked[near - 1];
            assert_eq!(others, usize::from(near != 1), "{release} {rack}: {asked:?}");
        }
    }
    let brokers = racks(Release::V2_1);
    append(&brokers, "t", 0, 100, 10);
    let (_cluster, mut stream) = open(&brokers, "b").await;
    assert_eq!(read(&mut stream, 100).await, to(100));
    assert_eq!(fetches(&brokers, 2), 0, "before 2.4 followers serve nobody");
}

#[tokio::test(start_paused = true)]
async fn o3_case_22_a_follower_that_lags_behind_sends_nobody_back_to_the_start() {
    for release in [Release::V2_4, Release::V2_8, Release::V4_4] {
        let brokers = racks(release);
        append(&brokers, "t", 0, 100, 10);
        let (_cluster, stream) = open(&brokers, "b").await;
        drop(stream);
        let cluster = builder(&brokers).rack("b").connect().await.unwrap();
        let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).reset(ResetPolicy::Earliest);
        let mut stream = stream.await.unwrap();
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        sleep(Duration::from_secs(2)).await;
        assert!(fetches(&brokers, 2) > 1, "{release}");
        // It says out of range to the very position that it served before.
        brokers.with(|core| core.hold_follower("t", 0, 2, Some(40))).unwrap();
        append(&brokers, "t", 0, 50, 10);
        let began = Instant::now();
        assert_eq!(read(&mut stream, 50).await, (100..150).collect::<Vec<_>>(), "{release}");
        assert!(began.elapsed() < Duration::from_secs(1), "{release}: {:?}", began.elapsed());
        let asked = fetches(&brokers, 2);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(fetches(&brokers, 2), asked, "{release}: the leader does not name it meanwhile");
        // Once it has caught up, it is read again.
        brokers.with(|core| core.hold_follower("t", 0, 2, None)).unwrap();
        append(&brokers, "t", 0, 50, 10);
        assert_eq!(read(&mut stream, 50).await, (150..200).collect::<Vec<_>>(), "{release}");
        sleep(Duration::from_secs(2)).await;
        assert!(fetches(&brokers, 2) > asked, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_58_offsets_are_asked_of_the_leader_alone() {
    let brokers = racks(Release::V4_4);
    append(&brokers, "t", 0, 100, 10);
    let cluster = builder(&brokers).rack("c").connect().await.unwrap();
    for start in [StartOffset::Earliest, StartOffset::Tail(100), StartOffset::Tail(500)] {
        let mut stream = cluster.partition("t", 0).stream(start).until(EndOffset::Latest).await.unwrap();
        assert_eq!(read(&mut stream, 100).await, to(100));
    }
    let asked = |api, node| {
        brokers.with(|core| core.requests().filter(|seen| seen.api == api && seen.node == node).count())
    };
    assert!(asked(ApiKey::LIST_OFFSETS, 1) >= 3 && asked(ApiKey::FETCH, 3) >= 3);
    assert_eq!((asked(ApiKey::LIST_OFFSETS, 2), asked(ApiKey::LIST_OFFSETS, 3)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_follower_in_any_trouble_is_left_for_the_leader_at_once() {
    let troubles: [fn() -> Fault; 5] = [
        || Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        || Fault::error(ErrorCode::REPLICA_NOT_AVAILABLE),
        || Fault::error(ErrorCode::KAFKA_STORAGE_ERROR),
        || Fault::error(ErrorCode::OFFSET_MOVED_TO_TIERED_STORAGE),
        Fault::close,
    ];
    for (i, trouble) in troubles.into_iter().enumerate() {
        let brokers = racks(Release::V4_4);
        append(&brokers, "t", 0, 100, 10);
        let (_cluster, mut stream) = open(&brokers, "b").await;
        assert_eq!(read(&mut stream, 100).await, to(100));
        sleep(Duration::from_secs(1)).await;
        brokers.inject(trouble().on(ApiKey::FETCH).at_node(2));
        append(&brokers, "t", 0, 100, 10);
        let began = Instant::now();
        assert_eq!(read(&mut stream, 100).await, (100..200).collect::<Vec<_>>(), "trouble {i}");
        assert!(began.elapsed() < Duration::from_secs(1), "trouble {i}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_dies_is_left_for_the_leader() {
    let brokers = racks(Release::V2_8);
    append(&brokers, "t", 0, 100, 10);
    let (_cluster, mut stream) = open(&brokers, "b").await;
    assert_eq!(read(&mut stream, 100).await, to(100));
    brokers.with(|core| core.stop_broker(2));
    append(&brokers, "t", 0, 100, 10);
    let began = Instant::now();
    assert_eq!(read(&mut stream, 100).await, (100..200).collect::<Vec<_>>());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_kept_for_the_age_of_metadata_at_most() {
    let brokers = racks(Release::V2_8);
    append(&brokers, "t", 0, 100, 10);
    let cluster =
        builder(&brokers).rack("b").metadata_max_age(Duration::from_secs(20)).connect().await.unwrap();
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 100).await, to(100));
    let before = fetches(&brokers, 1);
    assert!(timeout(Duration::from_secs(101), stream.next()).await.is_err());
    let asked = fetches(&brokers, 1) - before;
    assert!((4..=6).contains(&asked), "the leader is asked again every 20 s: {asked}");
}

/// It was started after metadata were read, or they say nothing of it.
#[tokio::test(start_paused = true)]
async fn a_near_replica_that_nobody_knows_makes_nobody_ask_without_pause() {
    for release in [Release::V2_4, Release::V4_4] {
        let brokers = racks(release);
        append(&brokers, "t", 0, 100, 10);
        brokers.with(|core| core.hide_broker(2, true));
        let (_cluster, mut stream) = open(&brokers, "b").await;
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        let before = fetches(&brokers, 1);
        assert!(timeout(Duration::from_secs(20), stream.next()).await.is_err(), "{release}");
        let asked = fetches(&brokers, 1) - before;
        assert!(asked < 60, "{release}: {asked}");
        // Known by and by, and read from.
        brokers.with(|core| core.hide_broker(2, false));
        sleep(Duration::from_secs(330)).await;
        append(&brokers, "t", 0, 100, 10);
        assert_eq!(read(&mut stream, 100).await, (100..200).collect::<Vec<_>>(), "{release}");
        assert!(fetches(&brokers, 2) > 0, "{release}");
    }
}
