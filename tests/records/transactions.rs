//! read_committed.

use downspout::protocol::AbortedTransaction;
use downspout::records::{Codec, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

use crate::support::{OddBatch, read_all, record_bytes, uncommitted, varint};

struct Log(Vec<u8>, i64);

impl Log {
    fn new() -> Self {
        Log(Vec::new(), 10)
    }

    fn data(mut self, producer: i64, codec: Codec) -> Self {
        let mut writer = RecordSetWriter::new(Magic::V2).base_offset(self.1).codec(codec);
        if producer >= 0 {
            writer = writer.producer(producer, 0, 0).transactional();
        }
        for _ in 0..2 {
            writer.push(NewRecord::value(format!("p{producer}").as_bytes())).unwrap();
        }
        self.0.extend(writer.finish().unwrap());
        self.1 += 2;
        self
    }

    fn marker(mut self, producer: i64, kind: i16) -> Self {
        self.0.extend(marker(self.1, producer, 0, kind, 0));
        self.1 += 1;
        self
    }

    fn set(self) -> RecordSet {
        RecordSet::new(self.0.into())
    }
}

fn marker(offset: i64, producer: i64, version: i16, kind: i16, more: usize) -> Vec<u8> {
    let mut key = [version.to_be_bytes(), kind.to_be_bytes()].concat();
    key.extend(vec![0; more]);
    let record = record_bytes(&[
        &[0],
        &varint(0),
        &varint(0),
        &varint(key.len() as i64),
        &key,
        &varint(6),
        &[0; 6],
        &varint(0),
    ]);
    OddBatch {
        base_offset: offset,
        attributes: 0x30,
        producer_id: producer,
        records: record,
        ..OddBatch::default()
    }
    .bytes()
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

fn aborted(list: &[(i64, i64)]) -> ReadOptions {
    let aborted =
        list.iter().map(|&(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset });
    ReadOptions { aborted: aborted.collect(), ..ReadOptions::default() }
}

fn offsets(set: &RecordSet, options: ReadOptions) -> Vec<i64> {
    let (records, errors, next) = read_all(set, options);
    assert_eq!(errors, []);
    assert_eq!(next, set.next_offset());
    records.iter().map(|record| record.offset).collect()
}

#[test]
fn case_23_d20_aborted_batches_are_hidden_compressed_or_not() {
    for codec in Codec::ALL {
        let set = Log::new().data(7, codec).marker(7, ABORT).data(7, codec).marker(7, COMMIT).set();
        assert_eq!(offsets(&set, aborted(&[(7, 10)])), [13, 14], "{codec}");
    }
}

#[test]
fn case_24_read_uncommitted_ignores_the_list() {
    let set = Log::new().data(7, Codec::None).marker(7, ABORT).set();
    let options = ReadOptions { aborted: aborted(&[(7, 10)]).aborted, ..uncommitted() };
    assert_eq!(offsets(&set, options), [10, 11]);
}

#[test]
fn case_25_d19_an_abort_marker_ends_only_its_own_transaction() {
    let set = Log::new()
        .data(7, Codec::None) // 10, aborted
        .data(8, Codec::None) // 12, committed
        .marker(7, ABORT) // 14
        .data(7, Codec::None) // 15, committed
        .marker(8, COMMIT)
        .marker(7, COMMIT)
        .data(7, Codec::None) // 19, aborted
        .marker(7, ABORT)
        .data(-1, Codec::None) // 22, no transaction
        .set();
    assert_eq!(
        offsets(&set, aborted(&[(7, 19), (7, 10)])),
        [12, 13, 15, 16, 22, 23],
        "D19: list in any order"
    );
}

#[test]
fn d18_a_marker_without_an_entry_in_the_list_is_ignored() {
    let set = Log::new().marker(9, ABORT).data(9, Codec::None).marker(9, COMMIT).set();
    assert_eq!(offsets(&set, aborted(&[])), [11, 12]);
}

#[test]
fn case_26_control_records_of_unknown_type_or_newer_version_are_skipped() {
    let mut bytes = marker(10, 7, 0, 77, 0);
    bytes.extend(marker(11, 7, 5, COMMIT, 8));
    bytes.extend(marker(12, 7, 0, -3, 0));
    let set = RecordSet::new(bytes.into());
    assert_eq!(offsets(&set, aborted(&[])), [0; 0]);
    assert_eq!(set.next_offset(), Some(13));
}

#[test]
fn a_transaction_that_began_before_the_fetched_range_is_hidden_too() {
    let set = Log::new().data(7, Codec::None).marker(7, ABORT).set();
    assert_eq!(offsets(&set, aborted(&[(7, 3)])), [0; 0]);
}
