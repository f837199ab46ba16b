//! A spout: records out of any number of partitions, each to be acknowledged or failed by itself, with
//! retries, and positions that survive.

mod assignment;
mod builder;
mod commit;
mod counters;
mod dead_letter;
mod delivery;
mod driver;
mod handle;
mod keys;
mod lot;
mod membership;
mod metrics;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod model;
mod parked;
mod partition_manager;
mod retry;
mod runner;
pub mod scheme;
mod settings;
#[allow(clippy::module_inception)]
mod spout;
#[cfg(test)]
mod stage;
mod tuple;
mod window;

pub use builder::{Brokers, SpoutBuilder, TopicPattern};
pub use dead_letter::{DeadLetter, DeadLetters, Form, Oversize};
pub use delivery::{Delivery, DeliveryBatch, DeliveryId};
pub use handle::{CloseReport, CommitReport, ParkedRecord, SpoutHandle};
pub use membership::Membership;
#[cfg(feature = "metrics")]
pub use metrics::publish;
pub use metrics::{Health, PartitionMetrics, Sample, SampleKind, SpoutMetrics};
pub use retry::{Backoff, Failure, RetryManager, RetryManagerFactory, Verdict};
pub use runner::{RunOptions, Work};
pub use settings::{AssignmentOrder, Limits, OnExhausted, OnPoison, Order, RetryMode, SpoutSettings};
pub use spout::Spout;
pub use tuple::{Ticket, Tuple, TupleSpout};

/// Milliseconds since 1970.
fn wall_clock_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// A name that no other run has.
fn unique() -> String {
    use std::hash::{BuildHasher, Hasher};
    let chance = std::hash::RandomState::new().build_hasher().finish();
    format!("{:x}-{:x}-{chance:016x}", std::process::id(), wall_clock_ms())
}
