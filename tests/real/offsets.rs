//! Earliest, latest and by time, compared with the release's own GetOffsetShell.

use crate::cli;
use crate::corpus::{self, Entry, THEN};
use crate::harness::{Release, Result, Send};
use crate::stage::Stage;

pub const TOPIC: &str = "times";

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
    let (first, end) = (entries[0].offset, entries[entries.len() - 1].offset + 1);
    assert_eq!(own_tool(stage, -1, 1)?, [end], "latest");
    assert_eq!(own_tool(stage, -2, 1)?, [first], "earliest");
    Ok(())
}

/// Before, at, between and after the times of the records.
pub fn times() -> Vec<i64> {
    [-1, 0, 1, 1500, 9500, 19_000, 19_001].map(|after| THEN + after).to_vec()
}

/// `downspout offsets` says what the tool says. A time after all records has no offset.
pub fn ours(stage: &mut Stage) -> Result<()> {
    let mut times = vec![-1, -2];
    // Before KIP-79 brokers know the times of their files only; 1.1 answers the tool in that old way.
    if stage.release.since(&[2]) {
        times.extend(self::times());
    }
    for time in times {
        let expected = own_tool(stage, time, 1)?.first().copied();
        let seen = ask(stage, time)?;
        if seen != expected {
            return Err(format!(
                "at {time}: downspout offsets says {seen:?}, the release's own tool {expected:?}"
            ));
        }
    }
    if stage.release.offsets_by_record_time() {
        for (time, offset) in [(THEN + 9500, Some(10)), (THEN + 19_000, Some(19)), (THEN + 19_001, None)] {
            assert_eq!(ask(stage, time)?, offset, "at {time}");
        }
    }
    Ok(())
}

fn ask(stage: &Stage, time: i64) -> Result<Option<i64>> {
    let when = match time {
        -1 => "latest".to_owned(),
        -2 => "earliest".to_owned(),
        time => time.to_string(),
    };
    let line = cli::succeed(stage, &["offsets", "-t", TOPIC, "-p", "0", "--at", &when, "--json"], None)?;
    let json: serde_json::Value = serde_json::from_str(&line).map_err(|e| format!("{e}: {line}"))?;
    match &json["offset"] {
        serde_json::Value::Null if json.get("offset").is_some() => Ok(None),
        offset => offset.as_i64().map(Some).ok_or_else(|| format!("no offset: {line}")),
    }
}
