//! Clients of brokers: [`SimpleConsumer`], over one connection to one broker, and its blocking twin
//! ([`blocking::SimpleConsumer`]).

pub mod blocking;
mod broker;
mod fetch;
mod fetch_limits;
mod fetched;
mod group_offsets;
mod metadata;
mod near;
mod offsets;
mod simple_consumer;

pub use fetch::Fetch;
pub use fetched::{Fetched, FetchedPartition, PartitionBatches};
pub use group_offsets::{Committed, CommittedOffset, Coordinator, GroupOffset};
pub use metadata::{BrokerInfo, Metadata, PartitionMetadata, TopicMetadata};
pub use offsets::{ListedOffset, OffsetSpec};
pub use simple_consumer::{OffsetStorage, SimpleConsumer, SimpleConsumerBuilder};
