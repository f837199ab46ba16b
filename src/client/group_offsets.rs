use super::metadata::{TopicIds, by_name_or_id};
use super::simple_consumer::{LAST_OFFSETS_BY_NAME, OffsetStorage, SimpleConsumer};
use crate::error::{Error, ErrorKind, Result};
use crate::net::BrokerAddress;
use crate::protocol::{
    ErrorCode, FindCoordinatorRequest, OffsetCommitRequest, OffsetCommitRequestPartition,
    OffsetCommitRequestTopic, OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic,
    OffsetFetchRequestTopics, OffsetFetchResponse, Request, Versions,
};
use crate::records::Isolation;

/// A partition's position, to be kept for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: i64,
    /// Epoch of the last record read (2.1 on, KIP-320).
    pub leader_epoch: Option<i32>,
    /// Anything to keep beside the offset; empty for nothing.
    pub metadata: String,
}

/// What became of committing one position.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Why it was not kept, if it was not.
    pub error: Option<Error>,
}

/// A position that was kept for a group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommittedOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset to read; `None` if nothing was committed.
    pub offset: Option<i64>,
    /// Epoch of the last record read.
    pub leader_epoch: Option<i32>,
    /// What was kept beside the offset.
    pub metadata: String,
    /// Why it is not known.
    pub error: Option<Error>,
}

/// The broker that keeps a group's offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coordinator {
    /// Its id.
    pub id: i32,
    /// Where it listens.
    pub address: BrokerAddress,
}

impl GroupOffset {
    /// The next offset to read of a partition.
    pub fn new(topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        GroupOffset { topic: topic.into(), partition, offset, leader_epoch: None, metadata: String::new() }
    }

    /// Kept beside the offset.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<String>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Epoch of the last record read.
    #[must_use]
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.leader_epoch = Some(epoch);
        self
    }
}

impl SimpleConsumer {
    /// Keeps positions for a group, outside any membership.
    ///
    /// Offsets kept in Kafka (0.8.2 on) must go to the group's coordinator: another broker answers
    /// with an error that names it. On 0.8.1 the broker keeps them in ZooKeeper. Not fenced: a group
    /// with live members refuses it (error 25 or 22).
    pub async fn commit_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<Vec<Committed>> {
        check(group)?;
        let ids =
            self.ids_for_offsets::<OffsetCommitRequest>(offsets.iter().map(|offset| &*offset.topic)).await?;
        let allowed = self.offset_versions(ids.as_ref());
        let exchange =
            self.ask(allowed, |version| Ok(commit_request(group, offsets, version, ids.as_ref()))).await?;
        let version = exchange.version;
        let mut committed = Vec::with_capacity(offsets.len());
        for GroupOffset { topic, partition, .. } in offsets {
            let id = ids.as_ref().and_then(|ids| ids.get(topic)).copied().unwrap_or_default();
            let answer = exchange
                .response
                .topics
                .iter()
                .filter(|answer| match version {
                    ..=LAST_OFFSETS_BY_NAME => answer.name == *topic,
                    _ => answer.topic_id == id,
                })
                .flat_map(|answer| &answer.partitions)
                .find(|answer| answer.partition_index == *partition);
            let error = match answer.map(|answer| answer.error_code) {
                Some(ErrorCode::NONE) => None,
                Some(code) => Some(Error::broker_code(code)),
                None => Some(Error::new(ErrorKind::Incomplete("this partition"))),
            };
            let error = error.map(|why| {
                self.place::<OffsetCommitRequest>(why, version, topic, *partition).with_group(group)
            });
            self.forget_id_if(error.as_ref(), topic);
            committed.push(Committed { topic: topic.clone(), partition: *partition, error });
        }
        self.name_coordinator(group, committed.iter_mut().map(|committed| &mut committed.error)).await;
        Ok(committed)
    }

    /// Positions kept for a group, in the order of asking.
    ///
    /// From Kafka (0.8.2 on; the broker must be the group's coordinator) or from ZooKeeper (0.8.1, or
    /// by setting).
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> Result<Vec<CommittedOffset>> {
        check(group)?;
        let ids =
            self.ids_for_offsets::<OffsetFetchRequest>(partitions.iter().map(|(topic, _)| *topic)).await?;
        let allowed = self.offset_versions(ids.as_ref());
        let stable = self.inner.settings.isolation == Isolation::ReadCommitted;
        let make = |version| Ok(offset_fetch_request(group, Some(partitions), version, stable, ids.as_ref()));
        let exchange = self.ask(allowed, make).await?;
        let version = exchange.version;
        let mut known = self.known_offsets(group, version, exchange.response, ids.as_ref()).await?;
        let mut found: Vec<CommittedOffset> = partitions
            .iter()
            .map(|(topic, partition)| {
                let at =
                    known.iter().position(|known| known.topic == *topic && known.partition == *partition);
                at.map(|at| known.swap_remove(at)).unwrap_or_else(|| CommittedOffset {
                    topic: (*topic).to_owned(),
                    partition: *partition,
                    offset: None,
                    leader_epoch: None,
                    metadata: String::new(),
                    error: Some(self.place::<OffsetFetchRequest>(
                        Error::new(ErrorKind::Incomplete("this partition")),
                        version,
                        topic,
                        *partition,
                    )),
                })
            })
            .collect();
        for CommittedOffset { topic, error, .. } in &found {
            self.forget_id_if(error.as_ref(), topic);
        }
        self.name_coordinator(group, found.iter_mut().map(|found| &mut found.error)).await;
        Ok(found)
    }

    /// All positions kept for a group in Kafka (0.10.2 on, KIP-88).
    pub async fn fetch_all_offsets(&self, group: &str) -> Result<Vec<CommittedOffset>> {
        check(group)?;
        let stable = self.inner.settings.isolation == Isolation::ReadCommitted;
        let allowed = Versions { min: 2, max: LAST_OFFSETS_BY_NAME };
        let make = |version| Ok(offset_fetch_request(group, None, version, stable, None));
        let exchange = self.ask(allowed, make).await?;
        let mut known = self.known_offsets(group, exchange.version, exchange.response, None).await?;
        known.retain(|known| known.offset.is_some() || known.error.is_some());
        known.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        Ok(known)
    }

    /// The broker that keeps a group's offsets (0.8.2 on).
    ///
    /// Any broker may be asked. The first time, a cluster makes its offsets topic, and answers
    /// `COORDINATOR_NOT_AVAILABLE` until that is done: ask again.
    pub async fn find_coordinator(&self, group: &str) -> Result<Coordinator> {
        check(group)?;
        let exchange = self
            .ask(FindCoordinatorRequest::VERSIONS, |version| {
                Ok(match version {
                    0..=3 => FindCoordinatorRequest { key: group.to_owned(), ..Default::default() },
                    _ => FindCoordinatorRequest {
                        coordinator_keys: vec![group.to_owned()],
                        ..Default::default()
                    },
                })
            })
            .await?;
        let (version, response) = (exchange.version, exchange.response);
        let place =
            |why: Error| self.blame(why.with_request::<FindCoordinatorRequest>(version)).with_group(group);
        let (code, message, id, host, port) = if version < 4 {
            let message = response.error_message.filter(|message| !message.is_empty());
            (response.error_code, message, response.node_id, response.host, response.port)
        } else {
            let found = response.coordinators.into_iter().find(|found| found.key == group);
            let found = found.ok_or_else(|| place(Error::new(ErrorKind::Incomplete("this group"))))?;
            let message = found.error_message.filter(|message| !message.is_empty());
            (found.error_code, message, found.node_id, found.host, found.port)
        };
        if code.is_err() {
            return Err(place(Error::new(ErrorKind::Broker { code, message })));
        }
        match u16::try_from(port) {
            Ok(port) if !host.is_empty() => Ok(Coordinator { id, address: BrokerAddress::new(host, port) }),
            _ => Err(place(Error::broker_code(ErrorCode::COORDINATOR_NOT_AVAILABLE))),
        }
    }

    /// The versions that keep offsets where they are to be kept.
    fn offset_versions(&self, ids: Option<&TopicIds>) -> Versions {
        let Versions { max, .. } = by_name_or_id(LAST_OFFSETS_BY_NAME, ids);
        match self.inner.settings.offset_storage {
            OffsetStorage::Newest => Versions { min: 0, max },
            OffsetStorage::Kafka => Versions { min: 1, max },
            OffsetStorage::ZooKeeper => Versions { min: 0, max: 0 },
        }
    }

    /// The topics' ids, if the broker wants offsets by id.
    async fn ids_for_offsets<R: Request>(
        &self,
        topics: impl Iterator<Item = &str>,
    ) -> Result<Option<TopicIds>> {
        let versions = self.versions().await?;
        let by_id = Versions { min: LAST_OFFSETS_BY_NAME + 1, max: i16::MAX };
        if self.inner.settings.offset_storage == OffsetStorage::ZooKeeper
            || self.choose::<R>(&versions, by_id).is_err()
        {
            return Ok(None);
        }
        let topics: std::collections::BTreeSet<&str> = topics.collect();
        let topics: Vec<&str> = topics.into_iter().collect();
        self.ids_of(&topics).await
    }

    /// All positions of an answer, whatever its layout.
    async fn known_offsets(
        &self,
        group: &str,
        version: i16,
        response: OffsetFetchResponse,
        ids: Option<&TopicIds>,
    ) -> Result<Vec<CommittedOffset>> {
        let place =
            |why: Error| self.blame(why.with_request::<OffsetFetchRequest>(version)).with_group(group);
        let mut known = Vec::new();
        let mut add = |topic: &str, partition, offset: i64, epoch: i32, metadata, code: ErrorCode| {
            // Version 0 says "nothing committed" with error 3.
            let none = version == 0 && code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let error = (code.is_err() && !none).then(|| Error::broker_code(code));
            known.push(CommittedOffset {
                topic: topic.to_owned(),
                partition,
                offset: (offset >= 0 && error.is_none()).then_some(offset),
                leader_epoch: (epoch >= 0).then_some(epoch),
                metadata: Option::unwrap_or_default(metadata),
                error: error.map(|why| place(why).with_topic(topic).with_partition(partition)),
            });
        };
        let code = if version < 8 {
            for topic in response.topics {
                for p in topic.partitions {
                    let epoch = p.committed_leader_epoch;
                    add(&topic.name, p.partition_index, p.committed_offset, epoch, p.metadata, p.error_code);
                }
            }
            response.error_code
        } else {
            let answer = response.groups.into_iter().find(|answer| answer.group_id == group);
            let answer = answer.ok_or_else(|| place(Error::new(ErrorKind::Incomplete("this group"))))?;
            for topic in answer.topics {
                let by_id =
                    || ids?.iter().find(|(_, id)| **id == topic.topic_id).map(|(name, _)| name.clone());
                let name = if version > LAST_OFFSETS_BY_NAME { by_id() } else { Some(topic.name.clone()) };
                let Some(name) = name else { continue };
                for p in topic.partitions {
                    let epoch = p.committed_leader_epoch;
                    add(&name, p.partition_index, p.committed_offset, epoch, p.metadata, p.error_code);
                }
            }
            answer.error_code
        };
        if code.is_err() {
            let mut error = Some(place(Error::broker_code(code)));
            self.name_coordinator(group, std::iter::once(&mut error)).await;
            return error.map_or(Ok(known), Err);
        }
        Ok(known)
    }

    /// Says in errors "not the coordinator" which broker is.
    async fn name_coordinator<'a>(&self, group: &str, errors: impl Iterator<Item = &'a mut Option<Error>>) {
        let mut coordinator = None;
        for error in errors {
            let Some(why) = error.take_if(|why| why.code() == Some(ErrorCode::NOT_COORDINATOR)) else {
                continue;
            };
            if coordinator.is_none() && self.inner.explains {
                let found = self.find_coordinator(group).await;
                coordinator = Some(found.ok().map(|found| found.address.to_string()));
            }
            *error = Some(why.with_kind(ErrorKind::NotCoordinator {
                group: group.to_owned(),
                coordinator: coordinator.clone().flatten(),
            }));
        }
    }
}

fn check(group: &str) -> Result<()> {
    if group.is_empty() {
        return Err(Error::config("the group needs a name"));
    }
    Ok(())
}

fn commit_request(
    group: &str,
    offsets: &[GroupOffset],
    version: i16,
    ids: Option<&TopicIds>,
) -> OffsetCommitRequest {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for offset in offsets {
        let partition = OffsetCommitRequestPartition {
            partition_index: offset.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata.clone()),
            ..OffsetCommitRequestPartition::default()
        };
        match topics.iter_mut().find(|topic| topic.name == offset.topic) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(OffsetCommitRequestTopic {
                name: offset.topic.clone(),
                topic_id: id_of(&offset.topic, version, ids),
                partitions: vec![partition],
            }),
        }
    }
    OffsetCommitRequest { group_id: group.to_owned(), topics, ..OffsetCommitRequest::default() }
}

fn offset_fetch_request(
    group: &str,
    partitions: Option<&[(&str, i32)]>,
    version: i16,
    stable: bool,
    ids: Option<&TopicIds>,
) -> OffsetFetchRequest {
    let topics = partitions.map(|partitions| {
        let mut topics: Vec<(&str, Vec<i32>)> = Vec::new();
        for (topic, partition) in partitions {
            match topics.iter_mut().find(|(known, _)| known == topic) {
                Some((_, numbers)) if numbers.contains(partition) => {}
                Some((_, numbers)) => numbers.push(*partition),
                None => topics.push((topic, vec![*partition])),
            }
        }
        topics
    });
    let require_stable = version >= 7 && stable;
    if version < 8 {
        let topic = |(name, partition_indexes): (&str, Vec<i32>)| OffsetFetchRequestTopic {
            name: name.to_owned(),
            partition_indexes,
        };
        return OffsetFetchRequest {
            group_id: group.to_owned(),
            topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            require_stable,
            ..OffsetFetchRequest::default()
        };
    }
    let topic = |(name, partition_indexes): (&str, Vec<i32>)| OffsetFetchRequestTopics {
        name: name.to_owned(),
        topic_id: id_of(name, version, ids),
        partition_indexes,
    };
    OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            ..OffsetFetchRequestGroup::default()
        }],
        require_stable,
        ..OffsetFetchRequest::default()
    }
}

fn id_of(topic: &str, version: i16, ids: Option<&TopicIds>) -> crate::wire::Uuid {
    let id = ids.filter(|_| version > LAST_OFFSETS_BY_NAME).and_then(|ids| ids.get(topic));
    id.copied().unwrap_or_default()
}
