use super::*;

const OLD: [Release; 4] = [Release::V0_8_0, Release::V0_8_2, Release::V0_9_0, Release::V0_10_0];

fn big(release: Release, size: usize) -> Bytes {
    set(magic(release), &[&"x".repeat(size)])
}

fn fetches(broker: &EmbeddedBroker) -> usize {
    broker.request_count(ApiKey::FETCH)
}

#[tokio::test(start_paused = true)]
async fn s1_case_4_the_limit_grows_to_what_the_record_needs() {
    for release in OLD {
        let broker = broker(release);
        broker.append("clicks", 0, &big(release, 50_000)).unwrap();
        let consumer = consumer(&broker).await;
        let before = fetches(&broker);
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0).max_bytes(1000)).await.unwrap();
        assert_eq!(records(&fetched)[0].1.len(), 50_000, "{release:?}");
        assert_eq!(fetches(&broker) - before, 2, "one request without progress, no more");
    }
}

#[tokio::test(start_paused = true)]
async fn s2_even_the_size_of_the_record_may_be_cut_off() {
    let broker = broker(Release::V0_8_2);
    broker.append("clicks", 0, &big(Release::V0_8_2, 5000)).unwrap();
    let consumer = consumer(&broker).await;
    for bytes in [1, 8, 11, 12, 13, 27] {
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0).max_bytes(bytes)).await.unwrap();
        assert_eq!(records(&fetched)[0].1.len(), 5000, "limit {bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_record_above_the_highest_limit_is_an_error_with_its_size_and_offset() {
    let broker = broker(Release::V0_8_2);
    broker.append("clicks", 0, &set(Magic::V0, &["small"])).unwrap();
    broker.append("clicks", 0, &big(Release::V0_8_2, 50_000)).unwrap();
    let consumer = builder(&broker).fetch_limit(20_000).connect().await.unwrap();
    let before = fetches(&broker);
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 1).max_bytes(1000)).await.unwrap();
    let error = fetched.partitions()[0].error().unwrap();
    assert!(matches!(error.kind(), ErrorKind::RecordTooLarge { needed: 50_026, limit: 20_000 }), "{error:?}");
    assert_eq!((error.offset(), error.retry(), error.fault()), (Some(1), Retry::No, Fault::Data));
    assert_eq!((fetched.next_offset(), fetches(&broker) - before), (Some(1), 1));
    // What lies before it is read as ever.
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 0).max_bytes(1000)).await.unwrap();
    assert_eq!(records(&fetched), [(0, "small".into())]);
}

#[tokio::test(start_paused = true)]
async fn s2_a_raised_limit_is_used_at_once_the_next_time_and_shrinks_after() {
    let broker = broker(Release::V0_8_2);
    for _ in 0..3 {
        broker.append("clicks", 0, &big(Release::V0_8_2, 50_000)).unwrap();
    }
    for _ in 0..400 {
        broker.append("clicks", 0, &big(Release::V0_8_2, 900)).unwrap();
    }
    let consumer = consumer(&broker).await;
    let before = fetches(&broker);
    let mut offset = 0;
    let mut sizes = Vec::new();
    while offset < 403 {
        let fetched = consumer.fetch(Fetch::new("clicks", 0, offset).max_bytes(1000)).await.unwrap();
        sizes.push(fetched.partitions()[0].record_set().bytes().len());
        offset = fetched.next_offset().unwrap();
    }
    assert_eq!(fetches(&broker) - before, sizes.len() + 1, "{sizes:?}");
    assert!(sizes.last().unwrap() <= &1000, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn other_partitions_are_not_asked_again() {
    let broker = broker(Release::V0_8_2);
    broker.append("clicks", 0, &big(Release::V0_8_2, 5000)).unwrap();
    broker.append("clicks", 1, &set(Magic::V0, &["small"])).unwrap();
    let consumer = consumer(&broker).await;
    let fetched =
        consumer.fetch(Fetch::new("clicks", 1, 0).max_bytes(1000).and("clicks", 0, 0)).await.unwrap();
    assert_eq!(fetched.partition("clicks", 1).unwrap().next_offset(), 1);
    assert_eq!(fetched.partition("clicks", 0).unwrap().next_offset(), 1, "{fetched:?}");
}

#[tokio::test(start_paused = true)]
async fn s1_newer_brokers_send_the_first_batch_whole() {
    for release in [Release::V0_10_2, Release::V2_4, Release::V4_4] {
        let broker = broker(release);
        broker.append("clicks", 0, &big(release, 50_000)).unwrap();
        let consumer = consumer(&broker).await;
        let before = fetches(&broker);
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0).max_bytes(1)).await.unwrap();
        assert_eq!(records(&fetched)[0].1.len(), 50_000, "{release:?}");
        assert_eq!(fetches(&broker) - before, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_broker_that_sends_only_a_piece_is_an_error_not_a_loop() {
    let broker = broker(Release::V2_4);
    broker.append("clicks", 0, &big(Release::V2_4, 500)).unwrap();
    let consumer = consumer(&broker).await;
    // The size inside the batch is raised, so that it is cut short by what follows it.
    let fault = downspout::testing::Fault::rewrite(|answer| {
        let at = batch_start(answer);
        answer[at + 8] = 0x10;
    });
    broker.inject(fault.on(ApiKey::FETCH).once());
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    let error = fetched.partitions()[0].error().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NoProgress), "{error:?}");
    assert_eq!(fetched.next_offset(), Some(0));
}

/// Where the batch at offset 0 starts: 16 bytes before its magic.
fn batch_start(answer: &[u8]) -> usize {
    (0..answer.len() - 17).rev().find(|at| answer[*at..*at + 8] == [0; 8] && answer[at + 16] == 2).unwrap()
}
