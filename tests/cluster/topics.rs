//! Topics that do not exist, come late, or grow.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_topic_that_does_not_exist_is_an_error_with_near_names_and_is_not_created() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        let cluster = cluster(&brokers).await;
        let begin = Instant::now();
        let metadata = cluster.metadata(&["clikcs", "clicks"]).await.unwrap();
        let errors = [
            cluster.partitions("clikcs").await.map(drop).unwrap_err(),
            cluster.latest_offset("clikcs", 0).await.map(drop).unwrap_err(),
            cluster.produce("clikcs", 0, &[NewRecord::value(b"v")]).await.map(drop).unwrap_err(),
            cluster.wait_for_topic("clikcs", Duration::from_millis(1)).await.map(drop).unwrap_err(),
            metadata.topic("clikcs").unwrap().error.clone().unwrap(),
        ];
        for why in errors {
            let ErrorKind::UnknownTopic { near } = why.kind() else { panic!("{release}: {why}") };
            assert_eq!(
                (near.as_slice(), why.topic()),
                (&["clicks".to_owned()][..], Some("clikcs")),
                "{release}"
            );
        }
        assert!(begin.elapsed() < Duration::from_secs(1), "{release}: {:?}", begin.elapsed());
        let all: Vec<String> =
            cluster.all_topics().await.unwrap().topics.into_iter().map(|it| it.name).collect();
        assert_eq!(all, ["clicks"], "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_waited_for_until_it_has_leaders_everywhere() {
    for release in [Release::V0_8_0, Release::V0_9_0, Release::V0_11_0, Release::V4_4] {
        let brokers = brokers(release);
        let cluster = cluster(&brokers).await;
        let waits = tokio::spawn(async move {
            let partitions = cluster.wait_for_topic("late", Duration::MAX).await;
            (partitions, Instant::now())
        });
        sleep(Duration::from_secs(20)).await;
        brokers.create_topic("late", 2);
        brokers.with(|core| core.set_leader("late", 1, None)).unwrap();
        sleep(Duration::from_secs(10)).await;
        assert!(!waits.is_finished(), "{release}");
        brokers.with(|core| core.set_leader("late", 1, Some(2))).unwrap();
        let since = Instant::now();
        let (partitions, at) = waits.await.unwrap();
        assert_eq!(partitions.unwrap(), [0, 1], "{release}");
        // 0.9 takes seconds to be recognised, when another broker is asked meanwhile.
        let most = if release == Release::V0_9_0 { 4_300 } else { 1_300 };
        assert!(at - since < Duration::from_millis(most), "{release}: {:?}", at - since);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_topic_ends_in_time_and_on_what_waiting_cannot_mend() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    let begin = Instant::now();
    let why = cluster.wait_for_topic("clikcs", Duration::from_secs(7)).await.unwrap_err();
    assert!(why.to_string().contains("did you mean clicks"), "{why}");
    assert!((6..=7).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    brokers
        .inject(Fault::error(ErrorCode::TOPIC_AUTHORIZATION_FAILED).on(ApiKey::METADATA).at_topic("secret"));
    let begin = Instant::now();
    let why = cluster.wait_for_topic("secret", Duration::from_secs(7)).await.unwrap_err();
    assert_eq!((why.code(), why.topic()), (Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED), Some("secret")));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_not_known_is_looked_for_once() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    cluster.partitions("clicks").await.unwrap();
    for partition in [3, -1] {
        let why = cluster.latest_offset("clicks", partition).await.unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::UnknownPartition { partitions: 3 }), "{why}");
        assert_eq!((why.topic(), why.partition()), (Some("clicks"), Some(partition)));
    }
    brokers.with(|core| core.add_partitions("clicks", 5)).unwrap();
    assert_eq!(cluster.produce("clicks", 4, &[NewRecord::value(b"v")]).await.unwrap(), 0);
    assert_eq!(cluster.partitions("clicks").await.unwrap(), [0, 1, 2, 3, 4]);
}
