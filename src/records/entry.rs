//! Entries of a set as they lie there: headers and untouched bytes.

use bytes::Bytes;

use super::corruption::layout;
use super::{Batches, Cause, Codec, Corruption, Magic, ReadOptions, TimestampType};
use crate::wire::Problem;

/// Offset and size, in front of every entry.
pub(super) const PREFIX: usize = 12;
/// Where the magic byte stands, in every format.
const MAGIC_AT: usize = 16;
/// Header of a magic-2 batch.
pub(super) const BATCH_HEADER: usize = 61;

/// The contents of a RECORDS field, or of a `.log` segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSet {
    bytes: Bytes,
}

/// What follows the last complete entry: nothing, or the start of one that was cut off.
///
/// A cut last entry is no damage: the broker cuts at the size that was asked for, and pads what a
/// down-conversion left empty (KIP-283).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// Bytes after the last complete entry.
    pub bytes: usize,
    /// Size of the whole entry that was cut, if as much as its size field is there.
    pub needed: Option<usize>,
}

/// What the headers of a set say; not proven until the checksums are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Survey {
    /// The offset after the last complete entry, if there is one.
    pub(crate) next_offset: Option<i64>,
    /// Epoch of the leader that wrote the last one, if it says.
    pub(crate) leader_epoch: Option<i32>,
    /// Bytes follow that are no entry.
    pub(crate) damaged: bool,
}

impl RecordSet {
    /// Takes the bytes of a set, without the length in front of the field.
    pub fn new(bytes: Bytes) -> Self {
        RecordSet { bytes }
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether there is not a byte in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The batches in it, checked and inflated.
    pub fn batches(&self, options: ReadOptions) -> Batches {
        Batches::new(self.entries(), options)
    }

    /// The entries in it, unchecked, as bytes with a view of their headers.
    pub fn entries(&self) -> Entries {
        Entries { bytes: self.bytes.clone(), position: 0, tail: Tail::default(), ended: false }
    }

    /// Where to fetch next, from the headers alone: after the last offset of any complete entry.
    ///
    /// Provisional: the checksums were not looked at. `None` if no entry is complete.
    pub fn next_offset(&self) -> Option<i64> {
        let mut next = None;
        let mut position = 0;
        while let Ok(Ok(span)) = Span::cut(&self.bytes, position) {
            position += span.size;
            next = next.max(Some(span.next_offset));
        }
        next
    }

    /// What the headers say, without looking at anything else.
    pub(crate) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        let mut position = 0;
        loop {
            match Span::cut(&self.bytes, position) {
                Ok(Ok(span)) => {
                    survey.next_offset = survey.next_offset.max(Some(span.next_offset));
                    if span.magic == Magic::V2 {
                        let epoch = be_i32(&self.bytes, position + PREFIX);
                        survey.leader_epoch = Some(epoch).filter(|epoch| *epoch >= 0);
                    }
                    position += span.size;
                }
                Ok(Err(_)) => return survey,
                Err(_) => return Survey { damaged: true, ..survey },
            }
        }
    }

    /// What follows the last complete entry.
    pub fn tail(&self) -> Tail {
        let mut position = 0;
        loop {
            match Span::cut(&self.bytes, position) {
                Ok(Ok(span)) => position += span.size,
                Ok(Err(tail)) => return tail,
                Err(_) => return Tail::default(),
            }
        }
    }
}

impl From<Bytes> for RecordSet {
    fn from(bytes: Bytes) -> Self {
        RecordSet::new(bytes)
    }
}

/// One entry: a message of magic 0 or 1, plain or a wrapper, or a batch of magic 2.
#[derive(Debug, Clone)]
pub struct Entry {
    bytes: Bytes,
    position: usize,
    magic: Magic,
    next_offset: i64,
}

/// The header of a magic-2 batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset that record deltas count from.
    pub base_offset: i64,
    /// Epoch of the leader that wrote the batch, −1 for none. Not covered by the checksum.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything after this field.
    pub crc: u32,
    /// Codec, timestamp type, transactional, control and delete-horizon bits.
    pub attributes: i16,
    /// Last offset of the batch as it was written, less `base_offset`; compaction keeps it.
    pub last_offset_delta: i32,
    /// Timestamp that deltas count from, in ms; the delete horizon if attribute bit 6 is set (KIP-534).
    pub base_timestamp: i64,
    /// Largest timestamp in ms; the broker's append time under `LogAppendTime`.
    pub max_timestamp: i64,
    /// Who wrote it, −1 for none.
    pub producer_id: i64,
    /// Epoch of the producer, −1 for none.
    pub producer_epoch: i16,
    /// Sequence number of the first record, −1 for none.
    pub base_sequence: i32,
    /// How many records the batch holds; 0 after compaction (KAFKA-5490).
    pub records_count: i32,
}

impl BatchHeader {
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Last offset of the batch, also if its last records are gone.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(self.last_offset_delta.into())
    }

    /// Whether it belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & Self::TRANSACTIONAL != 0
    }

    /// Whether it holds a control record: a transaction marker, say.
    pub fn is_control(&self) -> bool {
        self.attributes & Self::CONTROL != 0
    }

    /// Whether `base_timestamp` is the time at which tombstones may go (KIP-534).
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & Self::DELETE_HORIZON != 0
    }
}

impl Entry {
    /// The whole entry, untouched.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where it starts in the set.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Its format.
    pub fn magic(&self) -> Magic {
        self.magic
    }

    /// The offset field: the message's own, that of a wrapper's last message, or the base offset.
    pub fn offset(&self) -> i64 {
        be_i64(&self.bytes, 0)
    }

    /// Where to fetch after this entry. For a batch by its header, so that records that compaction
    /// took off its end are not waited for (KAFKA-5443).
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// How it is compressed; `None` if its number is none of the known ones.
    pub fn codec(&self) -> Option<Codec> {
        Codec::of(self.attributes())
    }

    /// Whose clock its timestamps are from; `None` for magic 0, which has none.
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        (self.magic != Magic::V0).then(|| TimestampType::of(self.attributes()))
    }

    /// The header of a magic-2 batch; `None` for older formats.
    pub fn batch_header(&self) -> Option<BatchHeader> {
        let bytes = &self.bytes;
        (self.magic == Magic::V2).then(|| BatchHeader {
            base_offset: be_i64(bytes, 0),
            partition_leader_epoch: be_i32(bytes, 12),
            crc: be_i32(bytes, 17) as u32,
            attributes: i16::from_be_bytes([bytes[21], bytes[22]]),
            last_offset_delta: be_i32(bytes, 23),
            base_timestamp: be_i64(bytes, 27),
            max_timestamp: be_i64(bytes, 35),
            producer_id: be_i64(bytes, 43),
            producer_epoch: i16::from_be_bytes([bytes[51], bytes[52]]),
            base_sequence: be_i32(bytes, 53),
            records_count: be_i32(bytes, 57),
        })
    }

    /// Checks the entry's checksum (CRC-32 or CRC-32C): an error holds both values.
    pub fn check_crc(&self) -> Result<(), Corruption> {
        let (stored, computed) = match self.magic {
            Magic::V2 => (be_i32(&self.bytes, 17) as u32, crc32c::crc32c(&self.bytes[21..])),
            _ => (be_i32(&self.bytes, 12) as u32, crc32fast::hash(&self.bytes[16..])),
        };
        if stored == computed { Ok(()) } else { Err(self.corrupt(Cause::Crc { stored, computed })) }
    }

    /// Damage that takes the whole entry with it.
    pub(super) fn corrupt(&self, cause: Cause) -> Corruption {
        Corruption {
            first_offset: self.offset(),
            next_offset: Some(self.next_offset),
            entry_position: self.position,
            magic: Some(self.magic),
            cause,
        }
    }

    pub(super) fn attributes(&self) -> u8 {
        // The low byte of a batch's attributes, the only byte of a message's.
        if self.magic == Magic::V2 { self.bytes[22] } else { self.bytes[17] }
    }
}

/// Cuts a set into entries. Stops after the first one whose end cannot be told.
#[derive(Debug, Clone)]
pub struct Entries {
    bytes: Bytes,
    position: usize,
    tail: Tail,
    ended: bool,
}

impl Entries {
    /// What follows the last complete entry; known when the iterator has ended.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// The next entry's place, without taking it.
    pub(super) fn peek(&self) -> Option<Span> {
        if self.ended { None } else { Span::cut(&self.bytes, self.position).ok()?.ok() }
    }

    /// Takes the entry that was peeked at, as nothing but its place.
    pub(super) fn pass(&mut self, span: Span) {
        self.position = span.position + span.size;
    }

    pub(super) fn set(&self) -> &Bytes {
        &self.bytes
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match Span::cut(&self.bytes, self.position) {
            Ok(Ok(span)) => {
                self.pass(span);
                Some(Ok(Entry {
                    bytes: self.bytes.slice(span.position..span.position + span.size),
                    position: span.position,
                    magic: span.magic,
                    next_offset: span.next_offset,
                }))
            }
            Ok(Err(tail)) => {
                self.ended = true;
                self.tail = tail;
                None
            }
            Err(corruption) => {
                self.ended = true;
                Some(Err(*corruption))
            }
        }
    }
}

/// The place of a complete entry in a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) position: usize,
    pub(super) size: usize,
    pub(super) magic: Magic,
    pub(super) next_offset: i64,
}

impl Span {
    /// Cuts off the entry at `position`: a complete one, the tail of the set, or damage.
    #[inline]
    pub(super) fn cut(bytes: &[u8], position: usize) -> Result<Result<Span, Tail>, Box<Corruption>> {
        let left = bytes.len() - position;
        if left < PREFIX {
            return Ok(Err(Tail { bytes: left, needed: None }));
        }
        let fail = |magic, field, at, found, expected| {
            Err(Box::new(Corruption {
                first_offset: be_i64(bytes, position),
                next_offset: None,
                entry_position: position,
                magic,
                cause: Cause::Layout(layout(field, position + at, Problem::Value { found, expected })),
            }))
        };
        let declared = be_i32(bytes, position + 8);
        let length = match usize::try_from(declared) {
            Ok(length) if length >= 14 => length,
            _ => return fail(None, "length", 8, declared.into(), "at least 14 bytes"),
        };
        let size = PREFIX + length;
        if size > left {
            return Ok(Err(Tail { bytes: left, needed: Some(size) }));
        }
        let byte = bytes[position + MAGIC_AT];
        let Some(magic) = Magic::of(byte) else {
            return fail(None, "magic", MAGIC_AT, i64::from(byte as i8), "0, 1 or 2");
        };
        let (least, expected) = match magic {
            Magic::V0 => (14, "at least 14 bytes"),
            Magic::V1 => (22, "at least 22 bytes for magic 1"),
            Magic::V2 => (BATCH_HEADER - PREFIX, "at least 49 bytes for magic 2"),
        };
        if length < least {
            return fail(Some(magic), "length", 8, declared.into(), expected);
        }
        let offset = be_i64(bytes, position);
        let last_offset_delta = if magic == Magic::V2 { be_i32(bytes, position + 23) } else { 0 };
        if last_offset_delta < 0 {
            return fail(Some(magic), "last_offset_delta", 23, last_offset_delta.into(), "0 or more");
        }
        match offset.checked_add(i64::from(last_offset_delta) + 1) {
            Some(next_offset) => Ok(Ok(Span { position, size, magic, next_offset })),
            None => fail(Some(magic), "offset", 0, offset, "an offset that another can follow"),
        }
    }
}

/// The big-endian number at `at`; 0 beyond the end, where no caller looks.
#[inline(always)]
pub(super) fn be_i32(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |number| i32::from_be_bytes(*number))
}

/// As [`be_i32`].
#[inline(always)]
pub(super) fn be_i64(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |number| i64::from_be_bytes(*number))
}
