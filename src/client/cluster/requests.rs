//! Calls that find their broker: by the partition's leader, or the group's coordinator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Cluster, Picture, Shared, TopicState};
use crate::client::{
    Committed, CommittedOffset, Coordinator, GroupOffset, ListedOffset, OffsetSpec, OffsetStorage,
};
use crate::discovery::BrokerInfo;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::net::{Backoff, BrokerAddress};
use crate::protocol::{
    ErrorCode, OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic, ProducePartition,
    ProduceRequest, ProduceTopic, ProducedPartition, Versions,
};
use crate::records::{Magic, NewRecord, RecordSetWriter};

/// Where an epoch of a partition ends, as its leader tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochEnd {
    /// The largest epoch that the log has, not above the one asked for; `None` if there is none.
    pub leader_epoch: Option<i32>,
    /// The offset after that epoch's last record; `None` if it is unknown.
    pub end_offset: Option<i64>,
}

impl Cluster {
    /// The numbers of a topic's partitions.
    pub async fn partitions(&self, topic: &str) -> Result<Vec<i32>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.known(topic).await.and_then(|picture| count(&picture, topic)) {
                Ok(count) => return Ok((0..count as i32).collect()),
                Err(why) => tries.again(&self.shared, seen, why).await?,
            }
        }
    }

    /// Waits until a topic exists, has partitions, and each has a leader; gives their numbers.
    ///
    /// # Errors
    ///
    /// What was the matter when the time was up, or what waiting cannot mend.
    pub async fn wait_for_topic(&self, topic: &str, timeout: Duration) -> Result<Vec<i32>> {
        const PAUSE: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let deadline = Instant::now() + timeout;
        let mut why = Error::new(ErrorKind::UnknownTopic { near: Vec::new() }).with_topic(topic);
        for turn in 1.. {
            self.shared.use_topic(topic);
            let read = timeout_at(deadline, self.shared.refresh_now(self.shared.picture().serial)).await;
            let Ok(read) = read else { break };
            let found = read.and_then(|picture| {
                let count = count(&picture, topic)? as i32;
                (0..count).try_for_each(|partition| leader(&picture, topic, partition).map(drop))?;
                Ok((0..count).collect())
            });
            match found {
                Ok(partitions) => return Ok(partitions),
                Err(error) if !may_pass(&error) => return Err(error),
                Err(error) => why = error,
            }
            let pause = Instant::now() + PAUSE.after(turn);
            if pause >= deadline {
                break;
            }
            tokio::time::sleep_until(pause).await;
        }
        Err(why)
    }

    /// Where a partition's log starts.
    pub async fn earliest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.one_offset(topic, partition, OffsetSpec::Earliest).await?.required()
    }

    /// Where a partition's log ends: the offset that the next record will have. Under read_committed
    /// (the default) on 0.11 and later, where its first open transaction starts.
    pub async fn latest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.one_offset(topic, partition, OffsetSpec::Latest).await?.required()
    }

    async fn one_offset(&self, topic: &str, partition: i32, spec: OffsetSpec) -> Result<ListedOffset> {
        let listed = self.list_offsets(&[(topic, partition, spec)]).await?.pop();
        let mut listed = listed.ok_or_else(|| Error::new(ErrorKind::Incomplete("this partition")))?;
        listed.error.take().map_or(Ok(listed), Err)
    }

    /// Offsets of several partitions, in the order of asking, each from its leader; what goes wrong
    /// with one stands in its result.
    pub async fn list_offsets(&self, wanted: &[(&str, i32, OffsetSpec)]) -> Result<Vec<ListedOffset>> {
        let mut listed: Vec<Option<ListedOffset>> = vec![None; wanted.len()];
        let mut left: Vec<usize> = (0..wanted.len()).collect();
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            let mut by_leader: BTreeMap<BrokerAddress, Vec<usize>> = BTreeMap::new();
            for &i in &left {
                let (topic, partition, spec) = wanted[i];
                match self.leader(topic, partition).await {
                    Ok(address) => by_leader.entry(address).or_default().push(i),
                    Err(why) => listed[i] = Some(ListedOffset::failed(topic, partition, spec, why)),
                }
            }
            for (address, asked) in by_leader {
                let request: Vec<_> = asked.iter().map(|i| wanted[*i]).collect();
                match self.shared.at(&address).list_offsets(&request).await {
                    Ok(answers) => {
                        for (i, answer) in asked.into_iter().zip(answers) {
                            listed[i] = Some(answer);
                        }
                    }
                    Err(why) => {
                        for i in asked {
                            let (topic, partition, spec) = wanted[i];
                            listed[i] = Some(ListedOffset::failed(topic, partition, spec, why.clone()));
                        }
                    }
                }
            }
            let error = |i: &usize| listed[*i].as_ref().and_then(|listed| listed.error.clone());
            left.retain(|i| error(i).is_some_and(|why| may_pass(&why) && !is_unknown(&why)));
            let why = left.first().and_then(error);
            let Some(why) = why else { break };
            if tries.again(&self.shared, seen, why).await.is_err() {
                break;
            }
        }
        Ok(listed.into_iter().flatten().collect())
    }

    /// Where an epoch of a partition ends in its leader's log (2.3 on, KIP-320): records beyond that
    /// were truncated.
    pub async fn offset_for_leader_epoch(&self, topic: &str, partition: i32, epoch: i32) -> Result<EpochEnd> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.ask_for_epoch(topic, partition, epoch).await {
                Ok(end) => return Ok(end),
                Err(why) => {
                    let why = why.with_topic(topic).with_partition(partition);
                    tries.again(&self.shared, seen, why).await?;
                }
            }
        }
    }

    async fn ask_for_epoch(&self, topic: &str, partition: i32, epoch: i32) -> Result<EpochEnd> {
        /// Consumers may ask from here on.
        const SINCE: Versions = Versions { min: 3, max: i16::MAX };
        let picture = self.known(topic).await?;
        let address = self.shared.address(leader(&picture, topic, partition)?)?;
        let current_leader_epoch = epoch_of(&picture, topic, partition).unwrap_or(-1);
        let asked = OffsetForLeaderPartition { partition, current_leader_epoch, leader_epoch: epoch };
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![OffsetForLeaderTopic { topic: topic.to_owned(), partitions: vec![asked] }],
        };
        let exchange = self.shared.at(&address).ask(SINCE, |_| Ok(request.clone())).await?;
        let answer = exchange
            .response
            .topics
            .into_iter()
            .filter(|answer| answer.topic == topic)
            .flat_map(|answer| answer.partitions)
            .find(|answer| answer.partition == partition);
        let kind = match answer {
            Some(answer) if !answer.error_code.is_err() => {
                return Ok(EpochEnd {
                    leader_epoch: Some(answer.leader_epoch).filter(|epoch| *epoch >= 0),
                    end_offset: Some(answer.end_offset).filter(|offset| *offset >= 0),
                });
            }
            Some(answer) => ErrorKind::Broker { code: answer.error_code, message: None },
            None => ErrorKind::Incomplete("this partition"),
        };
        Err(Error::new(kind)
            .with_request::<OffsetForLeaderEpochRequest>(exchange.version)
            .with_broker(address))
    }

    /// Appends records to a partition, with acks of all replicas in sync, and gives the offset of the
    /// first one.
    ///
    /// They go out as one uncompressed set, in the format that the broker's version of Produce asks
    /// for: magic 0 up to 0.9, 1 on 0.10, 2 since. Records without a timestamp get the time of now,
    /// where the format has times. Offsets are the broker's to give: those of the records are not
    /// looked at.
    ///
    /// When a leader moves, or an answer is lost, they are sent again: then they may be in the log
    /// twice.
    ///
    /// # Errors
    ///
    /// What the broker refused them for; [`ErrorKind::Config`] if a record does not fit the format, or
    /// if there are none.
    pub async fn produce(&self, topic: &str, partition: i32, records: &[NewRecord<'_>]) -> Result<i64> {
        if records.is_empty() {
            return Err(Error::config("no records to append").with_topic(topic).with_partition(partition));
        }
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.try_produce(topic, partition, records).await {
                Ok(offset) => return Ok(offset),
                Err(why) => {
                    let why = why.with_topic(topic).with_partition(partition);
                    tries.again(&self.shared, seen, why).await?;
                }
            }
        }
    }

    async fn try_produce(&self, topic: &str, partition: i32, records: &[NewRecord<'_>]) -> Result<i64> {
        /// Produce names topics up to here.
        const LAST_BY_NAME: i16 = 12;
        /// For the answer to come, after the time that the broker itself may take.
        const MARGIN: Duration = Duration::from_secs(5);
        let picture = self.known(topic).await?;
        let address = self.shared.address(leader(&picture, topic, partition)?)?;
        let topic_id = match picture.topic(topic) {
            Some(TopicState::Known(known)) => known.id,
            _ => None,
        };
        let allowed = Versions { min: 0, max: topic_id.map_or(LAST_BY_NAME, |_| i16::MAX) };
        let timeout = self.shared.settings.client.request_timeout;
        let exchange = self
            .shared
            .at(&address)
            .ask_within(allowed, timeout + MARGIN, 0, |version| {
                let set = record_set(version, records)?;
                let partition_data = vec![ProducePartition { index: partition, records: Some(set) }];
                let topic_id = topic_id.unwrap_or_default();
                Ok(ProduceRequest {
                    acks: -1,
                    timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
                    topic_data: vec![ProduceTopic { name: topic.to_owned(), topic_id, partition_data }],
                    ..ProduceRequest::default()
                })
            })
            .await?;
        let place = |why: Error| why.with_request::<ProduceRequest>(exchange.version).with_broker(&address);
        let answer = exchange
            .response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .find(|answer| answer.index == partition)
            .ok_or_else(|| place(Error::new(ErrorKind::Incomplete("this partition"))))?;
        if !answer.error_code.is_err() {
            return Ok(answer.base_offset);
        }
        let ProducedPartition { error_code: code, error_message, current_leader, .. } = answer;
        let endpoints = exchange.response.node_endpoints.into_iter();
        let hinted = endpoints.filter_map(|endpoint| {
            let address = BrokerAddress::new(endpoint.host, u16::try_from(endpoint.port).ok()?);
            Some(BrokerInfo { id: endpoint.node_id, address, rack: endpoint.rack })
        });
        let hinted = hinted.into_iter().find(|broker| broker.id == current_leader.leader_id);
        self.shared.hint(topic, partition, current_leader.leader_id, current_leader.leader_epoch, hinted);
        Err(place(Error::new(ErrorKind::Broker { code, message: error_message })))
    }

    /// The broker that keeps a group's offsets (0.8.2 on), found once and then known until it is
    /// another one.
    pub async fn coordinator(&self, group: &str) -> Result<Coordinator> {
        let known = self.shared.coordinators().get(group).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.find_coordinator(group).await {
                Ok(found) => {
                    self.shared.coordinators().insert(group.to_owned(), found.clone());
                    return Ok(found);
                }
                Err(why) => tries.again(&self.shared, seen, why).await?,
            }
        }
    }

    async fn find_coordinator(&self, group: &str) -> Result<Coordinator> {
        let mut why = None;
        for address in self.any_broker().await? {
            match self.shared.at(&address).find_coordinator(group).await {
                Ok(found) => return Ok(found),
                Err(error) if is_unreachable(&error) => why = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(why.unwrap_or_else(|| Error::broker_code(ErrorCode::COORDINATOR_NOT_AVAILABLE)))
    }

    /// The brokers, those first to which there is a connection.
    async fn any_broker(&self) -> Result<Vec<BrokerAddress>> {
        let mut picture = self.shared.picture();
        if picture.brokers.is_empty() {
            picture = self.shared.refresh(picture.serial).await?;
        }
        let mut brokers: Vec<BrokerAddress> =
            picture.brokers.values().map(|broker| broker.address.clone()).collect();
        brokers.sort_by_key(|address| !self.shared.is_connected(address));
        Ok(brokers)
    }

    /// Keeps positions for a group at its coordinator, outside any membership; on 0.8.1 (or by
    /// setting) a broker keeps them in ZooKeeper. Not fenced: a group with live members refuses it
    /// (error 25 or 22).
    pub async fn commit_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<Vec<Committed>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            let broker = self.offsets_broker(group).await?;
            let answer = self.shared.at(&broker).commit_offsets(group, offsets).await;
            let inside = |answer: &Vec<Committed>| answer.iter().find_map(|one| one.error.clone());
            let why = wrong_broker(&answer, inside);
            if !self.once_more(group, &mut tries, seen, why).await {
                return answer;
            }
        }
    }

    /// Positions kept for a group, in the order of asking.
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: &[(&str, i32)],
    ) -> Result<Vec<CommittedOffset>> {
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            let broker = self.offsets_broker(group).await?;
            let answer = self.shared.at(&broker).fetch_offsets(group, partitions).await;
            let inside = |answer: &Vec<CommittedOffset>| answer.iter().find_map(|one| one.error.clone());
            let why = wrong_broker(&answer, inside);
            if !self.once_more(group, &mut tries, seen, why).await {
                return answer;
            }
        }
    }

    /// Whether to ask a coordinator again, after a pause.
    async fn once_more(&self, group: &str, tries: &mut Tries, seen: u64, why: Option<Error>) -> bool {
        let Some(why) = why else { return false };
        if why.code() != Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            self.shared.coordinators().remove(group);
        }
        tries.again(&self.shared, seen, why).await.is_ok()
    }

    /// The coordinator, or any broker where offsets are kept in ZooKeeper.
    async fn offsets_broker(&self, group: &str) -> Result<BrokerAddress> {
        let storage = self.shared.settings.client.offset_storage;
        if storage != OffsetStorage::ZooKeeper {
            match self.coordinator(group).await {
                Ok(found) => return Ok(found.address),
                Err(why) if storage == OffsetStorage::Newest && has_no_coordinators(&why) => {}
                Err(why) => return Err(why),
            }
        }
        let any = self.any_broker().await?.into_iter().next();
        any.ok_or_else(|| Error::broker_code(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    }

    /// The address of a partition's leader.
    async fn leader(&self, topic: &str, partition: i32) -> Result<BrokerAddress> {
        let picture = self.known(topic).await?;
        self.shared.address(leader(&picture, topic, partition)?)
    }

    /// A picture that is not old and tells of the topic; one that says there is no such topic was read
    /// after the call.
    async fn known(&self, topic: &str) -> Result<Arc<Picture>> {
        self.shared.use_topic(topic);
        let at_first = self.shared.picture();
        let mut picture = Arc::clone(&at_first);
        loop {
            let is_old = picture.at.elapsed() >= self.shared.settings.metadata_max_age;
            let doubtful = match picture.topic(topic) {
                None => true,
                Some(TopicState::Known(_)) => false,
                Some(_) => picture.serial == at_first.serial,
            };
            if !is_old && !doubtful {
                return Ok(picture);
            }
            picture = self.shared.refresh(picture.serial).await?;
        }
    }
}

/// How many partitions a topic has.
fn count(picture: &Picture, topic: &str) -> Result<usize> {
    match picture.topic(topic) {
        Some(TopicState::Known(known)) => Ok(known.partitions.len()),
        Some(TopicState::Missing { near }) => {
            Err(Error::new(ErrorKind::UnknownTopic { near: near.clone() }).with_topic(topic))
        }
        Some(TopicState::Failed(why)) => Err(why.clone()),
        None => Err(Error::new(ErrorKind::Incomplete("the topic")).with_topic(topic)),
    }
}

/// Who leads a partition.
fn leader(picture: &Picture, topic: &str, partition: i32) -> Result<i32> {
    let partitions = count(picture, topic)?;
    let Some(TopicState::Known(known)) = picture.topic(topic) else {
        return Err(Error::new(ErrorKind::Incomplete("the topic")).with_topic(topic));
    };
    let state = usize::try_from(partition).ok().and_then(|index| known.partitions.get(index));
    let kind = match state {
        None => ErrorKind::UnknownPartition { partitions },
        Some(state) => match state.leader {
            Some(leader) => return Ok(leader),
            None => ErrorKind::NoLeader,
        },
    };
    Err(Error::new(kind).with_topic(topic).with_partition(partition))
}

fn epoch_of(picture: &Picture, topic: &str, partition: i32) -> Option<i32> {
    let Some(TopicState::Known(known)) = picture.topic(topic) else { return None };
    known.partitions.get(usize::try_from(partition).ok()?)?.epoch
}

/// The set for that version of Produce.
fn record_set(version: i16, records: &[NewRecord<'_>]) -> Result<Bytes> {
    let magic = match version {
        0 | 1 => Magic::V0,
        2 => Magic::V1,
        _ => Magic::V2,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(-1, |now| now.as_millis() as i64);
    let mut set = RecordSetWriter::new(magic);
    for record in records {
        let timestamp = (magic != Magic::V0).then(|| record.timestamp.unwrap_or(now));
        set.push(NewRecord { offset: None, timestamp, ..*record })
            .map_err(|why| Error::config(format!("a record cannot be appended: {why}")))?;
    }
    set.finish().map_err(|why| Error::config(format!("the records cannot be appended: {why}")))
}

/// Whether it may be well later, without anybody doing anything.
fn may_pass(why: &Error) -> bool {
    matches!(why.retry(), Retry::Again | Retry::RefreshMetadata)
}

fn is_unknown(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::UnknownTopic { .. })
}

fn is_unreachable(why: &Error) -> bool {
    matches!(
        why.kind(),
        ErrorKind::Connect(_)
            | ErrorKind::Io(_)
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::Unresponsive(_)
            | ErrorKind::WrongProtocol(_)
    )
}

/// What is wrong with an answer that another broker, or a later moment, may mend.
fn wrong_broker<T>(answer: &Result<T>, inside: impl Fn(&T) -> Option<Error>) -> Option<Error> {
    match answer {
        Ok(answer) => inside(answer).filter(is_about_coordinator),
        Err(why) => Some(why.clone()),
    }
}

fn is_about_coordinator(why: &Error) -> bool {
    matches!(
        why.code(),
        Some(
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::NOT_COORDINATOR
        )
    )
}

/// 0.8.0 and 0.8.1.
fn has_no_coordinators(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::Unsupported { broker: None, .. })
}

/// The tries of one call.
struct Tries {
    deadline: Instant,
    failures: u32,
}

impl Tries {
    fn new(shared: &Shared) -> Self {
        Tries { deadline: Instant::now() + shared.settings.api_timeout, failures: 0 }
    }

    /// Waits, and reads metadata anew, if another try can help and there is time; gives the error
    /// back if not. `seen`: the picture that the failed try went by.
    async fn again(&mut self, shared: &Shared, seen: u64, why: Error) -> Result<()> {
        const PAUSE: Backoff = Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
        // Whoever wants to wait for a topic says so.
        if !may_pass(&why) || is_unknown(&why) {
            return Err(why);
        }
        self.failures += 1;
        let pause = PAUSE.after(self.failures);
        if Instant::now() + pause >= self.deadline {
            return Err(why);
        }
        sleep(pause).await;
        // A failure here is met again by the next try, which says more about it.
        match timeout_at(self.deadline, shared.refresh(seen)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(why),
        }
    }
}
