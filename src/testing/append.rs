//! Offsets for what is produced, as the leader assigns them.

use bytes::{Bytes, BytesMut};

use super::entry::{Entry, entries};
use super::state::errors;
use crate::protocol::ErrorCode;

/// Cuts a produced set into entries, checks their checksums and gives them offsets from `next` on.
///
/// The checksum covers neither the offset nor the leader epoch of a batch, so that only those bytes
/// change.
pub(crate) fn assign(set: &Bytes, next: i64, leader_epoch: i32) -> Result<Vec<Entry>, ErrorCode> {
    let mut next = next;
    let mut assigned = entries(set)?;
    for entry in &mut assigned {
        if !entry.is_intact() {
            return Err(errors::CORRUPT_MESSAGE);
        }
        let last = next + span(entry) - 1;
        let offset = if entry.magic == 2 { next } else { last };
        let mut bytes = BytesMut::from(&entry.bytes[..]);
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        if entry.magic == 2 {
            bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
        }
        *entry = Entry { offset, last, bytes: bytes.freeze(), ..entry.clone() };
        next = last + 1;
    }
    Ok(assigned)
}

/// How many offsets an entry takes.
fn span(entry: &Entry) -> i64 {
    match entry.magic {
        2 => entry.last - entry.offset + 1,
        _ => 1,
    }
}
