//! The brokers of a cluster: a consumer for each, who leads what, and where logs begin and end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use downspout::client::{BrokerInfo, ListedOffset, Metadata, OffsetSpec, SimpleConsumer, TopicMetadata};
use downspout::net::BrokerAddress;
use downspout::{Error, ErrorKind, Retry};
use tokio::time::sleep;

use crate::connect::Target;
use crate::exit::Failure;

/// Tries again at something that a new leader, or a pause, may mend: three seconds together.
const RETRIES: u32 = 5;

/// The brokers of a cluster; each is connected to when it is asked something.
pub(crate) struct Cluster {
    pub(crate) target: Target,
    consumers: HashMap<BrokerAddress, SimpleConsumer>,
    /// The broker that gave metadata last.
    source: Option<BrokerAddress>,
    /// What it said, without the topics that are to be looked up again.
    known: Option<Metadata>,
}

impl Cluster {
    pub(crate) fn new(target: Target) -> Cluster {
        Cluster { target, consumers: HashMap::new(), source: None, known: None }
    }

    /// A broker by its address.
    pub(crate) fn consumer(&mut self, address: &BrokerAddress) -> Result<SimpleConsumer, Error> {
        if let Some(consumer) = self.consumers.get(address) {
            return Ok(consumer.clone());
        }
        let consumer = self.target.consumer(address)?;
        self.consumers.insert(address.clone(), consumer.clone());
        Ok(consumer)
    }

    /// The topics named, or all, from the first broker that answers.
    pub(crate) async fn metadata(&mut self, names: Option<&[&str]>) -> Result<Metadata, Error> {
        let mut errors = Vec::new();
        for address in self.addresses() {
            let consumer = self.consumer(&address)?;
            let answer = match names {
                Some(names) => consumer.metadata(names).await,
                None => consumer.all_topics().await,
            };
            match answer {
                Ok(metadata) => {
                    self.source = Some(address);
                    self.known = Some(metadata.clone());
                    return Ok(metadata);
                }
                Err(error) => errors.push(error),
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

    /// Brokers to ask for metadata, the one that gave some before the others.
    fn addresses(&self) -> Vec<BrokerAddress> {
        let brokers = self.known.iter().flat_map(|known| &known.brokers).map(|broker| &broker.address);
        let mut addresses: Vec<BrokerAddress> = Vec::new();
        for address in self.source.iter().chain(&self.target.bootstrap).chain(brokers) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses
    }

    /// A topic; an error with near names if there is none, unless it shall be waited for.
    pub(crate) async fn topic(&mut self, name: &str, wait: bool) -> Result<TopicMetadata, Failure> {
        let mut retries = Retries::default();
        loop {
            let found = self.metadata(Some(&[name])).await?.topics.pop();
            let kind = match found {
                Some(topic) if !topic.partitions.is_empty() => return Ok(topic),
                Some(TopicMetadata { error: Some(error), .. }) => error.kind().clone(),
                _ => ErrorKind::UnknownTopic { near: Vec::new() },
            };
            let is_unknown = matches!(kind, ErrorKind::UnknownTopic { .. });
            let error = Error::new(kind).with_topic(name);
            match is_unknown {
                true if wait => sleep(Duration::from_millis(500)).await,
                true => return Err(error.into()),
                // It was made just now, and nobody leads it yet; or it must not be seen.
                false => retries.after(error).await?,
            }
        }
    }

    /// The offset at a time, or at one of the special times, asked of the partition's leader.
    pub(crate) async fn list(
        &mut self,
        topic: &str,
        partition: i32,
        spec: OffsetSpec,
    ) -> Result<ListedOffset, Error> {
        let mut retries = Retries::default();
        loop {
            match self.try_list(topic, partition, spec).await {
                Ok(listed) => return Ok(listed),
                Err(error) => {
                    self.forget(topic);
                    retries.after(error.with_topic(topic).with_partition(partition)).await?;
                }
            }
        }
    }

    async fn try_list(
        &mut self,
        topic: &str,
        partition: i32,
        spec: OffsetSpec,
    ) -> Result<ListedOffset, Error> {
        let leader = self.leader(topic, partition).await?;
        let consumer = self.consumer(&leader.address)?;
        let listed = consumer.list_offsets(&[(topic, partition, spec)]).await?.pop();
        let mut listed = listed.ok_or_else(|| Error::new(ErrorKind::Incomplete("the partition")))?;
        listed.error.take().map_or(Ok(listed), Err)
    }

    /// Who leads a partition, as last heard.
    pub(crate) async fn leader(&mut self, topic: &str, partition: i32) -> Result<BrokerInfo, Error> {
        if self.known(topic).is_none() {
            self.metadata(Some(&[topic])).await?;
        }
        let leader = self.known.as_ref().and_then(|known| known.leader(topic, partition));
        if let Some(leader) = leader {
            return Ok(leader.clone());
        }
        let kind = match self.known(topic) {
            None => ErrorKind::UnknownTopic { near: Vec::new() },
            Some(TopicMetadata { error: Some(error), .. }) => error.kind().clone(),
            Some(topic) if topic.partitions.iter().all(|known| known.id != partition) => {
                ErrorKind::UnknownPartition { partitions: topic.partitions.len() }
            }
            Some(_) => ErrorKind::NotLeader { leader: None },
        };
        Err(Error::new(kind).with_topic(topic).with_partition(partition))
    }

    /// Looks a topic up again when it is needed next.
    pub(crate) fn forget(&mut self, topic: &str) {
        if let Some(known) = &mut self.known {
            known.topics.retain(|known| known.name != topic);
        }
    }

    /// A topic, as last heard.
    pub(crate) fn known(&self, topic: &str) -> Option<&TopicMetadata> {
        self.known.as_ref()?.topic(topic)
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
