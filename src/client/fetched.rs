use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::records::{Batch, Batches, ReadOptions, RecordSet};

/// The answer to a fetch: one result per partition asked for, in the order of asking.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub(super) partitions: Vec<FetchedPartition>,
    pub(super) version: i16,
    pub(super) throttled: Duration,
}

/// What came of one partition.
#[derive(Debug, Clone)]
pub struct FetchedPartition {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) limit: i32,
    pub(super) error: Option<Error>,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
    pub(super) log_start_offset: Option<i64>,
    pub(super) preferred_read_replica: Option<i32>,
    pub(super) set: RecordSet,
    pub(super) options: ReadOptions,
    /// An error that has the place of this partition; only the kind changes.
    pub(super) place: Error,
}

impl Fetched {
    /// The results, in the order of asking.
    pub fn partitions(&self) -> &[FetchedPartition] {
        &self.partitions
    }

    /// The result of one partition; `None` if it was not asked for.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&FetchedPartition> {
        self.partitions.iter().find(|found| found.topic == topic && found.partition == partition)
    }

    /// The results, in the order of asking.
    pub fn into_partitions(self) -> Vec<FetchedPartition> {
        self.partitions
    }

    /// The batches of all partitions; of each that failed, its error.
    pub fn batches(&self) -> impl Iterator<Item = Result<Batch>> + '_ {
        self.partitions.iter().flat_map(FetchedPartition::batches)
    }

    /// Where to fetch next, of a fetch of one partition: see [`FetchedPartition::next_offset`].
    pub fn next_offset(&self) -> Option<i64> {
        match &self.partitions[..] {
            [only] => Some(only.next_offset()),
            _ => None,
        }
    }

    /// The version of Fetch that was spoken.
    pub fn version(&self) -> i16 {
        self.version
    }

    /// How long the broker throttles this client; requests on this connection are held back for so
    /// long where the broker does not read meanwhile (Fetch 8 on, KIP-219).
    pub fn throttled(&self) -> Duration {
        self.throttled
    }
}

impl FetchedPartition {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset that was asked for.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The offset after the last record that consumers may see; `None` if it failed.
    pub fn high_watermark(&self) -> Option<i64> {
        self.high_watermark
    }

    /// The offset at which the first open transaction starts, else the high watermark: read_committed
    /// ends here (Fetch 4 on, 0.11).
    pub fn last_stable_offset(&self) -> Option<i64> {
        self.last_stable_offset
    }

    /// Where the log starts (Fetch 5 on, 1.0).
    pub fn log_start_offset(&self) -> Option<i64> {
        self.log_start_offset
    }

    /// The follower that the broker would rather have asked (Fetch 11 on, KIP-392).
    pub fn preferred_read_replica(&self) -> Option<i32> {
        self.preferred_read_replica
    }

    /// The record set as it came, for mirrors and the like.
    pub fn record_set(&self) -> &RecordSet {
        &self.set
    }

    /// How this consumer reads the set: from the offset asked for, with its isolation, checksums, and
    /// the aborted transactions of the answer.
    pub fn read_options(&self) -> &ReadOptions {
        &self.options
    }

    /// The batches, checked and inflated one at a time; or the error of this partition.
    pub fn batches(&self) -> PartitionBatches<'_> {
        PartitionBatches { partition: self, failed: self.error.clone(), batches: None }
    }

    /// Where to fetch next: after the last complete entry, whether or not it held records for this
    /// consumer; the offset asked for where nothing came.
    ///
    /// Read from the headers: to be trusted once [`FetchedPartition::batches`] has come through
    /// without an error.
    pub fn next_offset(&self) -> i64 {
        match self.error {
            None => self.set.next_offset().unwrap_or(self.offset).max(self.offset),
            Some(_) => self.offset,
        }
    }

    pub(super) fn fail(&mut self, kind: ErrorKind) {
        self.error = Some(self.place.clone().with_kind(kind));
    }
}

/// The batches of a partition; see [`FetchedPartition::batches`].
#[derive(Debug)]
pub struct PartitionBatches<'a> {
    partition: &'a FetchedPartition,
    failed: Option<Error>,
    batches: Option<Batches>,
}

impl Iterator for PartitionBatches<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(why) = self.failed.take() {
            return Some(Err(why));
        }
        let partition = self.partition;
        if partition.error.is_some() {
            return None;
        }
        let batches = self.batches.get_or_insert_with(|| partition.set.batches(partition.options.clone()));
        let place = |why: crate::records::Corruption| {
            let mut error = Error::new(ErrorKind::Corrupt(why.clone())).with_offset(why.first_offset);
            error = error.with_topic(&partition.topic).with_partition(partition.partition);
            match partition.place.broker() {
                Some(broker) => error.with_broker(broker),
                None => error,
            }
        };
        batches.next().map(|batch| batch.map_err(place))
    }
}
