//! Damaged batches: gap 17.

use bytes::Bytes;
use downspout::records::{Cause, Corruption, CrcCheck};

use super::*;

const FORMATS: [(Release, Magic); 3] =
    [(Release::V0_8_2, Magic::V0), (Release::V0_10_2, Magic::V1), (Release::V4_4, Magic::V2)];

/// Records `from..to` as one entry, or as a compressed one, with these offsets.
fn entry(format: Magic, offsets: std::ops::Range<i64>) -> Vec<u8> {
    let codec = if format == Magic::V2 { Codec::None } else { Codec::Gzip };
    let mut set = RecordSetWriter::new(format).codec(codec).base_offset(offsets.start);
    for offset in offsets {
        set.push(NewRecord::value(offset.to_string().as_bytes())).unwrap();
    }
    set.finish().unwrap().to_vec()
}

/// A log of ten entries of ten records, of which the fourth (30..40) has a bit changed that its
/// checksum covers. Gives its bytes.
fn damaged_log(release: Release, format: Magic) -> (Arc<EmbeddedBroker>, Bytes) {
    let brokers = brokers(release);
    let mut damaged = Bytes::new();
    for start in (0..100).step_by(10) {
        let mut bytes = entry(format, start..start + 10);
        if start == 30 {
            let last = bytes.len() - 1;
            bytes[last] ^= 0x10;
            damaged = bytes.clone().into();
        }
        brokers.with(|core| core.store("t", 0, &bytes.into())).unwrap();
    }
    (brokers, damaged)
}

fn assert_bounds(why: &Corruption, format: Magic) {
    // The first offset of a wrapper of magic 0 or 1 is that from which nothing could be read.
    assert_eq!((why.first_offset, why.next_offset, why.magic), (30, Some(40), Some(format)), "{why}");
    assert!(matches!(why.cause, Cause::Crc { .. }), "{why}");
}

async fn open(brokers: &EmbeddedBroker, policy: CorruptPolicy) -> (Cluster, PartitionStream) {
    let cluster = cluster(brokers).await;
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).corrupt(policy);
    let stream = stream.until(EndOffset::Latest).await.unwrap();
    (cluster, stream)
}

#[tokio::test(start_paused = true)]
async fn gap_17_stop_is_an_error_with_the_exact_offsets_and_the_stream_stays_usable() {
    for (release, format) in FORMATS {
        let (brokers, _) = damaged_log(release, format);
        let (_cluster, mut stream) = open(&brokers, CorruptPolicy::Stop).await;
        assert_eq!(read(&mut stream, 30).await, to(30), "{release}");
        for _ in 0..3 {
            let why = stream.next().await.unwrap_err();
            let ErrorKind::Corrupt(corruption) = why.kind() else { panic!("{why}") };
            assert_bounds(corruption, format);
            assert_eq!((why.topic(), why.partition(), why.offset()), (Some("t"), Some(0), Some(30)));
            assert!(why.broker().is_some_and(|broker| broker.contains("broker-")), "{why}");
            assert_eq!(stream.position(), Some(30), "{release}");
        }
        stream.seek(StartOffset::At(40)).unwrap();
        assert_eq!(read(&mut stream, 60).await, (40..100).collect::<Vec<_>>(), "{release}");
        assert!(stream.next().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn gap_17_skip_says_which_offsets_are_passed_over_and_goes_on() {
    for (release, format) in FORMATS {
        let (brokers, _) = damaged_log(release, format);
        let (_cluster, mut stream) = open(&brokers, CorruptPolicy::Skip).await;
        assert_eq!(read(&mut stream, 30).await, to(30), "{release}");
        let Some(Item::Recovered(event)) = stream.next().await.unwrap() else { panic!("{release}") };
        assert_eq!(event.lost(), 10, "{release}");
        let Recovered::Corrupt(why) = event else { panic!("{event}") };
        assert_bounds(&why, format);
        assert_eq!(stream.position(), Some(40), "{release}");
        assert_eq!(read(&mut stream, 60).await, (40..100).collect::<Vec<_>>(), "{release}");
        assert!(stream.next().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn gap_17_raw_hands_over_the_bytes_of_the_damaged_entry_and_no_others() {
    for (release, format) in FORMATS {
        let (brokers, damaged) = damaged_log(release, format);
        let (_cluster, mut stream) = open(&brokers, CorruptPolicy::Raw).await;
        assert_eq!(read(&mut stream, 30).await, to(30), "{release}");
        let Some(Item::Raw(bytes, why)) = stream.next().await.unwrap() else { panic!("{release}") };
        assert_bounds(&why, format);
        // The broker writes its leader epoch into batches.
        let after = if format == Magic::V2 { 16 } else { 0 };
        assert_eq!((bytes.len(), &bytes[after..]), (damaged.len(), &damaged[after..]), "{release}");
        assert_eq!(read(&mut stream, 60).await, (40..100).collect::<Vec<_>>(), "{release}");
        assert!(stream.next().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn gap_17_damage_on_the_way_is_fetched_once_more_from_another_replica_and_not_reported() {
    for (release, elsewhere) in [(Release::V0_8_2, false), (Release::V2_1, false), (Release::V4_4, true)] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        brokers.inject(Fault::corrupt_records().on(ApiKey::FETCH).at_node(1).once());
        let (_cluster, mut stream) = open(&brokers, CorruptPolicy::Stop).await;
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        assert!(stream.next().await.unwrap().is_none());
        let others = fetches(&brokers, 2) + fetches(&brokers, 3);
        assert_eq!(others, usize::from(elsewhere), "{release}: followers serve consumers from 2.4 on");
    }
}

#[tokio::test(start_paused = true)]
async fn gap_17_each_damaged_place_is_tried_twice_and_no_more() {
    let brokers = brokers(Release::V4_4);
    append(&brokers, "t", 0, 100, 10);
    brokers.inject(Fault::corrupt_records().on(ApiKey::FETCH));
    let (_cluster, mut stream) = open(&brokers, CorruptPolicy::Skip).await;
    for start in (0..100).step_by(10) {
        let Some(Item::Recovered(Recovered::Corrupt(why))) = stream.next().await.unwrap() else { panic!() };
        assert_eq!((why.first_offset, why.next_offset), (start, Some(start + 10)));
        // What lies behind in the same answer is sound.
        if start == 0 {
            brokers.with(|core| core.clear_faults());
            break;
        }
    }
    assert_eq!(read(&mut stream, 90).await, (10..100).collect::<Vec<_>>());
    assert!(brokers.request_count(ApiKey::FETCH) <= 6);
}

#[tokio::test(start_paused = true)]
async fn p4_a_wrong_checksum_can_be_passed_over_or_reported() {
    for (release, format) in FORMATS {
        let (brokers, _) = damaged_log(release, format);
        if format != Magic::V2 {
            // Wrappers whose inside is damaged too cannot be read at all.
            continue;
        }
        for (crc, reported) in [(CrcCheck::Skip, 0), (CrcCheck::Report, 1)] {
            let cluster = cluster(&brokers).await;
            let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).crc(crc);
            let mut stream = stream.until(EndOffset::Latest).await.unwrap();
            let (mut count, mut wrong) = (0, Vec::new());
            while let Some(item) = stream.next().await.unwrap() {
                let Item::Batch(batch) = item else { panic!("{item:?}") };
                count += batch.records().count();
                wrong.extend(batch.crc_mismatch().map(|_| batch.base_offset()));
            }
            assert_eq!((count, wrong), (100, vec![30; reported]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn damage_in_one_partition_stops_no_other() {
    let (brokers, _) = damaged_log(Release::V4_4, Magic::V2);
    for partition in [1, 2] {
        append(&brokers, "t", partition, 1_000, 10);
    }
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.streams().topic("t").until(EndOffset::Latest).await.unwrap();
    let (mut found, mut errors) = ([0; 3], 0);
    while found != [30, 1_000, 1_000] {
        match stream.next().await {
            Ok(Some((at, Item::Batch(batch)))) => found[at.partition as usize] += offsets(&batch).len(),
            Err(why) => {
                errors += 1;
                assert_eq!((why.partition(), why.offset()), (Some(0), Some(30)));
                assert!(errors < 2_000, "{found:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The fourth entry has this for its offset, and a length that cannot be.
fn with_garbage(brokers: &EmbeddedBroker, offset: i64) {
    let entry = entry(Magic::V2, 30..40);
    brokers.inject(
        Fault::rewrite(move |frame| {
            if let Some(at) = frame.windows(entry.len()).position(|window| window == entry) {
                frame[at..at + 8].copy_from_slice(&offset.to_be_bytes());
                frame[at + 8..at + 12].fill(0xff);
            }
        })
        .on(ApiKey::FETCH),
    );
}

#[tokio::test(start_paused = true)]
async fn gap_17_an_offset_that_is_damaged_itself_moves_no_stream() {
    for garbage in [60, 95, 10_000, i64::MAX, -5, 31] {
        for until in [EndOffset::Latest, EndOffset::At(60), EndOffset::Never] {
            let brokers = brokers(Release::V4_4);
            for start in (0..100).step_by(10) {
                brokers.with(|core| core.store("t", 0, &entry(Magic::V2, start..start + 10).into())).unwrap();
            }
            with_garbage(&brokers, garbage);
            let cluster = cluster(&brokers).await;
            let mut stream =
                cluster.partition("t", 0).stream(StartOffset::Earliest).until(until).await.unwrap();
            assert_eq!(read(&mut stream, 30).await, to(30), "{garbage} {until:?}");
            for _ in 0..2 {
                let why = timeout(Duration::from_secs(60), stream.next()).await.unwrap().unwrap_err();
                assert!(matches!(why.kind(), ErrorKind::Corrupt(_)), "{garbage} {until:?}: {why}");
                assert_eq!((why.offset(), stream.position()), (Some(30), Some(30)), "{garbage} {until:?}");
            }
            // Whole again.
            brokers.with(|core| core.clear_faults());
            assert_eq!(read(&mut stream, 30).await, (30..60).collect::<Vec<_>>(), "{garbage} {until:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn gap_17_damage_behind_the_end_is_not_looked_at() {
    for garbage in [30, 5, 10_000] {
        let brokers = brokers(Release::V4_4);
        for start in (0..100).step_by(10) {
            brokers.with(|core| core.store("t", 0, &entry(Magic::V2, start..start + 10).into())).unwrap();
        }
        with_garbage(&brokers, garbage);
        let cluster = cluster(&brokers).await;
        let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).until(EndOffset::At(30));
        let mut stream = stream.await.unwrap();
        assert_eq!(read(&mut stream, 30).await, to(30), "{garbage}");
        let end = timeout(Duration::from_secs(60), stream.next()).await.unwrap();
        assert!(end.unwrap().is_none(), "{garbage}");
    }
}
