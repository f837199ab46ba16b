//! One budget for what is in flight, buffered and inflated.

use downspout::records::{Batch, OwnedRecord};

use super::network::Counting;
use super::*;

const MIB: usize = 1 << 20;

/// Reads a batch; events are an error.
async fn batch(stream: &mut PartitionStream) -> Batch {
    match stream.next().await.unwrap() {
        Some(Item::Batch(batch)) => batch,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn s4_batches_that_inflate_a_thousandfold_count_as_what_they_inflate_to() {
    for codec in [Codec::Gzip, Codec::Zstd] {
        let brokers = brokers(Release::V4_4);
        for partition in 0..3 {
            append_large(&brokers, "t", partition, 20, 4 * MIB, codec);
        }
        let cluster = builder(&brokers).memory(MIB).connect().await.unwrap();
        let mut stream = cluster.streams().topic("t").until(EndOffset::Latest).await.unwrap();
        let (_, Item::Batch(held)) = stream.next().await.unwrap().unwrap() else { panic!() };
        assert!(held.inflated() >= 4 * MIB);
        sleep(Duration::from_secs(1)).await;
        let usage = cluster.memory();
        assert!(usage.lent >= 4 * MIB, "{codec}: {usage:?}");
        // While one batch alone is more than all there is, no more is asked for than the others may
        // always have.
        let asked = brokers.request_count(ApiKey::FETCH);
        sleep(Duration::from_secs(600)).await;
        assert_eq!(brokers.request_count(ApiKey::FETCH), asked, "{codec}: {usage:?}");
        drop(held);
        let mut count = 1;
        while let Some((_, item)) = stream.next().await.unwrap() {
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            assert_eq!(batch.records().count(), 1);
            count += 1;
        }
        assert_eq!(count, 60);
        // One batch at a time may go beyond the budget: it has to be inflated to be read.
        let most = cluster.memory().most;
        assert!(most <= MIB + 4 * MIB + (64 << 10), "{codec}: {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn s3_limits_are_of_bytes_on_the_wire_and_inflating_has_its_own() {
    let brokers = brokers(Release::V2_8);
    append_large(&brokers, "t", 0, 5, MIB, Codec::Gzip);
    let cluster = cluster(&brokers).await;
    // A limit far below what they inflate to lets them pass.
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(8_000);
    let mut stream = stream.await.unwrap();
    for _ in 0..5 {
        assert!(batch(&mut stream).await.inflated() >= MIB);
    }
    let mut options = StreamOptions::default();
    options.max_inflated = MIB / 2;
    let stream = cluster.partition("t", 0).stream(StartOffset::At(3)).options(options);
    let why = stream.await.unwrap().next().await.unwrap_err();
    let ErrorKind::Corrupt(corruption) = why.kind() else { panic!("{why}") };
    assert!(corruption.is_our_limit(), "{why}");
    assert_eq!((why.offset(), corruption.next_offset), (Some(3), Some(4)));
}

#[tokio::test(start_paused = true)]
async fn s5_a_record_that_is_copied_out_keeps_nothing_else_alive() {
    let brokers = brokers(Release::V2_8);
    append_large(&brokers, "t", 0, 10, 100_000, Codec::None);
    let cluster = cluster(&brokers).await;
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).until(EndOffset::Latest);
    let mut stream = stream.await.unwrap();
    let mut owned: Vec<OwnedRecord> = Vec::new();
    let mut kept = Vec::new();
    while let Some(item) = stream.next().await.unwrap() {
        let Item::Batch(batch) = item else { panic!("{item:?}") };
        owned.extend(batch.records().map(|record| record.unwrap().to_owned()));
        if batch.base_offset() == 3 {
            kept.push(batch);
        }
    }
    let usage = cluster.memory();
    assert!(usage.lent >= 1_000_000, "a batch keeps its answer, and that counts: {usage:?}");
    kept.iter_mut().for_each(Batch::detach);
    let usage = cluster.memory();
    assert!(usage.lent + usage.pinned <= 110_000, "detached, it keeps itself alone: {usage:?}");
    drop(kept);
    let usage = cluster.memory();
    assert_eq!((owned.len(), usage.lent, usage.buffered, usage.pinned), (10, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn s6_an_answer_has_room_for_its_records_and_what_is_around_them() {
    for release in [Release::V0_8_0, Release::V0_10_0, Release::V0_10_2, Release::V4_4] {
        let brokers = Arc::new(EmbeddedBroker::builder().release(release).topic("t", 30).in_memory());
        let mut set = RecordSetWriter::new(magic(release));
        for _ in 0..100 {
            set.push(NewRecord::value(&[b'x'; 1_000])).unwrap();
        }
        let set = set.finish().unwrap();
        for partition in 0..30 {
            brokers.append("t", partition, &set).unwrap();
            brokers.append("t", partition, &set).unwrap();
        }
        // Frames of 512 KiB; partitions that together hold six times as much.
        let cluster = builder(&brokers).frame_limit(512 << 10).connect().await.unwrap();
        let stream = cluster.streams().topic("t").partition_bytes(128 << 10).until(EndOffset::Latest);
        let mut stream = stream.await.unwrap();
        let mut count = 0;
        let began = Instant::now();
        while let Some((at, item)) = stream.next().await.unwrap() {
            let Item::Batch(batch) = item else { panic!("{release} {at}: {item:?}") };
            count += batch.records().count();
        }
        assert_eq!(count, 30 * 200, "{release}");
        assert!(began.elapsed() < Duration::from_secs(1), "{release}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn s7_a_stopped_reader_means_flat_memory_and_an_idle_socket_for_an_hour() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V4_4] {
        let brokers = brokers(release);
        for partition in 0..3 {
            append(&brokers, "t", partition, 100_000, 500);
        }
        let network = Counting::new(&brokers);
        let hours = Duration::from_secs(9 * 3_600);
        let cluster = Cluster::builder([brokers.addr()]).connector(network.clone());
        let cluster = cluster.memory(MIB).metadata_max_age(hours).connect().await.unwrap();
        let mut stream = cluster.streams().topic("t").await.unwrap();
        for _ in 0..3 {
            stream.next().await.unwrap().unwrap();
        }
        sleep(Duration::from_secs(5)).await;
        let (usage, asked) = (cluster.memory(), brokers.request_count(ApiKey::FETCH));
        let bytes = (network.received(), network.sent());
        assert!(usage.buffered > 0 && usage.used <= MIB, "{release}: {usage:?}");
        for _ in 0..60 {
            sleep(Duration::from_secs(60)).await;
            assert_eq!(cluster.memory(), usage, "{release}");
        }
        assert_eq!(brokers.request_count(ApiKey::FETCH), asked, "{release}");
        assert_eq!((network.received(), network.sent()), bytes, "{release}");
        let mut next = [None; 3];
        let mut count = 0;
        while count < 30_000 {
            let (at, item) = stream.next().await.unwrap().unwrap();
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            let found = offsets(&batch);
            let next = next[at.partition as usize].get_or_insert(found[0]);
            assert_eq!(found[0], *next, "{release}: nothing was lost meanwhile");
            *next = found[found.len() - 1] + 1;
            count += found.len();
        }
        assert!(cluster.memory().most <= MIB, "{release}: {:?}", cluster.memory());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_gives_everything_back() {
    let brokers = brokers(Release::V4_4);
    for partition in 0..3 {
        append(&brokers, "t", partition, 10_000, 100);
    }
    let cluster = cluster(&brokers).await;
    for turn in 0..20 {
        let mut stream = cluster.streams().topic("t").await.unwrap();
        let held = stream.next().await.unwrap();
        sleep(Duration::from_millis(turn)).await;
        drop(stream);
        assert!(held.is_some() && cluster.memory().lent > 0);
        drop(held);
        sleep(Duration::from_secs(1)).await;
        let usage = cluster.memory();
        assert_eq!((usage.used, usage.buffered, usage.lent, usage.pinned), (0, 0, 0, 0), "{turn}");
    }
}
