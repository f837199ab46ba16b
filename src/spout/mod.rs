//! A spout: records out of any number of partitions, each to be acknowledged or failed by itself, with
//! retries, and positions that survive.

#[allow(dead_code)] // until the driver deals partitions by it
mod assignment;
mod builder;
#[allow(dead_code)] // until the driver writes dead letters
mod dead_letter;
mod delivery;
mod driver;
mod handle;
mod lot;
mod metrics;
mod retry;
mod runner;
pub mod scheme;
mod settings;
#[allow(clippy::module_inception)]
mod spout;
#[cfg(test)]
mod stage;
mod tuple;

pub use builder::{Brokers, SpoutBuilder, TopicPattern};
pub use dead_letter::{DeadLetter, DeadLetters, Form, Oversize};
pub use delivery::{Delivery, DeliveryBatch, DeliveryId};
pub use handle::{CloseReport, CommitReport, ParkedRecord, SpoutHandle};
#[cfg(feature = "metrics")]
pub use metrics::publish;
pub use metrics::{Health, PartitionMetrics, Sample, SampleKind, SpoutMetrics};
pub use retry::{Backoff, Failure, RetryManager, RetryManagerFactory, Verdict};
pub use runner::{RunOptions, Work};
pub use settings::{AssignmentOrder, Limits, OnExhausted, OnPoison, Order, RetryMode, SpoutSettings};
pub use spout::Spout;
pub use tuple::{Ticket, Tuple, TupleSpout};
