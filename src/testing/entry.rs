//! One entry of a log: a batch (magic 2) or a message (magic 0, 1), as bytes, with what the broker
//! needs to know of it.

use bytes::Bytes;

use crate::protocol::ErrorCode;
use crate::wire::{read_varint, read_varlong};

/// Offset and size stand in front of every entry, whatever its format.
pub(crate) const PREFIX: usize = 12;
/// Up to here, inclusive, all formats are alike: the magic byte is the last one.
const MAGIC_AT: usize = 16;
const BATCH_HEADER: usize = 61;

/// A batch or a message, whole.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its offset field: the first offset of a batch, the last one of a compressed message.
    pub(crate) offset: i64,
    /// The last offset it covers.
    pub(crate) last: i64,
    pub(crate) magic: i8,
    /// The bits for codec, timestamp type, transactional and control.
    pub(crate) attributes: i16,
    /// The largest timestamp in it in ms, −1 for none.
    pub(crate) max_timestamp: i64,
    /// −1 for none.
    pub(crate) producer_id: i64,
    pub(crate) bytes: Bytes,
}

impl Entry {
    pub(crate) fn codec(&self) -> i16 {
        self.attributes & 7
    }

    pub(crate) fn is_control(&self) -> bool {
        self.magic == 2 && self.attributes & 0x20 != 0
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.magic == 2 && self.attributes & 0x10 != 0
    }

    /// The checksum as it should be, and as it stands there.
    fn checksums(&self) -> (u32, u32) {
        let at = if self.magic == 2 { 17 } else { PREFIX };
        let stored = u32::from_be_bytes([0, 1, 2, 3].map(|i| self.bytes[at + i]));
        let covered = &self.bytes[at + 4..];
        (if self.magic == 2 { crc32c::crc32c(covered) } else { crc32fast::hash(covered) }, stored)
    }

    pub(crate) fn is_intact(&self) -> bool {
        let (right, stored) = self.checksums();
        right == stored
    }

    /// Whether a control batch ends its transaction by an abort; `None` for other types of marker.
    pub(crate) fn marker_is_abort(&self) -> Option<bool> {
        let (_, at) = read_varint(&self.bytes, BATCH_HEADER)?;
        let (_, at) = read_varlong(&self.bytes, at + 1)?;
        let (_, at) = read_varint(&self.bytes, at)?;
        let (_, at) = read_varint(&self.bytes, at)?;
        match i16::from_be_bytes([*self.bytes.get(at + 2)?, *self.bytes.get(at + 3)?]) {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }
}

/// Cuts a record set into its entries; `CORRUPT_MESSAGE` unless every one is whole.
pub(crate) fn entries(set: &Bytes) -> Result<Vec<Entry>, ErrorCode> {
    let mut found = Vec::new();
    let mut rest = set.clone();
    while !rest.is_empty() {
        let size = rest.get(8..PREFIX).and_then(|size| size.try_into().ok()).map(i32::from_be_bytes);
        let whole = size.and_then(|size| usize::try_from(size).ok()).map(|size| size + PREFIX);
        match whole {
            Some(whole) if whole > MAGIC_AT && whole <= rest.len() => {
                found.push(entry(rest.split_to(whole)).ok_or(CORRUPT)?);
            }
            _ => return Err(CORRUPT),
        }
    }
    Ok(found)
}

const CORRUPT: ErrorCode = ErrorCode(2);

fn entry(bytes: Bytes) -> Option<Entry> {
    let field = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes);
    let offset = field(0)?;
    let magic = *bytes.get(MAGIC_AT)? as i8;
    let (last, attributes, max_timestamp, producer_id) = match magic {
        0 => (offset, i16::from(*bytes.get(17)?), -1, -1),
        1 => (offset, i16::from(*bytes.get(17)?), field(18)?, -1),
        2 if bytes.len() >= BATCH_HEADER => {
            let attributes = i16::from_be_bytes([bytes[21], bytes[22]]);
            let delta = i32::from_be_bytes([23, 24, 25, 26].map(|at: usize| bytes[at]));
            (offset.checked_add(delta.into())?, attributes, field(35)?, field(43)?)
        }
        _ => return None,
    };
    Some(Entry { offset, last, magic, attributes, max_timestamp, producer_id, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// F29 of the vectors: magic 0, 1 and 2 in one set.
    const MIXED: &str = "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b00000017fcaed3e9010000000000000003e9ffffffff0000000162000000000000000c000000390000000002928a2a0500000000000000000000000003e800000000000003e9ffffffffffffffffffffffffffff000000010e00000001026300";

    #[test]
    fn the_magic_byte_of_each_entry_decides_its_format() {
        let found = entries(&hex(MIXED)).unwrap();
        let seen: Vec<_> = found.iter().map(|entry| (entry.magic, entry.offset)).collect();
        assert_eq!(seen, [(0, 10), (1, 11), (2, 12)]);
        assert!(found.iter().all(Entry::is_intact));
    }

    #[test]
    fn a_set_with_a_cut_entry_is_corrupt() {
        let whole = hex(MIXED);
        for size in [1, 11, 12, 16, 26, 28, 130] {
            assert_eq!(entries(&whole.slice(..size)).err(), Some(ErrorCode(2)), "{size}");
        }
    }
}
