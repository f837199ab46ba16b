//! Leader epochs that are stale or go backwards, hints of leaders, refusals without an end.

use super::*;

async fn open(brokers: &EmbeddedBroker) -> PartitionStream {
    let cluster = cluster(brokers).await;
    cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn o4_epochs_that_go_backwards_hold_a_stream_up_for_a_bounded_time() {
    for release in [Release::V2_4, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        // A controller's mistake: an epoch that no broker knows of, then the right one again.
        brokers.with(|core| core.show_epoch("t", 0, Some(9))).unwrap();
        let mut stream = open(&brokers).await;
        let early = timeout(Duration::from_secs(5), stream.next()).await;
        assert!(early.is_err(), "{release}: {early:?}");
        brokers.with(|core| core.show_epoch("t", 0, None)).unwrap();
        let began = Instant::now();
        let mut found = Vec::new();
        while found.len() < 100 {
            match stream.next().await.unwrap() {
                Some(Item::Batch(batch)) => found.extend(offsets(&batch)),
                Some(Item::Recovered(Recovered::Stalled { .. })) => {}
                other => panic!("{release}: {other:?}"),
            }
        }
        assert_eq!(found, to(100), "{release}");
        assert!(began.elapsed() < Duration::from_secs(65), "{release}: {:?}", began.elapsed());
        assert!(brokers.request_count(ApiKey::FETCH) < 200, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_57_stale_epochs_of_old_metadata_are_not_believed() {
    for release in [Release::V2_0, Release::V2_1] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        brokers.with(|core| {
            core.set_leader("t", 0, Some(2)).unwrap();
            core.set_leader("t", 0, Some(1)).unwrap();
            core.show_epoch("t", 0, Some(0)).unwrap();
        });
        let mut stream = open(&brokers).await;
        let began = Instant::now();
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        assert!(began.elapsed() < Duration::from_millis(10), "{release}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn case_57_a_fenced_epoch_leads_to_a_refresh_and_never_to_a_reset() {
    for release in [Release::V2_4, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        let mut stream = open(&brokers).await;
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        // The leader stays, in a new epoch.
        brokers.with(|core| core.set_leader("t", 0, Some(1))).unwrap();
        append(&brokers, "t", 0, 100, 10);
        let began = Instant::now();
        assert_eq!(read(&mut stream, 100).await, (100..200).collect::<Vec<_>>(), "{release}");
        assert!(began.elapsed() < Duration::from_secs(1), "{release}: {:?}", began.elapsed());
        // Metadata that lag behind for a time.
        brokers.with(|core| {
            core.show_epoch("t", 0, Some(1)).unwrap();
            core.set_leader("t", 0, Some(1)).unwrap();
        });
        append(&brokers, "t", 0, 100, 10);
        let waits = timeout(Duration::from_secs(5), stream.next()).await;
        let hinted = release >= Release::V3_9;
        assert_eq!(waits.is_ok(), hinted, "{release}: KIP-951 tells the epoch: {waits:?}");
        brokers.with(|core| core.show_epoch("t", 0, None)).unwrap();
        let rest = match waits {
            Ok(Ok(Some(Item::Batch(batch)))) => offsets(&batch).len(),
            _ => 0,
        };
        let found = read(&mut stream, 100 - rest).await;
        assert_eq!(found, (200 + rest as i64..300).collect::<Vec<_>>(), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn kip_951_a_hint_moves_a_stream_without_metadata_and_without_a_wait() {
    for (release, hints) in [(Release::V3_3, false), (Release::V3_9, true), (Release::V4_4, true)] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 10, 10);
        let mut stream = open(&brokers).await;
        assert_eq!(read(&mut stream, 10).await, to(10), "{release}");
        let asked = brokers.request_count(ApiKey::METADATA);
        for turn in 0..6 {
            brokers.with(|core| core.set_leader("t", 0, Some(1 + (turn + 1) % 3))).unwrap();
            append(&brokers, "t", 0, 10, 10);
            let began = Instant::now();
            let next = 10 * (turn as i64 + 1);
            assert_eq!(read(&mut stream, 10).await, (next..next + 10).collect::<Vec<_>>(), "{release}");
            if hints {
                assert!(began.elapsed() < Duration::from_millis(1), "{release}: {:?}", began.elapsed());
            }
        }
        let asked = brokers.request_count(ApiKey::METADATA) - asked;
        assert_eq!(asked == 0, hints, "{release}: {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn kip_951_hints_in_a_circle_are_not_followed_for_ever() {
    let brokers = brokers(Release::V4_4);
    append(&brokers, "t", 0, 10, 10);
    let mut stream = open(&brokers).await;
    assert_eq!(read(&mut stream, 10).await, to(10));
    // Every broker says that it is not the leader, and names the one that is: itself, for one.
    brokers.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::FETCH));
    let asked = brokers.request_count(ApiKey::FETCH);
    assert!(timeout(Duration::from_secs(9), stream.next()).await.is_err());
    let asked = brokers.request_count(ApiKey::FETCH) - asked;
    assert!(asked < 60, "{asked}");
    brokers.with(|core| core.clear_faults());
    append(&brokers, "t", 0, 10, 10);
    assert_eq!(read(&mut stream, 10).await, (10..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn o8_a_refusal_that_repeats_itself_costs_a_bounded_number_of_requests() {
    for release in [Release::V0_8_2, Release::V0_11_0, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        // Whatever is asked is out of range, although it lies between the ends that it tells.
        brokers.inject(Fault::error(ErrorCode::OFFSET_OUT_OF_RANGE).on(ApiKey::FETCH));
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.partition("t", 0).stream(StartOffset::At(50)).await.unwrap();
        for _ in 0..3 {
            let began = Instant::now();
            let why = stream.next().await.unwrap_err();
            assert!(matches!(why.kind(), ErrorKind::OutOfRange(_)), "{release}: {why}");
            let waited = began.elapsed();
            assert!(waited > Duration::from_secs(1), "{release}: not believed at once: {waited:?}");
            assert_eq!(stream.position(), Some(50), "{release}");
        }
        let asked = brokers.with(|core| core.requests().count());
        assert!(asked < 3 * 50, "{release}: {asked} requests for three errors");
        brokers.with(|core| core.clear_faults());
        assert_eq!(read(&mut stream, 50).await, (50..100).collect::<Vec<_>>(), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn o11_the_caller_may_decide_and_is_told_what_was_wrong() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 100, 1);
    brokers.with(|core| core.delete_before("t", 0, 60)).unwrap();
    let cluster = cluster(&brokers).await;
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let policy = ResetPolicy::ask({
        let asked = Arc::clone(&asked);
        move |topic, partition, position, why| {
            asked.lock().unwrap().push((topic.to_owned(), partition, position, *why));
            Reset::To(77)
        }
    });
    let mut stream = cluster.partition("t", 0).stream(StartOffset::At(20)).reset(policy).await.unwrap();
    let event = event(&mut stream).await;
    assert_eq!((event.lost(), event.repeated()), (57, 0), "{event}");
    assert_eq!(read(&mut stream, 23).await, (77..100).collect::<Vec<_>>());
    let log = LogBounds { start: 60, end: 100 };
    assert_eq!(*asked.lock().unwrap(), [("t".to_owned(), 0, 20, OutOfRange::BelowStart { log })]);
}
