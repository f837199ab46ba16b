use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::discovery::{BrokerInfo, Metadata, PartitionMetadata, TopicMetadata};
use crate::error::{Error, ErrorKind};
use crate::protocol::ErrorCode;
use crate::wire::Uuid;

/// How long leaders of an older epoch than one seen are not believed (franz-go#198).
const OLDER_EPOCHS: Duration = Duration::from_secs(60);

/// What is known of the cluster at one moment. It does not change: a newer one takes its place.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// Larger in each newer picture.
    pub(crate) serial: u64,
    /// When it was last read.
    pub(crate) at: Instant,
    pub(crate) brokers: BTreeMap<i32, BrokerInfo>,
    pub(crate) cluster_id: Option<String>,
    topics: BTreeMap<String, TopicState>,
}

/// What is known of a topic.
#[derive(Debug, Clone)]
pub(crate) enum TopicState {
    Known(KnownTopic),
    /// It does not exist, as far as the last broker asked knows.
    Missing {
        near: Vec<String>,
    },
    /// It cannot be seen.
    Failed(Error),
}

/// A topic that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownTopic {
    pub(crate) id: Option<Uuid>,
    /// By number, without gaps.
    pub(crate) partitions: Vec<PartitionState>,
    /// How many the last answer told, if it were fewer.
    fewer: Option<usize>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// `None`: nobody leads it now.
    pub(crate) leader: Option<i32>,
    /// The leader's epoch, trusted from Metadata 9 on (KAFKA-9212).
    pub(crate) epoch: Option<i32>,
    pub(crate) replicas: Vec<i32>,
    pub(crate) error: Option<ErrorCode>,
    /// Since when answers tell of older epochs than one seen.
    older_since: Option<Instant>,
}

impl Picture {
    /// Before anything was read.
    pub(super) fn empty(now: Instant) -> Self {
        let (brokers, topics) = Default::default();
        Picture { serial: 0, at: now, brokers, cluster_id: None, topics }
    }

    /// None: the topic is not wanted, or not asked about yet.
    pub(crate) fn topic(&self, name: &str) -> Option<&TopicState> {
        self.topics.get(name)
    }

    /// The picture after an answer that covers its topics, and whether it differs.
    pub(super) fn after(&self, metadata: Metadata, now: Instant) -> (Picture, bool) {
        let brokers: BTreeMap<i32, BrokerInfo> =
            metadata.brokers.into_iter().map(|broker| (broker.id, broker)).collect();
        let mut changed = brokers != self.brokers;
        let mut topics = BTreeMap::new();
        for topic in metadata.topics {
            let before = self.topics.get(&topic.name);
            let name = topic.name.clone();
            let state = TopicState::after(before, topic, now);
            changed |= before.is_none_or(|before| !before.looks_like(&state));
            topics.insert(name, state);
        }
        // Without ids of clusters on one side there is nothing to compare.
        let cluster_id = metadata.cluster_id.or_else(|| self.cluster_id.clone());
        (Picture { serial: self.serial + 1, at: now, brokers, cluster_id, topics }, changed)
    }

    /// The picture after a leader hint (KIP-951); `None` if that tells nothing new.
    pub(super) fn hinted(
        &self,
        topic: &str,
        partition: i32,
        leader: i32,
        epoch: i32,
        address: Option<BrokerInfo>,
    ) -> Option<Picture> {
        let Some(TopicState::Known(known)) = self.topics.get(topic) else { return None };
        let state = known.partitions.get(usize::try_from(partition).ok()?)?;
        let is_newer = epoch >= 0 && state.epoch.is_none_or(|ours| epoch > ours);
        let address = address.filter(|broker| broker.id == leader);
        if !is_newer || leader < 0 || (address.is_none() && !self.brokers.contains_key(&leader)) {
            return None;
        }
        let mut next = self.clone();
        next.serial += 1;
        next.brokers.extend(address.map(|broker| (broker.id, broker)));
        let Some(TopicState::Known(known)) = next.topics.get_mut(topic) else { return None };
        let state = known.partitions.get_mut(usize::try_from(partition).ok()?)?;
        (state.leader, state.epoch, state.error, state.older_since) = (Some(leader), Some(epoch), None, None);
        Some(next)
    }

    /// The picture when nothing that was learnt can be relied on (KIP-1102): the topics are still
    /// there, as they were, but nobody leads them.
    pub(super) fn forgotten(&self) -> Picture {
        let mut next = self.clone();
        next.serial += 1;
        next.brokers.clear();
        next.cluster_id = None;
        for state in next.topics.values_mut() {
            if let TopicState::Known(known) = state {
                for partition in &mut known.partitions {
                    *partition = PartitionState {
                        replicas: std::mem::take(&mut partition.replicas),
                        ..Default::default()
                    };
                }
            }
        }
        next
    }

    /// Fills in names that are near to a missing topic's.
    pub(super) fn suggest(&mut self, topic: &str, names: Vec<String>) {
        if let Some(TopicState::Missing { near }) = self.topics.get_mut(topic) {
            *near = names;
        }
    }
}

impl TopicState {
    fn after(before: Option<&TopicState>, topic: TopicMetadata, now: Instant) -> Self {
        match topic.error {
            None => {
                let before = match before {
                    Some(TopicState::Known(known)) if known.id == topic.id => Some(known),
                    // A new id is a new topic (KAFKA-12257); an id that comes or goes is not, since
                    // brokers of two releases may be about.
                    Some(TopicState::Known(known)) if known.id.is_none() || topic.id.is_none() => Some(known),
                    _ => None,
                };
                TopicState::Known(KnownTopic::after(before, topic.id, topic.partitions, now))
            }
            Some(why) => match (why.kind(), before) {
                // The near names are looked up once.
                (ErrorKind::UnknownTopic { near }, Some(TopicState::Missing { near: known }))
                    if near.is_empty() =>
                {
                    TopicState::Missing { near: known.clone() }
                }
                (ErrorKind::UnknownTopic { near }, _) => TopicState::Missing { near: near.clone() },
                _ => TopicState::Failed(why),
            },
        }
    }

    fn looks_like(&self, other: &TopicState) -> bool {
        match (self, other) {
            (TopicState::Known(a), TopicState::Known(b)) => {
                a.id == b.id
                    && a.partitions.len() == b.partitions.len()
                    && a.partitions.iter().zip(&b.partitions).all(|(a, b)| a.looks_like(b))
            }
            (TopicState::Missing { .. }, TopicState::Missing { .. }) => true,
            (TopicState::Failed(a), TopicState::Failed(b)) => a.code() == b.code(),
            _ => false,
        }
    }
}

impl KnownTopic {
    fn after(
        before: Option<&KnownTopic>,
        id: Option<Uuid>,
        told: Vec<PartitionMetadata>,
        now: Instant,
    ) -> Self {
        let known = before.map_or(0, |before| before.partitions.len());
        let most = told.len().saturating_mul(8).max(known).max(1024);
        let mut partitions: Vec<PartitionState> = Vec::new();
        let mut seen = 0;
        for told in told {
            // Some may be left out; a number far beyond what was told is nonsense.
            let Some(index) = usize::try_from(told.id).ok().filter(|index| *index < most) else { continue };
            if partitions.len() <= index {
                partitions.resize_with(index + 1, PartitionState::default);
            }
            seen = seen.max(index + 1);
            let before = before.and_then(|before| before.partitions.get(index));
            partitions[index] = PartitionState::after(before, told, now);
        }
        // A broker that has just started knows of fewer partitions: believed when told twice.
        let fewer = (seen < known).then_some(seen);
        if let Some(before) = before
            && fewer.is_some()
            && before.fewer != fewer
        {
            let rest = before.partitions.iter().skip(seen);
            partitions.extend(rest.map(|state| PartitionState { leader: None, ..state.clone() }));
            return KnownTopic { id: id.or(before.id), partitions, fewer };
        }
        KnownTopic { id: id.or_else(|| before?.id), partitions, fewer: None }
    }
}

impl PartitionState {
    fn after(before: Option<&PartitionState>, told: PartitionMetadata, now: Instant) -> Self {
        let mut next = PartitionState {
            leader: told.leader,
            epoch: told.leader_epoch,
            replicas: told.replicas,
            error: told.error,
            older_since: None,
        };
        let Some(before) = before else { return next };
        match (before.epoch, next.epoch) {
            (Some(ours), Some(theirs)) if theirs < ours => {
                let since = before.older_since.unwrap_or(now);
                if now.duration_since(since) < OLDER_EPOCHS {
                    return PartitionState { older_since: Some(since), ..before.clone() };
                }
            }
            // Told by a broker that is too old to be trusted with epochs: the newest one stays known,
            // as long as it is the same leader's.
            (Some(ours), None) if next.leader == before.leader => next.epoch = Some(ours),
            _ => {}
        }
        next
    }

    fn looks_like(&self, other: &PartitionState) -> bool {
        (self.leader, self.epoch, self.error) == (other.leader, other.epoch, other.error)
    }
}
