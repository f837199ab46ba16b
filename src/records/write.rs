//! Writing record sets, in all three formats and all codecs.

use std::fmt;

use bytes::Bytes;

use super::entry::BATCH_HEADER;
use super::{Codec, CodecError, Magic, TimestampType, compression};
use crate::wire::Writer;

/// A record to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRecord<'a> {
    /// Its offset; `None` for the one after the last.
    pub offset: Option<i64>,
    /// Its timestamp in ms; `None` for −1, "none". Magic 0 cannot keep it.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers, in order. Only magic 2 can keep them.
    pub headers: &'a [NewHeader<'a>],
}

impl<'a> NewRecord<'a> {
    /// A record with nothing but a value.
    pub fn value(value: &'a [u8]) -> Self {
        NewRecord { value: Some(value), ..NewRecord::default() }
    }
}

/// A header to be written: its key, and its value or null.
pub type NewHeader<'a> = (&'a [u8], Option<&'a [u8]>);

/// Why a set could not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Only magic 2 has headers (KIP-82).
    HeadersNeedMagic2,
    /// Only magic 2 has producers, transactions and control records (KIP-98).
    ProducerNeedsMagic2,
    /// The codec cannot be used in this format, or not in this build.
    Codec(CodecError),
    /// A record, or all of them together, take more than 2 GiB, or their offsets span too much.
    TooLarge,
    /// Offsets that do not ascend.
    Offsets,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::HeadersNeedMagic2 => {
                f.write_str("the record has headers, which need message format 2 (brokers from 0.11 on)")
            }
            WriteError::ProducerNeedsMagic2 => {
                f.write_str("producer ids, transactions and control records need message format 2")
            }
            WriteError::Codec(error) => error.fmt(f),
            WriteError::TooLarge => f.write_str("the set is too large for one batch: write less into it"),
            WriteError::Offsets => f.write_str("offsets must ascend"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<CodecError> for WriteError {
    fn from(error: CodecError) -> Self {
        WriteError::Codec(error)
    }
}

/// Builds a set: for magic 2 one batch, else plain messages or, if compressed, one wrapper.
#[derive(Debug, Clone)]
pub struct RecordSetWriter {
    magic: Magic,
    codec: Codec,
    timestamp_type: TimestampType,
    append_time: i64,
    leader_epoch: i32,
    producer: (i64, i16, i32),
    transactional: bool,
    control: bool,
    base_offset: Option<i64>,
    last_offset: Option<i64>,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    body: Writer,
}

impl RecordSetWriter {
    /// A set of this format.
    pub fn new(magic: Magic) -> Self {
        RecordSetWriter {
            magic,
            codec: Codec::None,
            timestamp_type: TimestampType::CreateTime,
            append_time: -1,
            leader_epoch: -1,
            producer: (-1, -1, -1),
            transactional: false,
            control: false,
            base_offset: None,
            last_offset: None,
            base_timestamp: -1,
            max_timestamp: -1,
            count: 0,
            body: Writer::new(),
        }
    }

    /// Compresses it.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Offset of the first record; 0 otherwise.
    pub fn base_offset(mut self, offset: i64) -> Self {
        self.base_offset = Some(offset);
        self
    }

    /// Marks it as timestamped by the broker, at `time` ms.
    pub fn log_append_time(mut self, time: i64) -> Self {
        self.timestamp_type = TimestampType::LogAppendTime;
        self.append_time = time;
        self
    }

    /// Epoch of the leader that writes it.
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.leader_epoch = epoch;
        self
    }

    /// Producer id, its epoch, and the sequence number of the first record.
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Marks it as part of a transaction.
    pub fn transactional(mut self) -> Self {
        self.transactional = true;
        self
    }

    /// Marks it as control records.
    pub fn control(mut self) -> Self {
        self.control = true;
        self
    }

    /// Bytes of records so far, uncompressed.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    /// How many records it has so far.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Adds a record.
    pub fn push(&mut self, record: NewRecord<'_>) -> Result<(), WriteError> {
        let offset = match (record.offset, self.last_offset) {
            (Some(offset), Some(last)) if offset <= last => return Err(WriteError::Offsets),
            (Some(offset), _) => offset,
            (None, Some(last)) => last.checked_add(1).ok_or(WriteError::Offsets)?,
            (None, None) => self.base_offset.unwrap_or(0),
        };
        if self.magic < Magic::V2 && !record.headers.is_empty() {
            return Err(WriteError::HeadersNeedMagic2);
        }
        let timestamp = record.timestamp.unwrap_or(-1);
        // Checked before anything is written: a record that is refused leaves the set as it was.
        if self.body.len().saturating_add(most_bytes(&record)) > MOST_BYTES {
            return Err(WriteError::TooLarge);
        }
        let base_offset = *self.base_offset.get_or_insert(offset);
        let delta = offset.checked_sub(base_offset).filter(|delta| *delta >= 0).ok_or(WriteError::Offsets)?;
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        match self.magic {
            Magic::V2 => {
                let delta = i32::try_from(delta).map_err(|_| WriteError::Offsets)?;
                write_record(&mut self.body, timestamp.wrapping_sub(self.base_timestamp), delta, &record)?;
            }
            // Inside a wrapper of magic 1 offsets are relative (KIP-31).
            Magic::V1 if self.codec != Codec::None => {
                write_message(&mut self.body, Magic::V1, delta, 0, timestamp, record.key, record.value)?;
            }
            magic => {
                let attributes = (self.timestamp_type as u8) << 3;
                let stamp = if self.timestamp_type == TimestampType::LogAppendTime {
                    self.append_time
                } else {
                    timestamp
                };
                let attributes = if magic == Magic::V0 { 0 } else { attributes };
                write_message(&mut self.body, magic, offset, attributes, stamp, record.key, record.value)?;
            }
        }
        self.last_offset = Some(offset);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        Ok(())
    }

    /// The bytes of the set. Without records: nothing, or for magic 2 an empty batch.
    pub fn finish(self) -> Result<Bytes, WriteError> {
        match self.magic {
            Magic::V2 => self.finish_batch(),
            _ if self.producer.0 >= 0 || self.transactional || self.control => {
                Err(WriteError::ProducerNeedsMagic2)
            }
            _ if self.codec == Codec::None || self.count == 0 => Ok(self.body.into_bytes()),
            _ => self.finish_wrapper(),
        }
    }

    fn finish_wrapper(self) -> Result<Bytes, WriteError> {
        if self.codec == Codec::Zstd {
            return Err(WriteError::Codec(CodecError::Unknown(self.codec.number())));
        }
        let value = compression::deflate(self.codec, self.magic, self.body.as_slice())?;
        let mut writer = Writer::new();
        let offset = self.last_offset.unwrap_or(0);
        let (stamp, stamp_type) = match (self.magic, self.timestamp_type) {
            (Magic::V0, _) => (-1, 0),
            (_, TimestampType::LogAppendTime) => (self.append_time, 0x08),
            _ => (self.max_timestamp, 0),
        };
        write_message(
            &mut writer,
            self.magic,
            offset,
            self.codec.number() | stamp_type,
            stamp,
            None,
            Some(&value),
        )?;
        Ok(writer.into_bytes())
    }

    fn finish_batch(self) -> Result<Bytes, WriteError> {
        let base_offset = self.base_offset.unwrap_or(0);
        let last_offset_delta = self.last_offset.map_or(0, |last| (last - base_offset) as i32);
        let records = if self.count == 0 {
            Vec::new()
        } else {
            compression::deflate(self.codec, Magic::V2, self.body.as_slice())?
        };
        let length = i32::try_from(BATCH_HEADER - 12 + records.len()).map_err(|_| WriteError::TooLarge)?;
        let attributes = i16::from(self.codec.number())
            | (self.timestamp_type as i16) << 3
            | i16::from(self.transactional) << 4
            | i16::from(self.control) << 5;
        let max_timestamp = match self.timestamp_type {
            TimestampType::CreateTime => self.max_timestamp,
            TimestampType::LogAppendTime => self.append_time,
        };
        let (producer_id, producer_epoch, base_sequence) = self.producer;
        let mut covered = Writer::new();
        covered.i16(attributes);
        covered.i32(last_offset_delta);
        covered.i64(self.base_timestamp);
        covered.i64(max_timestamp);
        covered.i64(producer_id);
        covered.i16(producer_epoch);
        covered.i32(base_sequence);
        covered.i32(self.count);
        covered.raw(&records);
        let mut writer = Writer::new();
        writer.i64(base_offset);
        writer.i32(length);
        writer.i32(self.leader_epoch);
        writer.i8(2);
        writer.i32(crc32c::crc32c(covered.as_slice()) as i32);
        writer.raw(covered.as_slice());
        Ok(writer.into_bytes())
    }
}

/// Bytes of records that a set may hold: far below what its size field can say.
const MOST_BYTES: usize = i32::MAX as usize / 2;

/// The most bytes that a record takes in any format.
fn most_bytes(record: &NewRecord<'_>) -> usize {
    let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let headers = record.headers.iter().map(|(key, value)| 10 + key.len() + length(*value));
    headers.fold(40 + length(record.key) + length(record.value), usize::saturating_add)
}

/// Length of a key or value that fits a record: `None` (null) as −1.
fn length(bytes: Option<&[u8]>) -> Result<i32, WriteError> {
    bytes.map_or(Ok(-1), |bytes| i32::try_from(bytes.len()).map_err(|_| WriteError::TooLarge))
}

fn write_record(
    body: &mut Writer,
    timestamp_delta: i64,
    offset_delta: i32,
    record: &NewRecord<'_>,
) -> Result<(), WriteError> {
    let mut writer = Writer::new();
    writer.i8(0);
    writer.varlong(timestamp_delta);
    writer.varint(offset_delta);
    for part in [record.key, record.value] {
        writer.varint(length(part)?);
        writer.raw(part.unwrap_or_default());
    }
    writer.varint(i32::try_from(record.headers.len()).map_err(|_| WriteError::TooLarge)?);
    for (key, value) in record.headers {
        writer.varint(length(Some(key))?);
        writer.raw(key);
        writer.varint(length(*value)?);
        writer.raw(value.unwrap_or_default());
    }
    body.varint(i32::try_from(writer.len()).map_err(|_| WriteError::TooLarge)?);
    body.raw(writer.as_slice());
    Ok(())
}

fn write_message(
    body: &mut Writer,
    magic: Magic,
    offset: i64,
    attributes: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<(), WriteError> {
    let mut covered = Writer::new();
    covered.i8(magic.number() as i8);
    covered.i8(attributes as i8);
    if magic == Magic::V1 {
        covered.i64(timestamp);
    }
    for part in [key, value] {
        covered.i32(length(part)?);
        covered.raw(part.unwrap_or_default());
    }
    body.i64(offset);
    body.i32(i32::try_from(covered.len() + 4).map_err(|_| WriteError::TooLarge)?);
    body.i32(crc32fast::hash(covered.as_slice()) as i32);
    body.raw(covered.as_slice());
    Ok(())
}
