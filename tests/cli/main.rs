//! The `downspout` command, run as a user runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod bombs;
mod broker;
mod checkpoints;
mod consuming;
mod decode_frames;
mod decode_records;
mod demo;
mod dlq;
mod following;
mod generated;
mod migrate;
mod reading;
mod spout;
mod usage;
mod vectors;
mod writing;

use std::io::Write;
use std::process::{Command, Stdio};

/// What a run of the command gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The lines of standard output, each as JSON.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
            .collect()
    }
}

/// Runs the command with `input` on its standard input.
pub(crate) fn downspout(args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_downspout"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command may stop reading early: a broken pipe is no failure of the test.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Bytes written in hex.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
