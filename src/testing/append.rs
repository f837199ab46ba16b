//! Offsets for what is produced, as the leader assigns them.

use bytes::{Bytes, BytesMut};

use super::convert::rewrite;
use super::entry::{Entry, entries};
use crate::protocol::ErrorCode;
use crate::records::{Codec, Magic};

/// Cuts a produced set into entries, checks their checksums and gives them offsets from `next` on.
pub(crate) fn assign(set: &Bytes, next: i64, leader_epoch: i32) -> Result<Vec<Entry>, ErrorCode> {
    let mut next = next;
    let mut assigned = Vec::new();
    for entry in entries(set)? {
        if !entry.is_intact() {
            return Err(ErrorCode::CORRUPT_MESSAGE);
        }
        let placed = place(entry, next, leader_epoch).ok_or(ErrorCode::CORRUPT_MESSAGE)?;
        next = placed.last + 1;
        assigned.push(placed);
    }
    Ok(assigned)
}

/// Neither checksum covers the offset, nor the leader epoch of a batch, so that only those bytes
/// change. Except in a wrapper of magic 0: its messages hold absolute offsets, and 0.8 and 0.9 wrote
/// it anew.
fn place(entry: Entry, first: i64, leader_epoch: i32) -> Option<Entry> {
    let is_wrapper = entry.magic < Magic::V2 && entry.codec != Some(Codec::None);
    let count = match (&entry.header, is_wrapper) {
        (Some(header), _) => i64::from(header.last_offset_delta) + 1,
        (None, false) => 1,
        (None, true) => i64::try_from(entry.open()?.records_count()).ok()?,
    };
    let last = first.checked_add(count)?.checked_sub(1)?;
    let bytes = if is_wrapper && entry.magic == Magic::V0 {
        rewrite(&entry, Magic::V0, Some(first))?
    } else {
        let mut bytes = BytesMut::from(&entry.bytes[..]);
        let offset = if entry.magic == Magic::V2 { first } else { last };
        bytes.get_mut(..8)?.copy_from_slice(&offset.to_be_bytes());
        if entry.magic == Magic::V2 {
            bytes.get_mut(12..16)?.copy_from_slice(&leader_epoch.to_be_bytes());
        }
        bytes.freeze()
    };
    let placed = entries(&bytes).ok()?.pop()?;
    (placed.last == last).then_some(placed)
}
