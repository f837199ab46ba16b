//! Log compaction: of each key only the last record stays, at its offset.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::entry::{Entry, entries};
use super::log::Log;
use crate::records::{Magic, NewHeader, NewRecord, RecordSetWriter};

/// What stands before the records of a batch.
const BATCH_HEADER: usize = 61;

/// Compacts all entries but the last one, which stands for the segment that is still written to.
///
/// Records without a key go, markers stay. A batch keeps its first and last offset whatever it loses
/// (KAFKA-5443); one that loses everything stays as an empty batch if a producer numbered it
/// (KAFKA-5490), so that the producer's state outlives it.
pub(crate) fn compact(log: &mut Log) {
    let newest = newest_by_key(log.entries());
    let last = log.entries().len().saturating_sub(1);
    let cleaned = log.entries().iter().enumerate().filter_map(|(index, entry)| {
        if index == last { Some(entry.clone()) } else { cleaned(entry, &newest) }
    });
    let cleaned = cleaned.collect();
    log.replace_entries(cleaned);
}

fn newest_by_key(entries: &[Entry]) -> BTreeMap<Bytes, i64> {
    let mut newest = BTreeMap::new();
    for batch in entries.iter().filter(|entry| !is_control(entry)).filter_map(Entry::open) {
        for record in batch.records().map_while(Result::ok) {
            if let Some(key) = record.key() {
                newest.insert(Bytes::copy_from_slice(key), record.offset());
            }
        }
    }
    newest
}

fn is_control(entry: &Entry) -> bool {
    entry.header.is_some_and(|header| header.is_control())
}

/// The entry with what stays of it; as it is if it cannot be read.
fn cleaned(entry: &Entry, newest: &BTreeMap<Bytes, i64>) -> Option<Entry> {
    if is_control(entry) {
        return Some(entry.clone());
    }
    let Some(batch) = entry.open() else { return Some(entry.clone()) };
    let mut writer = RecordSetWriter::new(entry.magic).codec(batch.codec());
    if let Some(header) = &entry.header {
        writer = writer.base_offset(header.base_offset);
    }
    let mut lost = 0;
    for record in batch.records() {
        let Ok(record) = record else { return Some(entry.clone()) };
        let is_newest = record.key().and_then(|key| newest.get(key)) == Some(&record.offset());
        if !is_newest {
            lost += 1;
            continue;
        }
        let headers: Vec<NewHeader<'_>> =
            record.headers().into_iter().map(|header| (header.key, header.value)).collect();
        let (offset, timestamp) = (Some(record.offset()), record.timestamp());
        let kept =
            NewRecord { offset, timestamp, key: record.key(), value: record.value(), headers: &headers };
        if writer.push(kept).is_err() {
            return Some(entry.clone());
        }
    }
    if lost == 0 {
        return Some(entry.clone());
    }
    let is_empty = writer.count() == 0;
    let is_numbered = entry.header.is_some_and(|header| header.producer_id >= 0);
    if is_empty && !is_numbered {
        return None;
    }
    let bytes = writer.finish().ok()?;
    let bytes = if entry.magic == Magic::V2 { with_header_of(entry, &bytes, is_empty)? } else { bytes };
    entries(&bytes).ok()?.pop()
}

/// The new batch under the old one's header: epoch, producer, times and last offset stay.
fn with_header_of(entry: &Entry, rewritten: &Bytes, is_empty: bool) -> Option<Bytes> {
    let old = entry.bytes.get(..BATCH_HEADER)?;
    let mut bytes = BytesMut::from(&rewritten[..]);
    // Leader epoch; attributes and last offset delta; max timestamp, producer and sequence.
    for part in [12..16, 21..27, 35..57] {
        bytes.get_mut(part.clone())?.copy_from_slice(old.get(part)?);
    }
    if is_empty {
        // The cleaner writes no codec and no base timestamp then.
        *bytes.get_mut(22)? &= !0x07;
        bytes.get_mut(27..35)?.copy_from_slice(&(-1i64).to_be_bytes());
    }
    let crc = crc32c::crc32c(bytes.get(21..)?);
    bytes.get_mut(17..21)?.copy_from_slice(&crc.to_be_bytes());
    Some(bytes.freeze())
}
