use std::time::Duration;

use crate::client::recovery::{Position, ResetPolicy};
use crate::error::{Error, Result};
use crate::records::{CrcCheck, Isolation};

/// Where a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartOffset {
    /// At the start of the log.
    Earliest,
    /// At its end: what is written from now on.
    Latest,
    /// At that offset.
    At(i64),
    /// At that offset, which was reached by reading what a leader of that epoch wrote. If the log was truncated below it
    /// since, that is found, and reading goes on where the logs part (KIP-320; brokers from 2.3 on can tell).
    InEpoch {
        /// As for [`At`](Self::At).
        offset: i64,
        /// [`partition_leader_epoch`](crate::records::BatchHeader::partition_leader_epoch) of the last batch before it.
        leader_epoch: i32,
    },
    /// So many offsets before the end, or at the start of a shorter log.
    Tail(u64),
    /// At the first record of that time (ms since 1970) or later, else at the end. Before 0.10.1 a
    /// hint from the times of files.
    Timestamp(i64),
}

impl StartOffset {
    /// Where that is, if it need not be asked for.
    pub(crate) fn position(self) -> Option<Position> {
        match self {
            StartOffset::At(offset) => Some(Position { offset, epoch: None }),
            StartOffset::InEpoch { offset, leader_epoch } => {
                Some(Position { offset, epoch: Some(leader_epoch).filter(|epoch| *epoch >= 0) })
            }
            _ => None,
        }
    }
}

/// Where a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EndOffset {
    /// Nowhere: it waits for more.
    #[default]
    Never,
    /// Where the log ended when the stream was opened (the last stable offset, under read_committed).
    Latest,
    /// Before that offset.
    At(i64),
}

/// What a stream does about a damaged entry, after another replica was tried once, where there is one
/// that may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorruptPolicy {
    /// An error with the exact offsets; the stream stays before them.
    #[default]
    Stop,
    /// Say so in band, and go on behind it. An error where the bytes don't tell where that is.
    Skip,
    /// Hand over the raw bytes, and go on behind them.
    Raw,
}

/// Settings of streams; all have defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamOptions {
    /// What to do about a position that the log does not hold; an error by default.
    pub reset: ResetPolicy,
    /// What to do about damage; stop by default.
    pub corrupt: CorruptPolicy,
    /// Whose records are read; read_committed by default, where the broker can say (0.11 on).
    pub isolation: Isolation,
    /// What to do about checksums; verified by default.
    pub crc: CrcCheck,
    /// Bytes that one compressed batch may inflate to; 128 MiB by default.
    pub max_inflated: usize,
    /// Bytes of one partition in one answer; 1 MiB by default. From Fetch 3 on (0.10.1) a larger batch
    /// comes all the same; before, the limit grows for it up to `ClusterBuilder::fetch_limit`.
    pub partition_bytes: i32,
    /// How long a broker waits for records where there are none; 500 ms by default, 10 ms at least.
    pub max_wait: Duration,
    /// Bytes that a broker waits for, at most `max_wait`; 1 by default, and 0 is the same.
    pub min_bytes: i32,
    /// How long a partition may stand still behind an open transaction before that is reported; 10 s
    /// by default.
    pub report_open_transaction_after: Duration,
    /// How long nothing may be readable before that is reported, each time anew; 10 s by default.
    pub report_stall_after: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions {
            reset: ResetPolicy::default(),
            corrupt: CorruptPolicy::default(),
            isolation: Isolation::default(),
            crc: CrcCheck::default(),
            max_inflated: crate::records::ReadOptions::DEFAULT_MAX_INFLATED,
            partition_bytes: 1 << 20,
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            report_open_transaction_after: Duration::from_secs(10),
            report_stall_after: Duration::from_secs(10),
        }
    }
}

impl StreamOptions {
    pub(crate) fn check(&self, request_timeout: Duration) -> Result<()> {
        if self.partition_bytes < 1 {
            return Err(Error::config("partition_bytes must be at least 1"));
        }
        if self.min_bytes < 0 || self.min_bytes > self.partition_bytes {
            return Err(Error::config(format!(
                "min_bytes must lie between 0 and partition_bytes ({}); it is {}",
                self.partition_bytes, self.min_bytes
            )));
        }
        if self.max_wait >= request_timeout {
            return Err(Error::config(format!(
                "max_wait ({:?}) must be below the request time-out ({request_timeout:?}): an answer that is allowed to come so late would count as lost",
                self.max_wait
            )));
        }
        if self.max_inflated == 0 {
            return Err(Error::config("max_inflated must be at least 1"));
        }
        Ok(())
    }
}
