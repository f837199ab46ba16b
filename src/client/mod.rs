//! Clients of brokers: [`SimpleConsumer`], over one connection to one broker, and its blocking twin
//! ([`blocking::SimpleConsumer`]).

pub mod blocking;
pub(crate) mod cluster;
mod fetch;
mod fetch_limits;
mod fetched;
pub(crate) mod fetcher;
mod group_offsets;
mod metadata;
mod offsets;
mod recovery;
mod simple_consumer;
pub(crate) mod stream;

pub use crate::discovery::{BrokerInfo, Metadata, PartitionMetadata, TopicMetadata};
pub use cluster::{Cluster, ClusterBuilder, EpochEnd};
pub use fetch::Fetch;
pub use fetched::{Fetched, FetchedPartition, PartitionBatches};
pub use fetcher::MemoryUse;
pub use group_offsets::{Committed, CommittedOffset, Coordinator, GroupOffset};
pub use offsets::{ListedOffset, OffsetSpec};
pub use recovery::{AskReset, LogBounds, OutOfRange, Reset, ResetPolicy};
pub use simple_consumer::{OffsetStorage, SimpleConsumer, SimpleConsumerBuilder};
pub use stream::{
    CorruptPolicy, EndOffset, Item, MergedStream, PartitionRef, PartitionStream, Recovered, StartOffset,
    StreamBuilder, StreamControl, StreamOptions, StreamsBuilder, TopicPartition,
};
