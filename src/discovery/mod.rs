//! Who leads what: a [`BrokerReader`] asks brokers ([`Bootstrap`]), reads it in ZooKeeper
//! ([`ZooKeeperBrokers`]) or both ([`CrossChecked`]), or knows it already ([`StaticHosts`]).

mod bootstrap;
mod cross_checked;
mod metadata;
mod near;
mod static_hosts;
mod zookeeper;

use std::collections::BTreeSet;
use std::fmt;

pub use bootstrap::Bootstrap;
pub use cross_checked::CrossChecked;
pub use metadata::{BrokerInfo, Metadata, PartitionMetadata, TopicMetadata};
pub(crate) use metadata::{LAST_THAT_CREATES, about, about_all, unknown_topic};
pub use near::near_names;
pub use static_hosts::StaticHosts;
pub use zookeeper::ZooKeeperBrokers;

use crate::error::Result;
use crate::net::BoxFuture;

/// Where a cluster's brokers, topics and leaders are read from.
///
/// A reader keeps no history: what a late answer means for one that came before is decided by
/// whoever asks. It may be asked by several callers at once, and futures may be dropped.
#[doc(alias = "DynamicBrokersReader")]
pub trait BrokerReader: Send + Sync + fmt::Debug {
    /// The brokers, and these topics. No topic is created; one that does not exist is in the answer
    /// with the error [`UnknownTopic`](crate::ErrorKind::UnknownTopic).
    ///
    /// # Errors
    ///
    /// When nothing can be said at all. What is wrong with one topic stands in the answer.
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>>;

    /// The last answer did not help: another source is to be asked next time, where there are more.
    fn rotate(&self) {}

    /// All that was learnt may be wrong (KIP-1102): begin again from what the reader was made with.
    fn restart(&self) {}
}

/// Which topics to read about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicSelection {
    /// All of them.
    All,
    /// Those named; none for the brokers alone.
    Named(BTreeSet<String>),
}

impl TopicSelection {
    /// Those named.
    pub fn named<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        TopicSelection::Named(names.into_iter().map(Into::into).collect())
    }
}
