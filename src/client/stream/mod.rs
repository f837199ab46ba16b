//! Streams of records out of partitions: one partition, or many merged.
//!
//! A [`PartitionStream`] yields the batches of a partition in order, follows its leader, and says in
//! band what happened to its position ([`Recovered`]). A [`MergedStream`] does so for many, each in its
//! own order, by turns. Both hold their memory to the budget of their
//! [`Cluster`](super::Cluster) and may be dropped, paused and sought at any time.

mod builder;
mod item;
mod options;
mod reader;
mod streams;

pub use builder::{PartitionRef, StreamBuilder, StreamsBuilder};
pub use item::{Item, Recovered};
pub use options::{CorruptPolicy, EndOffset, StartOffset, StreamOptions};
pub(crate) use reader::Reader;
pub use streams::{MergedStream, PartitionStream, StreamControl, TopicPartition};
