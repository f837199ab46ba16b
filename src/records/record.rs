//! Records, lent out of a batch or owned.

use bytes::Bytes;

use super::TimestampType;
use crate::wire::take_varint;

/// A record, lent out of a [`Batch`](super::Batch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    offset: i64,
    /// 0 where there is none.
    timestamp: i64,
    /// `None` where there is no timestamp.
    timestamp_type: Option<TimestampType>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Its offset.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Its timestamp, in ms since 1970; −1 where the producer gave none; `None` for magic 0, which
    /// has none.
    #[inline]
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp_type.map(|_| self.timestamp)
    }

    /// Whose clock the timestamp is from; `None` for magic 0.
    #[inline]
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        self.timestamp_type
    }

    /// Its key; null and empty are two things.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// Its value; null (a tombstone) and empty are two things.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// Its headers, in order; a key may come more than once (KIP-82).
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }

    /// A copy that holds on to nothing.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord::of(self)
    }

    /// Nothing at all.
    pub(crate) fn empty() -> Self {
        Record::new(-1, (0, None), None, None, Headers::default())
    }

    #[inline(always)]
    pub(super) fn new(
        offset: i64,
        (timestamp, timestamp_type): (i64, Option<TimestampType>),
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        headers: Headers<'a>,
    ) -> Self {
        Record { offset, timestamp, timestamp_type, key, value, headers }
    }
}

/// A header: a key, which need not be UTF-8 nor be there only once, and a value that may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value; null and empty are two things.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, read as they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    /// Bytes that were found to be whole headers when the record was read.
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Headers<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], count: usize) -> Self {
        Headers { bytes, count }
    }

    /// The first header with this key.
    pub fn get(self, key: &[u8]) -> Option<Header<'a>> {
        self.into_iter().find(|header| header.key == key)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        if self.count == 0 {
            return None;
        }
        let key = take_sized(&mut self.bytes)??;
        let value = take_sized(&mut self.bytes)?;
        self.count -= 1;
        Some(Header { key, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Takes a byte string behind a VARINT length off the front; −1 is null. `None` if it does not fit.
#[inline(always)]
pub(super) fn take_sized<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = take_varint(bytes)?;
    if length < 0 {
        return (length == -1).then_some(None);
    }
    let (taken, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(Some(taken))
}

/// A record on its own: one copy of its bytes, so that it keeps no batch or response alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    offset: i64,
    timestamp: Option<i64>,
    timestamp_type: Option<TimestampType>,
    /// Key, value and headers, one after another.
    bytes: Bytes,
    key_length: Option<usize>,
    value_length: Option<usize>,
    headers_count: usize,
}

impl OwnedRecord {
    fn of(record: &Record<'_>) -> Self {
        let parts = [record.key.unwrap_or_default(), record.value.unwrap_or_default(), record.headers.bytes];
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        OwnedRecord {
            offset: record.offset,
            timestamp: record.timestamp(),
            timestamp_type: record.timestamp_type,
            bytes: bytes.into(),
            key_length: record.key.map(<[u8]>::len),
            value_length: record.value.map(<[u8]>::len),
            headers_count: record.headers.count,
        }
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// As [`Record::timestamp`].
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// As [`Record::timestamp_type`].
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        self.timestamp_type
    }

    /// Its key; null and empty are two things.
    pub fn key(&self) -> Option<&[u8]> {
        self.key_length.map(|length| &self.bytes[..length])
    }

    /// Its value; null and empty are two things.
    pub fn value(&self) -> Option<&[u8]> {
        self.value_length.map(|length| &self.bytes[self.value_start()..][..length])
    }

    /// Its key, sharing this record's own buffer.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.key_length.map(|length| self.bytes.slice(..length))
    }

    /// Its value, sharing this record's own buffer.
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.value_length.map(|length| self.bytes.slice(self.value_start()..self.value_start() + length))
    }

    /// Its headers, in order.
    pub fn headers(&self) -> Headers<'_> {
        let start = self.value_start() + self.value_length.unwrap_or(0);
        Headers::new(&self.bytes[start..], self.headers_count)
    }

    fn value_start(&self) -> usize {
        self.key_length.unwrap_or(0)
    }
}
