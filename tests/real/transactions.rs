//! A topic with committed, aborted and open transactions of two producers, interleaved.

use crate::corpus::{self, Entry, THEN};
use crate::harness::{Result, Send};
use crate::stage::Stage;
use crate::{cli, reads, record};

pub const TOPIC: &str = "transactions";

/// What a reader of the topic must see.
pub struct Expected {
    /// Up to the last stable offset, without what was aborted.
    pub committed: Vec<Entry>,
    /// Every record.
    pub uncommitted: Vec<Entry>,
    /// The first offset of the transaction that is still open.
    pub last_stable: i64,
    pub end: i64,
}

/// Writes the topic: markers stand between the records, and the offsets show it.
pub fn produce(stage: &mut Stage) -> Result<Expected> {
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &[])?;
    // Left open for longer than a test takes.
    let patient = "transaction.timeout.ms=600000";
    stage.driver.producer("a", &["transactional.id=a", patient])?;
    stage.driver.producer("b", &["transactional.id=b", patient, "compression.type=gzip"])?;
    stage.driver.producer("plain", &[])?;

    let (mut committed, mut uncommitted, mut aborted) = (Vec::new(), Vec::new(), Vec::new());
    let mut serial = 0;
    let mut batch = |count: usize| -> Vec<Send> {
        (0..count)
            .map(|_| {
                serial += 1;
                let value = Some(format!("record {serial}").into_bytes());
                Send { timestamp: Some(THEN + serial), key: Some(b"k".to_vec()), value, ..Send::default() }
            })
            .collect()
    };
    let release = stage.release;
    macro_rules! step {
        ($what:ident $producer:literal) => {
            stage.driver.$what($producer)?
        };
        ($producer:literal $count:literal => $fate:ident) => {
            corpus::place(&mut $fate, stage.driver.send($producer, TOPIC, &batch($count))?, release)
        };
    }

    step!(begin "a");
    step!("a" 2 => committed);
    step!(begin "b");
    step!("b" 3 => aborted);
    step!("a" 1 => committed);
    step!("plain" 2 => committed);
    step!(commit "a");
    step!("b" 1 => aborted);
    step!(abort "b");
    step!(begin "a");
    step!("a" 4 => aborted);
    step!(abort "a");
    step!(begin "b"); // the producer that aborted commits
    step!("b" 5 => committed);
    step!(commit "b");
    step!(begin "a"); // and the one that committed, then aborted, aborts again
    step!("a" 1 => aborted);
    step!(abort "a");
    step!("plain" 1 => committed);
    step!(begin "b");
    let mut open = Vec::new();
    step!("b" 2 => open);
    step!("plain" 1 => open);

    let log = stage.kafka.partition_dir(0, TOPIC, 0).join("00000000000000000000.log");
    record::records(release, "transactions", &std::fs::read(log).map_err(|e| e.to_string())?)?;

    let last_stable = open[0].offset;
    let end = open.last().map_or(0, |last| last.offset + 1);
    uncommitted.extend(committed.iter().chain(&aborted).chain(&open).cloned());
    uncommitted.sort_by_key(|entry: &Entry| entry.offset);
    Ok(Expected { committed, uncommitted, last_stable, end })
}

/// The release's own consumer, under both isolation levels, sees what we expect.
pub fn own_consumer(stage: &mut Stage, expected: &Expected) -> Result<()> {
    let seen = stage.driver.read(TOPIC, 0, 0, expected.last_stable, true)?;
    reads::compare("read_committed", &expected.committed, &seen)?;
    let seen = stage.driver.read(TOPIC, 0, 0, expected.end, false)?;
    reads::compare("read_uncommitted", &expected.uncommitted, &seen)
}

/// So does `downspout consume`, which stops before what is not decided.
pub fn ours(stage: &Stage, expected: &Expected) -> Result<()> {
    for (isolation, entries) in
        [("read_committed", &expected.committed), ("read_uncommitted", &expected.uncommitted)]
    {
        let seen = cli::consume(stage, TOPIC, &["--isolation", isolation])?.remove(&0).unwrap_or_default();
        reads::compare(&format!("downspout consume, {isolation}"), entries, &seen)?;
    }
    Ok(())
}
