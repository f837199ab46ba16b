use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::net::BrokerAddress;
use crate::protocol::{
    ErrorCode, MetadataPartition, MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic,
};
use crate::wire::Uuid;

use super::near::near_names;

/// Brokers, topics, and who leads what, as one broker sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Metadata {
    /// Live brokers, by id. 0.8.0 and 0.8.1 name only those with a part in the topics asked for.
    pub brokers: Vec<BrokerInfo>,
    /// Id of the cluster, where it has one (0.10.1 on).
    pub cluster_id: Option<String>,
    /// The controller (0.10.0 on); under KRaft a broker picked at random.
    pub controller_id: Option<i32>,
    /// The topics, by name. Each may have an error of its own.
    pub topics: Vec<TopicMetadata>,
}

/// A broker, as others name it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerInfo {
    /// Its id.
    pub id: i32,
    /// Where it says that it listens.
    pub address: BrokerAddress,
    /// Its rack.
    pub rack: Option<String>,
}

/// A topic.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its id, where the cluster gives ids (2.8 on).
    pub id: Option<Uuid>,
    /// Whether it is one of Kafka's own.
    pub is_internal: bool,
    /// Why nothing can be said about it; a topic that does not exist comes with near names.
    pub error: Option<Error>,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionMetadata>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionMetadata {
    /// Its number.
    pub id: i32,
    /// The broker that leads it, if one does and it is among the brokers (KAFKA-9261).
    pub leader: Option<i32>,
    /// The leader's epoch, where it can be trusted (2.4 on, KAFKA-9212).
    pub leader_epoch: Option<i32>,
    /// Brokers with a replica, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Those in sync.
    pub in_sync: Vec<i32>,
    /// Those that are down (1.0 on).
    pub offline: Vec<i32>,
    /// The error; a replica that is down is none (KAFKA-1649).
    pub error: Option<ErrorCode>,
}

/// The last version that creates the topics it names.
pub(crate) const LAST_THAT_CREATES: i16 = 3;

/// A request about these topics that creates none.
pub(crate) fn about(topics: &[&str], version: i16) -> MetadataRequest {
    if version <= LAST_THAT_CREATES {
        if topics.is_empty() && version > 0 {
            return MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
        }
        return about_all(version);
    }
    let named = topics.iter().map(|topic| MetadataRequestTopic {
        name: Some((*topic).to_owned()),
        ..MetadataRequestTopic::default()
    });
    MetadataRequest {
        topics: Some(named.collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

/// A request about all topics: an empty list in version 0, null since.
pub(crate) fn about_all(version: i16) -> MetadataRequest {
    MetadataRequest {
        topics: (version == 0).then(Vec::new),
        allow_auto_topic_creation: version <= LAST_THAT_CREATES,
        ..MetadataRequest::default()
    }
}

pub(crate) fn unknown_topic<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Error {
    Error::new(ErrorKind::UnknownTopic { near: near_names(wanted, names) }).with_topic(wanted)
}

impl Metadata {
    /// For a [`BrokerReader`](super::BrokerReader) that has it from somewhere else than a broker.
    pub fn new(mut brokers: Vec<BrokerInfo>, mut topics: Vec<TopicMetadata>) -> Self {
        brokers.sort_by_key(|broker| broker.id);
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Metadata { brokers, cluster_id: None, controller_id: None, topics }
    }

    /// A broker by its id.
    pub fn broker(&self, id: i32) -> Option<&BrokerInfo> {
        self.brokers.iter().find(|broker| broker.id == id)
    }

    /// A topic by its name.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    /// The broker that leads a partition, if one does.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<&BrokerInfo> {
        let partitions = &self.topic(topic)?.partitions;
        self.broker(partitions.iter().find(|known| known.id == partition)?.leader?)
    }

    /// What a broker answered. `wanted`: the topics to keep, with an error for those that are missing;
    /// `None` for all.
    pub(crate) fn understand(
        version: i16,
        response: MetadataResponse,
        wanted: Option<&[&str]>,
        broker: &BrokerAddress,
    ) -> Result<Self> {
        let place = |why: Error| why.with_request::<MetadataRequest>(version).with_broker(broker);
        if response.error_code.is_err() {
            return Err(place(Error::broker_code(response.error_code)));
        }
        let mut brokers: Vec<BrokerInfo> = response
            .brokers
            .into_iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                let address = BrokerAddress::new(broker.host, port);
                Some(BrokerInfo { id: broker.node_id, address, rack: broker.rack })
            })
            .collect();
        brokers.sort_by_key(|broker| broker.id);
        brokers.dedup_by_key(|broker| broker.id);
        let names: Vec<String> = response.topics.iter().filter_map(|topic| topic.name.clone()).collect();
        let set: Option<BTreeSet<&str>> = wanted.map(|wanted| wanted.iter().copied().collect());
        let is_wanted = |name: &str| set.as_ref().is_none_or(|set| set.contains(name));
        let mut topics: Vec<TopicMetadata> = response
            .topics
            .into_iter()
            .filter(|topic| topic.name.as_deref().is_some_and(is_wanted))
            .map(|topic| TopicMetadata::from_response(version, topic, &brokers, &place))
            .collect();
        let answered: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for missing in set.iter().flatten().filter(|name| !answered.contains(*name)) {
            let error = unknown_topic(missing, answered.iter().copied());
            topics.push(TopicMetadata {
                error: Some(place(error)),
                ..TopicMetadata::new(*missing, Vec::new())
            });
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Metadata {
            brokers,
            cluster_id: response.cluster_id,
            controller_id: Some(response.controller_id).filter(|id| *id >= 0),
            topics,
        })
    }
}

impl BrokerInfo {
    /// A broker without a rack.
    pub fn new(id: i32, address: BrokerAddress) -> Self {
        BrokerInfo { id, address, rack: None }
    }
}

impl TopicMetadata {
    /// A topic without an id.
    pub fn new(name: impl Into<String>, partitions: Vec<PartitionMetadata>) -> Self {
        TopicMetadata { name: name.into(), id: None, is_internal: false, error: None, partitions }
    }

    fn from_response(
        version: i16,
        topic: MetadataTopic,
        brokers: &[BrokerInfo],
        place: &impl Fn(Error) -> Error,
    ) -> Self {
        let name = topic.name.unwrap_or_default();
        let error = match topic.error_code {
            ErrorCode::NONE => None,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(unknown_topic(&name, [])),
            code => Some(Error::broker_code(code).with_topic(name.as_str())),
        };
        let mut partitions: Vec<PartitionMetadata> = topic
            .partitions
            .into_iter()
            .map(|partition| PartitionMetadata::from_response(version, partition, brokers))
            .collect();
        partitions.sort_by_key(|partition| partition.id);
        TopicMetadata {
            name,
            id: Some(topic.topic_id).filter(|id| !id.is_zero()),
            is_internal: topic.is_internal,
            error: error.map(place),
            partitions,
        }
    }
}

impl PartitionMetadata {
    /// A partition of which only the leader is known.
    pub fn new(id: i32, leader: Option<i32>) -> Self {
        PartitionMetadata {
            id,
            leader,
            leader_epoch: None,
            replicas: leader.into_iter().collect(),
            in_sync: leader.into_iter().collect(),
            offline: Vec::new(),
            error: None,
        }
    }

    fn from_response(version: i16, partition: MetadataPartition, brokers: &[BrokerInfo]) -> Self {
        let is_known = |id: &i32| brokers.binary_search_by_key(id, |broker| broker.id).is_ok();
        let error = partition.error_code;
        PartitionMetadata {
            id: partition.partition_index,
            leader: Some(partition.leader_id).filter(is_known),
            leader_epoch: Some(partition.leader_epoch).filter(|epoch| version >= 9 && *epoch >= 0),
            replicas: partition.replica_nodes,
            in_sync: partition.isr_nodes,
            offline: partition.offline_replicas,
            error: Some(error).filter(|code| code.is_err() && *code != ErrorCode::REPLICA_NOT_AVAILABLE),
        }
    }
}
