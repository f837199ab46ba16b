//! Small inputs that become large, and readers that leave early.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use downspout::records::{Codec, Magic, NewRecord, RecordSetWriter};

use crate::{downspout, hex, vectors::vector};

fn bomb(magic: Magic, codec: Codec, size: usize) -> Vec<u8> {
    let mut writer = RecordSetWriter::new(magic).codec(codec).base_offset(10);
    writer.push(NewRecord::value(&vec![0; size])).unwrap();
    writer.finish().unwrap().to_vec()
}

#[test]
fn what_inflates_beyond_the_limit_is_an_error_and_not_memory() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        for magic in [Magic::V0, Magic::V1, Magic::V2] {
            if magic != Magic::V2 && codec == Codec::Zstd {
                continue;
            }
            let set = bomb(magic, codec, 8 << 20);
            let run = downspout(&["decode", "records", "--max-inflated", "1000000"], &set);
            assert_eq!((run.code, run.err.as_str()), (1, ""), "{codec} {magic:?}");
            let lines = run.lines();
            assert_eq!(lines.len(), 1, "{codec} {magic:?}");
            let error = lines[0]["error"].as_str().unwrap();
            assert!(
                error.contains("1000000") && error.contains("--max-inflated"),
                "{codec} {magic:?}: {error}"
            );
        }
    }
}

#[test]
fn the_limit_is_one_for_the_whole_run() {
    let mut sets = Vec::new();
    for _ in 0..3 {
        sets.extend(bomb(Magic::V2, Codec::Zstd, 400_000));
    }
    let run = downspout(&["decode", "records", "--max-inflated", "1000000"], &sets);
    assert_eq!(run.code, 1);
    let lines = run.lines();
    assert_eq!(lines.len(), 3, "two records, then the error");
    assert!(lines[2].get("error").is_some());
    assert_eq!(downspout(&["decode", "records", "--max-inflated", "1300000"], &sets).code, 0);
}

#[test]
fn many_tiny_records_from_a_small_input_pass() {
    let mut writer = RecordSetWriter::new(Magic::V2).codec(Codec::Gzip);
    for _ in 0..500_000 {
        writer.push(NewRecord::default()).unwrap();
    }
    let set = writer.finish().unwrap();
    let run = downspout(&["decode", "records"], &set);
    assert_eq!(run.code, 0);
    assert!(run.out.ends_with("{\"next_offset\":500000,\"partial_bytes\":0}\n"));
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let file = std::env::temp_dir().join(format!("downspout-{}-pipe.log", std::process::id()));
    std::fs::write(&file, hex(vector("F12")).repeat(100_000)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_downspout"))
        .args(["decode", "records"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"offset\":10,"));
    let code = child.wait().unwrap().code();
    std::fs::remove_file(&file).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((code, err.as_str()), (Some(0), ""));
}
