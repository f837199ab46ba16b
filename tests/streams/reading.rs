use downspout::protocol::{ApiKey, ErrorCode};

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
        let asked = brokers.request_count(ApiKey::FETCH);
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
    let silent = timeout(Duration::from_secs(3), stream.next()).await;
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
    assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err());
    let asked = brokers.request_count(ApiKey::FETCH);
    stream.resume();
    found.extend(read(&mut stream, 990).await);
    assert_eq!(found, to(1000));
    assert!(brokers.request_count(ApiKey::FETCH) <= asked + 3);
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
    assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err());
    let asked = brokers.request_count(ApiKey::FETCH);
    assert!((115..=125).contains(&asked), "{asked}");
}

/// All that a stream gives until its end, by partition.
async fn drain(stream: &mut MergedStream) -> [Vec<i64>; 3] {
    let mut found = [vec![], vec![], vec![]];
    while let Some((from, item)) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        found[from.partition as usize].extend(offsets(&batch));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn what_came_after_the_end_was_found_out_is_not_handed_out() {
    // Old ones too, where plain messages of many sets are read as one batch.
    for release in [Release::V0_9_0, Release::V2_8] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 10, 2);
        brokers.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::FETCH));
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.streams().partition("t", 0).until(EndOffset::Latest).await.unwrap();
        let asked = async {
            while brokers.request_count(ApiKey::FETCH) == 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            biased;
            item = stream.next() => panic!("{item:?}"),
            () = asked => {}
        }
        append(&brokers, "t", 0, 10, 2);
        brokers.with(|core| core.clear_faults());
        assert_eq!(drain(&mut stream).await[0], to(10), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_partition_has_its_own_start_and_end_and_may_be_ended_anywhere() {
    let brokers = brokers(Release::V4_4);
    for partition in 0..3 {
        append(&brokers, "t", partition, 50, 5);
    }
    let cluster = cluster(&brokers).await;
    let open = || {
        let (start, from) = (StartOffset::Earliest, StartOffset::At(20));
        let streams = cluster.streams().partition_between("t", 0, start, EndOffset::At(12));
        let streams = streams.partition_between("t", 1, from, EndOffset::Latest);
        streams.partition_between("t", 2, StartOffset::Tail(5), EndOffset::Never).open()
    };
    let mut stream = open().await.unwrap();
    stream.control().end("t", 2).unwrap();
    assert_eq!(drain(&mut stream).await, [to(12), (20..50).collect(), vec![]]);
    // Ended while it is waited for, and while the last of a batch is still to come.
    let mut stream = open().await.unwrap();
    let control = stream.control();
    let mut found = [vec![], vec![], vec![]];
    let rest = timeout(Duration::from_secs(5), async {
        while let Some((from, item)) = stream.next().await.unwrap() {
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            found[from.partition as usize].extend(offsets(&batch));
            if found[1].len() == 10 && from.partition == 1 {
                control.end("t", 1).unwrap();
            }
        }
    });
    assert!(rest.await.is_err(), "partition 2 has no end");
    assert_eq!(found, [to(12), (20..30).collect(), (45..50).collect()]);
    let (next, ()) = tokio::join!(stream.next(), async { control.end("t", 2).unwrap() });
    assert!(next.unwrap().is_none());
    // A seek takes it up again.
    control.seek("t", 2, StartOffset::At(48)).unwrap();
    let Some((from, Item::Batch(batch))) = stream.next().await.unwrap() else { panic!() };
    assert_eq!((from.partition, offsets(&batch)), (2, vec![48, 49]));
    let leader = cluster.leader("t", 2).await.unwrap().id;
    assert_eq!(stream.broker("t", 2), Some(leader));
}
