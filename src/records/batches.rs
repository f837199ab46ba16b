use bytes::Bytes;

use super::batch::{Batch, Info, Layout};
use super::message::{MessageRules, open_wrapper};
use super::{AbortedFilter, BatchHeader, Cause, Codec, Control, Corruption, Entries, Entry, Magic, Tail};
use crate::protocol::AbortedTransaction;

/// How to read a set.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The offset that was asked for: records below it are not handed out. A compressed entry comes
    /// whole, whatever offset was asked for.
    pub from_offset: i64,
    /// What to do about checksums.
    pub crc: CrcCheck,
    /// Whose records to hand out.
    pub isolation: Isolation,
    /// The aborted transactions of the response; looked at only under read_committed.
    pub aborted: Vec<AbortedTransaction>,
    /// Whether to hand out control batches too.
    pub control_batches: bool,
    /// Bytes that one entry may inflate to.
    pub max_inflated: usize,
}

impl ReadOptions {
    /// 128 MiB: a hundred times the largest batch that brokers take by default.
    pub const DEFAULT_MAX_INFLATED: usize = 128 << 20;
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            from_offset: i64::MIN,
            crc: CrcCheck::Verify,
            isolation: Isolation::ReadCommitted,
            aborted: Vec::new(),
            control_batches: false,
            max_inflated: ReadOptions::DEFAULT_MAX_INFLATED,
        }
    }
}

/// What to do about checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrcCheck {
    /// A mismatch is an error.
    #[default]
    Verify,
    /// Don't look.
    Skip,
    /// Hand the batch out all the same, and say so ([`Batch::crc_mismatch`]).
    Report,
}

/// Whose records to hand out (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// All of them.
    ReadUncommitted,
    /// Not those of aborted transactions.
    #[default]
    ReadCommitted,
}

/// The batches of a set, checked and inflated one at a time.
///
/// After an error the iterator goes on with the next entry, where its place is known.
#[derive(Debug)]
pub struct Batches {
    entries: Entries,
    options: ReadOptions,
    filter: AbortedFilter,
    next_offset: Option<i64>,
}

impl Batches {
    pub(super) fn new(entries: Entries, mut options: ReadOptions) -> Self {
        let filter = match options.isolation {
            Isolation::ReadCommitted => AbortedFilter::new(std::mem::take(&mut options.aborted)),
            // Some brokers fill the list in unasked.
            Isolation::ReadUncommitted => AbortedFilter::default(),
        };
        Batches { entries, options, filter, next_offset: None }
    }

    /// Where to fetch after what was read so far: also past batches that gave nothing.
    pub fn next_offset(&self) -> Option<i64> {
        self.next_offset
    }

    /// What follows the last complete entry; known when the iterator has ended.
    pub fn tail(&self) -> Tail {
        self.entries.tail()
    }

    /// Sets how much the entries still to come may inflate to, each.
    pub fn set_max_inflated(&mut self, bytes: usize) {
        self.options.max_inflated = bytes;
    }

    fn advance(&mut self, next_offset: i64) {
        self.next_offset = self.next_offset.max(Some(next_offset));
    }

    fn open(&mut self, entry: &Entry) -> Result<Option<Batch>, Corruption> {
        let crc_mismatch = self.check(entry)?;
        let limit = self.options.max_inflated;
        let opened = match entry.batch_header() {
            Some(header) => self.open_batch(entry, header, limit)?,
            None => Some(open_wrapper(entry, self.options.crc == CrcCheck::Verify, limit)?),
        };
        Ok(opened.map(|mut batch| {
            self.advance(batch.next_offset());
            batch.crc_mismatch = crc_mismatch;
            if self.options.crc == CrcCheck::Report && crc_mismatch.is_none() {
                batch.crc_mismatch = batch.first_inner_crc_mismatch();
            }
            batch.from_offset = self.options.from_offset;
            batch
        }))
    }

    /// A batch of magic 2, unless it is none of the caller's business.
    fn open_batch(
        &mut self,
        entry: &Entry,
        header: BatchHeader,
        limit: usize,
    ) -> Result<Option<Batch>, Corruption> {
        if header.is_control() {
            let batch = Batch::of_entry(entry, header, limit)?;
            if self.options.isolation == Isolation::ReadCommitted
                && let Some(Ok(record)) = batch.records().next()
                && let Some(control) = Control::of(&record)
            {
                self.filter.end_of_transaction(&header, control.kind);
            }
            return Ok(self.options.control_batches.then_some(batch));
        }
        if self.options.isolation == Isolation::ReadCommitted && self.filter.is_aborted(&header) {
            return Ok(None);
        }
        Batch::of_entry(entry, header, limit).map(Some)
    }

    fn check(&self, entry: &Entry) -> Result<Option<(u32, u32)>, Corruption> {
        if self.options.crc == CrcCheck::Skip {
            return Ok(None);
        }
        match entry.check_crc() {
            Err(Corruption { cause: Cause::Crc { stored, computed }, .. })
                if self.options.crc == CrcCheck::Report =>
            {
                Ok(Some((stored, computed)))
            }
            other => other.map(|()| None),
        }
    }

    /// Takes the plain messages of one magic that stand next in the set, up to the first that is
    /// not sound. `None` if the first is none.
    fn take_run(&mut self) -> Option<Batch> {
        let set: Bytes = self.entries.set().clone();
        let first = self.entries.peek()?;
        let mut end = first.position;
        let mut last = first;
        let mut count = 0;
        let mut crc_mismatch = None;
        while let Some(span) = self.entries.peek() {
            let bytes = &set[span.position..span.position + span.size];
            if span.magic != first.magic || span.magic == Magic::V2 || bytes[17] & 0x07 != 0 {
                break;
            }
            if self.options.crc != CrcCheck::Skip {
                let stored = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
                let computed = crc32fast::hash(&bytes[16..]);
                if stored != computed && self.options.crc == CrcCheck::Verify {
                    break;
                }
                if stored != computed {
                    crc_mismatch = crc_mismatch.or(Some((stored, computed)));
                }
            }
            self.entries.pass(span);
            self.advance(span.next_offset);
            end = span.position + span.size;
            last = span;
            count += 1;
        }
        (count > 0).then(|| Batch {
            info: Info {
                magic: first.magic,
                codec: Codec::None,
                base_offset: super::entry::be_i64(&set, first.position),
                next_offset: last.next_offset,
                entry_position: first.position,
                count,
                ..Info::default()
            },
            layout: Layout::Messages(MessageRules { position: first.position, ..MessageRules::default() }),
            data: set.slice(first.position..end),
            from_offset: self.options.from_offset,
            last_wanted: i64::MAX,
            damage: None,
            crc_mismatch,
        })
    }
}

/// A wrapper's offset is that of its last message: the damage begins where the last entry ended.
fn since(before: i64, corruption: Corruption) -> Corruption {
    let wrapper = corruption.magic.is_some_and(|magic| magic < Magic::V2);
    let known = wrapper && before > i64::MIN && before < corruption.first_offset;
    Corruption { first_offset: if known { before } else { corruption.first_offset }, ..corruption }
}

impl Iterator for Batches {
    type Item = Result<Batch, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(run) = self.take_run() {
                return Some(Ok(run));
            }
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(corruption) => return Some(Err(corruption)),
            };
            let before = self.next_offset.unwrap_or(self.options.from_offset);
            let opened = self.open(&entry);
            self.advance(entry.next_offset());
            match opened {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {}
                Err(corruption) => return Some(Err(since(before, corruption))),
            }
        }
    }
}
