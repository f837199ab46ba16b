use bytes::Bytes;

use super::varint::{zigzag32, zigzag64};
use super::{EncodeError, Uuid};

/// Bytes in the making, and the name of what is being written.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    buffer: Vec<u8>,
    field: &'static str,
}

impl Writer {
    /// Nothing written yet.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Names what is written next, for errors.
    pub fn field(&mut self, field: &'static str) -> &mut Self {
        self.field = field;
        self
    }

    /// The field being written.
    pub fn current_field(&self) -> &'static str {
        self.field
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// What was written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer
    }

    /// What was written.
    pub fn into_vec(self) -> Vec<u8> {
        self.buffer
    }

    /// What was written.
    pub fn into_bytes(self) -> Bytes {
        self.buffer.into()
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Overwrites four bytes at `at`, which were written before: a size known only now.
    pub fn patch_i32(&mut self, at: usize, value: i32) {
        self.buffer[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// BOOLEAN.
    pub fn bool(&mut self, value: bool) {
        self.buffer.push(u8::from(value));
    }

    /// INT8.
    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    /// INT16.
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// INT32.
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// INT64.
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// UUID.
    pub fn uuid(&mut self, value: Uuid) {
        self.raw(&value.0);
    }

    /// UNSIGNED_VARINT.
    pub fn unsigned_varint(&mut self, value: u32) {
        self.base128(u64::from(value));
    }

    /// VARINT (zigzag).
    pub fn varint(&mut self, value: i32) {
        self.base128(u64::from(zigzag32(value)));
    }

    /// VARLONG (zigzag).
    pub fn varlong(&mut self, value: i64) {
        self.base128(zigzag64(value));
    }

    fn base128(&mut self, mut bits: u64) {
        while bits >= 0x80 {
            self.buffer.push(bits as u8 | 0x80);
            bits >>= 7;
        }
        self.buffer.push(bits as u8);
    }

    /// The length of a string, `None` for null.
    pub fn string_length(&mut self, length: Option<usize>, compact: bool) -> Result<(), EncodeError> {
        let length = self.fitting(length, i16::MAX as usize)?;
        if compact {
            self.compact_length(length)
        } else {
            self.i16(length as i16)
        }
        Ok(())
    }

    /// The length of a byte string or the count of an array, `None` for null.
    pub fn length(&mut self, length: Option<usize>, compact: bool) -> Result<(), EncodeError> {
        let length = self.fitting(length, i32::MAX as usize)?;
        if compact {
            self.compact_length(length)
        } else {
            self.i32(length)
        }
        Ok(())
    }

    fn compact_length(&mut self, length: i32) {
        self.unsigned_varint((i64::from(length) + 1) as u32);
    }

    fn fitting(&self, length: Option<usize>, most: usize) -> Result<i32, EncodeError> {
        match length {
            None => Ok(-1),
            Some(length) if length <= most => Ok(length as i32),
            Some(length) => Err(EncodeError::TooLong { field: self.field, length }),
        }
    }
}
