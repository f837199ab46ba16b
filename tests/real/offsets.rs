//! Earliest, latest and by time, compared with the release's own GetOffsetShell.

use crate::corpus::{self, Entry, THEN};
use crate::harness::{Release, Result, Send};
use crate::stage::Stage;

pub const TOPIC: &str = "times";

/// What the tool is asked for: latest, earliest, and times before, at, between and after those of the records.
pub fn times() -> Vec<i64> {
    vec![
        -1,
        -2,
        THEN - 1,
        THEN,
        THEN + 1,
        THEN + 1500,
        THEN + 19_000,
        THEN + 19_001,
        THEN + 1_000_000_000_000,
    ]
}

/// Writes records one second apart, several to a batch, over several segments; the first ones are deleted where the
/// release can do that.
pub fn produce(stage: &mut Stage) -> Result<Vec<Entry>> {
    let segment = stage.release.small_segments();
    let config: &[&str] = if stage.release.since(&[0, 8, 1]) { &[segment] } else { &[] };
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, config)?;
    stage.driver.producer("times", &[])?;
    let mut entries = Vec::new();
    for start in (0..20).step_by(4) {
        let records: Vec<Send> = (start..start + 4)
            .map(|i| Send {
                timestamp: stage.release.has_timestamps().then_some(THEN + 1000 * i),
                value: Some(corpus::noise(2000, i as u64)),
                ..Send::default()
            })
            .collect();
        corpus::place(&mut entries, stage.driver.send("times", TOPIC, &records)?, stage.release);
    }
    let first = first(stage.release);
    if first > 0 {
        stage.driver.delete_records(TOPIC, 0, first)?;
        entries.retain(|entry| entry.offset >= first);
    }
    Ok(entries)
}

/// Where the topic starts: AdminClient can delete records from 1.1 on.
pub fn first(release: &Release) -> i64 {
    if release.since(&[1, 1]) { 3 } else { 0 }
}

/// What the release's own tool says: as it prints them, newest first, and none if there is none.
pub fn own_tool(stage: &mut Stage, time: i64, count: usize) -> Result<Vec<i64>> {
    let release = stage.release;
    let (address, time, count) = (stage.kafka.address().to_string(), time.to_string(), count.to_string());
    let broker = if release.since(&[3]) { "--bootstrap-server" } else { "--broker-list" };
    let mut args = vec![broker, &address, "--topic", TOPIC, "--partitions", "0", "--time", &time];
    if !release.since(&[3]) {
        args.extend(["--offsets", &count]);
    }
    let lines = stage.driver.tool(release.get_offset_shell(), &args)?;
    let prefix = format!("{TOPIC}:0:");
    let line = lines.iter().find_map(|line| line.strip_prefix(&prefix));
    let line = match line {
        Some(line) => line,
        // later ones print nothing for a partition without an answer
        None if release.offsets_by_record_time() && lines.iter().all(String::is_empty) => "",
        None => return Err(format!("{args:?}: {lines:?}")),
    };
    line.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.trim().parse().map_err(|e| format!("{line}: {e}")))
        .collect()
}

/// The tool agrees with what was written, as far as that is certain.
pub fn own_expectations(stage: &mut Stage, entries: &[Entry]) -> Result<()> {
    for time in times() {
        println!("   {time}: {:?}", own_tool(stage, time, 10)?);
    }
    let (first, end) = (entries[0].offset, entries[entries.len() - 1].offset + 1);
    assert_eq!(own_tool(stage, -1, 1)?, [end], "latest");
    assert_eq!(own_tool(stage, -2, 1)?, [first], "earliest");
    Ok(())
}
