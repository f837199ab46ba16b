//! What is counted of a partition, and how that is shown.

use super::metrics::PartitionMetrics;

/// What a manager counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    pub(super) messages: u64,
    pub(super) acked: u64,
    pub(super) failed: u64,
    pub(super) released: u64,
    pub(super) dropped: u64,
    pub(super) stale: u64,
    pub(super) duplicates: u64,
    pub(super) lost: u64,
    pub(super) ineligible: u64,
    pub(super) dead_letters: u64,
    pub(super) discarded_extras: u64,
    /// The oldest record that is out: offset and age in ms.
    pub(super) oldest: Option<(i64, u64)>,
    /// The record that was last reported as old.
    pub(super) reported_old: Option<i64>,
}

impl Counters {
    /// As they are shown.
    pub(super) fn metrics(&self) -> PartitionMetrics {
        PartitionMetrics {
            messages: self.messages,
            lost: self.lost,
            ineligible: self.ineligible,
            dead_letters: self.dead_letters,
            acked: self.acked,
            failed: self.failed,
            released: self.released,
            dropped: self.dropped,
            stale: self.stale,
            duplicates: self.duplicates,
            discarded_extras: self.discarded_extras,
            ..PartitionMetrics::default()
        }
    }
}
