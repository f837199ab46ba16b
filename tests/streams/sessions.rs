//! Fetch sessions (KIP-227): case 62.

use super::network::Counting;
use super::*;

const COUNT: i32 = 24;

async fn quiet(release: Release) -> (Arc<EmbeddedBroker>, Counting, MergedStream) {
    let brokers = Arc::new(EmbeddedBroker::builder().release(release).topic("t", COUNT).in_memory());
    let network = Counting::new(&brokers);
    let cluster = Cluster::builder([brokers.addr()]).connector(network.clone()).connect().await.unwrap();
    let stream = cluster.streams().topic("t").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    (brokers, network, stream)
}

/// Appends to each partition by turns, reads what was appended, and nothing else.
async fn read_by_turns(brokers: &EmbeddedBroker, stream: &mut MergedStream, rounds: i64) {
    for round in 0..rounds {
        for partition in 0..COUNT {
            let begin = brokers.with(|core| core.offsets("t", partition)).unwrap().end;
            append(brokers, "t", partition, 2, 2);
            let began = Instant::now();
            let (at, item) = stream.next().await.unwrap().unwrap();
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            assert_eq!((at.partition, offsets(&batch)), (partition, vec![begin, begin + 1]), "{round}");
            assert!(began.elapsed() < Duration::from_secs(2), "{round}: {:?}", began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_62_many_quiet_partitions_are_one_session_that_stays() {
    for release in [Release::V1_1, Release::V2_8, Release::V4_4] {
        let (brokers, network, mut stream) = quiet(release).await;
        let sessions = brokers.with(|core| core.fetch_sessions(1));
        assert!((1..=2).contains(&sessions), "{release}: one per lane: {sessions}");
        let sent = network.sent();
        let asked = fetches(&brokers, 1);
        sleep(Duration::from_secs(60)).await;
        let polls = (fetches(&brokers, 1) - asked) as u64;
        assert!(network.sent() - sent < 120 * polls, "{release}: nothing has changed, nothing is named");
        read_by_turns(&brokers, &mut stream, 3).await;
        let sessions = brokers.with(|core| core.fetch_sessions(1));
        assert!(sessions <= 2, "{release}: not one per request: {sessions}");
    }
    let (brokers, _, mut stream) = quiet(Release::V1_0).await;
    read_by_turns(&brokers, &mut stream, 1).await;
    assert_eq!(brokers.with(|core| core.fetch_sessions(1)), 0, "before 1.1 there are none");
}

#[tokio::test(start_paused = true)]
async fn case_62_few_partitions_take_no_place_in_the_brokers_cache() {
    let brokers = brokers(Release::V4_4);
    append(&brokers, "t", 0, 100, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 100).await, to(100));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(brokers.with(|core| core.fetch_sessions(1)), 0);
}

#[tokio::test(start_paused = true)]
async fn case_62_whatever_is_said_against_a_session_nothing_is_lost_and_a_new_one_opens() {
    let codes = [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ];
    for release in [Release::V1_1, Release::V2_8, Release::V4_4] {
        let (brokers, _, mut stream) = quiet(release).await;
        for code in codes {
            for times in [1, 2, 5] {
                brokers.inject(Fault::error(code).at_top().on(ApiKey::FETCH).times(times));
                read_by_turns(&brokers, &mut stream, 1).await;
            }
        }
        brokers.with(|core| core.forget_fetch_sessions(1));
        read_by_turns(&brokers, &mut stream, 1).await;
        // An answer that cannot be read, and a connection that is lost.
        brokers.inject(Fault::correlation_id(-77).on(ApiKey::FETCH).once());
        read_by_turns(&brokers, &mut stream, 1).await;
        brokers.inject(Fault::close().on(ApiKey::FETCH).times(2));
        read_by_turns(&brokers, &mut stream, 1).await;
        sleep(Duration::from_secs(5)).await;
        assert!(brokers.with(|core| core.fetch_sessions(1)) >= 1, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_62_a_broker_without_room_for_sessions_gets_whole_requests() {
    let brokers = EmbeddedBroker::builder().topic("t", COUNT).settings(|it| it.fetch_session_slots = 0);
    let brokers = Arc::new(brokers.in_memory());
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.streams().topic("t").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    read_by_turns(&brokers, &mut stream, 3).await;
    assert_eq!(brokers.with(|core| core.fetch_sessions(1)), 0);
}

#[tokio::test(start_paused = true)]
async fn case_62_a_partition_that_is_paused_is_forgotten_and_not_sent_again_and_again() {
    for release in [Release::V1_1, Release::V4_4] {
        let (brokers, network, mut stream) = quiet(release).await;
        let control = stream.control();
        control.pause("t", 5).unwrap();
        sleep(Duration::from_secs(2)).await;
        append(&brokers, "t", 5, 1_000, 10);
        assert!(timeout(Duration::from_secs(5), stream.next()).await.is_err());
        let (asked, received) = (fetches(&brokers, 1), network.received());
        assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err());
        let asked = fetches(&brokers, 1) - asked;
        assert!(asked <= 130, "{release}: {asked} polls in a minute");
        assert!(network.received() - received < 130 * 200, "{release}");
        control.resume("t", 5).unwrap();
        let mut found = Vec::new();
        while found.len() < 1_000 {
            let (at, item) = stream.next().await.unwrap().unwrap();
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            assert_eq!(at.partition, 5);
            found.extend(offsets(&batch));
        }
        assert_eq!(found, to(1_000));
        read_by_turns(&brokers, &mut stream, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn case_62_case_56_a_topic_made_anew_is_named_anew() {
    let (brokers, _, stream) = quiet(Release::V4_4).await;
    drop(stream);
    let cluster = builder(&brokers).metadata_max_age(Duration::from_secs(5)).connect().await.unwrap();
    let mut stream = cluster.streams().topic("t").reset(ResetPolicy::Earliest).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    read_by_turns(&brokers, &mut stream, 1).await;
    brokers.create_topic("t", COUNT);
    for _ in 0..COUNT {
        let (at, item) = stream.next().await.unwrap().unwrap();
        let Item::Recovered(Recovered::OutOfRange { position: 2, resumed_at: 0, .. }) = item else {
            panic!("{at}: {item:?}")
        };
    }
    read_by_turns(&brokers, &mut stream, 2).await;
}
