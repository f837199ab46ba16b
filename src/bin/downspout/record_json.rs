//! The part of a record's JSON that `decode records` and `consume --json` share.

use std::io::Write;

use downspout::records::{Headers, Record, TimestampType};

use crate::output::Output;

/// What a record holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Content<'a> {
    pub(crate) timestamp: Option<i64>,
    pub(crate) timestamp_type: Option<TimestampType>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers<'a>,
}

impl<'a> From<&Record<'a>> for Content<'a> {
    #[inline]
    fn from(record: &Record<'a>) -> Self {
        Content {
            timestamp: record.timestamp(),
            timestamp_type: record.timestamp_type(),
            key: record.key(),
            value: record.value(),
            headers: record.headers(),
        }
    }
}

impl Content<'_> {
    /// `,"timestamp":…` to `"headers":[…]`, to stand after the offset.
    #[inline]
    pub(crate) fn write<W: Write>(&self, output: &mut Output<W>) {
        output.raw(b",\"timestamp\":");
        match self.timestamp {
            Some(timestamp) => output.integer(timestamp),
            None => output.raw(b"null"),
        }
        output.raw(match self.timestamp_type {
            Some(TimestampType::CreateTime) => b",\"timestamp_type\":\"CreateTime\",\"key\":",
            Some(TimestampType::LogAppendTime) => b",\"timestamp_type\":\"LogAppendTime\",\"key\":",
            None => b",\"timestamp_type\":null,\"key\":",
        });
        output.nullable_bytes(self.key);
        output.raw(b",\"value\":");
        output.nullable_bytes(self.value);
        output.raw(b",\"headers\":[");
        let mut before: &[u8] = b"{\"key\":";
        for header in self.headers {
            output.raw(before);
            output.bytes(header.key);
            output.raw(b",\"value\":");
            output.nullable_bytes(header.value);
            output.raw(b"}");
            before = b",{\"key\":";
        }
        output.raw(b"]");
    }
}
