//! A topic whose record format was upgraded in place: magic 0, 1 and 2 in one log.

use std::path::Path;
use std::time::Duration;

use crate::corpus::{self, Entry, THEN};
use crate::harness::{Release, Result, Send, wait_for};
use crate::reads;
use crate::stage::Stage;

pub const TOPIC: &str = "upgraded";

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
    let found = magics(&segment(stage))?;
    if !formats.iter().all(|(magic, _)| found.contains(magic)) {
        return Err(format!("the log has magics {found:?} only"));
    }
    // Older formats carry no time, or not the one that was given.
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

/// The release's own consumer sees the records; their times are its word.
pub fn own_consumer(stage: &mut Stage, entries: &mut [Entry]) -> Result<()> {
    let end = entries.last().map_or(0, |last| last.offset + 1);
    let seen = stage.driver.read(TOPIC, 0, 0, end, false)?;
    for (entry, seen) in entries.iter_mut().zip(&seen) {
        entry.timestamp = seen.timestamp.filter(|&time| time >= 0);
    }
    reads::compare(TOPIC, entries, &seen)
}

fn segment(stage: &Stage) -> std::path::PathBuf {
    stage.kafka.partition_dir(0, TOPIC, 0).join("00000000000000000000.log")
}

fn last_magic(stage: &Stage) -> Result<u8> {
    magics(&segment(stage))?.pop().ok_or_else(|| "an empty log".to_owned())
}

/// The magic byte of each entry of a segment: offset, length, and it stands at 16 in all formats.
pub fn magics(segment: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(segment).map_err(|e| format!("{}: {e}", segment.display()))?;
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while let Some(length) = rest.get(8..12).map(|l| u32::from_be_bytes(l.try_into().unwrap()) as usize)
        && let Some(&magic) = rest.get(16)
        && rest.len() >= 12 + length
        && length > 0
    {
        found.push(magic);
        rest = &rest[12 + length..];
    }
    Ok(found)
}

/// Whether a release can do this by its own means; the others are given the files.
pub fn by_configuration(release: &Release) -> bool {
    release.upgrades_in_place()
}
