//! Records by their place in a batch, for whoever hands them out one by one and in any order.

use bytes::Bytes;

use super::batch::{Batch, Layout};
use super::{Corruption, Record};

/// Where the records of a batch lie, and what could not be read between them.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Byte positions, in order.
    pub(crate) positions: Vec<u32>,
    /// First and last offset of what lies there.
    pub(crate) offsets: Option<(i64, i64)>,
    /// Whether offsets grow by one.
    pub(crate) contiguous: bool,
    pub(crate) damage: Vec<Corruption>,
}

impl Batch {
    /// Walks all records that would be lent.
    pub(crate) fn index(&self) -> Index {
        let mut index = Index { contiguous: true, ..Index::default() };
        index.positions.reserve_exact(self.records_count().min(self.size()));
        let mut records = self.records();
        while let Some(record) = records.next() {
            match record {
                Ok(record) => {
                    let offset = record.offset();
                    let Ok(position) = u32::try_from(records.last_position()) else { break };
                    index.positions.push(position);
                    index.contiguous &=
                        index.offsets.is_none_or(|(_, last)| last.checked_add(1) == Some(offset));
                    index.offsets = Some((index.offsets.map_or(offset, |(first, _)| first), offset));
                }
                Err(why) => index.damage.push(why),
            }
        }
        index
    }

    /// The record that the index found at that position.
    #[inline]
    pub(crate) fn record_at(&self, position: u32) -> Option<Record<'_>> {
        self.records_from(position as usize).next()?.ok()
    }

    /// A batch with the record at that position and nothing else, in a buffer of its own.
    pub(crate) fn only(&self, position: u32) -> Batch {
        let from = position as usize;
        let mut records = self.records_from(from);
        let _ = records.next();
        let bytes = self.data.get(from..records.next_position()).unwrap_or_default();
        let mut only = self.clone();
        only.data = Bytes::copy_from_slice(bytes);
        only.info.count = 1;
        only.damage = None;
        only
    }

    fn records_from(&self, position: usize) -> super::Records<'_> {
        let mut records = self.records();
        let left = match self.layout {
            Layout::Records => 1,
            Layout::Messages(_) => usize::MAX,
        };
        records.start_at(position, left);
        records
    }
}
