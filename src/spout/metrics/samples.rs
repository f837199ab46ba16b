//! All metrics as one list, for whatever carries them elsewhere.

use std::time::Duration;

use super::{PartitionMetrics, SpoutMetrics};

/// One value of one metric.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// Its name, as Prometheus wants it: `downspout_lag_records`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// How it moves.
    pub kind: SampleKind,
    /// Of what: topic and partition, mostly.
    pub labels: Vec<(&'static str, String)>,
    /// Its value; times are in seconds.
    pub value: f64,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// Up and down.
    Gauge,
    /// Only up, from the start of the spout on.
    Counter,
}

/// What is measured of a partition: its name, how it moves, what it is, and where it comes from.
type Row = (&'static str, SampleKind, &'static str, fn(&PartitionMetrics) -> Option<f64>);

use SampleKind::{Counter, Gauge};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("downspout_earliest_offset", Gauge, "Start of the log.", |p| offset(p.earliest)),
    ("downspout_latest_offset", Gauge, "End of the log, as far as it may be read.", |p| offset(p.latest)),
    ("downspout_emitted_offset", Gauge, "Offset up to which records were taken in.", |p| offset(p.latest_emitted)),
    ("downspout_completed_offset", Gauge, "Lowest offset that is not done.", |p| offset(p.latest_completed)),
    ("downspout_committed_offset", Gauge, "Position that the checkpoint store has.", |p| offset(p.committed)),
    ("downspout_lag_records", Gauge, "Offsets between what is done and the end of the log.", |p| offset(p.spout_lag())),
    ("downspout_fetches_total", Counter, "Fetches that brought records.", |p| count(p.fetches)),
    ("downspout_messages_total", Counter, "Records taken in.", |p| count(p.messages)),
    ("downspout_fetch_latency_max_seconds", Gauge, "Longest time of a fetch.", |p| seconds(p.fetch_latency_max)),
    ("downspout_fetch_latency_mean_seconds", Gauge, "Mean time of a fetch.", |p| seconds(p.fetch_latency_mean)),
    ("downspout_lost_messages_total", Counter, "Records that were gone from the log before they were done.", |p| count(p.lost)),
    ("downspout_ineligible_for_retry_total", Counter, "Records given up after their last retry.", |p| count(p.ineligible)),
    ("downspout_dead_letters_total", Counter, "Records that went to the dead-letter topic.", |p| count(p.dead_letters)),
    ("downspout_acked_total", Counter, "Records acknowledged.", |p| count(p.acked)),
    ("downspout_failed_total", Counter, "Attempts that failed.", |p| count(p.failed)),
    ("downspout_released_total", Counter, "Records handed back.", |p| count(p.released)),
    ("downspout_dropped_total", Counter, "Records dropped without an answer.", |p| count(p.dropped)),
    ("downspout_stale_answers_total", Counter, "Answers that came too late, or from an earlier assignment.", |p| count(p.stale)),
    ("downspout_duplicates_total", Counter, "Records that came in again: taken in before by an earlier life, or before a rewind.", |p| count(p.duplicates)),
    ("downspout_discarded_extras_total", Counter, "Checkpoints whose extras could not be used.", |p| count(p.discarded_extras)),
    ("downspout_oldest_unfinished_offset", Gauge, "Offset of the record that is unfinished for longest.", |p| offset(p.oldest_unfinished.map(|(at, _)| at))),
    ("downspout_oldest_unfinished_age_seconds", Gauge, "For how long it is unfinished.", |p| seconds(p.oldest_unfinished.map(|(_, age)| age))),
    ("downspout_window_records", Gauge, "Records in the window.", |p| size(p.window_records)),
    ("downspout_window_limit_records", Gauge, "Records that the window may hold.", |p| size(p.window_limit)),
    ("downspout_window_bytes", Gauge, "Bytes in the window.", |p| size(p.window_bytes)),
    ("downspout_parked_records", Gauge, "Records that wait for their retry.", |p| size(p.parked)),
    ("downspout_parked_bytes", Gauge, "Bytes kept for them.", |p| size(p.parked_bytes)),
    ("downspout_holes", Gauge, "Runs of done records beyond the lowest one that is not.", |p| size(p.holes)),
    ("downspout_commit_age_seconds", Gauge, "Since the position was last kept.", |p| seconds(p.commit_age)),
    ("downspout_commit_failing", Gauge, "1 if the last commit failed.", |p| flag(p.last_commit_error.is_some())),
    ("downspout_paused", Gauge, "1 while nothing is handed out.", |p| flag(p.paused.is_some())),
    ("downspout_stopped", Gauge, "1 if the partition stopped and needs somebody.", |p| flag(p.stopped.is_some())),
];

impl SpoutMetrics {
    /// Every metric of every partition as one list: the samples of one name stand together, by topic
    /// and partition. What is not known is left out; it is never 0.
    pub fn samples(&self) -> Vec<Sample> {
        let active = f64::from(u8::from(self.active));
        let mut samples = vec![Sample {
            name: "downspout_active",
            help: "1 while records are handed out: not deactivated, not closing.",
            kind: Gauge,
            labels: Vec::new(),
            value: active,
        }];
        for &(name, kind, help, value) in ROWS {
            samples.extend(self.partitions.iter().filter_map(|(at, partition)| {
                let labels = vec![("topic", at.topic.to_string()), ("partition", at.partition.to_string())];
                Some(Sample { name, help, kind, labels, value: value(partition)? })
            }));
        }
        samples
    }
}

fn offset(offset: Option<i64>) -> Option<f64> {
    offset.map(|offset| offset as f64)
}

fn count(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn size(size: usize) -> Option<f64> {
    Some(size as f64)
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

fn flag(flag: bool) -> Option<f64> {
    Some(f64::from(u8::from(flag)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::client::TopicPartition;

    #[test]
    fn names_are_prometheus_names_and_counters_end_in_total() {
        let mut seen = BTreeSet::new();
        for (name, kind, help, _) in ROWS {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Counter, "{name}");
            assert!(help.ends_with('.'), "{name}");
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn samples_of_one_name_stand_together_and_what_is_unknown_is_left_out() {
        let mut metrics = SpoutMetrics { active: true, ..SpoutMetrics::default() };
        let known = PartitionMetrics {
            latest: Some(10),
            latest_completed: Some(4),
            commit_age: Some(Duration::from_millis(1500)),
            stopped: Some("it is full".into()),
            ..PartitionMetrics::default()
        };
        metrics.partitions.insert(TopicPartition::new("t", 0), known);
        metrics.partitions.insert(TopicPartition::new("t", 1), PartitionMetrics::default());
        let samples = metrics.samples();
        let names: Vec<_> = samples.iter().map(|sample| sample.name).collect();
        let mut runs = names.clone();
        runs.dedup();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(runs.len(), distinct.len());
        let of = |name: &str| -> Vec<(&str, f64)> {
            let named = samples.iter().filter(|sample| sample.name == name);
            named.map(|sample| (sample.labels.get(1).map_or("", |(_, it)| it), sample.value)).collect()
        };
        assert_eq!(of("downspout_active"), [("", 1.0)]);
        assert_eq!(of("downspout_lag_records"), [("0", 6.0)]);
        assert_eq!(of("downspout_earliest_offset"), []);
        assert_eq!(of("downspout_commit_age_seconds"), [("0", 1.5)]);
        assert_eq!(of("downspout_stopped"), [("0", 1.0), ("1", 0.0)]);
        assert_eq!(of("downspout_acked_total"), [("0", 0.0), ("1", 0.0)]);
    }
}
