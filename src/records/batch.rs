use std::fmt;

use bytes::Bytes;

use super::corruption::layout;
use super::entry::{BATCH_HEADER, BatchHeader, PREFIX, be_i32, be_i64};
use super::message::{self, MessageRules};
use super::record::{Headers, Record, take_sized};
use super::{Cause, Codec, CodecError, Corruption, Entry, Magic, TimestampType, compression};
use crate::wire::{DecodeError, Problem, take_varint, take_varlong};

/// A batch of records: its checksum is checked, its data inflated, and it can go anywhere.
///
/// One batch of magic 2, one wrapper of magic 0 or 1, or a run of plain messages of one magic.
/// A plain batch shares the buffer it came in and keeps all of it alive ([`Batch::detach`] ends
/// that); a compressed one owns what came out.
#[derive(Clone)]
pub struct Batch {
    pub(super) info: Info,
    pub(super) layout: Layout,
    pub(super) data: Bytes,
    /// Records below are not lent.
    pub(super) from_offset: i64,
    /// Nor are those above.
    pub(super) last_wanted: i64,
    /// What stands after the last good record, if not the end.
    pub(super) damage: Option<Cause>,
    pub(super) crc_mismatch: Option<(u32, u32)>,
}

/// What is known of a batch without its records.
#[derive(Debug, Clone)]
pub(super) struct Info {
    pub(super) magic: Magic,
    pub(super) codec: Codec,
    pub(super) base_offset: i64,
    pub(super) next_offset: i64,
    pub(super) timestamp_type: Option<TimestampType>,
    pub(super) max_timestamp: Option<i64>,
    pub(super) entry_position: usize,
    pub(super) count: usize,
    /// Bytes that came out of codecs for it.
    pub(super) inflated: usize,
    pub(super) header: Option<BatchHeader>,
}

impl Default for Info {
    fn default() -> Self {
        Info {
            magic: Magic::V0,
            codec: Codec::None,
            base_offset: 0,
            next_offset: 0,
            timestamp_type: None,
            max_timestamp: None,
            entry_position: 0,
            count: 0,
            inflated: 0,
            header: None,
        }
    }
}

/// How the data of a batch is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    /// Whole messages of magic 0 or 1, one after another.
    Messages(MessageRules),
    /// Records of magic 2.
    Records,
}

impl Batch {
    /// Its format.
    pub fn magic(&self) -> Magic {
        self.info.magic
    }

    /// How it was compressed.
    pub fn codec(&self) -> Codec {
        self.info.codec
    }

    /// Offset of its first record as it was written; records may be missing from it.
    pub fn base_offset(&self) -> i64 {
        self.info.base_offset
    }

    /// Offset of its last record as it was written, also if compaction removed it (KAFKA-5443).
    pub fn last_offset(&self) -> i64 {
        self.info.next_offset.wrapping_sub(1)
    }

    /// Where to fetch after this batch.
    pub fn next_offset(&self) -> i64 {
        self.info.next_offset
    }

    /// How many records it says it holds, those below the asked offset included.
    pub fn records_count(&self) -> usize {
        self.info.count
    }

    /// Whose clock its timestamps are from. `None` for magic 0, which has none, and for a run of
    /// plain messages of magic 1, which each have their own.
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        self.info.timestamp_type
    }

    /// Its largest timestamp as stored, in ms; `None` where the format does not tell.
    pub fn max_timestamp(&self) -> Option<i64> {
        self.info.max_timestamp
    }

    /// The header, for magic 2.
    pub fn header(&self) -> Option<&BatchHeader> {
        self.info.header.as_ref()
    }

    /// Whether it belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.info.header.is_some_and(|header| header.is_transactional())
    }

    /// Whether its records are for the client and not for the application: transaction markers.
    pub fn is_control(&self) -> bool {
        self.info.header.is_some_and(|header| header.is_control())
    }

    /// Who wrote it, if it says.
    pub fn producer_id(&self) -> Option<i64> {
        self.info.header.map(|header| header.producer_id).filter(|id| *id >= 0)
    }

    /// Stored and computed checksum, where they differ and the reader asked for the batch all the
    /// same ([`CrcCheck::Report`](super::CrcCheck::Report)).
    pub fn crc_mismatch(&self) -> Option<(u32, u32)> {
        self.crc_mismatch
    }

    /// Bytes that the records take, inflated.
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// Bytes that were inflated for it: its size, and that of wrappers inside wrappers. 0 if it
    /// was not compressed.
    pub fn inflated(&self) -> usize {
        self.info.inflated
    }

    /// Lends the records, from the asked offset on, as they are read.
    pub fn records(&self) -> Records<'_> {
        Records {
            batch: self,
            rest: &self.data,
            last: 0,
            left: self.info.count,
            base: self.base(),
            ended: false,
        }
    }

    fn base(&self) -> Base {
        self.info.header.map_or(Base::default(), |header| Base {
            offset: header.base_offset,
            timestamp: header.base_timestamp,
            append_time: (self.info.timestamp_type == Some(TimestampType::LogAppendTime))
                .then_some(header.max_timestamp),
        })
    }

    /// Copies the records into a buffer of their own, so that the batch keeps no response alive.
    pub fn detach(&mut self) {
        self.data = Bytes::copy_from_slice(&self.data);
    }

    /// Lends no records from `end` on.
    pub(crate) fn end_before(&mut self, end: i64) {
        self.last_wanted = end.saturating_sub(1);
    }

    /// Puts another buffer with the same bytes in.
    pub(crate) fn replace_data(&mut self, make: impl FnOnce(Bytes) -> Bytes) {
        self.data = make(std::mem::take(&mut self.data));
    }

    fn wants(&self, offset: i64) -> bool {
        (self.from_offset..=self.last_wanted).contains(&offset)
    }

    /// Opens a batch of magic 2: inflates it, if need be. Its checksum is the caller's to check.
    pub(super) fn of_entry(entry: &Entry, header: BatchHeader, limit: usize) -> Result<Batch, Corruption> {
        let attributes = entry.attributes();
        let codec = Codec::of(attributes)
            .ok_or_else(|| entry.corrupt(Cause::Codec(CodecError::Unknown(attributes & 0x07))))?;
        let Ok(count) = usize::try_from(header.records_count) else {
            let problem = Problem::Value { found: header.records_count.into(), expected: "0 or more" };
            let error = layout("records_count", entry.position() + 57, problem);
            return Err(entry.corrupt(Cause::Layout(error)));
        };
        let data = entry.bytes().slice(BATCH_HEADER..);
        // The cleaner leaves the codec bits of a batch that it emptied, or not (KAFKA-5490).
        let data = if codec == Codec::None || data.is_empty() && count == 0 {
            data
        } else {
            let inflated = compression::inflate(codec, Magic::V2, &data, limit);
            Bytes::from(inflated.map_err(|error| entry.corrupt(Cause::Codec(error)))?)
        };
        Ok(Batch {
            info: Info {
                magic: Magic::V2,
                codec,
                base_offset: header.base_offset,
                next_offset: entry.next_offset(),
                timestamp_type: Some(TimestampType::of(attributes)),
                max_timestamp: Some(header.max_timestamp),
                entry_position: entry.position(),
                count,
                inflated: if codec == Codec::None { 0 } else { data.len() },
                header: Some(header),
            },
            layout: Layout::Records,
            data,
            from_offset: i64::MIN,
            last_wanted: i64::MAX,
            damage: None,
            crc_mismatch: None,
        })
    }

    /// Stored and computed checksum of the first inner message whose two differ.
    pub(super) fn first_inner_crc_mismatch(&self) -> Option<(u32, u32)> {
        let Layout::Messages(rules) = self.layout else { return None };
        let verifying =
            Batch { layout: Layout::Messages(MessageRules { verify: true, ..rules }), ..self.clone() };
        verifying.records().find_map(|record| match record {
            Err(Corruption { cause: Cause::Crc { stored, computed }, .. }) => Some((stored, computed)),
            _ => None,
        })
    }

    /// Damage among the records: it takes `from` and what the batch holds after it, unless
    /// `next_offset` says that the rest can still be read.
    fn damaged(&self, from: i64, next_offset: Option<i64>, cause: Cause) -> Corruption {
        Corruption {
            first_offset: from,
            next_offset: Some(next_offset.unwrap_or(self.info.next_offset).max(from.saturating_add(1))),
            entry_position: self.info.entry_position,
            magic: Some(self.info.magic),
            cause,
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("info", &self.info).field("size", &self.data.len()).finish()
    }
}

/// The records of a batch, lent one at a time.
///
/// After an error about one message (its checksum) the next one follows; after one about the
/// layout, which hides where the next begins, nothing does.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    batch: &'a Batch,
    /// What is still to be read.
    rest: &'a [u8],
    /// Where the last one began.
    last: usize,
    /// Records still to come by the count in the header.
    left: usize,
    base: Base,
    ended: bool,
}

/// What the records of a magic-2 batch count from.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    offset: i64,
    timestamp: i64,
    /// The broker's time, where that counts for all records.
    append_time: Option<i64>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corruption>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &self.batch.layout {
            Layout::Records => self.next_record(),
            Layout::Messages(rules) => self.next_message(rules),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left.saturating_add(1)))
    }
}

impl<'a> Records<'a> {
    #[inline(always)]
    fn next_record(&mut self) -> Option<Result<Record<'a>, Corruption>> {
        while self.left > 0 {
            self.last = self.place();
            let Some(record) = take_record(&mut self.rest, &self.base) else {
                self.left = 0;
                self.ended = true;
                return Some(Err(self.explain()));
            };
            self.left -= 1;
            if self.batch.wants(record.offset()) {
                return Some(Ok(record));
            }
        }
        if self.ended || self.rest.is_empty() {
            return None;
        }
        self.ended = true;
        Some(Err(self.corruption(layout(
            "records",
            self.place(),
            Problem::Trailing { bytes: self.rest.len() },
        ))))
    }

    #[inline]
    fn next_message(&mut self, rules: &MessageRules) -> Option<Result<Record<'a>, Corruption>> {
        let batch = self.batch;
        while !self.rest.is_empty() {
            let at = self.place();
            self.last = at;
            let (end, record) = message::record(&batch.data, at, batch.info.magic, rules);
            self.rest = &batch.data[end..];
            self.left = self.left.saturating_sub(1);
            match record {
                Ok(record) if !batch.wants(record.offset()) => {}
                Ok(record) => return Some(Ok(record)),
                Err(cause) => {
                    let offset = be_i64(&batch.data, at).wrapping_add(rules.shift);
                    return Some(Err(batch.damaged(offset, Some(offset.saturating_add(1)), cause)));
                }
            }
        }
        if self.ended {
            return None;
        }
        self.ended = true;
        let cause = batch.damage.clone()?;
        Some(Err(batch.damaged(self.next_good_offset(), None, cause)))
    }

    /// Where in the data the rest begins.
    fn place(&self) -> usize {
        self.batch.data.len() - self.rest.len()
    }

    /// Where the record that was lent last begins.
    #[inline(always)]
    pub(super) fn last_position(&self) -> usize {
        self.last
    }

    /// Where the next one begins.
    pub(super) fn next_position(&self) -> usize {
        self.place()
    }

    /// Goes on at that position, for so many records.
    pub(super) fn start_at(&mut self, position: usize, left: usize) {
        self.rest = self.batch.data.get(position..).unwrap_or_default();
        self.left = left;
    }

    /// The offset after the last message before the damage.
    #[cold]
    fn next_good_offset(&self) -> i64 {
        let Layout::Messages(rules) = self.batch.layout else { return self.batch.info.base_offset };
        let (mut at, mut last) = (0, self.batch.info.base_offset.wrapping_sub(1));
        while at < self.batch.data.len() {
            last = be_i64(&self.batch.data, at).wrapping_add(rules.shift);
            at += PREFIX + be_i32(&self.batch.data, at + 8) as usize;
        }
        last.wrapping_add(1)
    }

    /// Reads the record that did not fit again, to say which field it was.
    #[cold]
    fn explain(&self) -> Corruption {
        let data = &self.batch.data;
        self.corruption(explain_record(data, self.place()))
    }

    fn corruption(&self, error: DecodeError) -> Corruption {
        let batch = self.batch;
        let cause = if batch.info.codec == Codec::None {
            let position = batch.info.entry_position + BATCH_HEADER + error.position;
            Cause::Layout(DecodeError { position, ..error })
        } else {
            Cause::InflatedLayout(error)
        };
        // The next record's offset is not known; the last one's was.
        let mut next = batch.info.base_offset;
        let mut rest = &batch.data[..self.place()];
        while let Some(record) = take_record(&mut rest, &self.base) {
            next = record.offset().wrapping_add(1);
        }
        batch.damaged(next, None, cause)
    }
}

/// Takes the record at the front of `data`; `None`, and nothing taken, if it does not fit.
#[inline(always)]
fn take_record<'a>(data: &mut &'a [u8], base: &Base) -> Option<Record<'a>> {
    let mut rest = *data;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let (mut bytes, rest) = rest.split_at_checked(length)?;
    // The attributes mean nothing yet.
    bytes = bytes.get(1..)?;
    let timestamp_delta = take_varlong(&mut bytes)?;
    let offset_delta = take_varint(&mut bytes)?;
    let key = take_sized(&mut bytes)?;
    let value = take_sized(&mut bytes)?;
    let count = usize::try_from(take_varint(&mut bytes)?).ok()?;
    if !holds_headers(bytes, count) {
        return None;
    }
    *data = rest;
    let stamp = match base.append_time {
        // Java writes deltas that wrap around.
        None => (base.timestamp.wrapping_add(timestamp_delta), Some(TimestampType::CreateTime)),
        Some(time) => (time, Some(TimestampType::LogAppendTime)),
    };
    let offset = base.offset.wrapping_add(offset_delta.into());
    Some(Record::new(offset, stamp, key, value, Headers::new(bytes, count)))
}

/// Whether `bytes` is `count` whole headers and nothing else. A header key is never null.
#[inline(always)]
fn holds_headers(mut bytes: &[u8], count: usize) -> bool {
    for _ in 0..count {
        match (take_sized(&mut bytes), take_sized(&mut bytes)) {
            (Some(Some(_)), Some(_)) => {}
            _ => return false,
        }
    }
    bytes.is_empty()
}

/// Says which field of the record at `position` does not fit.
fn explain_record(data: &[u8], position: usize) -> DecodeError {
    let mut reader = crate::wire::Reader::new(data, "length");
    let walk = |reader: &mut crate::wire::Reader<'_>| -> Result<(), DecodeError> {
        reader.take(position)?;
        let length = reader.field("length").varint()?;
        let Ok(length) = usize::try_from(length) else {
            return Err(reader.error(Problem::Length { declared: length.into(), left: reader.left() }));
        };
        let mut record = reader.sub(length)?;
        record.field("attributes").i8()?;
        record.field("timestamp_delta").varlong()?;
        record.field("offset_delta").varint()?;
        record.field("key").varint_bytes()?;
        record.field("value").varint_bytes()?;
        let count = record.field("headers_count").varint()?;
        if count < 0 {
            return Err(record.error(Problem::Length { declared: count.into(), left: record.left() }));
        }
        for _ in 0..count {
            if record.field("header_key").varint_bytes()?.is_none() {
                return Err(record.error(Problem::Null));
            }
            record.field("header_value").varint_bytes()?;
        }
        record.field("record").finish()
    };
    match walk(&mut reader) {
        Err(error) => error,
        Ok(()) => layout("record", position, Problem::Trailing { bytes: 0 }),
    }
}
