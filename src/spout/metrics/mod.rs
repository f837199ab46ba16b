//! What a spout measures, as plain values. Reading them does no I/O.

#[cfg(feature = "metrics")]
mod facade;
mod samples;
mod storm;

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(feature = "metrics")]
pub use facade::publish;
pub use samples::{Sample, SampleKind};

use crate::client::TopicPartition;

/// A snapshot of what a spout measures.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SpoutMetrics {
    /// By partition.
    pub partitions: BTreeMap<TopicPartition, PartitionMetrics>,
    /// Whether it hands out (not deactivated, not closing).
    pub active: bool,
}

/// What is measured of one partition. Offsets that are not known are `None`, never 0.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PartitionMetrics {
    /// Start of the log.
    pub earliest: Option<i64>,
    /// Its end, as far as may be read (the last stable offset under read_committed).
    pub latest: Option<i64>,
    /// Up to where records were taken in.
    pub latest_emitted: Option<i64>,
    /// The commit point: everything below is done.
    pub latest_completed: Option<i64>,
    /// What the store has.
    pub committed: Option<i64>,
    /// Fetches that brought something, records in them, and how long each took.
    pub fetches: u64,
    /// Records taken in.
    pub messages: u64,
    /// Longest time of a fetch.
    pub fetch_latency_max: Option<Duration>,
    /// Mean time of a fetch.
    pub fetch_latency_mean: Option<Duration>,
    /// Records that were gone from the log before they were done.
    pub lost: u64,
    /// Records given up after their last retry.
    pub ineligible: u64,
    /// Records that went to the dead-letter topic.
    pub dead_letters: u64,
    /// Acks, failures, releases and drops that counted.
    pub acked: u64,
    /// Failures that counted.
    pub failed: u64,
    /// Handed back.
    pub released: u64,
    /// Dropped without a word.
    pub dropped: u64,
    /// Acks, failures and drops that came too late, or from an earlier assignment.
    pub stale: u64,
    /// Records that came in again though they had been taken in before, and were not known as done: in an
    /// earlier life, as far as its last checkpoint tells, or before a rewind.
    pub duplicates: u64,
    /// Checkpoints whose extras could not be used.
    pub discarded_extras: u64,
    /// The oldest record that is handed out and not done: offset and age.
    pub oldest_unfinished: Option<(i64, Duration)>,
    /// Records in the window, and its limit.
    pub window_records: usize,
    /// Bytes in the window.
    pub window_bytes: usize,
    /// Limit of records in the window.
    pub window_limit: usize,
    /// Records waiting for their retry.
    pub parked: usize,
    /// Bytes kept for them.
    pub parked_bytes: usize,
    /// Runs of done records beyond the commit point.
    pub holes: usize,
    /// Since the position was last kept.
    pub commit_age: Option<Duration>,
    /// Why the last commit failed.
    pub last_commit_error: Option<String>,
    /// Why nothing is handed out at the moment.
    pub paused: Option<String>,
    /// Why it stopped, with the command that goes on.
    pub stopped: Option<String>,
}

impl PartitionMetrics {
    /// Records between the commit point and the end (an upper bound where the log has holes); unknown
    /// while either is.
    pub fn spout_lag(&self) -> Option<i64> {
        Some((self.latest? - self.latest_completed?).max(0))
    }
}

/// How a spout is, as a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// It hands records out as they come.
    pub ready: bool,
    /// Why it does not, where it does not.
    pub why: Option<String>,
    /// Partitions that stopped, and why, with the command that goes on.
    pub stopped: BTreeMap<TopicPartition, String>,
    /// Partitions that pause, and why.
    pub paused: BTreeMap<TopicPartition, String>,
}
