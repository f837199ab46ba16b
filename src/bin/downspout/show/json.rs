//! A record as JSON, with kcat's names or ours.

use std::io::Write;

use downspout::records::TimestampType;

use super::Shown;
use crate::output::Output;

/// kcat's names: no time where the format has none, headers as one flat list and only if there
/// are any.
pub(super) fn envelope<W: Write>(output: &mut Output<W>, shown: Shown<'_>) {
    let Shown { broker, content, .. } = shown;
    origin(output, shown);
    if let (Some(timestamp), Some(kind)) = (content.timestamp, content.timestamp_type) {
        output.raw(match kind {
            TimestampType::CreateTime => b",\"tstype\":\"create\",\"ts\":",
            TimestampType::LogAppendTime => b",\"tstype\":\"logappend\",\"ts\":",
        });
        output.integer(timestamp);
    }
    output.raw(b",\"broker\":");
    output.integer(broker.into());
    if !content.headers.is_empty() {
        output.raw(b",\"headers\":");
        let mut before: &[u8] = b"[";
        for header in content.headers {
            output.raw(before);
            output.bytes(header.key);
            output.raw(b",");
            output.nullable_bytes(header.value);
            before = b",";
        }
        output.raw(b"]");
    }
    output.raw(b",\"key\":");
    output.nullable_bytes(content.key);
    output.raw(b",\"payload\":");
    output.nullable_bytes(content.value);
    output.raw(b"}\n");
}

/// Our names, which `decode records` uses too.
pub(super) fn ours<W: Write>(output: &mut Output<W>, shown: Shown<'_>) {
    origin(output, shown);
    shown.content.write(output);
    if let Some(damage) = shown.damage {
        output.raw(b",\"damage\":");
        output.string(damage);
    }
    output.raw(b"}\n");
}

fn origin<W: Write>(output: &mut Output<W>, shown: Shown<'_>) {
    output.raw(b"{\"topic\":");
    output.string(shown.topic);
    output.raw(b",\"partition\":");
    output.integer(shown.partition.into());
    output.raw(b",\"offset\":");
    output.integer(shown.offset);
}
