use super::*;

#[tokio::test(start_paused = true)]
async fn every_release_is_read_with_the_versions_it_has() {
    for release in Release::ALL {
        let broker = broker(*release);
        broker.append("clicks", 0, &set(magic(*release), &["a", "b"])).unwrap();
        broker.append("clicks", 0, &set(magic(*release), &["c"])).unwrap();
        broker.append("clicks", 1, &set(magic(*release), &["x"])).unwrap();
        let consumer = consumer(&broker).await;
        let offset = consumer.earliest_offset("clicks", 0).await.unwrap();
        assert_eq!((offset, consumer.latest_offset("clicks", 0).await.unwrap()), (0, 3), "{release:?}");

        let fetched = consumer.fetch(Fetch::new("clicks", 0, 1).and("clicks", 1, 0)).await.unwrap();
        let expected = [(1, "b".into()), (2, "c".into()), (0, "x".into())];
        assert_eq!(records(&fetched), expected, "{release:?}");
        let first = fetched.partition("clicks", 0).unwrap();
        assert_eq!((first.next_offset(), first.high_watermark()), (3, Some(3)), "{release:?}");
        assert_eq!(fetched.partition("clicks", 1).unwrap().next_offset(), 1);
        assert!(fetched.partition("clicks", 2).is_none());
        let newest = consumer.versions().await.unwrap().range(ApiKey::FETCH).unwrap().max;
        assert_eq!(fetched.version(), newest, "{release:?}: topic ids are looked up where Fetch wants them");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_comes_when_the_wait_is_over_and_leads_on_from_the_same_offset() {
    for release in [Release::V0_8_0, Release::V2_4, Release::V4_4] {
        let broker = broker(release);
        let consumer = consumer(&broker).await;
        let start = tokio::time::Instant::now();
        let fetch = Fetch::new("clicks", 0, 0).max_wait(Duration::from_secs(60));
        let fetched = consumer.fetch(fetch).await.unwrap();
        assert_eq!((records(&fetched), fetched.next_offset()), (vec![], Some(0)));
        assert_eq!(start.elapsed().as_secs(), 60, "longer than the request timeout alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_offset_is_an_error_of_its_partition_alone() {
    for release in [Release::V0_8_2, Release::V4_4] {
        let broker = broker(release);
        broker.append("clicks", 0, &set(magic(release), &["a"])).unwrap();
        let consumer = consumer(&broker).await;
        let fetched = consumer.fetch(Fetch::new("clicks", 1, 99).and("clicks", 0, 0)).await.unwrap();
        let error = fetched.partition("clicks", 1).unwrap().error().unwrap().clone();
        assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
        assert_eq!((error.topic(), error.partition(), error.offset()), (Some("clicks"), Some(1), Some(99)));
        assert_eq!((error.retry(), error.broker()), (Retry::ResetOffset, Some(broker.addr())));
        assert_eq!(error.api(), Some((ApiKey::FETCH, fetched.version())));
        assert!(fetched.batches().next().unwrap().is_err(), "the error stands in its place");
        assert_eq!(fetched.batches().filter(Result::is_ok).count(), 1, "and the other partition is read");
    }
}

#[tokio::test(start_paused = true)]
async fn read_committed_is_the_default_where_the_broker_can_say() {
    let broker = broker(Release::V2_4);
    let mut writer = RecordSetWriter::new(Magic::V2).producer(7, 0, 0).transactional();
    writer.push(NewRecord::value(b"open")).unwrap();
    broker.append("clicks", 0, &set(Magic::V2, &["a"])).unwrap();
    broker.append("clicks", 0, &writer.finish().unwrap()).unwrap();
    let committed = consumer(&broker).await;
    let all = builder(&broker).isolation(Isolation::ReadUncommitted).connect().await.unwrap();
    assert_eq!(records(&committed.fetch(Fetch::new("clicks", 0, 0)).await.unwrap()).len(), 1);
    assert_eq!(records(&all.fetch(Fetch::new("clicks", 0, 0)).await.unwrap()).len(), 2);
    assert_eq!(committed.latest_offset("clicks", 0).await.unwrap(), 1, "the last stable offset");
    assert_eq!(all.latest_offset("clicks", 0).await.unwrap(), 2);
    let fetched = committed.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    assert_eq!(fetched.partitions()[0].last_stable_offset(), Some(1));
    assert_eq!(fetched.partitions()[0].high_watermark(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_batch_is_an_error_with_its_place() {
    let broker = broker(Release::V4_4);
    broker.append("clicks", 0, &set(Magic::V2, &["a", "b"])).unwrap();
    let consumer = consumer(&broker).await;
    let fault = downspout::testing::Fault::rewrite(|answer| {
        let last = answer.len() - 6;
        answer[last] ^= 1;
    });
    broker.inject(fault.on(ApiKey::FETCH).once());
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    let error = fetched.batches().next().unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt(_)), "{error:?}");
    assert_eq!((error.fault(), error.topic(), error.offset()), (Fault::Data, Some("clicks"), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_anew_is_an_error_once_and_read_then() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    broker.append("clicks", 0, &set(Magic::V2, &["old"])).unwrap();
    consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    broker.with(|cluster| cluster.delete_topic("clicks"));
    broker.create_topic("clicks", 1);
    broker.append("clicks", 0, &set(Magic::V2, &["new"])).unwrap();
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    let code = fetched.partitions()[0].error().unwrap().code();
    assert_eq!(code, Some(ErrorCode::UNKNOWN_TOPIC_ID));
    assert_eq!(records(&consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap()), [(0, "new".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_fetched_is_refused_before_it_is_asked() {
    let broker = broker(Release::V4_4);
    let consumer = consumer(&broker).await;
    let before = broker.request_count(ApiKey::FETCH);
    for fetch in [
        Fetch::new("", 0, 0),
        Fetch::new("clicks", -1, 0),
        Fetch::new("clicks", 0, -1),
        Fetch::new("clicks", 0, 0).max_bytes(0),
        Fetch::new("clicks", 0, 0).and("clicks", 0, 5),
    ] {
        let error = consumer.fetch(fetch).await.unwrap_err();
        assert_eq!((error.fault(), error.retry()), (Fault::Caller, Retry::No));
    }
    assert_eq!(broker.request_count(ApiKey::FETCH), before);
}

#[tokio::test(start_paused = true)]
async fn b6_pinned_versions_are_spoken_or_refused_with_both_ranges() {
    let broker = broker(Release::V3_9);
    broker.append("clicks", 0, &set(Magic::V2, &["a"])).unwrap();
    for version in 0..=17 {
        let consumer = builder(&broker).pin(ApiKey::FETCH, version).connect().await.unwrap();
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
        assert_eq!((fetched.version(), records(&fetched)), (version, vec![(0, "a".into())]));
    }
    let consumer = builder(&broker).pin(ApiKey::FETCH, 18).connect().await.unwrap();
    let error = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap_err();
    assert!(error.to_string().contains("this client speaks 18, the broker 0–17"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn any_request_can_be_sent_with_the_version_chosen_or_given() {
    for release in [Release::V0_8_2, Release::V2_4, Release::V4_4] {
        let broker = broker(release);
        broker.append("clicks", 0, &set(magic(release), &["a"])).unwrap();
        let consumer = consumer(&broker).await;
        let request = FetchRequest {
            max_bytes: 1000,
            topics: vec![FetchTopic {
                topic: "clicks".into(),
                partitions: vec![FetchPartition { partition_max_bytes: 1000, ..Default::default() }],
                ..Default::default()
            }],
            ..Default::default()
        };
        // By name: never above the last version that has names.
        let answer = consumer.send(request).await.unwrap();
        assert_eq!(answer.responses[0].topic, "clicks");
        assert!(answer.responses[0].partitions[0].records.as_ref().unwrap().len() > 20);
    }
    let broker = broker(Release::V2_4);
    let consumer = consumer(&broker).await;
    let answer = consumer.send_version(MetadataRequest { topics: None, ..Default::default() }, 5).await;
    assert_eq!(answer.unwrap().topics.len(), 1);
    let error = consumer.send_version(MetadataRequest::default(), 13).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { broker: Some(_), .. }), "{error}");
}
