//! The brokers of a cluster: connections, who leads what, and where logs begin and end.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use downspout::net::{BrokerAddress, Connection, RequestOptions};
use downspout::protocol::{
    ErrorCode, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic, MetadataRequest,
    MetadataRequestTopic, MetadataResponse, MetadataTopic, Request, Versions,
};
use downspout::records::Isolation;
use downspout::wire::Uuid;
use downspout::{Error, ErrorKind, Retry};
use tokio::time::sleep;

use crate::connect::Target;
use crate::exit::Failure;
use crate::near;

/// Tries again at something that a new leader, or a pause, may mend: three seconds together.
const RETRIES: u32 = 5;

/// Connections to the brokers of a cluster, made when they are needed.
pub(crate) struct Cluster {
    pub(crate) target: Target,
    connections: HashMap<BrokerAddress, Connection>,
    addresses: HashMap<i32, BrokerAddress>,
    /// What was last heard of each topic.
    topics: HashMap<String, MetadataTopic>,
}

/// An answer to "which offset is at this time?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    /// `None`: no record is as late as that.
    pub(crate) offset: Option<i64>,
    /// The time of the record at the offset, where the broker tells.
    pub(crate) timestamp: Option<i64>,
    pub(crate) leader_epoch: Option<i32>,
}

/// Timestamps that stand for something else.
pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;

impl Cluster {
    /// Reaches one of the brokers to begin with.
    pub(crate) async fn connect(target: Target) -> Result<Cluster, Failure> {
        let (connections, addresses, topics) = Default::default();
        let mut cluster = Cluster { target, connections, addresses, topics };
        cluster.any().await?;
        Ok(cluster)
    }

    /// A connection to any broker.
    async fn any(&mut self) -> Result<Connection, Error> {
        self.connections.retain(|_, connection| !connection.is_closed());
        if let Some(connection) = self.connections.values().next() {
            return Ok(connection.clone());
        }
        let mut tried = HashSet::new();
        let mut errors = Vec::new();
        let known: Vec<_> = self.target.bootstrap.iter().chain(self.addresses.values()).cloned().collect();
        for address in known {
            if tried.insert(address.clone()) {
                match self.dial(&address).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => errors.push(error),
                }
            }
        }
        match errors.as_slice() {
            [error] => Err(error.clone()),
            errors => {
                let all: Vec<String> = errors.iter().map(Error::to_string).collect();
                Err(Error::new(ErrorKind::Connect(Arc::new(io::Error::other(all.join("; "))))))
            }
        }
    }

    async fn dial(&mut self, address: &BrokerAddress) -> Result<Connection, Error> {
        if let Some(connection) = self.connections.get(address).filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = self.target.dialer.dial(address).await?;
        self.connections.insert(address.clone(), connection.clone());
        Ok(connection)
    }

    /// A connection to the broker with this id.
    pub(crate) async fn node(&mut self, id: i32) -> Result<Connection, Error> {
        let unknown = || Error::new(ErrorKind::Incomplete("the address of the partition's leader"));
        let address = self.addresses.get(&id).cloned().ok_or_else(unknown)?;
        self.dial(&address).await
    }

    /// All topics, or those named that exist. Never creates one: a name goes to the broker only
    /// where the request can say so.
    pub(crate) async fn metadata(&mut self, names: Option<&[String]>) -> Result<MetadataResponse, Error> {
        let connection = self.any().await?;
        let version = version_of::<MetadataRequest>(&connection, MetadataRequest::VERSIONS)?;
        let mut request = MetadataRequest::default();
        let by_name = names.filter(|_| version >= 4);
        request.topics = match by_name {
            Some(names) => {
                let topic = |name: &String| MetadataRequestTopic {
                    name: Some(name.clone()),
                    ..MetadataRequestTopic::default()
                };
                Some(names.iter().map(topic).collect())
            }
            // All topics: an empty list in version 0, null from 1 on.
            None => (version == 0).then(Vec::new),
        };
        if version >= 4 {
            request.allow_auto_topic_creation = false;
        }
        let options = RequestOptions::within(self.target.timeout);
        let mut metadata = connection.request(&request, version, options)?.await?;
        metadata.error_code.ok().map_err(|code| Error::broker_code(code).with_broker(connection.broker()))?;
        if let Some(names) = names {
            metadata.topics.retain(|topic| topic.name.as_ref().is_some_and(|name| names.contains(name)));
            metadata.topics.retain(|topic| topic.error_code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        }
        metadata.topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut metadata.topics {
            topic.partitions.sort_by_key(|partition| partition.partition_index);
        }
        for broker in &metadata.brokers {
            // A port outside of what a port can be leads nowhere.
            let port = u16::try_from(broker.port).unwrap_or(0);
            self.addresses.insert(broker.node_id, BrokerAddress::new(broker.host.clone(), port));
        }
        for topic in &metadata.topics {
            self.topics.insert(topic.name.clone().unwrap_or_default(), topic.clone());
        }
        Ok(metadata)
    }

    /// A topic; an error with near names if there is none, unless it shall be waited for.
    pub(crate) async fn topic(&mut self, name: &str, wait: bool) -> Result<MetadataTopic, Failure> {
        let mut retries = Retries::default();
        loop {
            match self.metadata(Some(&[name.to_owned()])).await?.topics.pop() {
                Some(topic) if !topic.partitions.is_empty() => return Ok(topic),
                // It was made just now, and nobody leads it yet; or it must not be seen.
                Some(topic) if topic.error_code.is_err() => {
                    retries.after(Error::broker_code(topic.error_code).with_topic(name)).await?;
                }
                _ if wait => sleep(Duration::from_millis(500)).await,
                _ => {
                    let all = self.metadata(None).await?;
                    let names = all.topics.iter().filter_map(|topic| topic.name.as_deref());
                    let near = near::near(name, names).into_iter().map(str::to_owned).collect();
                    return Err(Error::new(ErrorKind::UnknownTopic { near }).with_topic(name).into());
                }
            }
        }
    }

    /// The offset at a time, or at one of the special times, asked of the partition's leader.
    pub(crate) async fn list(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
        isolation: Isolation,
    ) -> Result<Listed, Error> {
        let mut retries = Retries::default();
        loop {
            match self.try_list(topic, partition, time, isolation).await {
                Ok(listed) => return Ok(listed),
                Err(error) => {
                    self.topics.remove(topic);
                    retries.after(error.with_topic(topic).with_partition(partition)).await?;
                }
            }
        }
    }

    async fn try_list(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
        isolation: Isolation,
    ) -> Result<Listed, Error> {
        let leader = self.leader(topic, partition).await?;
        // Each special time came with a version of its own.
        let least = match time {
            -3 => 7,
            -4 => 8,
            -5 => 9,
            -6 => 11,
            _ => 0,
        };
        let version = version_of::<ListOffsetsRequest>(&leader, Versions { min: least, max: i16::MAX })?;
        let ask = ListOffsetsPartition { partition_index: partition, timestamp: time, ..Default::default() };
        let mut request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic { name: topic.to_owned(), partitions: vec![ask] }],
            ..ListOffsetsRequest::default()
        };
        if version >= 2 && isolation == Isolation::ReadCommitted {
            request.isolation_level = 1;
        }
        if version >= 10 {
            request.timeout_ms = self.target.timeout.as_millis() as i32;
        }
        let options = RequestOptions::within(self.target.timeout);
        let response = leader.request(&request, version, options)?.await?;
        let answers = response.topics.into_iter().flat_map(|topic| topic.partitions);
        let answer = answers
            .into_iter()
            .find(|answer| answer.partition_index == partition)
            .ok_or_else(|| Error::new(ErrorKind::Incomplete("the partition")))?;
        answer.error_code.ok().map_err(|code| {
            Error::broker_code(code).with_broker(leader.broker()).with_api(ListOffsetsRequest::KEY, version)
        })?;
        if version == 0 {
            // Descending; the first is the one that was asked for.
            let offset = answer.old_style_offsets.first().copied();
            return Ok(Listed { offset, timestamp: None, leader_epoch: None });
        }
        Ok(Listed {
            offset: Some(answer.offset).filter(|offset| *offset >= 0),
            timestamp: Some(answer.timestamp).filter(|time| *time >= 0),
            leader_epoch: Some(answer.leader_epoch).filter(|epoch| *epoch >= 0),
        })
    }

    /// A connection to the leader of a partition.
    pub(crate) async fn leader(&mut self, topic: &str, partition: i32) -> Result<Connection, Error> {
        let leader = self.leader_id(topic, partition).await?;
        self.node(leader).await
    }

    /// Who leads a partition, as last heard.
    pub(crate) async fn leader_id(&mut self, topic: &str, partition: i32) -> Result<i32, Error> {
        if !self.topics.contains_key(topic) {
            self.metadata(Some(&[topic.to_owned()])).await?;
        }
        let error = |kind| Error::new(kind).with_topic(topic).with_partition(partition);
        let Some(known) = self.topics.get(topic) else {
            return Err(error(ErrorKind::UnknownTopic { near: Vec::new() }));
        };
        match known.partitions.iter().find(|known| known.partition_index == partition) {
            None => Err(error(ErrorKind::UnknownPartition { partitions: known.partitions.len() })),
            Some(known) if known.leader_id < 0 => Err(error(ErrorKind::NotLeader { leader: None })),
            Some(known) => Ok(known.leader_id),
        }
    }

    /// Looks a topic up again when it is needed next.
    pub(crate) fn forget(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    /// The id of a topic, where brokers have them.
    pub(crate) fn topic_id(&self, topic: &str) -> Uuid {
        self.topics.get(topic).map_or(Uuid::ZERO, |topic| topic.topic_id)
    }
}

/// Counts tries, and waits longer before each.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    count: u32,
}

impl Retries {
    /// Waits, if another try can help; gives the error back if not.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Error> {
        let helps = matches!(error.retry(), Retry::RefreshMetadata | Retry::Again);
        if !helps || self.count == RETRIES {
            return Err(error);
        }
        sleep(Duration::from_millis(100 << self.count)).await;
        self.count += 1;
        Ok(())
    }
}

/// The newest version of a request that both sides speak.
pub(crate) fn version_of<R: Request>(connection: &Connection, within: Versions) -> Result<i16, Error> {
    match connection.versions() {
        Some(versions) => {
            versions.choose_within::<R>(within).map_err(|error| error.with_broker(connection.broker()))
        }
        None => Ok(R::VERSIONS.min),
    }
}
