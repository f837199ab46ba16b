//! One entry of a log, as bytes, with what the broker needs to know of it.

use bytes::Bytes;

use crate::protocol::ErrorCode;
use crate::records::{Batch, BatchHeader, Control, ControlKind, CrcCheck, Isolation, Magic, ReadOptions};
use crate::records::{Codec, RecordSet};

/// A batch or a message, whole.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its offset field: the first offset of a batch, the last one of a compressed message.
    pub(crate) offset: i64,
    /// The last offset it covers.
    pub(crate) last: i64,
    pub(crate) magic: Magic,
    /// `None` for a number that means no codec.
    pub(crate) codec: Option<Codec>,
    /// Of a batch.
    pub(crate) header: Option<BatchHeader>,
    pub(crate) bytes: Bytes,
}

impl Entry {
    pub(crate) fn is_intact(&self) -> bool {
        let mut entries = RecordSet::new(self.bytes.clone()).entries();
        entries.next().is_some_and(|entry| entry.is_ok_and(|entry| entry.check_crc().is_ok()))
    }

    /// Its records, inflated; `None` if they cannot be read.
    pub(crate) fn open(&self) -> Option<Batch> {
        let options = ReadOptions {
            crc: CrcCheck::Skip,
            isolation: Isolation::ReadUncommitted,
            control_batches: true,
            ..ReadOptions::default()
        };
        RecordSet::new(self.bytes.clone()).batches(options).next()?.ok()
    }

    /// What a control batch says.
    pub(crate) fn marker(&self) -> Option<ControlKind> {
        let batch = self.open()?;
        let record = batch.records().next()?.ok()?;
        Control::of(&record).map(|control| control.kind)
    }

    /// The largest timestamp in it in ms, if it has any.
    pub(crate) fn max_timestamp(&self) -> Option<i64> {
        match &self.header {
            Some(header) => Some(header.max_timestamp),
            None => {
                let batch = self.open()?;
                let stamps = batch.records().filter_map(|record| record.ok()?.timestamp());
                batch.max_timestamp().or(stamps.max())
            }
        }
    }

    /// Offset and timestamp of the first record that is not older than `timestamp` ms.
    pub(crate) fn first_since(&self, timestamp: i64) -> Option<(i64, i64)> {
        let batch = self.open()?;
        let mut stamped = batch.records().filter_map(|record| {
            let record = record.ok()?;
            Some((record.offset(), record.timestamp()?))
        });
        stamped.find(|(_, stamp)| *stamp >= timestamp)
    }

    /// Offset and timestamp of the record with the largest timestamp, the first of them.
    pub(crate) fn newest(&self) -> Option<(i64, i64)> {
        self.first_since(self.max_timestamp()?)
    }
}

/// Cuts a record set into its entries; `CORRUPT_MESSAGE` unless every one is whole.
pub(crate) fn entries(set: &Bytes) -> Result<Vec<Entry>, ErrorCode> {
    let (found, rest) = whole_entries(set);
    if rest == 0 { Ok(found) } else { Err(ErrorCode::CORRUPT_MESSAGE) }
}

/// The whole entries at the beginning of a set, and how many bytes follow them.
pub(crate) fn whole_entries(set: &Bytes) -> (Vec<Entry>, usize) {
    let entries = RecordSet::new(set.clone()).entries();
    let found: Vec<Entry> = entries
        .map_while(Result::ok)
        .map(|entry| Entry {
            offset: entry.offset(),
            last: entry.next_offset().saturating_sub(1),
            magic: entry.magic(),
            codec: entry.codec(),
            header: entry.batch_header(),
            bytes: entry.bytes().clone(),
        })
        .collect();
    let taken: usize = found.iter().map(|entry| entry.bytes.len()).sum();
    (found, set.len() - taken)
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
        assert_eq!(seen, [(Magic::V0, 10), (Magic::V1, 11), (Magic::V2, 12)]);
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
