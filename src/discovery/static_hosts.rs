use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use super::{
    BrokerInfo, BrokerReader, Metadata, PartitionMetadata, TopicMetadata, TopicSelection, unknown_topic,
};
use crate::error::Result;
use crate::net::{BoxFuture, BrokerAddress};

/// A fixed map from partitions to the brokers that lead them, for those who know it and want nothing
/// looked up.
///
/// The brokers get numbers in the order of their addresses, which need not be their ids in the
/// cluster. A leader that moves is an error until the map is made anew.
///
/// ```
/// use downspout::discovery::StaticHosts;
///
/// let hosts = StaticHosts::new()
///     .partition("clicks", 0, "kafka1:9092")?
///     .partition("clicks", 1, "kafka2:9092")?;
/// # Ok::<(), downspout::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[doc(alias = "GlobalPartitionInformation")]
pub struct StaticHosts {
    topics: BTreeMap<String, BTreeMap<i32, BrokerAddress>>,
}

impl StaticHosts {
    /// An empty map.
    pub fn new() -> Self {
        StaticHosts::default()
    }

    /// The broker (`host`, `host:port`, `[v6]:port`) that leads a partition.
    #[doc(alias = "addPartition")]
    pub fn partition(mut self, topic: &str, partition: i32, broker: &str) -> Result<Self> {
        let address =
            broker.parse().map_err(|why: crate::Error| why.with_topic(topic).with_partition(partition))?;
        if partition < 0 {
            return Err(crate::Error::config("partitions are numbered from 0")
                .with_topic(topic)
                .with_partition(partition));
        }
        self.topics.entry(topic.to_owned()).or_default().insert(partition, address);
        Ok(self)
    }

    fn metadata(&self, topics: &TopicSelection) -> Metadata {
        let addresses: BTreeSet<&BrokerAddress> = self.topics.values().flat_map(BTreeMap::values).collect();
        let ids: BTreeMap<&BrokerAddress, i32> = addresses.into_iter().zip(0..).collect();
        let brokers = ids.iter().map(|(address, id)| BrokerInfo::new(*id, (*address).clone())).collect();
        let known = |name: &str, partitions: &BTreeMap<i32, BrokerAddress>| {
            let partitions = partitions
                .iter()
                .map(|(partition, leader)| PartitionMetadata::new(*partition, ids.get(leader).copied()));
            TopicMetadata::new(name, partitions.collect())
        };
        let topics = match topics {
            TopicSelection::All => {
                self.topics.iter().map(|(name, partitions)| known(name, partitions)).collect()
            }
            TopicSelection::Named(names) => names
                .iter()
                .map(|name| match self.topics.get(name) {
                    Some(partitions) => known(name, partitions),
                    None => {
                        let why = unknown_topic(name, self.topics.keys().map(String::as_str));
                        TopicMetadata { error: Some(why), ..TopicMetadata::new(name, Vec::new()) }
                    }
                })
                .collect(),
        };
        Metadata::new(brokers, topics)
    }
}

impl BrokerReader for StaticHosts {
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
        Box::pin(ready(Ok(self.metadata(topics))))
    }
}
