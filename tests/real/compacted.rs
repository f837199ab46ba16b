//! A compacted topic with holes: at the front, in the middle and at the end of batches, plain and compressed.

use std::time::Duration;

use crate::corpus::{self, Entry, THEN};
use crate::harness::{Result, Seen, Send, wait_for};
use crate::stage::Stage;
use crate::{cli, raw, reads, record, simple_reads};
use downspout::records::Isolation;

pub const TOPIC: &str = "compacted";

pub struct Expected {
    /// All that was ever written.
    pub written: Vec<Entry>,
    /// What the release's own consumer still sees, after the cleaner has been at it.
    pub left: Vec<Seen>,
}

impl Expected {
    pub fn end(&self) -> i64 {
        self.written.last().map_or(0, |last| last.offset + 1)
    }
}

/// Writes keys again and again and waits until the log cleaner has removed what is outdated.
pub fn produce(stage: &mut Stage) -> Result<Expected> {
    let segment = stage.release.small_segments();
    let config = ["cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", segment];
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &config)?;
    for codec in ["none", "gzip"] {
        stage.driver.producer(codec, &[&format!("compression.type={codec}")])?;
    }
    let mut written = Vec::new();
    let mut serial = 0;
    for round in 0..4 {
        for codec in ["none", "gzip"] {
            // Each round leaves other keys alone, so that batches lose different parts.
            let records: Vec<Send> = (0..24)
                .filter(|key| key % (round + 2) != 0 || round == 0)
                .map(|key| {
                    serial += 1;
                    let tombstone = round == 3 && key == 7;
                    Send {
                        timestamp: stage.release.has_timestamps().then_some(THEN + serial),
                        key: Some(format!("{codec}-{key}").into_bytes()),
                        value: (!tombstone).then(|| corpus::noise(300, serial as u64)),
                        ..Send::default()
                    }
                })
                .collect();
            corpus::place(&mut written, stage.driver.send(codec, TOPIC, &records)?, stage.release);
        }
    }
    // The active segment is never cleaned: push all that into older ones.
    for i in 0..4 {
        let value = Some(corpus::noise(9000, i));
        let filler = Send { key: Some(format!("filler-{i}").into_bytes()), value, ..Send::default() };
        corpus::place(&mut written, stage.driver.send("none", TOPIC, &[filler])?, stage.release);
    }
    let mut expected = Expected { written, left: Vec::new() };
    let newest_keys = 2 * 24 + 4; // one record is left of each key
    expected.left = wait_for("the log cleaner", Duration::from_secs(40), || {
        let seen = stage.driver.read(TOPIC, 0, 0, expected.end(), false)?;
        std::thread::sleep(Duration::from_millis(100)); // the pace of asking
        Ok((seen.len() == newest_keys).then_some(seen))
    })?;
    let oldest = stage.kafka.partition_dir(0, TOPIC, 0).join("00000000000000000000.log");
    record::records(stage.release, "compacted", &std::fs::read(oldest).map_err(|e| e.to_string())?)?;
    Ok(expected)
}

/// What is left are records as they were written, at their offsets, and there are holes between them.
pub fn own_consumer(expected: &Expected) -> Result<()> {
    let mut holes = 0;
    let mut next = 0;
    for seen in &expected.left {
        let written = expected.written.iter().find(|entry| entry.offset == seen.offset);
        let written = written.ok_or_else(|| format!("nothing was written at {}", seen.offset))?;
        if (&written.record.key, &written.record.value) != (&seen.key, &seen.value) {
            return Err(format!("at {} stands another record than was written", seen.offset));
        }
        holes += usize::from(seen.offset != next);
        next = seen.offset + 1;
    }
    if holes < 10 { Err(format!("only {holes} holes")) } else { Ok(()) }
}

/// We find what the release's own consumer does, with the times and all.
pub fn ours(stage: &Stage, expected: &Expected) -> Result<()> {
    let seen = raw::read(stage, TOPIC, 0, expected.end(), Isolation::ReadCommitted)?;
    reads::same_records("our decoder", &expected.left, &seen)?;
    simple_reads::same(stage, TOPIC, &expected.left, expected.end())?;
    cli::same(stage, TOPIC, &expected.left, &[])
}
