//! A topic whose record format was upgraded in place: magic 0, 1 and 2 in one log.

use std::path::Path;
use std::time::Duration;

use crate::corpus::{self, Entry, THEN};
use crate::harness::{Result, Seen, Send, wait_for};
use crate::stage::Stage;
use crate::{cli, raw, reads, record, simple_reads};
use downspout::records::Isolation;

pub const TOPIC: &str = "upgraded";

/// A log with all three formats in all codecs they had, written by a broker of 2.8.2 (this very check of that
/// release), for releases that can't make one any more.
const LOG: &[u8] = include_bytes!("../../protocol-specs/golden/real/upgraded-2.8.2.records");

/// By configuration where that works, else from the file; then read by the release's own consumer and by us.
pub fn all(stage: &mut Stage) -> Result<()> {
    let expected = if stage.release.upgrades_in_place() {
        let mut entries = produce(stage)?;
        let end = entries.last().map_or(0, |last| last.offset + 1);
        let seen = stage.driver.read(TOPIC, 0, 0, end, false)?;
        // Older formats carry no time, or not the one that was given: the consumer's word counts.
        for (entry, seen) in entries.iter_mut().zip(&seen) {
            entry.timestamp = seen.timestamp;
        }
        reads::compare(TOPIC, &entries, &seen)?;
        let log = std::fs::read(segment(stage)).map_err(|e| e.to_string())?;
        record::records(stage.release, "upgraded", &log)?;
        seen
    } else {
        place_file(stage)?;
        let end = magics(&segment(stage))?.1;
        stage.driver.read(TOPIC, 0, 0, end, false)?
    };
    if expected.len() < 20 {
        return Err(format!("only {} records", expected.len()));
    }
    let end = expected[expected.len() - 1].offset + 1;
    let seen = raw::read(stage, TOPIC, 0, end, Isolation::ReadCommitted)?;
    let expected: Vec<Seen> = expected.into_iter().map(without_no_time).collect();
    let seen: Vec<Seen> = seen.into_iter().map(without_no_time).collect();
    reads::same_records("our decoder", &expected, &seen)?;
    simple_reads::same(stage, TOPIC, &expected, end)?;
    cli::same(stage, TOPIC, &expected, &[])
}

/// Java says −1 of type NoTimestampType where there is no time.
fn without_no_time(mut seen: Seen) -> Seen {
    if seen.timestamp_type.as_deref() == Some("NoTimestampType") {
        (seen.timestamp, seen.timestamp_type) = (None, None);
    }
    seen
}

/// Gives a stopped broker the segment, and starts it again.
fn place_file(stage: &mut Stage) -> Result<()> {
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &[])?;
    stage.kafka.stop(0)?;
    let segment = segment(stage);
    let text = |e: std::io::Error| e.to_string();
    for file in std::fs::read_dir(segment.parent().ok_or("no folder")?).map_err(text)? {
        let path = file.map_err(text)?.path();
        if path.file_stem() == segment.file_stem() {
            std::fs::remove_file(path).map_err(text)?; // its indexes belong to the old contents
        }
    }
    std::fs::write(segment, LOG).map_err(text)?;
    stage.kafka.start_again(0)?;
    stage.kafka.wait_topic(TOPIC, 1)
}

/// Writes the topic, changing `message.format.version` on the way.
pub fn produce(stage: &mut Stage) -> Result<Vec<Entry>> {
    let release = stage.release;
    let formats: &[(u8, &str)] =
        &[(0, "0.9.0"), (1, "0.10.0"), (2, "0.11.0")][..=usize::from(release.magic())];
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &["message.format.version=0.9.0"])?;
    let codecs: Vec<&str> = release.codecs().iter().copied().filter(|codec| *codec != "zstd").collect();
    for codec in &codecs {
        stage.driver.producer(&format!("upgrade-{codec}"), &[&format!("compression.type={codec}")])?;
    }
    let mut entries = Vec::new();
    for (magic, version) in formats {
        stage.driver.alter_topic(TOPIC, &[&format!("message.format.version={version}")])?;
        // The change takes its time; records tell when it is there.
        wait_for(&format!("records of magic {magic}"), Duration::from_secs(20), || {
            send(stage, "upgrade-none", &mut entries, 1)?;
            Ok((last_magic(stage)? == *magic).then_some(()))
        })?;
        for codec in &codecs {
            send(stage, &format!("upgrade-{codec}"), &mut entries, 5)?;
        }
    }
    let found = magics(&segment(stage))?.0;
    if !formats.iter().all(|(magic, _)| found.contains(magic)) {
        return Err(format!("the log has magics {found:?} only"));
    }
    Ok(entries)
}

fn send(stage: &mut Stage, producer: &str, entries: &mut Vec<Entry>, count: usize) -> Result<()> {
    let records: Vec<Send> = (0..count)
        .map(|i| {
            let serial = entries.len() + i;
            let (key, value) = (format!("k{serial}").into_bytes(), format!("value {serial}").into_bytes());
            Send {
                timestamp: Some(THEN + serial as i64),
                key: Some(key),
                value: Some(value),
                ..Send::default()
            }
        })
        .collect();
    corpus::place(entries, stage.driver.send(producer, TOPIC, &records)?, stage.release);
    Ok(())
}

fn segment(stage: &Stage) -> std::path::PathBuf {
    stage.kafka.partition_dir(0, TOPIC, 0).join("00000000000000000000.log")
}

fn last_magic(stage: &Stage) -> Result<u8> {
    magics(&segment(stage))?.0.pop().ok_or_else(|| "an empty log".to_owned())
}

/// The magic byte of each entry of a segment: offset, length, and it stands at 16 in all formats.
/// And the offset after the last entry, for logs that were written in one go: magic 0 and 1 have their own offset
/// there, magic 2 its first one and at 23 what to add for the last.
fn magics(segment: &Path) -> Result<(Vec<u8>, i64)> {
    let bytes = std::fs::read(segment).map_err(|e| format!("{}: {e}", segment.display()))?;
    let mut rest = &bytes[..];
    let (mut found, mut end) = (Vec::new(), 0);
    while let Some(length) = rest.get(8..12).map(|l| u32::from_be_bytes(l.try_into().unwrap()) as usize)
        && let Some(&magic) = rest.get(16)
        && rest.len() >= 12 + length
        && length > 0
    {
        let number =
            |at: usize, size: usize| rest[at..at + size].iter().fold(0, |n, byte| n << 8 | i64::from(*byte));
        end = number(0, 8) + if magic == 2 { number(23, 4) } else { 0 } + 1;
        found.push(magic);
        rest = &rest[12 + length..];
    }
    Ok((found, end))
}
