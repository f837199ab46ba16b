//! Down-conversion to what an old client can read (0.10 to 3.9), and up again in the other way round:
//! wrappers whose inner offsets have to be written anew.

use bytes::{Bytes, BytesMut};

use super::entry::{Entry, whole_entries};
use crate::protocol::ErrorCode;
use crate::records::{Codec, Magic, NewRecord, RecordSetWriter};

/// Rewrites the entries that are newer than `newest`. Headers, control batches and transactions are
/// lost on the way (KAFKA-6739).
///
/// What was cut off at the end goes, unless there is nothing before it: then the client gets a piece
/// of an entry that it may not even know the format of, as from real brokers.
pub(crate) fn down(records: &Bytes, newest: Magic) -> Result<Bytes, ErrorCode> {
    let (entries, _) = whole_entries(records);
    if entries.iter().all(|entry| entry.magic <= newest) {
        return Ok(records.clone());
    }
    let mut converted = BytesMut::with_capacity(records.len());
    for entry in &entries {
        if entry.magic <= newest {
            converted.extend_from_slice(&entry.bytes);
        } else if entry.codec == Some(Codec::Zstd) {
            return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        } else if entry.header.is_none_or(|header| !header.is_control()) {
            let rewritten = rewrite(entry, newest, None).ok_or(ErrorCode::CORRUPT_MESSAGE)?;
            converted.extend_from_slice(&rewritten);
        }
    }
    if converted.is_empty() {
        // Everything was dropped: a filler that reads as the beginning of an entry (KAFKA-6927).
        converted.extend_from_slice(&(-1i64).to_be_bytes());
        converted.extend_from_slice(&61i32.to_be_bytes());
    }
    Ok(converted.freeze())
}

/// Writes an entry's records in another format, or at other offsets: `from` and on.
pub(crate) fn rewrite(entry: &Entry, magic: Magic, from: Option<i64>) -> Option<Bytes> {
    let batch = entry.open()?;
    let mut writer = RecordSetWriter::new(magic).codec(batch.codec());
    if let Some(from) = from {
        writer = writer.base_offset(from);
    }
    for record in batch.records() {
        let record = record.ok()?;
        let (key, value) = (record.key(), record.value());
        let offset = from.is_none().then_some(record.offset());
        let timestamp = record.timestamp();
        writer.push(NewRecord { offset, timestamp, key, value, headers: &[] }).ok()?;
    }
    writer.finish().ok()
}
