//! Compaction, in every format.

use super::direct::Direct;
use super::*;
use downspout::records::{
    Codec, CrcCheck, Isolation, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter,
};

fn keyed(key: &'static str) -> NewRecord<'static> {
    NewRecord { key: Some(key.as_bytes()), timestamp: Some(5), ..NewRecord::value(b"value") }
}

/// Two sets of three records, then the one that the cleaner leaves alone.
fn compacted(magic: Magic, codec: Codec) -> (Direct, Bytes) {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    for keys in [["a", "b", "c"], ["b", "d", "b"], ["x", "x", "x"]] {
        let mut set = RecordSetWriter::new(magic).codec(codec);
        keys.iter().for_each(|key| set.push(keyed(key)).unwrap());
        cluster.core.append("t", 0, &set.finish().unwrap()).unwrap();
    }
    cluster.core.compact("t", 0).unwrap();
    let at = cluster.connect(1);
    let answer = cluster.ask(at, 10, fetch(&[(0, 0)], 10_000));
    let set = Bytes::copy_from_slice(records(&answer, 0));
    (cluster, set)
}

fn offsets(set: &Bytes) -> Vec<i64> {
    let options = ReadOptions {
        crc: CrcCheck::Verify,
        isolation: Isolation::ReadUncommitted,
        ..ReadOptions::default()
    };
    let batches = RecordSet::new(set.clone()).batches(options).map(Result::unwrap).collect::<Vec<_>>();
    batches.iter().flat_map(|batch| batch.records().map(|record| record.unwrap().offset())).collect()
}

#[test]
fn of_each_key_only_the_last_record_stays_at_its_offset() {
    for (magic, codec) in [
        (Magic::V0, Codec::None),
        (Magic::V0, Codec::Gzip),
        (Magic::V1, Codec::None),
        (Magic::V1, Codec::Snappy),
        (Magic::V2, Codec::None),
        (Magic::V2, Codec::Zstd),
    ] {
        let (cluster, set) = compacted(magic, codec);
        let kept = offsets(&set);
        // Plain messages of the old formats are entries of their own: of those only the last is left alone.
        let tail: &[i64] = if magic < Magic::V2 && codec == Codec::None { &[8] } else { &[6, 7, 8] };
        assert_eq!(kept, [&[0, 2, 4, 5], tail].concat(), "{magic:?} {codec:?}");
        let log = cluster.core.offsets("t", 0).unwrap();
        assert_eq!((log.start, log.end), (0, 9));
    }
}

#[test]
fn kafka_5443_a_batch_keeps_its_ends_whatever_it_loses() {
    let (_, set) = compacted(Magic::V2, Codec::Lz4);
    let entries: Vec<_> = RecordSet::new(set).entries().map(Result::unwrap).collect();
    let ends = |at: usize| (entries[at].offset(), entries[at].next_offset());
    assert_eq!([ends(0), ends(1), ends(2)], [(0, 3), (3, 6), (6, 9)]);
}

#[test]
fn kafka_5490_a_batch_of_a_producer_stays_when_it_is_empty_and_another_goes() {
    for (producer, expected) in [(-1, vec![(1, 2)]), (7, vec![(0, 1), (1, 2)])] {
        let mut cluster = Direct::new(Release::V2_4, |_| {});
        for sequence in 0..2 {
            let mut set = RecordSetWriter::new(Magic::V2).codec(Codec::Gzip).producer(producer, 0, sequence);
            set.push(keyed("a")).unwrap();
            cluster.core.append("t", 0, &set.finish().unwrap()).unwrap();
        }
        cluster.core.compact("t", 0).unwrap();
        let at = cluster.connect(1);
        let answer = cluster.ask(at, 10, fetch(&[(0, 0)], 10_000));
        let set = Bytes::copy_from_slice(records(&answer, 0));
        let entries: Vec<_> = RecordSet::new(set.clone()).entries().map(Result::unwrap).collect();
        let ends: Vec<_> = entries.iter().map(|entry| (entry.offset(), entry.next_offset())).collect();
        assert_eq!(ends, expected);
        assert!(entries.iter().all(|entry| entry.check_crc().is_ok()));
        assert_eq!(offsets(&set), [1]);
    }
}
