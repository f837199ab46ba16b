//! What reading records allocates, by a counting allocator.

#![allow(clippy::unwrap_used)]

use allocation_counter::AllocationInfo;
use downspout::records::{Codec, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

const COUNT: usize = 1_000;

fn set(magic: Magic, codec: Codec) -> RecordSet {
    let mut writer = RecordSetWriter::new(magic).codec(codec);
    let value: Vec<u8> = (0..100).collect();
    let headers = [(&b"trace"[..], Some(&b"0123456789"[..])), (b"tenant", Some(b"blue"))];
    for timestamp in 0..COUNT as i64 {
        let headers = if magic == Magic::V2 { &headers[..] } else { &[] };
        writer.push(NewRecord { timestamp: Some(timestamp), headers, ..NewRecord::value(&value) }).unwrap();
    }
    RecordSet::new(writer.finish().unwrap())
}

/// What `work` allocates, and what it gave.
fn measure<T>(work: impl FnOnce() -> T) -> (AllocationInfo, T) {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(work()));
    (info, result.unwrap())
}

#[test]
fn p5_no_allocation_per_record() {
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            if codec == Codec::Zstd && magic != Magic::V2 {
                continue;
            }
            let set = set(magic, codec);
            let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
            let (stats, bytes) = measure(|| {
                let mut bytes = 0;
                for record in batch.records() {
                    let record = record.unwrap();
                    bytes += record.value().unwrap().len();
                    bytes += record.headers().map(|header| header.key.len()).sum::<usize>();
                }
                bytes
            });
            assert!(bytes >= 100 * COUNT);
            assert_eq!(stats.count_total, 0, "{magic:?} {codec}");
        }
        // A plain set is read in place: a few allocations for the whole set, none for its size.
        let set = set(magic, Codec::None);
        let (stats, count) = measure(|| {
            set.batches(ReadOptions::default()).map(|batch| batch.unwrap().records().count()).sum::<usize>()
        });
        assert_eq!(count, COUNT);
        assert!(stats.bytes_total < 1_000, "{magic:?}: {stats:?}");
    }

    // An owned record: one buffer for all its bytes.
    let batch = set(Magic::V2, Codec::None).batches(ReadOptions::default()).next().unwrap().unwrap();
    let (stats, owned) = measure(|| batch.records().next().unwrap().unwrap().to_owned());
    assert_eq!(owned.headers().len(), 2);
    assert_eq!(stats.count_total, 1, "{stats:?}");
}

/// Flipped bytes in compressed and plain sets: at most `MULTIPLE` × the input, or the limit.
#[test]
fn damaged_sets_stay_within_their_input() {
    const LIMIT: usize = 1 << 20;
    const MULTIPLE: usize = 4;
    for (magic, codec) in [
        (Magic::V0, Codec::None),
        (Magic::V1, Codec::Gzip),
        (Magic::V2, Codec::None),
        (Magic::V2, Codec::Gzip),
        (Magic::V2, Codec::Snappy),
        (Magic::V2, Codec::Lz4),
        (Magic::V2, Codec::Zstd),
    ] {
        let whole = set(magic, codec).bytes().to_vec();
        for at in (0..whole.len()).step_by(1 + whole.len() / 300) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let set = RecordSet::new(bytes.into());
            let options = ReadOptions {
                crc: downspout::records::CrcCheck::Skip,
                max_inflated: LIMIT,
                ..ReadOptions::default()
            };
            let (stats, ()) = measure(|| {
                for batch in set.batches(options).flatten() {
                    batch.records().for_each(drop);
                }
            });
            // Plain sets allocate nothing that grows; inflating may touch the limit a few times
            // over while its buffer grows.
            let bound =
                if codec == Codec::None { 16 << 10 } else { MULTIPLE * LIMIT + MULTIPLE * whole.len() };
            assert!(stats.bytes_max <= bound as u64, "{magic:?} {codec} at {at}: {stats:?}");
        }
    }
}
