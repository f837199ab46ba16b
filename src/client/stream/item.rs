use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::client::recovery::OutOfRange;
use crate::error::Error;
use crate::records::{Batch, Corruption};

/// What a stream yields, in the order of the log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Item {
    /// Records.
    Batch(Batch),
    /// Something happened to the position, or holds it back; before the first record after it.
    Recovered(Recovered),
    /// A damaged entry as it came, its headers included, where the stream was asked to hand those
    /// over ([`CorruptPolicy::Raw`](super::CorruptPolicy::Raw)). It begins at its entry and ends where
    /// the next one starts, if the bytes tell.
    Raw(Bytes, Corruption),
}

/// Something that happened to a partition, other than records.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Recovered {
    /// The position was not in the log any more, and the policy chose another one.
    OutOfRange {
        /// The offset that was wanted.
        position: i64,
        /// The offset that comes next instead.
        resumed_at: i64,
        /// What was wrong.
        why: OutOfRange,
    },
    /// The log was truncated below the position, as leader epochs prove (KIP-320): an unclean
    /// election. Offsets from `diverged_at` on were read before with other records.
    Truncated {
        /// The offset that was wanted.
        position: i64,
        /// Where the logs part; comes next.
        diverged_at: i64,
    },
    /// Damage that was passed over: these offsets are not handed out.
    Corrupt(Corruption),
    /// A transaction that was opened here and not ended holds the partition back.
    OpenTransaction {
        /// Its first offset, where the stream stands.
        position: i64,
        /// Who opened it.
        producer_id: Option<i64>,
        /// How far the log reaches behind it.
        high_watermark: i64,
    },
    /// The topic is gone. The position is kept, and the stream waits for it to come back.
    Vanished {
        /// The position.
        position: i64,
    },
    /// The topic, or a partition of it, is there again, with nothing to show that it is another one.
    Returned {
        /// The position.
        position: i64,
    },
    /// The topic has more partitions; a stream over all of them reads them too, from their start.
    PartitionsAdded {
        /// Numbers of the new ones.
        added: Range<i32>,
    },
    /// Nothing could be read for some time; it is being tried again all the time.
    Stalled {
        /// The position.
        position: i64,
        /// For how long.
        since: Duration,
        /// The latest reason.
        why: Error,
    },
}

impl Recovered {
    /// Offsets that will not be handed out: records that are gone, or that were passed over. An
    /// upper bound where the log has holes.
    pub fn lost(&self) -> u64 {
        match self {
            // Nothing of the new log was read.
            Recovered::OutOfRange { resumed_at, why: OutOfRange::Recreated { log, .. }, .. } => {
                above(*resumed_at, log.start)
            }
            Recovered::OutOfRange { position, resumed_at, .. } => above(*resumed_at, *position),
            Recovered::Corrupt(why) => why.next_offset.map_or(0, |next| above(next, why.first_offset)),
            _ => 0,
        }
    }

    /// Offsets below the position that come again, with other records or the same.
    pub fn repeated(&self) -> u64 {
        match self {
            Recovered::OutOfRange { why: OutOfRange::Recreated { .. }, .. } => 0,
            Recovered::OutOfRange { position, resumed_at, .. } => above(*position, *resumed_at),
            Recovered::Truncated { position, diverged_at } => above(*position, *diverged_at),
            _ => 0,
        }
    }
}

fn above(high: i64, low: i64) -> u64 {
    u64::try_from(high.saturating_sub(low)).unwrap_or(0)
}

impl PartialEq for Recovered {
    /// By what they say; errors have no equality of their own.
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recovered::OutOfRange { position, resumed_at, why } => write!(
                f,
                "offset {position} is out of range: {why}; going on at {resumed_at} ({} lost, {} repeated)",
                self.lost(),
                self.repeated()
            ),
            Recovered::Truncated { position, diverged_at } => write!(
                f,
                "the log was truncated below offset {position} (an unclean election): going on at {diverged_at}, {} offsets come again",
                self.repeated()
            ),
            Recovered::Corrupt(why) => write!(f, "passed over damage: {why}"),
            Recovered::OpenTransaction { position, producer_id, high_watermark } => {
                write!(
                    f,
                    "a transaction that is open since offset {position} holds back records up to {high_watermark}"
                )?;
                match producer_id {
                    Some(id) => write!(f, "; producer id {id} opened it"),
                    None => Ok(()),
                }
            }
            Recovered::Vanished { position } => {
                write!(f, "the topic is gone; waiting for it at offset {position}")
            }
            Recovered::Returned { position } => write!(f, "the topic is back; going on at offset {position}"),
            Recovered::PartitionsAdded { added } => {
                write!(f, "the topic has new partitions: {} to {}", added.start, added.end - 1)
            }
            Recovered::Stalled { position, since, why } => {
                write!(f, "nothing could be read at offset {position} for {since:?}: {why}")
            }
        }
    }
}
