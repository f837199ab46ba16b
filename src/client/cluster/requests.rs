//! Calls at a partition's leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::tries::{Tries, deadline, is_unknown, may_pass};
use super::{Cluster, Picture, TopicState};
use crate::client::{ListedOffset, OffsetSpec};
use crate::discovery::BrokerInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Backoff, BoxFuture, BrokerAddress, together};
use crate::protocol::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic, Versions,
};

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
            match self.known(topic, None).await.and_then(|picture| count(&picture, topic)) {
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
        let deadline = deadline(timeout);
        let unheard = || Error::new(ErrorKind::UnknownTopic { near: Vec::new() }).with_topic(topic);
        let known = self.shared.picture();
        let mut why = known.topic(topic).and_then(|_| count(&known, topic).err()).unwrap_or_else(unheard);
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
            let left = deadline.saturating_duration_since(Instant::now());
            if left < PAUSE.first {
                break;
            }
            // The last looks are closer together: the time is used to its end.
            sleep(PAUSE.after(turn).min(left / 2)).await;
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
                match self.find_leader(topic, partition).await {
                    Ok(leader) => by_leader.entry(leader.address).or_default().push(i),
                    Err(why) => listed[i] = Some(ListedOffset::failed(topic, partition, spec, why)),
                }
            }
            let calls = by_leader.into_iter().map(|(address, asked)| {
                let request: Vec<_> = asked.iter().map(|i| wanted[*i]).collect();
                let leader = self.shared.at(&address);
                Box::pin(async move { (asked, leader.list_offsets(&request).await) })
                    as BoxFuture<'_, (Vec<usize>, Result<Vec<ListedOffset>>)>
            });
            // All at once: one that is slow delays no other.
            for (asked, answers) in together(calls).await {
                let answers = match answers {
                    Ok(answers) => answers,
                    Err(why) => {
                        let failed = |i: &usize| {
                            let (topic, partition, spec) = wanted[*i];
                            ListedOffset::failed(topic, partition, spec, why.clone())
                        };
                        asked.iter().map(failed).collect()
                    }
                };
                for (i, answer) in asked.into_iter().zip(answers) {
                    listed[i] = Some(answer);
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
        let picture = self.known(topic, Some(partition)).await?;
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

    /// A partition's leader.
    pub(super) async fn find_leader(&self, topic: &str, partition: i32) -> Result<BrokerInfo> {
        let picture = self.known(topic, Some(partition)).await?;
        let id = leader(&picture, topic, partition)?;
        let found = picture.brokers.get(&id).cloned();
        found.ok_or_else(|| {
            Error::new(ErrorKind::UnknownBroker(id)).with_topic(topic).with_partition(partition)
        })
    }

    /// A picture that is not old and tells of the topic. One that says that there is no such topic,
    /// or partition, was read after the call.
    pub(super) async fn known(&self, topic: &str, partition: Option<i32>) -> Result<Arc<Picture>> {
        self.shared.check_open()?;
        self.shared.use_topic(topic);
        let at_first = self.shared.picture();
        let mut picture = Arc::clone(&at_first);
        loop {
            let is_old = picture.at.elapsed() >= self.shared.settings.metadata_max_age;
            let is_told = match (picture.topic(topic), partition) {
                (Some(TopicState::Known(known)), Some(partition)) => {
                    partition < known.partitions.len() as i32
                }
                (state, _) => matches!(state, Some(TopicState::Known(_))),
            };
            let is_asked = picture.topic(topic).is_some() && picture.serial != at_first.serial;
            if !is_old && (is_told || is_asked) {
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
pub(super) fn leader(picture: &Picture, topic: &str, partition: i32) -> Result<i32> {
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
