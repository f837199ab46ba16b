//! What a log holds in the end, as the release's own DumpLogSegments shows its files.

use std::collections::BTreeMap;

use crate::harness::{Driver, Kafka, Result};

use super::workload::Acknowledged;

/// Values by offset.
pub type Log = BTreeMap<i64, String>;

/// The log of a partition whose replicas are all in sync and get nothing more: all must hold the same.
pub fn of_partition(kafka: &Kafka, driver: &mut Driver, topic: &str, partition: i32) -> Result<Log> {
    let mut logs = (0..kafka.brokers()).map(|broker| of_replica(kafka, driver, broker, topic, partition));
    let first = logs.next().ok_or("no brokers")??;
    for (broker, log) in (1..).zip(logs) {
        if log? != first {
            return Err(format!(
                "{topic} {partition}: the replica on broker {broker} differs from that on 0"
            ));
        }
    }
    Ok(first)
}

/// The log as one broker has it.
pub fn of_replica(
    kafka: &Kafka,
    driver: &mut Driver,
    broker: usize,
    topic: &str,
    partition: i32,
) -> Result<Log> {
    let dir = kafka.partition_dir(broker, topic, partition);
    let mut segments = Vec::new();
    for file in std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = file.map_err(|e| e.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            segments.push(path.display().to_string());
        }
    }
    segments.sort();
    let args = ["--print-data-log", "--deep-iteration", "--files", &segments.join(",")];
    let lines = driver.tool(kafka.release().dump_log_segments(), &args)?;
    let mut log = Log::new();
    for line in &lines {
        // `offset: 7 position: … payload: 42` in all releases, with a bar in front in later ones
        let Some((_, offset)) =
            format!(" {line}").split_once(" offset: ").map(|(a, b)| (a.len(), b.to_owned()))
        else {
            continue;
        };
        let Some((_, payload)) = line.split_once(" payload: ") else { continue };
        let offset = offset.split_whitespace().next().unwrap_or_default();
        let offset = offset.parse().map_err(|e| format!("{e}: {line}"))?;
        if log.insert(offset, payload.to_owned()).is_some() {
            return Err(format!("{topic} {partition}: offset {offset} is twice in the log"));
        }
    }
    if log.is_empty() && !lines.is_empty() && lines.iter().any(|line| line.contains("payload")) {
        return Err(format!("{topic} {partition}: what DumpLogSegments prints is not understood: {lines:?}"));
    }
    Ok(log)
}

/// A cluster that lost what it had acknowledged would prove nothing about its reader.
pub fn holds_what_was_acknowledged(log: &Log, partition: i32, acknowledged: &[Acknowledged]) -> Result<()> {
    for written in acknowledged.iter().filter(|written| written.partition == partition) {
        let found = log.get(&written.offset);
        if found.is_none_or(|value| *value != written.number.to_string()) {
            return Err(format!("the cluster acknowledged {written:?}, and has {found:?} there"));
        }
    }
    Ok(())
}
