//! One slow part never delays another: brokers, readers, batches, polls.

use std::collections::BTreeMap;

use super::*;

const KIB: usize = 1 << 10;

/// Reads until the partitions in `wanted` have come to these offsets; gives the time that took.
async fn read_to(
    stream: &mut MergedStream,
    wanted: &[(i32, i64)],
    next: &mut BTreeMap<i32, i64>,
) -> Duration {
    let began = Instant::now();
    while wanted.iter().any(|(partition, end)| next.get(partition).is_none_or(|at| at < end)) {
        let (at, item) = stream.next().await.unwrap().unwrap();
        let Item::Batch(batch) = item else { panic!("{at}: {item:?}") };
        let found = offsets(&batch);
        let next = next.entry(at.partition).or_insert(0);
        assert_eq!(found[0], *next, "{at}");
        *next = found[found.len() - 1] + 1;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn s4_gap_19_large_unread_and_slow_parts_at_a_small_budget_delay_no_other() {
    for release in [Release::V0_10_2, Release::V2_8, Release::V4_4] {
        let brokers = EmbeddedBroker::builder().release(release).brokers(3);
        let brokers = Arc::new(brokers.topic("t", 3).topic("large", 3).topic("unread", 3).in_memory());
        for partition in 0..3 {
            append(&brokers, "t", partition, 20_000, 100);
            append(&brokers, "unread", partition, 20_000, 100);
        }
        let mut large = RecordSetWriter::new(magic(release));
        large.push(NewRecord::value(&vec![b'x'; 2_000 * KIB])).unwrap();
        let large = large.finish().unwrap();
        let mut dense = RecordSetWriter::new(magic(release)).codec(Codec::Gzip);
        dense.push(NewRecord::value(&vec![b'x'; 4_000 * KIB])).unwrap();
        let dense = dense.finish().unwrap();
        for _ in 0..20 {
            brokers.append("large", 0, &large).unwrap();
            brokers.append("large", 1, &dense).unwrap();
        }
        brokers.inject(Fault::delay(Duration::from_secs(5)).on(ApiKey::FETCH).at_node(3));

        let cluster = builder(&brokers).memory(512 * KIB).connect().await.unwrap();
        let mut unread = Vec::new();
        for partition in 0..3 {
            unread.push(cluster.partition("unread", partition).stream(StartOffset::Earliest).await.unwrap());
        }
        let mut heavy = cluster.streams().topic("large").until(EndOffset::Latest).await.unwrap();
        let heavy = tokio::spawn(async move {
            let mut count = 0;
            while let Some((_, item)) = heavy.next().await.unwrap() {
                let Item::Batch(batch) = item else { panic!("{item:?}") };
                // Takes its time, with the batch in its hands.
                sleep(Duration::from_millis(700)).await;
                count += batch.records().count();
            }
            count
        });
        let mut stream = cluster.streams().topic("t").await.unwrap();
        let mut next = BTreeMap::new();
        let took = read_to(&mut stream, &[(0, 20_000), (1, 20_000)], &mut next).await;
        assert!(took < Duration::from_millis(200), "{release}: {took:?}");
        // The slow broker's partition goes on as fast as that broker answers, and the heavy ones arrive.
        read_to(&mut stream, &[(2, 20_000)], &mut next).await;
        assert_eq!(timeout(Duration::from_secs(600), heavy).await.unwrap().unwrap(), 40, "{release}");
        for stream in &mut unread {
            assert_eq!(read(stream, 20_000).await, to(20_000), "{release}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_frozen_broker_delays_no_other_and_goes_on_where_it_was() {
    for release in [Release::V0_9_0, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        for partition in 0..3 {
            append(&brokers, "t", partition, 100, 10);
        }
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.streams().topic("t").await.unwrap();
        let mut next = BTreeMap::new();
        read_to(&mut stream, &[(0, 100), (1, 100), (2, 100)], &mut next).await;
        brokers.with(|core| core.freeze_broker(3, true));
        for turn in 1..=100 {
            for partition in 0..3 {
                append(&brokers, "t", partition, 10, 10);
            }
            let end = 100 + 10 * turn;
            let took = read_to(&mut stream, &[(0, end), (1, end)], &mut next).await;
            assert!(took < Duration::from_millis(100), "{release}, {turn}: {took:?}");
            sleep(Duration::from_millis(70)).await;
        }
        brokers.with(|core| core.freeze_broker(3, false));
        let took = read_to(&mut stream, &[(2, 1_100)], &mut next).await;
        assert!(took < Duration::from_secs(2), "{release}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_broker_that_is_down_delays_no_other() {
    let brokers = EmbeddedBroker::builder().brokers(3).settings(|it| it.replication_factor = 1);
    let brokers = Arc::new(brokers.topic("t", 3).in_memory());
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.streams().topic("t").await.unwrap();
    let mut next = BTreeMap::new();
    brokers.with(|core| core.stop_broker(3));
    for turn in 1..=50 {
        for partition in 0..2 {
            append(&brokers, "t", partition, 10, 10);
        }
        let took = read_to(&mut stream, &[(0, 10 * turn), (1, 10 * turn)], &mut next).await;
        assert!(took < Duration::from_millis(100), "{turn}: {took:?}");
        sleep(Duration::from_millis(70)).await;
    }
    brokers.with(|core| core.start_broker(3));
    append(&brokers, "t", 2, 10, 10);
    let took = read_to(&mut stream, &[(2, 10)], &mut next).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn c6_a_throttled_broker_is_left_alone_for_the_time_and_delays_no_other() {
    for release in [Release::V1_0, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        for partition in 0..3 {
            append(&brokers, "t", partition, 5_000, 10);
        }
        let cluster = cluster(&brokers).await;
        brokers.inject(Fault::throttle(Duration::from_secs(2)).on(ApiKey::FETCH).at_node(3).times(20));
        let mut stream = cluster.streams().topic("t").await.unwrap();
        let mut next = BTreeMap::new();
        let took = read_to(&mut stream, &[(0, 5_000), (1, 5_000)], &mut next).await;
        assert!(took < Duration::from_millis(100), "{release}: {took:?}");
        let (before, from) = (fetches(&brokers, 3), Instant::now());
        assert!(timeout(Duration::from_secs(10), read_to(&mut stream, &[(2, 1)], &mut next)).await.is_err());
        let asked = fetches(&brokers, 3) - before;
        // Two connections at most, each once in two seconds.
        assert!(asked <= 2 * 6, "{release}: {asked} in {:?}", from.elapsed());
        read_to(&mut stream, &[(2, 5_000)], &mut next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_on_quiet_partitions_delays_no_busy_one() {
    for release in [Release::V0_8_2, Release::V0_11_0, Release::V2_8, Release::V4_4] {
        let brokers = Arc::new(EmbeddedBroker::builder().release(release).topic("t", 20).in_memory());
        let cluster = cluster(&brokers).await;
        let stream = cluster.streams().topic("t").max_wait(Duration::from_secs(20));
        let mut stream = stream.await.unwrap();
        let mut next = BTreeMap::new();
        sleep(Duration::from_secs(1)).await;
        for turn in 0..300 {
            // One is busy; now and then another one has something.
            let partition = if turn % 10 == 9 { 1 + turn % 19 } else { 0 };
            append(&brokers, "t", partition, 3, 3);
            let end = brokers.with(|core| core.offsets("t", partition)).unwrap().end;
            let took = read_to(&mut stream, &[(partition, end)], &mut next).await;
            assert!(took <= Duration::from_millis(60), "{release}, {turn}: {took:?}");
            sleep(Duration::from_millis(7 + turn as u64 % 50)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn busy_partitions_take_turns_whatever_their_sizes() {
    let brokers = Arc::new(EmbeddedBroker::builder().topic("t", 8).in_memory());
    for partition in 0..8 {
        append(&brokers, "t", partition, 4_000, if partition < 4 { 1 } else { 400 });
    }
    // Answers hold but a part of what there is.
    let cluster = builder(&brokers).memory(256 * KIB).connect().await.unwrap();
    let stream = cluster.streams().topic("t").partition_bytes(4_000).until(EndOffset::Latest);
    let mut stream = stream.await.unwrap();
    let mut seen = [0_usize; 8];
    let mut last = [0_usize; 8];
    let mut steps = 0;
    while let Some((at, item)) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        let at = at.partition as usize;
        seen[at] += offsets(&batch).len();
        steps += 1;
        last[at] = steps;
        // Among those that are not done, none has waited for more than a few turns of all.
        let waited = (0..8).filter(|it| seen[*it] < 4_000).map(|it| steps - last[it]).max();
        assert!(waited.is_none_or(|waited| waited < 8 * 400), "{seen:?} {last:?}");
    }
    assert_eq!(seen, [4_000; 8]);
}

#[tokio::test(start_paused = true)]
async fn polls_that_wait_for_nothing_are_not_made_without_pause() {
    for release in [Release::V0_8_2, Release::V4_4] {
        for (min_bytes, max_wait, most) in [(0, Duration::from_millis(500), 60), (1, Duration::ZERO, 2_500)] {
            let brokers = brokers(release);
            append(&brokers, "t", 0, 10, 10);
            let cluster = cluster(&brokers).await;
            let stream = cluster.partition("t", 0).stream(StartOffset::Earliest);
            let mut stream = stream.min_bytes(min_bytes).max_wait(max_wait).await.unwrap();
            assert_eq!(read(&mut stream, 10).await, to(10), "{release}");
            let before = brokers.request_count(ApiKey::FETCH);
            assert!(timeout(Duration::from_secs(20), stream.next()).await.is_err(), "{release}");
            let asked = brokers.request_count(ApiKey::FETCH) - before;
            assert!(asked < most, "{release} {min_bytes} {max_wait:?}: {asked}");
        }
    }
}
