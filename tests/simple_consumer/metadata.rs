use super::*;

const ERAS: [Release; 7] = [
    Release::V0_8_0,
    Release::V0_9_0,
    Release::V0_10_2,
    Release::V0_11_0,
    Release::V2_4,
    Release::V3_9,
    Release::V4_4,
];

#[tokio::test(start_paused = true)]
async fn brokers_topics_and_leaders_on_every_release() {
    for release in Release::ALL {
        let broker = broker(*release);
        broker.create_topic("orders", 1);
        let consumer = consumer(&broker).await;
        let metadata = consumer.all_topics().await.unwrap();
        let names: Vec<_> = metadata.topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, ["clicks", "orders"], "{release:?}");
        assert_eq!(metadata.leader("clicks", 1).unwrap().address.to_string(), broker.addr());
        let one = consumer.metadata(&["orders"]).await.unwrap();
        assert_eq!((one.topics.len(), one.topics[0].partitions.len()), (1, 1), "{release:?}");
        assert_eq!(one.topics[0].id.is_some(), *release >= Release::V2_8, "{release:?}");
        let epoch = one.topics[0].partitions[0].leader_epoch;
        assert_eq!(epoch.is_some(), *release >= Release::V2_4, "{release:?}: trusted from Metadata 9 on");
        let none = consumer.metadata(&[]).await.unwrap();
        assert!(none.topics.is_empty(), "{release:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_creates_a_topic_though_the_broker_would() {
    for release in ERAS {
        let broker = broker(release);
        let consumer = consumer(&broker).await;
        consumer.metadata(&["nope"]).await.unwrap();
        assert!(consumer.earliest_offset("nope", 0).await.is_err());
        let fetched = consumer.fetch(Fetch::new("nope", 0, 0)).await.unwrap();
        assert!(fetched.partitions()[0].error().is_some());
        let _ = consumer.commit_offsets("billing", &[GroupOffset::new("nope", 0, 5)]).await;
        let _ = consumer.fetch_offsets("billing", &[("nope", 0)]).await;
        let topics = consumer.all_topics().await.unwrap().topics;
        let names: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
        assert!(!names.contains(&"nope"), "{release:?}: {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_does_not_exist_is_told_with_near_names() {
    for release in ERAS {
        let consumer = consumer(&broker(release)).await;
        let metadata = consumer.metadata(&["clicks", "clcks"]).await.unwrap();
        assert!(metadata.topic("clicks").unwrap().error.is_none());
        let error = metadata.topic("clcks").unwrap().error.clone().unwrap();
        assert!(error.to_string().contains("did you mean clicks?"), "{release:?}: {error}");

        let error = consumer.earliest_offset("clcks", 0).await.unwrap_err();
        assert!(error.to_string().contains("did you mean clicks?"), "{release:?}: {error}");
        assert_eq!(error.fault(), Fault::Caller);
        let fetched = consumer.fetch(Fetch::new("clcks", 0, 0)).await.unwrap();
        let error = fetched.partitions()[0].error().unwrap();
        assert!(error.to_string().contains("did you mean clicks?"), "{release:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_does_not_exist_is_told_with_their_number() {
    for release in ERAS {
        let consumer = consumer(&broker(release)).await;
        let error = consumer.latest_offset("clicks", 7).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::UnknownPartition { partitions: 2 }),
            "{release:?}: {error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_broker_that_leads_is_named() {
    for release in ERAS {
        // A follower would serve this consumer itself.
        let alone = EmbeddedBroker::builder().settings(|settings| settings.replication_factor = 1);
        let broker = Arc::new(alone.release(release).brokers(2).topic("clicks", 2).in_memory());
        let (first, second) = (&broker.addrs()[0], &broker.addrs()[1]);
        let consumer = builder_at(&broker, first).connect().await.unwrap();
        let leaders = consumer.metadata(&["clicks"]).await.unwrap();
        let elsewhere = (0..2)
            .find(|partition| leaders.leader("clicks", *partition).unwrap().address.to_string() == *second)
            .unwrap();
        let expected = format!("connect to {second}");
        let fetched = consumer.fetch(Fetch::new("clicks", elsewhere, 0)).await.unwrap();
        let error = fetched.partitions()[0].error().unwrap();
        assert!(error.to_string().contains(&expected), "{release:?}: {error}");
        assert_eq!(error.retry(), Retry::RefreshMetadata);
        let error = consumer.earliest_offset("clicks", elsewhere).await.unwrap_err();
        assert!(error.to_string().contains(&expected), "{release:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_nobody_leads_has_no_leader() {
    let broker = broker(Release::V2_4);
    broker.with(|cluster| cluster.set_leader("clicks", 0, None)).unwrap();
    let metadata = consumer(&broker).await.metadata(&["clicks"]).await.unwrap();
    assert_eq!(metadata.topics[0].partitions[0].leader, None);
    assert!(metadata.leader("clicks", 0).is_none() && metadata.leader("clicks", 1).is_some());
}
