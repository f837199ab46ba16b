//! The lines of the protocol: records that go to a command, and what it answers. `docs/spout-exec.md`
//! has it in words.

use std::io::Write;

use downspout::spout::Delivery;

use crate::output::Output;
use crate::record_json::Content;

/// The version of the protocol that the first line tells.
const VERSION: i64 = 1;

/// The first line, which tells what the lines after it are.
pub(super) fn hello<W: Write>(line: &mut Output<W>, spout: &str, worker: usize, concurrency: usize) {
    let integer = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    line.raw(b"{\"protocol\":\"downspout\",\"version\":");
    line.integer(VERSION);
    line.raw(b",\"spout\":");
    line.string(spout);
    line.raw(b",\"worker\":");
    line.integer(integer(worker));
    line.raw(b",\"concurrency\":");
    line.integer(integer(concurrency));
    line.raw(b"}\n");
}

/// A record.
pub(super) fn record<W: Write>(line: &mut Output<W>, delivery: &Delivery) {
    line.raw(b"{\"id\":");
    line.string(&delivery.id().to_string());
    line.raw(b",\"topic\":");
    line.string(delivery.topic());
    line.raw(b",\"partition\":");
    line.integer(delivery.partition().into());
    line.raw(b",\"offset\":");
    line.integer(delivery.offset());
    line.raw(b",\"attempt\":");
    line.integer(delivery.attempt().into());
    Content::from(&delivery.record()).write(line);
    line.raw(b"}\n");
}

/// What a command answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Ack(&'a str),
    Fail(&'a str, &'a str),
    /// An empty line.
    Nothing,
    /// Anything else.
    Unknown,
}

/// Reads a line without its end.
pub(super) fn reply(line: &[u8]) -> Reply<'_> {
    let Ok(line) = std::str::from_utf8(line) else { return Reply::Unknown };
    let line = line.trim();
    if line.is_empty() {
        return Reply::Nothing;
    }
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let rest = rest.trim_start();
    match word {
        "ack" if !rest.is_empty() => Reply::Ack(rest),
        "fail" if !rest.is_empty() => {
            let (id, reason) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            Reply::Fail(id, reason.trim_start())
        }
        _ => Reply::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_and_fails_are_read_and_nothing_else_is_either() {
        let table: [(&str, Reply<'_>); 16] = [
            ("ack clicks/0/17/1/1", Reply::Ack("clicks/0/17/1/1")),
            ("  ack\tx \r", Reply::Ack("x")),
            ("fail x", Reply::Fail("x", "")),
            ("fail x no such  customer ", Reply::Fail("x", "no such  customer")),
            ("fail x\tno", Reply::Fail("x", "no")),
            // This is no record's name, and so no ack.
            ("ack x y", Reply::Ack("x y")),
            ("", Reply::Nothing),
            (" \r", Reply::Nothing),
            ("ack", Reply::Unknown),
            ("ack ", Reply::Unknown),
            ("fail", Reply::Unknown),
            ("ACK x", Reply::Unknown),
            ("acks x", Reply::Unknown),
            ("ok x", Reply::Unknown),
            ("{\"ack\":\"x\"}", Reply::Unknown),
            ("ackx", Reply::Unknown),
        ];
        for (line, expected) in table {
            assert_eq!(reply(line.as_bytes()), expected, "{line:?}");
        }
        assert_eq!(reply(b"ack \xff"), Reply::Unknown);
    }

    #[test]
    fn the_first_line_states_the_version() {
        let mut sink = Vec::new();
        let mut line = Output::new(&mut sink);
        hello(&mut line, "bill\"ing", 1, 8);
        line.flush().unwrap();
        drop(line);
        let json: serde_json::Value = serde_json::from_slice(&sink).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"protocol": "downspout", "version": 1, "spout": "bill\"ing", "worker": 1, "concurrency": 8})
        );
    }
}
