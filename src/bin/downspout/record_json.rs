//! The part of a record's JSON that `decode records` and `consume --json` share.

use std::io::Write;

use downspout::records::Record;

use crate::output::Output;

/// `,"timestamp":…` to `"headers":[…]`, to stand after the offset.
#[inline]
pub(crate) fn content<W: Write>(output: &mut Output<W>, record: &Record<'_>) {
    output.raw(b",\"timestamp\":");
    match record.timestamp() {
        Some(timestamp) => output.integer(timestamp),
        None => output.raw(b"null"),
    }
    output.raw(match record.timestamp_type().map(|kind| kind.name()) {
        Some("CreateTime") => b",\"timestamp_type\":\"CreateTime\",\"key\":",
        Some(_) => b",\"timestamp_type\":\"LogAppendTime\",\"key\":",
        None => b",\"timestamp_type\":null,\"key\":",
    });
    output.nullable_bytes(record.key());
    output.raw(b",\"value\":");
    output.nullable_bytes(record.value());
    output.raw(b",\"headers\":[");
    let mut before: &[u8] = b"{\"key\":";
    for header in record.headers() {
        output.raw(before);
        output.bytes(header.key);
        output.raw(b",\"value\":");
        output.nullable_bytes(header.value);
        output.raw(b"}");
        before = b",{\"key\":";
    }
    output.raw(b"]");
}
