use std::collections::HashMap;
use std::sync::PoisonError;

use super::near::near;
use super::simple_consumer::SimpleConsumer;
use crate::error::{Error, ErrorKind, Result};
use crate::net::BrokerAddress;
use crate::protocol::{
    ErrorCode, MetadataPartition, MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic,
    Request, Versions,
};
use crate::wire::Uuid;

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

/// Ids of topics seen so far.
pub(super) type TopicIds = HashMap<String, Uuid>;

const UP_TO_3: i16 = 3;

impl SimpleConsumer {
    /// Brokers, and the topics named. None is created: brokers that would create what they are asked
    /// about (before 0.11) are asked for all topics.
    pub async fn metadata(&self, topics: &[&str]) -> Result<Metadata> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about(topics, version))).await?;
        let mut metadata = self.understand(exchange.version, exchange.response, Some(topics))?;
        let unknown = |topic: &TopicMetadata| matches!(topic.error.as_ref().map(Error::kind), Some(ErrorKind::UnknownTopic { near }) if near.is_empty());
        if exchange.version > UP_TO_3 && metadata.topics.iter().any(unknown) {
            // The answer holds the topics asked for alone. A failure here changes nothing about it.
            if let Ok(all) = self.all_topics().await {
                for topic in metadata.topics.iter_mut().filter(|topic| unknown(topic)) {
                    let error =
                        unknown_topic(&topic.name, all.topics.iter().map(|topic| topic.name.as_str()));
                    topic.error = Some(error.with_broker(self.broker()));
                }
            }
        }
        Ok(metadata)
    }

    /// Brokers and all topics.
    pub async fn all_topics(&self) -> Result<Metadata> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about_all(version))).await?;
        self.understand(exchange.version, exchange.response, None)
    }

    fn understand(
        &self,
        version: i16,
        response: MetadataResponse,
        wanted: Option<&[&str]>,
    ) -> Result<Metadata> {
        if response.error_code.is_err() {
            return Err(Error::broker_code(response.error_code)
                .with_request::<MetadataRequest>(version)
                .with_broker(self.broker()));
        }
        let mut ids = self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner);
        for topic in response.topics.iter().filter(|topic| !topic.error_code.is_err()) {
            match &topic.name {
                Some(name) if topic.topic_id.is_zero() => drop(ids.remove(name)),
                Some(name) => drop(ids.insert(name.clone(), topic.topic_id)),
                None => {}
            }
        }
        drop(ids);
        let place = |why: Error| why.with_request::<MetadataRequest>(version).with_broker(self.broker());
        Ok(Metadata::from_response(version, response, wanted, place))
    }

    /// Turns an error about a partition into one that says more: which topics are near, how many
    /// partitions there are, which broker leads.
    pub(super) async fn explain(&self, why: Error) -> Error {
        let (Some(code), Some(topic), Some(partition)) =
            (why.code(), why.topic().map(str::to_owned), why.partition())
        else {
            return why;
        };
        let asks_for_more = [
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::UNKNOWN_TOPIC_ID,
            ErrorCode::INCONSISTENT_TOPIC_ID,
        ];
        if !asks_for_more.contains(&code) || !matches!(why.kind(), ErrorKind::Broker { .. }) {
            return why;
        }
        let Ok(metadata) = self.metadata(&[&topic]).await else { return why };
        let Some(known) = metadata.topic(&topic) else { return why };
        match &known.error {
            Some(error) if matches!(error.kind(), ErrorKind::UnknownTopic { .. }) => {
                return why.with_kind(error.kind().clone());
            }
            Some(_) => return why,
            None => {}
        }
        let Some(found) = known.partitions.iter().find(|found| found.id == partition) else {
            return why.with_kind(ErrorKind::UnknownPartition { partitions: known.partitions.len() });
        };
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION || code == ErrorCode::NOT_LEADER_OR_FOLLOWER {
            let leader = found.leader.and_then(|id| metadata.broker(id));
            return why
                .with_kind(ErrorKind::NotLeader { leader: leader.map(|broker| broker.address.to_string()) });
        }
        why
    }

    /// The ids of these topics, if all have one.
    pub(super) async fn ids_of(&self, topics: &[&str]) -> Result<Option<TopicIds>> {
        let known = || {
            let ids = self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner);
            topics.iter().map(|topic| Some(((*topic).to_owned(), *ids.get(*topic)?))).collect::<Option<_>>()
        };
        if let Some(ids) = known() {
            return Ok(Some(ids));
        }
        self.ask_for_ids(topics).await?;
        Ok(known())
    }

    async fn ask_for_ids(&self, topics: &[&str]) -> Result<()> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about(topics, version))).await?;
        self.understand(exchange.version, exchange.response, Some(topics)).map(drop)
    }

    /// Forgets the id of a topic that was made anew.
    pub(super) fn forget_id(&self, topic: &str) {
        self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}

/// A request about these topics that creates none.
fn about(topics: &[&str], version: i16) -> MetadataRequest {
    if version <= UP_TO_3 {
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
fn about_all(version: i16) -> MetadataRequest {
    MetadataRequest {
        topics: (version == 0).then(Vec::new),
        allow_auto_topic_creation: version <= UP_TO_3,
        ..MetadataRequest::default()
    }
}

fn unknown_topic<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Error {
    Error::new(ErrorKind::UnknownTopic { near: near(wanted, names) }).with_topic(wanted)
}

impl Metadata {
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

    /// `wanted`: the topics to keep, with an error for those that are missing; `None` for all.
    fn from_response(
        version: i16,
        response: MetadataResponse,
        wanted: Option<&[&str]>,
        place: impl Fn(Error) -> Error,
    ) -> Self {
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
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(&name));
        let mut topics: Vec<TopicMetadata> = response
            .topics
            .into_iter()
            .filter(|topic| topic.name.as_deref().is_some_and(is_wanted))
            .map(|topic| TopicMetadata::from_response(version, topic, &brokers, &place))
            .collect();
        for missing in wanted.unwrap_or_default() {
            if !topics.iter().any(|topic| topic.name == *missing) {
                let error = unknown_topic(missing, names.iter().map(String::as_str));
                topics.push(TopicMetadata {
                    name: (*missing).to_owned(),
                    id: None,
                    is_internal: false,
                    error: Some(place(error)),
                    partitions: Vec::new(),
                });
            }
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Metadata {
            brokers,
            cluster_id: response.cluster_id,
            controller_id: Some(response.controller_id).filter(|id| *id >= 0),
            topics,
        }
    }
}

impl TopicMetadata {
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
    fn from_response(version: i16, partition: MetadataPartition, brokers: &[BrokerInfo]) -> Self {
        let is_known = |id: &i32| brokers.iter().any(|broker| broker.id == *id);
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

/// Versions that name topics, up to `last`; all of them if the ids are known.
pub(super) fn by_name_or_id(last: i16, ids: Option<&TopicIds>) -> Versions {
    Versions { min: 0, max: if ids.is_some() { i16::MAX } else { last } }
}
