use super::*;

#[tokio::test(start_paused = true)]
async fn every_release_is_read_from_the_start_and_then_followed() {
    for release in Release::ALL.iter().copied() {
        let brokers = brokers(release);
        append(&brokers, "t", 1, 100, 7);
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.partition("t", 1).stream(StartOffset::Earliest).await.unwrap();
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        append(&brokers, "t", 1, 5, 2);
        assert_eq!(read(&mut stream, 5).await, [100, 101, 102, 103, 104], "{release}");
        assert_eq!(stream.position(), Some(105));
    }
}

#[tokio::test(start_paused = true)]
async fn each_start_and_each_end() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 50, 5);
    let cluster = cluster(&brokers).await;
    let table = [
        (StartOffset::Earliest, EndOffset::Latest, 0..50),
        (StartOffset::At(13), EndOffset::Latest, 13..50),
        (StartOffset::Tail(7), EndOffset::Latest, 43..50),
        (StartOffset::Tail(700), EndOffset::At(3), 0..3),
        (StartOffset::At(13), EndOffset::At(22), 13..22),
        (StartOffset::Latest, EndOffset::Latest, 50..50),
        (StartOffset::At(22), EndOffset::At(22), 22..22),
    ];
    for (start, end, expected) in table {
        let mut stream = cluster.partition("t", 0).stream(start).until(end).await.unwrap();
        let mut found = Vec::new();
        while let Some(item) = stream.next().await.unwrap() {
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            found.extend(offsets(&batch));
        }
        assert_eq!(found, expected.collect::<Vec<_>>(), "{start:?} {end:?}");
        assert!(stream.next().await.unwrap().is_none(), "the end stays the end");
    }
}

#[tokio::test(start_paused = true)]
async fn many_partitions_are_read_by_turns_each_in_order() {
    let brokers = brokers(Release::V4_4);
    for partition in 0..3 {
        append(&brokers, "t", partition, 1000, 10);
    }
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.streams().topic("t").until(EndOffset::Latest).await.unwrap();
    let mut found = [vec![], vec![], vec![]];
    while let Some((from, item)) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        found[from.partition as usize].extend(offsets(&batch));
    }
    assert_eq!(found, [to(1000), to(1000), to(1000)]);
}

#[tokio::test(start_paused = true)]
async fn s1_old_brokers_limits_grow_for_a_record_that_does_not_fit() {
    for release in [Release::V0_8_0, Release::V0_9_0, Release::V0_10_0, Release::V2_8] {
        let brokers = brokers(release);
        let mut set = RecordSetWriter::new(magic(release));
        set.push(NewRecord::value(&vec![b'x'; 200_000])).unwrap();
        let set = set.finish().unwrap();
        for _ in 0..3 {
            brokers.append("t", 0, &set).unwrap();
        }
        let cluster = cluster(&brokers).await;
        let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(1000);
        let mut stream = stream.await.unwrap();
        let mut count = 0;
        while count < 3 {
            let Some(Item::Batch(batch)) = stream.next().await.unwrap() else { panic!("{release}") };
            count += batch.records().count();
        }
        let asked = brokers.request_count(downspout::protocol::ApiKey::FETCH);
        assert!(asked < 12, "{release}: {asked} fetches");
    }
}

#[tokio::test(start_paused = true)]
async fn o13_a_seek_takes_effect_at_once_also_while_paused() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 100, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    stream.seek(StartOffset::At(90)).unwrap();
    assert_eq!(read(&mut stream, 10).await, (90..100).collect::<Vec<_>>());
    stream.pause();
    stream.seek(StartOffset::At(40)).unwrap();
    let silent = tokio::time::timeout(Duration::from_secs(3), stream.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    stream.resume();
    assert_eq!(read(&mut stream, 60).await, (40..100).collect::<Vec<_>>());
    stream.seek(StartOffset::Tail(5)).unwrap();
    assert_eq!(read(&mut stream, 5).await, (95..100).collect::<Vec<_>>());
    assert!(stream.seek(StartOffset::At(-1)).is_err());
}

#[tokio::test(start_paused = true)]
async fn p10_a_pause_fetches_nothing_twice() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 1000, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    let mut found = read(&mut stream, 10).await;
    stream.pause();
    assert!(tokio::time::timeout(Duration::from_secs(60), stream.next()).await.is_err());
    let asked = brokers.request_count(downspout::protocol::ApiKey::FETCH);
    stream.resume();
    found.extend(read(&mut stream, 990).await);
    assert_eq!(found, to(1000));
    assert!(brokers.request_count(downspout::protocol::ApiKey::FETCH) <= asked + 3);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused() {
    let brokers = brokers(Release::V2_8);
    let cluster = cluster(&brokers).await;
    let partition = cluster.partition("t", 0);
    let start = StartOffset::Earliest;
    assert!(partition.stream(start).max_wait(Duration::from_secs(30)).await.is_err());
    assert!(partition.stream(start).partition_bytes(0).await.is_err());
    assert!(partition.stream(start).min_bytes(-1).await.is_err());
    let missing = cluster.partition("tt", 0).stream(start).await.unwrap_err();
    assert!(missing.to_string().contains("did you mean t?"), "{missing}");
    let beyond = cluster.partition("t", 3).stream(start).await.unwrap_err();
    assert!(beyond.to_string().contains("the topic has 3"), "{beyond}");
    assert!(cluster.partition("t", -1).stream(start).await.is_err());
    assert!(cluster.streams().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn p7_a_quiet_partition_costs_two_requests_a_second() {
    let brokers = brokers(Release::V2_8);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(60), stream.next()).await.is_err());
    let asked = brokers.request_count(downspout::protocol::ApiKey::FETCH);
    assert!((115..=125).contains(&asked), "{asked}");
}
