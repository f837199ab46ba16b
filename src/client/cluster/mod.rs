//! A cluster: its brokers as one.

mod builder;
mod groups;
mod picture;
mod produce;
mod requests;
mod shared;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod tries;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use builder::ClusterBuilder;
// For whoever builds on `Shared`.
#[allow(unused_imports)]
pub(crate) use picture::{KnownTopic, PartitionState, Picture, TopicState};
pub use requests::EpochEnd;
pub(crate) use shared::Shared;

use super::simple_consumer::{Settings as ClientSettings, SimpleConsumer};
use crate::client::fetcher::{Fetcher, MemoryUse};
use crate::discovery::{BrokerInfo, Metadata, TopicSelection};
use crate::error::{Error, ErrorKind, Result};

/// A cluster: finds out which broker leads what, and asks the right one.
///
/// Each broker gets a connection when it is asked something, and a new one when that was lost. Calls
/// follow leaders and coordinators: what fails for a reason that passes is tried again, after new
/// metadata where that helps, until [`ClusterBuilder::api_timeout`] is over. No call creates a topic.
///
/// Cheap to clone; all clones share the connections, which close when the last clone is gone.
///
/// ```no_run
/// # async fn example() -> downspout::Result<()> {
/// use downspout::client::Cluster;
///
/// let cluster = Cluster::connect(["kafka1:9092", "kafka2:9092"]).await?;
/// for partition in cluster.partitions("clicks").await? {
///     println!("{partition}: {}", cluster.latest_offset("clicks", partition).await?);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    /// What streams are fetched by, once there is one.
    fetcher: Arc<OnceLock<Fetcher>>,
}

/// What a cluster and its streams are set to.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// As a [`SimpleConsumer`](super::SimpleConsumer) has them.
    pub(crate) client: ClientSettings,
    pub(crate) metadata_max_age: Duration,
    pub(crate) rack: Option<String>,
    pub(crate) rebootstrap_after: Duration,
    pub(crate) api_timeout: Duration,
    pub(crate) memory: usize,
    pub(crate) answer_bytes: usize,
}

impl Cluster {
    /// Connects to the first of these brokers (`host`, `host:port`, `[v6]:port`) that answers, and
    /// learns the others.
    pub async fn connect<A: AsRef<str>>(bootstrap: impl IntoIterator<Item = A>) -> Result<Self> {
        Self::builder(bootstrap).connect().await
    }

    /// Settings, before connecting.
    pub fn builder<A: AsRef<str>>(bootstrap: impl IntoIterator<Item = A>) -> ClusterBuilder {
        ClusterBuilder::new(bootstrap.into_iter().map(|address| address.as_ref().to_owned()).collect())
    }

    /// Brokers, and the topics named, asked anew. What is wrong with one topic stands in its entry;
    /// one that does not exist comes with near names.
    pub async fn metadata(&self, topics: &[&str]) -> Result<Metadata> {
        let selection = TopicSelection::named(topics.iter().copied());
        let mut metadata = self.shared.read_once(&selection).await?;
        self.shared.name_the_refused(&mut metadata);
        let is_unknown =
            |why: &Error| matches!(why.kind(), ErrorKind::UnknownTopic { near } if near.is_empty());
        let unknown = |error: &Option<Error>| error.as_ref().is_some_and(is_unknown);
        if metadata.topics.iter().any(|topic| unknown(&topic.error))
            && let Ok(all) = self.all_topics().await
        {
            for topic in metadata.topics.iter_mut().filter(|topic| unknown(&topic.error)) {
                let names = all.topics.iter().map(|topic| topic.name.as_str());
                let near = crate::discovery::near_names(&topic.name, names);
                topic.error = topic.error.take().map(|why| why.with_kind(ErrorKind::UnknownTopic { near }));
            }
        }
        Ok(metadata)
    }

    /// Brokers and all topics, asked anew.
    pub async fn all_topics(&self) -> Result<Metadata> {
        self.shared.read_once(&TopicSelection::All).await
    }

    /// Reads the metadata of the topics in use anew, after a pause if it was read just now, or takes
    /// part in a read that is under way.
    ///
    /// Calls that find their broker do so by themselves. This is for those who act on an error that
    /// came another way, over [`Cluster::consumer`] say.
    pub async fn refresh(&self) -> Result<()> {
        self.shared.refresh(self.shared.picture().serial).await.map(drop)
    }

    /// The broker that leads a partition, as last heard.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoLeader`], [`ErrorKind::UnknownTopic`] or [`ErrorKind::UnknownPartition`]; that a
    /// topic or partition does not exist was read after the call.
    pub async fn leader(&self, topic: &str, partition: i32) -> Result<BrokerInfo> {
        self.find_leader(topic, partition).await
    }

    /// All calls to one broker, by its id, over the cluster's connection to it. While the broker
    /// cannot be reached, calls fail at once instead of waiting for the next attempt.
    pub fn consumer(&self, broker: i32) -> Result<SimpleConsumer> {
        self.shared.check_open()?;
        Ok(self.shared.consumer(&self.shared.address(broker)?, true))
    }

    /// The brokers, as last heard, by id.
    pub fn brokers(&self) -> BTreeMap<i32, BrokerInfo> {
        self.shared.picture().brokers.clone()
    }

    /// The id of the cluster, where it has one (0.10.1 on).
    pub fn cluster_id(&self) -> Option<String> {
        self.shared.picture().cluster_id.clone()
    }

    /// Closes all connections, of all clones; every later call is an error.
    pub fn close(&self) {
        self.shared.close();
    }

    /// The memory that streams use; all zero before the first one.
    pub fn memory(&self) -> MemoryUse {
        self.fetcher.get().map_or_else(MemoryUse::default, |fetcher| fetcher.budget.usage())
    }

    /// What streams are built on.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What streams are fetched by. Must be called inside a tokio runtime.
    pub(crate) fn fetcher(&self) -> Fetcher {
        let start = || Fetcher::start(Arc::clone(&self.shared), self.shared.settings.memory);
        self.fetcher.get_or_init(start).clone()
    }
}
