//! What the tables share: hex, a readable form of records, and helpers to build odd bytes.

use bytes::Bytes;
use downspout::records::{Corruption, Isolation, Magic, ReadOptions, RecordSet, TimestampType};

pub(crate) fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "odd number of hex digits");
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(crate) fn set(text: &str) -> RecordSet {
    RecordSet::new(hex(text))
}

/// A record that can be compared and printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) offset: i64,
    pub(crate) timestamp: Option<i64>,
    pub(crate) timestamp_type: Option<TimestampType>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub(crate) fn seen(record: &downspout::records::Record<'_>) -> Seen {
    Seen {
        offset: record.offset(),
        timestamp: record.timestamp(),
        timestamp_type: record.timestamp_type(),
        key: record.key().map(<[u8]>::to_vec),
        value: record.value().map(<[u8]>::to_vec),
        headers: record
            .headers()
            .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
            .collect(),
    }
}

/// Reads a set to its end, over every error that it can be read over.
pub(crate) fn read_all(set: &RecordSet, options: ReadOptions) -> (Vec<Seen>, Vec<Corruption>, Option<i64>) {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let mut batches = set.batches(options);
    for batch in batches.by_ref() {
        match batch {
            Ok(batch) => {
                for record in batch.records() {
                    match record {
                        Ok(record) => records.push(seen(&record)),
                        Err(error) => errors.push(error),
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    (records, errors, batches.next_offset())
}

/// Reads a set that must be sound.
pub(crate) fn read(set: &RecordSet) -> Vec<Seen> {
    let (records, errors, next) = read_all(set, ReadOptions::default());
    assert_eq!(errors, [], "errors in a sound set");
    assert_eq!(next, set.next_offset(), "headers and batches must agree where to go on");
    records
}

/// Offsets and values (as text) of a set that must be sound.
pub(crate) fn values(set: &RecordSet) -> Vec<(i64, String)> {
    read(set)
        .into_iter()
        .map(|record| (record.offset, String::from_utf8(record.value.unwrap_or_default()).unwrap()))
        .collect()
}

pub(crate) fn pairs(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|(offset, value)| (*offset, (*value).to_owned())).collect()
}

/// The one error that a set gives.
pub(crate) fn only_error(set: &RecordSet) -> Corruption {
    let (_, errors, _) = read_all(set, ReadOptions::default());
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap()
}

pub(crate) fn uncommitted() -> ReadOptions {
    ReadOptions { isolation: Isolation::ReadUncommitted, ..ReadOptions::default() }
}

/// A message of magic 0 or 1 with a right checksum.
pub(crate) fn message(
    magic: Magic,
    offset: i64,
    attributes: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let mut covered = vec![magic.number(), attributes];
    if magic == Magic::V1 {
        covered.extend(timestamp.to_be_bytes());
    }
    for part in [key, value] {
        covered.extend(part.map_or(-1, |part| part.len() as i32).to_be_bytes());
        covered.extend(part.unwrap_or_default());
    }
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.extend((covered.len() as i32 + 4).to_be_bytes());
    bytes.extend(crc32fast::hash(&covered).to_be_bytes());
    bytes.extend(covered);
    bytes
}

/// Fields of a magic-2 batch that tests want odd.
#[derive(Debug, Clone)]
pub(crate) struct OddBatch {
    pub(crate) base_offset: i64,
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) count: i32,
    pub(crate) records: Vec<u8>,
}

impl Default for OddBatch {
    fn default() -> Self {
        OddBatch {
            base_offset: 10,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: 1000,
            max_timestamp: 1000,
            producer_id: -1,
            count: 1,
            records: Vec::new(),
        }
    }
}

impl OddBatch {
    /// Its bytes, with a right checksum.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut covered = self.attributes.to_be_bytes().to_vec();
        covered.extend(self.last_offset_delta.to_be_bytes());
        covered.extend(self.base_timestamp.to_be_bytes());
        covered.extend(self.max_timestamp.to_be_bytes());
        covered.extend(self.producer_id.to_be_bytes());
        covered.extend(0i16.to_be_bytes());
        covered.extend((-1i32).to_be_bytes());
        covered.extend(self.count.to_be_bytes());
        covered.extend(&self.records);
        let mut bytes = self.base_offset.to_be_bytes().to_vec();
        bytes.extend((covered.len() as i32 + 9).to_be_bytes());
        bytes.extend(0i32.to_be_bytes());
        bytes.push(2);
        bytes.extend(crc32c::crc32c(&covered).to_be_bytes());
        bytes.extend(covered);
        bytes
    }

    pub(crate) fn set(&self) -> RecordSet {
        RecordSet::new(self.bytes().into())
    }
}

/// A record of magic 2 from its parts after the length.
pub(crate) fn record_bytes(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = varint(body.len() as i64);
    bytes.extend(body);
    bytes
}

/// A zigzag varint.
pub(crate) fn varint(value: i64) -> Vec<u8> {
    let mut writer = downspout::wire::Writer::new();
    writer.varlong(value);
    writer.into_vec()
}
