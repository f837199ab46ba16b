use super::*;
use downspout::testing::Fault as Broken;

#[tokio::test(start_paused = true)]
async fn positions_are_kept_and_found_on_every_release_that_can() {
    for release in Release::ALL {
        let broker = broker(*release);
        let consumer = consumer(&broker).await;
        let offsets = [GroupOffset::new("clicks", 0, 17).metadata("here"), GroupOffset::new("clicks", 1, 0)];
        if *release < Release::V0_8_1 {
            let error = consumer.commit_offsets("billing", &offsets).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Unsupported { broker: None, .. }), "{error:?}");
            continue;
        }
        let committed = consumer.commit_offsets("billing", &offsets).await.unwrap();
        assert!(committed.iter().all(|one| one.error.is_none()), "{release:?}: {committed:?}");
        let found = consumer.fetch_offsets("billing", &[("clicks", 1), ("clicks", 0)]).await.unwrap();
        let found: Vec<_> =
            found.iter().map(|one| (one.partition, one.offset, one.metadata.as_str())).collect();
        let here = if *release < Release::V0_8_2 { found[1].2 } else { "here" };
        assert_eq!(found, [(1, Some(0), ""), (0, Some(17), here)], "{release:?}: 0 is a position");
        let none = consumer.fetch_offsets("others", &[("clicks", 0)]).await.unwrap();
        assert!(none[0].offset.is_none() && none[0].error.is_none(), "{release:?}: {none:?}");
        if *release >= Release::V0_10_2 {
            let all = consumer.fetch_all_offsets("billing").await.unwrap();
            let all: Vec<_> = all.iter().map(|one| (one.topic.as_str(), one.partition, one.offset)).collect();
            assert_eq!(all, [("clicks", 0, Some(17)), ("clicks", 1, Some(0))], "{release:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn zookeeper_and_kafka_are_two_places() {
    for release in [Release::V0_8_2, Release::V2_4] {
        let broker = broker(release);
        let kafka = consumer(&broker).await;
        let zookeeper = builder(&broker).offset_storage(OffsetStorage::ZooKeeper).connect().await.unwrap();
        kafka.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 5)]).await.unwrap();
        let found = zookeeper.fetch_offsets("billing", &[("clicks", 0)]).await.unwrap();
        assert_eq!((found[0].offset, found[0].error.is_none()), (None, true), "{release:?}");
        zookeeper.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 9)]).await.unwrap();
        let found = zookeeper.fetch_offsets("billing", &[("clicks", 0)]).await.unwrap();
        assert_eq!(found[0].offset, Some(9));
        let found = kafka.fetch_offsets("billing", &[("clicks", 0)]).await.unwrap();
        assert_eq!(found[0].offset, Some(5));
    }
    let new = broker(Release::V4_4);
    let zookeeper = builder(&new).offset_storage(OffsetStorage::ZooKeeper).connect().await.unwrap();
    let error = zookeeper.fetch_offsets("billing", &[("clicks", 0)]).await.unwrap_err();
    assert!(error.to_string().contains("this client speaks 0, the broker 1–"), "{error}");
    let old = broker(Release::V0_8_1);
    let kafka = builder(&old).offset_storage(OffsetStorage::Kafka).connect().await.unwrap();
    assert!(kafka.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 5)]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn asked_elsewhere_the_error_names_the_coordinator() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V2_4, Release::V3_9, Release::V4_4] {
        let broker = broker(release);
        let consumer = consumer(&broker).await;
        let coordinator = consumer.find_coordinator("billing").await.unwrap().address;
        let expected = format!("group billing are kept by another broker: connect to {coordinator}");
        let elsewhere = || Broken::error(ErrorCode::NOT_COORDINATOR).once();

        broker.inject(elsewhere().on(ApiKey::OFFSET_COMMIT));
        let offsets = [GroupOffset::new("clicks", 0, 5)];
        let committed = consumer.commit_offsets("billing", &offsets).await.unwrap();
        let error = committed[0].error.clone().unwrap();
        assert!(error.to_string().contains(&expected), "{release:?}: {error}");
        assert_eq!((error.code(), error.retry()), (Some(ErrorCode::NOT_COORDINATOR), Retry::RefreshMetadata));

        broker.inject(elsewhere().on(ApiKey::OFFSET_FETCH));
        let error = match consumer.fetch_offsets("billing", &[("clicks", 0)]).await {
            Ok(found) => found[0].error.clone().unwrap(),
            Err(why) => why,
        };
        assert!(error.to_string().contains(&expected), "{release:?}: {error}");
        assert!(consumer.commit_offsets("billing", &offsets).await.unwrap()[0].error.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_needs_a_name() {
    let consumer = consumer(&broker(Release::V4_4)).await;
    assert!(consumer.fetch_offsets("", &[("clicks", 0)]).await.is_err());
    assert!(consumer.commit_offsets("", &[]).await.is_err());
    assert!(consumer.find_coordinator("").await.is_err());
}
