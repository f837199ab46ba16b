mod documents;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    BrokerInfo, BrokerReader, Metadata, PartitionMetadata, TopicMetadata, TopicSelection, unknown_topic,
};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{BoxFuture, together};
use crate::protocol::ErrorCode;
use crate::zookeeper::{Trouble, ZooKeeper};
use documents::{Broker, State, Topic};

/// Kafka's own, which applications do not read.
const INTERNAL: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Reads brokers, topics and leaders where Kafka up to 3.9 keeps them: in ZooKeeper, below `/brokers`.
///
/// A partition that the topic's document lists is in the answer, whether or not it has a leader now: no leader, and a
/// leader that is not among the brokers, are normal states ([`ErrorCode::LEADER_NOT_AVAILABLE`]). What ZooKeeper says
/// may be some moments older or newer than what brokers say; see [`CrossChecked`](super::CrossChecked) for both.
#[derive(Debug, Clone)]
#[doc(alias = "DynamicBrokersReader")]
#[doc(alias = "ZkBrokerReader")]
pub struct ZooKeeperBrokers {
    zookeeper: Arc<dyn ZooKeeper>,
    root: String,
    listener: Option<String>,
}

impl ZooKeeperBrokers {
    /// Over a session whose chroot is Kafka's.
    pub fn new(zookeeper: Arc<dyn ZooKeeper>) -> Self {
        ZooKeeperBrokers { zookeeper, root: "/brokers".to_owned(), listener: None }
    }

    /// Over a session of its own, which ends with the last clone: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// As [`Session::connect`](crate::zookeeper::Session::connect).
    #[cfg(feature = "zookeeper")]
    pub async fn connect(servers: &str) -> Result<Self> {
        let session = crate::zookeeper::Session::connect(servers).await?;
        Ok(ZooKeeperBrokers::new(Arc::new(session)))
    }

    /// Which of a broker's listeners to connect to, by its name or its security protocol. Without a choice it is the
    /// first plain one, or the first of all if none is plain.
    #[must_use]
    pub fn listener(mut self, name: impl Into<String>) -> Self {
        self.listener = Some(name.into());
        self
    }

    /// Where the brokers are, below the chroot of the session; `/brokers` by default.
    #[must_use]
    #[doc(alias = "brokerZkPath")]
    pub fn root(mut self, path: &str) -> Self {
        self.root = format!("/{}", path.trim_matches('/'));
        self
    }

    /// A node beside the brokers: `/cluster/id`, `/controller`.
    async fn beside<T>(&self, path: &str, read: fn(&[u8]) -> Result<T, String>) -> Result<Option<T>> {
        let above = self.root.rfind('/').map_or("", |at| &self.root[..at]);
        let node = self.zookeeper.get(&format!("{above}{path}")).await?;
        Ok(node.and_then(|node| read(&node.data).ok()))
    }

    async fn brokers(&self) -> Result<Vec<BrokerInfo>> {
        let path = format!("{}/ids", self.root);
        let names = self.zookeeper.children(&path).await?.ok_or_else(|| {
            Error::config(format!(
                "there is no {path} at {}: no Kafka keeps its brokers there; check the chroot (Kafka from 4.0 on, and \
                 KRaft, has none in ZooKeeper)",
                self.zookeeper.describe()
            ))
        })?;
        let ids = names.iter().filter_map(|name| name.parse().ok());
        let reads = ids.map(|id| -> BoxFuture<'_, _> { Box::pin(self.broker(id)) });
        let mut brokers = Vec::new();
        let mut unusable = None;
        for read in together(reads).await {
            match read? {
                Some(Ok(broker)) => brokers.push(broker),
                Some(Err(why)) => unusable = Some(why),
                None => {} // gone meanwhile
            }
        }
        match unusable {
            // One that is odd costs its own partitions; all of them, a wrong setting.
            Some(why) if brokers.is_empty() => Err(why),
            _ => Ok(brokers),
        }
    }

    async fn broker(&self, id: i32) -> Result<Option<Result<BrokerInfo>>> {
        let path = format!("{}/ids/{id}", self.root);
        let Some(node) = self.zookeeper.get(&path).await? else { return Ok(None) };
        let read = Broker::read(&node.data, self.listener.as_deref());
        let read = read.map(|Broker { address, rack }| BrokerInfo { id, address, rack });
        Ok(Some(read.map_err(|why| self.unreadable(&path, &why))))
    }

    /// Logged too, since what is wrong with one broker or partition costs only that one.
    fn unreadable(&self, path: &str, why: &str) -> Error {
        tracing::warn!(path, why, "a node of Kafka's in ZooKeeper cannot be used");
        let why = Trouble::Refused(format!("{path} cannot be used: {why}"));
        Error::new(ErrorKind::ZooKeeper { at: self.zookeeper.describe(), why })
    }

    async fn topic(&self, name: &str, brokers: &[BrokerInfo]) -> Result<Option<TopicMetadata>> {
        // What is no name of a topic is no path either.
        if name.is_empty() || name.contains('/') || name.chars().all(|c| c == '.') {
            return Ok(None);
        }
        let path = format!("{}/topics/{name}", self.root);
        let Some(node) = self.zookeeper.get(&path).await? else { return Ok(None) };
        let is_internal = INTERNAL.contains(&name);
        let topic = match Topic::read(&node.data) {
            Ok(topic) => topic,
            Err(why) => {
                let error = Some(self.unreadable(&path, &why).with_topic(name));
                return Ok(Some(TopicMetadata {
                    error,
                    is_internal,
                    ..TopicMetadata::new(name, Vec::new())
                }));
            }
        };
        let ids = topic.partitions.keys();
        let states = ids.map(|id| -> BoxFuture<'_, _> { Box::pin(self.state(&path, *id)) });
        let states = together(states).await;
        let mut partitions = Vec::with_capacity(states.len());
        for (state, (id, replicas)) in states.into_iter().zip(topic.partitions) {
            partitions.push(partition(id, replicas, state?, brokers));
        }
        Ok(Some(TopicMetadata { id: topic.id, is_internal, ..TopicMetadata::new(name, partitions) }))
    }

    /// It appears later than its topic, and what cannot be read is no leader either.
    async fn state(&self, topic: &str, partition: i32) -> Result<State> {
        let path = format!("{topic}/partitions/{partition}/state");
        let Some(node) = self.zookeeper.get(&path).await? else { return Ok(State::default()) };
        Ok(State::read(&node.data).unwrap_or_else(|why| {
            self.unreadable(&path, &why);
            State::default()
        }))
    }

    async fn topic_names(&self) -> Result<Vec<String>> {
        let names = self.zookeeper.children(&format!("{}/topics", self.root)).await?;
        Ok(names.unwrap_or_default())
    }

    async fn read_all(&self, selection: &TopicSelection) -> Result<Metadata> {
        let brokers = self.brokers().await?;
        let (names, is_wanted) = match selection {
            TopicSelection::All => (self.topic_names().await?, false),
            TopicSelection::Named(names) => (names.iter().cloned().collect(), true),
        };
        let mut topics = Vec::with_capacity(names.len());
        let mut missing = Vec::new();
        let reads = names.iter();
        let reads = reads.map(|name| -> BoxFuture<'_, _> { Box::pin(self.topic(name, &brokers)) });
        for (name, read) in names.iter().zip(together(reads).await) {
            match read? {
                Some(topic) => topics.push(topic),
                None if is_wanted => missing.push(name),
                None => {} // deleted meanwhile
            }
        }
        if !missing.is_empty() {
            let known = self.topic_names().await?;
            topics.extend(missing.into_iter().map(|name| TopicMetadata {
                error: Some(unknown_topic(name, known.iter().map(String::as_str))),
                ..TopicMetadata::new(name, Vec::new())
            }));
        }
        let cluster_id = self.beside("/cluster/id", documents::cluster_id).await?;
        let controller_id = self.beside("/controller", documents::controller).await?;
        Ok(Metadata { cluster_id, controller_id, ..Metadata::new(brokers, topics) })
    }
}

fn partition(id: i32, replicas: Vec<i32>, state: State, brokers: &[BrokerInfo]) -> PartitionMetadata {
    let is_live = |id: &i32| brokers.iter().any(|broker| broker.id == *id);
    let leader = state.leader.filter(is_live);
    PartitionMetadata {
        id,
        leader,
        leader_epoch: state.leader_epoch,
        offline: replicas.iter().copied().filter(|id| !is_live(id)).collect(),
        replicas,
        in_sync: state.in_sync,
        error: leader.is_none().then_some(ErrorCode::LEADER_NOT_AVAILABLE),
    }
}

impl BrokerReader for ZooKeeperBrokers {
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
        Box::pin(self.read_all(topics))
    }
}
