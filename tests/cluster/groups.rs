//! Coordinators: found, kept, and found again.

use super::*;

fn offsets() -> [GroupOffset; 2] {
    [GroupOffset::new("clicks", 0, 7).metadata("m"), GroupOffset::new("clicks", 2, 9)]
}

async fn fetched(cluster: &Cluster) -> Vec<Option<i64>> {
    let wanted = [("clicks", 2), ("clicks", 1), ("clicks", 0)];
    let found = cluster.fetch_offsets("billing", &wanted).await.unwrap();
    assert!(found.iter().all(|found| found.error.is_none()), "{found:?}");
    found.into_iter().map(|found| found.offset).collect()
}

#[tokio::test(start_paused = true)]
async fn positions_are_kept_on_every_release_that_keeps_any() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        let cluster = builder(&brokers).api_timeout(Duration::from_secs(5)).connect().await.unwrap();
        if *release < Release::V0_8_1 {
            let why = cluster.commit_offsets("billing", &offsets()).await.unwrap_err();
            assert!(matches!(why.kind(), ErrorKind::Unsupported { broker: None, .. }), "{why}");
            continue;
        }
        let committed = cluster.commit_offsets("billing", &offsets()).await.unwrap();
        assert!(committed.iter().all(|one| one.error.is_none()), "{release}: {committed:?}");
        assert_eq!(fetched(&cluster).await, [Some(9), None, Some(7)], "{release}");
        let coordinator = cluster.coordinator("billing").await;
        assert_eq!(coordinator.is_ok(), *release >= Release::V0_8_2, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_is_asked_for_once_and_again_when_it_is_another() {
    for release in [Release::V0_8_2, Release::V0_9_0, Release::V0_11_0, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        let cluster = cluster(&brokers).await;
        let find = || brokers.request_count(ApiKey::FIND_COORDINATOR);
        for _ in 0..5 {
            cluster.commit_offsets("billing", &offsets()).await.unwrap();
            assert_eq!(cluster.coordinator("billing").await.unwrap().id, 1);
        }
        assert_eq!(find(), 1, "{release}");
        for (code, finds) in [
            (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, 0),
            (ErrorCode::COORDINATOR_NOT_AVAILABLE, 1),
            (ErrorCode::NOT_COORDINATOR, 1),
        ] {
            for api in [ApiKey::OFFSET_COMMIT, ApiKey::OFFSET_FETCH] {
                let before = find();
                brokers.inject(Fault::error(code).on(api).times(2));
                let committed = cluster.commit_offsets("billing", &offsets()).await.unwrap();
                assert!(committed.iter().all(|one| one.error.is_none()), "{release}: {committed:?}");
                assert_eq!(fetched(&cluster).await, [Some(9), None, Some(7)], "{release}");
                assert_eq!(find() - before, 2 * finds, "{release}, {code}, {api}");
            }
        }
        // It dies, and another one takes over.
        brokers.with(|core| core.stop_broker(1));
        assert_eq!(fetched(&cluster).await, [Some(9), None, Some(7)], "{release}");
        assert_eq!(cluster.coordinator("billing").await.unwrap().id, 2, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_not_there_yet_is_waited_for_and_not_for_ever() {
    let brokers = brokers(Release::V0_8_2);
    let cluster = builder(&brokers).api_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let fault = || Fault::error(ErrorCode::COORDINATOR_NOT_AVAILABLE).on(ApiKey::FIND_COORDINATOR);
    brokers.inject(fault().times(4));
    assert_eq!(cluster.coordinator("billing").await.unwrap().id, 1);
    brokers.inject(fault());
    let begin = Instant::now();
    let why = cluster.coordinator("other").await.unwrap_err();
    assert_eq!(why.code(), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert!((8..=10).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn o12_positions_of_a_topic_that_was_made_anew_are_kept_under_its_new_id() {
    let brokers = brokers(Release::V4_4);
    let cluster = cluster(&brokers).await;
    cluster.commit_offsets("billing", &offsets()).await.unwrap();
    brokers.create_topic("clicks", 3);
    let committed = cluster.commit_offsets("billing", &offsets()).await.unwrap();
    assert!(committed.iter().all(|one| one.error.is_none()), "{committed:?}");
    brokers.create_topic("clicks", 3);
    cluster.fetch_offsets("billing", &[("clicks", 0)]).await.unwrap().iter().for_each(|found| {
        assert!(found.error.is_none(), "{found:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn what_waiting_cannot_mend_stands_in_the_answer_at_once() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    let fault = Fault::error(ErrorCode::OFFSET_METADATA_TOO_LARGE).on(ApiKey::OFFSET_COMMIT);
    brokers.inject(fault.at_partition("clicks", 0).once());
    let begin = Instant::now();
    let committed = cluster.commit_offsets("billing", &offsets()).await.unwrap();
    let codes: Vec<_> = committed.iter().map(|one| one.error.as_ref().and_then(Error::code)).collect();
    assert_eq!(codes, [Some(ErrorCode::OFFSET_METADATA_TOO_LARGE), None]);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}
