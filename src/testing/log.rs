//! The log of one partition: entries as bytes, in memory.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::entry::Entry;
use super::producers::Producers;
use crate::records::ControlKind;

/// A partition's log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// By ascending offset.
    entries: Vec<Entry>,
    start: i64,
    end: i64,
    /// Set to hold consumers back below the end.
    high_watermark: Option<i64>,
    /// Leader epochs and the offsets at which they began.
    epochs: Vec<(i32, i64)>,
    segments: Vec<Segment>,
    /// Transactions that are open: producer id and first offset.
    open: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
    producers: Producers,
}

/// A file of the log: only its first offset, its time and its size matter to clients.
#[derive(Debug, Clone, Copy)]
struct Segment {
    base: i64,
    modified_ms: i64,
    bytes: usize,
}

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first: i64,
    /// The offset of its marker.
    last: i64,
}

/// What may be read at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimit {
    pub(crate) bytes: usize,
    /// Entries that end at this offset or later are not shown.
    pub(crate) end: i64,
    pub(crate) first: FirstEntry,
}

/// What becomes of a first entry that is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstEntry {
    /// It is cut like any other (before KIP-74).
    Cut,
    /// Nothing is returned in its place.
    Leave,
    /// It is returned whole.
    Whole,
}

impl Log {
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark.map_or(self.end, |held| held.clamp(self.start, self.end))
    }

    pub(crate) fn hold_high_watermark(&mut self, at: Option<i64>) {
        self.high_watermark = at;
    }

    /// The offset before which no transaction is open.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.open
            .values()
            .copied()
            .min()
            .map_or(self.high_watermark(), |open| open.min(self.high_watermark()))
    }

    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// From the end on the log is written in this epoch, unless it is already. An epoch in which
    /// nothing was written is forgotten.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        if self.epochs.last().is_none_or(|(last, _)| *last < epoch) {
            self.epochs.retain(|(_, start)| *start < self.end);
            self.epochs.push((epoch, self.end));
        }
    }

    /// Puts an entry at the end, at the offset that it carries.
    pub(crate) fn push(&mut self, entry: Entry, epoch: i32, now_ms: i64, segment_bytes: usize) {
        self.begin_epoch(epoch);
        let size = entry.bytes.len();
        match self.segments.last_mut() {
            Some(segment) if segment.bytes + size <= segment_bytes => {
                segment.bytes += size;
                segment.modified_ms = now_ms;
            }
            _ => self.segments.push(Segment { base: self.end, modified_ms: now_ms, bytes: size }),
        }
        self.follow_transactions(&entry);
        self.producers.follow(&entry);
        self.end = entry.last.saturating_add(1).max(self.end);
        self.entries.push(entry);
    }

    fn follow_transactions(&mut self, entry: &Entry) {
        let Some(header) = &entry.header else { return };
        if header.is_control() {
            let ends = matches!(entry.marker(), Some(ControlKind::Abort | ControlKind::Commit));
            let first = if ends { self.open.remove(&header.producer_id) } else { None };
            if let (Some(first), Some(ControlKind::Abort)) = (first, entry.marker()) {
                let aborted = Aborted { producer_id: header.producer_id, first, last: entry.last };
                self.aborted.push(aborted);
            }
        } else if header.is_transactional() {
            self.open.entry(header.producer_id).or_insert(entry.offset);
        }
    }

    /// Reads from the entry that holds `from` on. Entries are cut at the limit.
    pub(crate) fn read(&self, from: i64, limit: ReadLimit) -> Bytes {
        let first = self.entries.partition_point(|entry| entry.last < from);
        let end = self.entries.partition_point(|entry| entry.last < limit.end);
        let Some(shown) = self.entries.get(first..end).filter(|shown| !shown.is_empty()) else {
            return Bytes::new();
        };
        let room = match limit.first {
            FirstEntry::Leave if shown[0].bytes.len() > limit.bytes => return Bytes::new(),
            FirstEntry::Whole => limit.bytes.max(shown[0].bytes.len()),
            FirstEntry::Leave | FirstEntry::Cut => limit.bytes,
        };
        if let [only] = shown {
            return only.bytes.slice(..room.min(only.bytes.len()));
        }
        let mut read = BytesMut::new();
        for entry in shown {
            let part = &entry.bytes[..entry.bytes.len().min(room - read.len())];
            read.extend_from_slice(part);
            if read.len() == room {
                break;
            }
        }
        read.freeze()
    }

    /// The transactions among what is read from `from` up to `to` that were aborted.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> impl Iterator<Item = Aborted> {
        self.aborted.iter().copied().filter(move |aborted| aborted.last >= from && aborted.first < to)
    }

    /// The last epoch not above `epoch`, and where it ends; `None` for an epoch that is still to come.
    ///
    /// One from before the log's own history ends where that begins, under the number asked for.
    pub(crate) fn end_of_epoch(&self, epoch: i32) -> Option<(i32, i64)> {
        let (latest, _) = *self.epochs.last()?;
        match epoch {
            asked if asked < 0 || asked > latest => None,
            asked if asked == latest => Some((latest, self.end)),
            asked => {
                let next = self.epochs.partition_point(|(started, _)| *started <= asked);
                let known = next.checked_sub(1).and_then(|last| self.epochs.get(last));
                let end = self.epochs.get(next).map_or(self.end, |(_, start)| *start);
                Some((known.map_or(asked, |(epoch, _)| *epoch), end))
            }
        }
    }

    /// The first epoch that the log knows of.
    pub(crate) fn first_epoch(&self) -> Option<i32> {
        self.epochs.first().map(|(epoch, _)| *epoch)
    }

    /// The epoch in which `offset` was written.
    pub(crate) fn epoch_at(&self, offset: i64) -> Option<i32> {
        let next = self.epochs.partition_point(|(_, start)| *start <= offset);
        self.epochs.get(next.checked_sub(1)?).map(|(epoch, _)| *epoch)
    }

    /// Offsets and times by which ListOffsets 0 answers, ascending: each segment, and the end of
    /// the log unless the last segment is empty.
    pub(crate) fn segment_offsets(&self, now_ms: i64) -> Vec<(i64, i64)> {
        let mut offsets: Vec<_> =
            self.segments.iter().map(|segment| (segment.base.max(self.start), segment.modified_ms)).collect();
        match offsets.last() {
            Some((base, _)) if *base < self.end => offsets.push((self.end, now_ms)),
            Some(_) => {}
            None => offsets.push((self.end, now_ms)),
        }
        offsets
    }

    /// Begins a new segment with the next entry.
    pub(crate) fn roll(&mut self) {
        if let Some(segment) = self.segments.last_mut() {
            segment.bytes = usize::MAX / 2;
        }
    }

    /// Drops what lies before `offset`, as retention or DeleteRecords do: a batch that reaches
    /// beyond it stays whole.
    pub(crate) fn delete_before(&mut self, offset: i64) {
        self.start = offset.clamp(self.start, self.end);
        let start = self.start;
        self.entries.retain(|entry| entry.last >= start);
        let kept = self.segments.partition_point(|segment| segment.base <= start).saturating_sub(1);
        self.segments.drain(..kept);
        self.aborted.retain(|aborted| aborted.last >= start);
        // The epoch that reaches over the start begins there now.
        let gone = self.epochs.partition_point(|(_, began)| *began <= start).saturating_sub(1);
        self.epochs.drain(..gone);
        if let Some((_, began)) = self.epochs.first_mut() {
            *began = start.max(*began);
        }
    }

    /// Drops the entry that holds `offset` and what follows, as an unclean election does.
    pub(crate) fn truncate_to(&mut self, offset: i64) {
        let kept = self.entries.partition_point(|entry| entry.last < offset);
        let cut = self.entries.split_off(kept);
        let offset = cut.first().map_or(offset, |first| first.offset.min(offset));
        self.end = offset.clamp(self.start, self.end);
        let end = self.end;
        self.segments.retain(|segment| segment.base < end);
        self.epochs.retain(|(_, start)| *start < end);
        self.open.clear();
        self.aborted.clear();
        self.producers = Producers::default();
        for entry in self.entries.clone() {
            self.follow_transactions(&entry);
            self.producers.follow(&entry);
        }
    }

    /// Removes the entries that `keep` refuses, as compaction does: offsets stay as they are.
    pub(crate) fn compact(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries.retain(keep);
    }

    /// Puts other entries in place of the present ones: offsets, ends and transactions stay.
    pub(crate) fn replace_entries(&mut self, entries: Vec<Entry>) {
        self.entries = entries;
    }

    /// A log that says it holds all that can be; see `endless`.
    pub(crate) fn endless() -> Self {
        Log { end: super::endless::END, epochs: vec![(0, 0)], ..Log::default() }
    }

    /// An empty log whose first offset is `start`.
    pub(crate) fn starting_at(start: i64) -> Self {
        Log { start, end: start, ..Log::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::entry::entries;
    use crate::testing::hex;

    /// Two messages of magic 0, offsets 10 and 11, 27 bytes each.
    const F01: &str = "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff0000000162";

    fn log() -> Log {
        let mut log = Log::starting_at(10);
        for entry in entries(&hex(F01)).unwrap() {
            log.push(entry, 3, 1_000, 1 << 20);
        }
        log
    }

    fn read(from: i64, bytes: usize, first: FirstEntry) -> usize {
        log().read(from, ReadLimit { bytes, end: 12, first }).len()
    }

    #[test]
    fn the_limit_cuts_anywhere_before_kip_74_and_keeps_the_first_entry_whole_since() {
        assert_eq!(read(10, 100, FirstEntry::Cut), 54);
        assert_eq!(read(10, 40, FirstEntry::Cut), 40);
        assert_eq!(read(10, 5, FirstEntry::Cut), 5);
        assert_eq!(read(10, 5, FirstEntry::Whole), 27);
        assert_eq!(read(10, 5, FirstEntry::Leave), 0);
        assert_eq!(read(10, 40, FirstEntry::Leave), 40);
        assert_eq!(read(11, 100, FirstEntry::Whole), 27);
        assert_eq!(read(12, 100, FirstEntry::Whole), 0);
    }

    #[test]
    fn nothing_beyond_the_end_asked_for_is_read() {
        let limit = ReadLimit { bytes: 100, end: 11, first: FirstEntry::Whole };
        assert_eq!(log().read(10, limit).len(), 27);
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let mut log = log();
        assert_eq!(log.end_of_epoch(3), Some((3, 12)));
        assert_eq!(log.end_of_epoch(2), Some((2, 10)));
        assert_eq!(log.end_of_epoch(7), None);
        let mut later = entries(&hex(F01)).unwrap().remove(0);
        (later.offset, later.last) = (12, 12);
        log.push(later, 5, 1_000, 1 << 20);
        assert_eq!(log.end_of_epoch(3), Some((3, 12)));
        assert_eq!(log.end_of_epoch(4), Some((3, 12)));
        assert_eq!(log.end_of_epoch(5), Some((5, 13)));
        assert_eq!(log.epoch_at(11), Some(3));
        assert_eq!(log.epoch_at(12), Some(5));
    }

    #[test]
    fn an_epoch_that_wrote_nothing_is_forgotten_and_retention_cuts_the_history() {
        let mut log = log();
        log.begin_epoch(4);
        log.begin_epoch(6);
        assert_eq!((log.end_of_epoch(4), log.end_of_epoch(6)), (Some((3, 12)), Some((6, 12))));
        log.delete_before(12);
        assert_eq!((log.first_epoch(), log.end_of_epoch(3)), (Some(6), Some((3, 12))));
    }

    #[test]
    fn retention_moves_the_start_and_truncation_the_end() {
        let mut log = log();
        log.delete_before(11);
        assert_eq!((log.start(), log.end(), log.entries().len()), (11, 12, 1));
        log.truncate_to(11);
        assert_eq!((log.start(), log.end(), log.entries().len()), (11, 11, 0));
    }
}
