use super::*;
use downspout::net::{LegacyRelease, VersionSource};
use downspout::testing::Fault as Broken;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn b1_every_release_before_0_10_is_recognised() {
    for (release, detected) in [
        (Release::V0_8_0, LegacyRelease::V0_8_0),
        (Release::V0_8_1, LegacyRelease::V0_8_1),
        (Release::V0_8_2, LegacyRelease::V0_8_2),
        (Release::V0_9_0, LegacyRelease::V0_9),
    ] {
        let start = Instant::now();
        let consumer = consumer(&broker(release)).await;
        let versions = consumer.versions().await.unwrap();
        assert_eq!(versions.source(), VersionSource::Detected(detected));
        assert!(start.elapsed() < Duration::from_secs(4), "{release:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_made_anew_and_the_request_sent_again() {
    for release in [Release::V0_8_2, Release::V4_4] {
        let broker = broker(release);
        broker.append("clicks", 0, &set(magic(release), &["a"])).unwrap();
        let consumer = consumer(&broker).await;
        for fault in [Broken::close, || Broken::cut_after(6)] {
            broker.inject(fault().on(ApiKey::FETCH).once());
            let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
            assert_eq!(records(&fetched).len(), 1, "{release:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_keeps_breaking_is_an_error_after_the_second_time() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    broker.inject(Broken::close().on(ApiKey::LIST_OFFSETS));
    let before = broker.request_count(ApiKey::LIST_OFFSETS);
    let error = consumer.earliest_offset("clicks", 0).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
    assert_eq!(broker.request_count(ApiKey::LIST_OFFSETS) - before, 2);
    assert_eq!((error.fault(), error.retry()), (Fault::Network, Retry::Again));
}

#[tokio::test(start_paused = true)]
async fn c1_silence_is_a_time_out_and_the_next_call_works() {
    let broker = broker(Release::V4_4);
    let consumer = builder(&broker).request_timeout(Duration::from_secs(3)).connect().await.unwrap();
    broker.inject(Broken::silence().on(ApiKey::LIST_OFFSETS).once());
    let start = Instant::now();
    let error = consumer.earliest_offset("clicks", 0).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error:?}");
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn case_63_case_64_damaged_frames_end_the_connection_not_the_consumer() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    let faults = [Broken::correlation_id(77), Broken::size(-1), Broken::size(2), Broken::size(i32::MAX)];
    for fault in faults {
        broker.inject(fault.on(ApiKey::LIST_OFFSETS).once());
        let error = consumer.earliest_offset("clicks", 0).await.unwrap_err();
        let right = matches!(error.kind(), ErrorKind::OutOfStep { .. } | ErrorKind::FrameSize { .. });
        assert!(right, "{error:?}");
        assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_down_is_not_hammered() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    broker.with(|cluster| cluster.stop_broker(1));
    let start = Instant::now();
    for _ in 0..12 {
        let error = consumer.earliest_offset("clicks", 0).await.unwrap_err();
        assert_eq!((error.fault(), error.retry()), (Fault::Network, Retry::Again), "{error:?}");
    }
    let waited = start.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
    broker.with(|cluster| cluster.start_broker(1));
    assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn gap_15_a_frozen_broker_is_named_and_found_again_when_it_wakes() {
    let broker = broker(Release::V4_4);
    let consumer = builder(&broker).build().unwrap();
    broker.inject(Broken::freeze());
    let error = consumer.earliest_offset("clicks", 0).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unresponsive(_)), "{error:?}");
    broker.with(|cluster| cluster.clear_faults());
    assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 0);
    assert_eq!(consumer.versions().await.unwrap().source(), VersionSource::Advertised);
}

#[tokio::test(start_paused = true)]
async fn calls_share_the_connection() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    let before = broker.request_count(ApiKey::API_VERSIONS);
    let calls = (0..20).map(|_| {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.earliest_offset("clicks", 0).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(broker.request_count(ApiKey::API_VERSIONS), before);
}

#[tokio::test(start_paused = true)]
async fn c7_a_call_may_be_dropped_at_every_point() {
    use std::future::Future;
    use std::task::{Context, Waker};
    let broker = broker(Release::V4_4);
    broker.append("clicks", 0, &set(Magic::V2, &["a"])).unwrap();
    let consumer = consumer(&broker).await;
    for polls in 0..60 {
        {
            let mut dropped = std::pin::pin!(consumer.fetch(Fetch::new("clicks", 0, 0)));
            for _ in 0..polls {
                let mut context = Context::from_waker(Waker::noop());
                if dropped.as_mut().poll(&mut context).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
        assert_eq!(records(&fetched).len(), 1, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_was_only_built_connects_when_asked() {
    let broker = broker(Release::V4_4);
    let consumer = builder(&broker).build().unwrap();
    assert_eq!(broker.request_count(ApiKey::API_VERSIONS), 0);
    assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 0);
    assert!(SimpleConsumer::builder("a:b").build().is_err());
    assert!(SimpleConsumer::builder("a:1").client_id("").build().is_err());
}

#[test]
fn the_futures_can_move_between_threads() {
    fn sendable<T: Send>(_: T) {}
    let consumer = SimpleConsumer::builder("a:1").build().unwrap();
    sendable(consumer.fetch(Fetch::new("t", 0, 0)));
    sendable(consumer.metadata(&["t"]));
    sendable(consumer.list_offsets(&[("t", 0, OffsetSpec::Latest)]));
    sendable(consumer.commit_offsets("g", &[]));
    sendable(consumer.fetch_offsets("g", &[]));
    sendable(consumer.send(MetadataRequest::default()));
}
