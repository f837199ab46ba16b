//! What goes over the wire and when, and what a step costs.

use std::task::Poll;

use downspout::records::{Batch, CrcCheck};

use super::network::Counting;
use super::*;

/// When fetches came in, since the start of the cluster.
fn fetch_times(brokers: &EmbeddedBroker) -> Vec<Duration> {
    brokers
        .with(|core| core.requests().filter(|seen| seen.api == ApiKey::FETCH).map(|seen| seen.at).collect())
}

#[tokio::test(start_paused = true)]
async fn p1_a_drained_buffer_is_fetched_for_within_five_ms() {
    for release in [Release::V0_8_2, Release::V2_8, Release::V4_4] {
        let began = Instant::now();
        let brokers = brokers(release);
        append(&brokers, "t", 0, 20_000, 100);
        let cluster = builder(&brokers).memory(256 << 10).connect().await.unwrap();
        let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(20_000);
        let mut stream = stream.await.unwrap();
        let mut drained = 0;
        let mut found = Vec::new();
        while found.len() < 15_000 {
            // Whatever can be fetched is there by now, and everything waits for the reader.
            sleep(Duration::from_secs(1)).await;
            let before = fetch_times(&brokers).len();
            while fetch_times(&brokers).len() == before && found.len() < 15_000 {
                let read = began.elapsed();
                let Some(Item::Batch(batch)) = stream.next().await.unwrap() else { panic!() };
                found.extend(offsets(&batch));
                drop(batch);
                // Time goes by only where everybody waits for it.
                sleep(Duration::from_millis(5)).await;
                if let Some(at) = fetch_times(&brokers).get(before) {
                    assert!(*at - read < Duration::from_millis(5), "{release}: {:?}", *at - read);
                    drained += 1;
                }
            }
        }
        assert_eq!(found[..15_000], to(15_000), "{release}");
        assert!(drained >= 5, "{release}: {drained}");
    }
}

#[tokio::test(start_paused = true)]
async fn p2_one_wait_gives_all_batches_of_an_answer() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 1_000, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    let mut count = read(&mut stream, 10).await.len();
    let mut batches = 1;
    while count < 1_000 {
        let mut next = std::pin::pin!(stream.next());
        let poll = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
        let Poll::Ready(Ok(Some(Item::Batch(batch)))) = poll else { panic!("after {count}") };
        count += offsets(&batch).len();
        batches += 1;
    }
    assert_eq!(batches, 100);
}

/// The batches of a partition.
async fn batches(cluster: &Cluster, options: StreamOptions) -> Vec<Batch> {
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).options(options);
    let mut stream = stream.until(EndOffset::Latest).await.unwrap();
    let mut batches = Vec::new();
    while let Some(item) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        batches.push(batch);
    }
    batches
}

#[tokio::test(start_paused = true)]
async fn p3_records_lie_where_their_answer_was_read_into() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 1_000, 100);
        let cluster = cluster(&brokers).await;
        let places: Vec<_> = batches(&cluster, StreamOptions::default())
            .await
            .iter()
            .flat_map(|batch| {
                batch.records().map(|record| record.unwrap().value().unwrap().as_ptr() as usize)
            })
            .collect();
        assert_eq!(places.len(), 1_000);
        // In the order of the wire, no further apart than there: one buffer, nothing was moved.
        let is_near = |pair: &[usize]| pair[0] < pair[1] && pair[1] - pair[0] < 200;
        assert!(places.windows(2).all(is_near), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn p8_records_are_decoded_as_they_are_asked_for() {
    let brokers = brokers(Release::V2_8);
    let mut set = RecordSetWriter::new(Magic::V2);
    for value in [b"1", b"2", b"3"] {
        set.push(NewRecord::value(value)).unwrap();
    }
    let mut set = set.finish().unwrap().to_vec();
    // The length of the last record's value: beyond its end.
    let at = set.len() - 3;
    assert_eq!(set[at], 2, "a value of one byte");
    set[at] = 0x7e;
    brokers.with(|core| core.store("t", 0, &set.into())).unwrap();
    let cluster = cluster(&brokers).await;
    let mut options = StreamOptions::default();
    options.crc = CrcCheck::Skip;
    let batches = batches(&cluster, options).await;
    let read: Vec<bool> = batches[0].records().map(|record| record.is_ok()).collect();
    assert_eq!(read, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn p6_two_fetches_per_broker_are_under_way_at_most_and_all_within_the_budget() {
    let brokers = Arc::new(EmbeddedBroker::builder().brokers(3).topic("t", 60).in_memory());
    for partition in 0..60 {
        append(&brokers, "t", partition, 2_000, 100);
    }
    brokers.inject(Fault::delay(Duration::from_millis(100)).on(ApiKey::FETCH));
    let network = Counting::new(&brokers);
    let budget = 2 << 20;
    let cluster = Cluster::builder([brokers.addr()]).connector(network.clone());
    let cluster = cluster.memory(budget).connect().await.unwrap();
    let mut stream = cluster.streams().topic("t").until(EndOffset::Latest).await.unwrap();
    let mut count = 0;
    while let Some((_, item)) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        count += batch.records().count();
        let usage = cluster.memory();
        assert!(usage.used <= budget, "{usage:?}");
    }
    assert_eq!(count, 60 * 2_000);
    // A control connection and two lanes each, and the one to the first address.
    assert!(network.connections() <= 3 * 3 + 1, "{}", network.connections());
}

#[tokio::test(start_paused = true)]
async fn p10_no_more_than_two_in_a_hundred_bytes_come_for_nothing() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V0_11_0, Release::V2_8, Release::V4_4] {
        for partitions in [1, 3] {
            let brokers = brokers(release);
            let mut set = RecordSetWriter::new(magic(release));
            // A producer's batch.size of 16 KiB; before batches, messages stand alone.
            for _ in 0..140 {
                set.push(NewRecord::value(&[b'x'; 100])).unwrap();
            }
            let set = set.finish().unwrap();
            for partition in 0..partitions {
                for _ in 0..500 {
                    brokers.append("t", partition, &set).unwrap();
                }
            }
            let network = Counting::new(&brokers);
            let cluster = Cluster::builder([brokers.addr()]).connector(network.clone());
            let cluster = cluster.connect().await.unwrap();
            let mut builder = cluster.streams().until(EndOffset::Latest);
            for partition in 0..partitions {
                builder = builder.partition("t", partition);
            }
            let mut stream = builder.await.unwrap();
            let before = network.received();
            let (mut delivered, mut records) = (0, 0);
            while let Some((at, item)) = stream.next().await.unwrap() {
                let Item::Batch(batch) = item else { panic!("{item:?}") };
                delivered += batch.size() as u64;
                records += batch.records().count();
                if delivered % 7 == 0 {
                    // Pauses in between cost nothing either.
                    stream.control().pause("t", at.partition).unwrap();
                    sleep(Duration::from_millis(1)).await;
                    stream.control().resume("t", at.partition).unwrap();
                }
            }
            assert_eq!(records, partitions as usize * 500 * 140, "{release}");
            let ratio = (network.received() - before) as f64 / delivered as f64;
            assert!(ratio <= 1.02, "{release}, {partitions} partitions: {ratio}");
        }
    }
}
