//! Record sets made by Kafka's own classes (`protocol-specs/golden/java`), and what must come out.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use downspout::records::{CrcCheck, Isolation, Magic, ReadOptions, RecordSet};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("protocol-specs/golden/records")
}

struct Case {
    name: String,
    set: Vec<u8>,
    lines: String,
}

fn cases() -> Vec<Case> {
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(folder().join("index.json")).unwrap()).unwrap();
    let case = |entry: &serde_json::Value| {
        let name = entry["name"].as_str().unwrap().to_owned();
        let file = |kind: &str| folder().join(format!("{name}.{kind}"));
        let (set, lines) = (fs::read(file("bin")).unwrap(), fs::read_to_string(file("jsonl")).unwrap());
        Case { name, set, lines }
    };
    index.as_array().unwrap().iter().map(case).collect()
}

fn all_of_it() -> ReadOptions {
    ReadOptions { isolation: Isolation::ReadUncommitted, control_batches: true, ..ReadOptions::default() }
}

/// Reads everything that can be read; gives how many records there were, and how many errors.
fn walk(bytes: &Bytes, crc: CrcCheck) -> (usize, usize) {
    let (mut records, mut errors) = (0, 0);
    let options = ReadOptions { crc, max_inflated: 4 << 20, ..all_of_it() };
    for batch in RecordSet::new(bytes.clone()).batches(options) {
        let Ok(batch) = batch else {
            errors += 1;
            continue;
        };
        for record in batch.records() {
            match record {
                Ok(record) => records += usize::from(record.headers().count() < usize::MAX),
                Err(_) => errors += 1,
            }
        }
    }
    (records, errors)
}

#[test]
fn the_index_names_every_file_and_every_release() {
    let mut files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|file| file != "index.json")
        .collect();
    let cases = cases();
    for case in &cases {
        assert!(files.remove(&format!("{}.bin", case.name)), "{} stands twice", case.name);
        assert!(files.remove(&format!("{}.jsonl", case.name)));
    }
    assert_eq!(files, BTreeSet::new(), "in no index");
    for release in ["0.8.1.1", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.2", "4.4.0"] {
        assert!(cases.iter().any(|case| case.name.starts_with(&format!("{release}-"))), "{release}");
    }
}

#[test]
fn decode_records_prints_what_kafkas_own_reader_reads() {
    for case in cases() {
        let file = folder().join(format!("{}.bin", case.name));
        let run = Command::new(env!("CARGO_BIN_EXE_downspout"))
            .args(["decode", "records", "--input", "binary"])
            .arg(file)
            .output()
            .unwrap();
        let out = String::from_utf8(run.stdout).unwrap();
        for (line, (got, want)) in out.lines().zip(case.lines.lines()).enumerate() {
            assert_eq!(got, want, "{} line {}", case.name, line + 1);
        }
        assert_eq!(out.len(), case.lines.len(), "{}", case.name);
        assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(0), &b""[..]), "{}", case.name);
    }
}

/// A cut is never damage, and takes whole entries only.
#[test]
fn a_golden_set_cut_anywhere_gives_a_prefix_and_no_error() {
    for case in cases() {
        let set = Bytes::from(case.set);
        let (whole, _) = walk(&set, CrcCheck::Skip);
        let step = (set.len() / 400).max(1);
        let mut before = 0;
        for end in (0..set.len()).step_by(step) {
            let (records, errors) = walk(&set.slice(..end), CrcCheck::Skip);
            assert_eq!(errors, 0, "{} cut to {end}", case.name);
            assert!(before <= records && records <= whole, "{} cut to {end}", case.name);
            before = records;
        }
    }
}

/// With and without the checksum to catch it.
#[test]
fn a_byte_flipped_in_a_golden_set_never_panics_and_the_checksum_sees_it() {
    for case in cases() {
        let set = Bytes::from(case.set.clone());
        let (whole, _) = walk(&set, CrcCheck::Verify);
        let step = (set.len() / 250).max(1);
        for at in (0..set.len()).step_by(step) {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = case.set.clone();
                bytes[at] ^= flip;
                let bytes = Bytes::from(bytes);
                let (records, _) = walk(&bytes, CrcCheck::Verify);
                assert!(records <= whole, "{} byte {at} ^ {flip:02x}: more records than before", case.name);
                walk(&bytes, CrcCheck::Skip);
                // Damage in one entry hides no other, as long as the entries can be told apart.
                RecordSet::new(bytes).entries().filter_map(Result::ok).for_each(|entry| {
                    assert!(entry.magic() <= Magic::V2);
                });
            }
        }
    }
}
