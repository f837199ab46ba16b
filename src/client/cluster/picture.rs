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
        let known = before.map_or(&[][..], |before| &before.partitions);
        // Some may be left out; a number far beyond what was told is nonsense.
        let most = told.len().saturating_mul(8).max(known.len()).max(1024);
        let told: BTreeMap<usize, PartitionMetadata> = told
            .into_iter()
            .filter_map(|told| Some((usize::try_from(told.id).ok()?, told)))
            .filter(|(index, _)| *index < most)
            .collect();
        let count = told.keys().next_back().map_or(0, |last| last + 1);
        // A broker that has just started may know of fewer: believed when it is told twice.
        let fewer = (count < known.len()).then_some(count);
        let is_believed = fewer.is_none() || before.is_some_and(|before| before.fewer == fewer);
        let mut told = told;
        let partitions = (0..if is_believed { count } else { known.len() })
            .map(|index| match (told.remove(&index), known.get(index)) {
                (Some(told), before) => PartitionState::after(before, told, now),
                // Whoever led it, this broker cannot tell.
                (None, before) => PartitionState { leader: None, ..before.cloned().unwrap_or_default() },
            })
            .collect();
        KnownTopic { id: id.or_else(|| before?.id), partitions, fewer: fewer.filter(|_| !is_believed) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::TopicMetadata;
    use crate::net::BrokerAddress;

    fn broker(id: i32) -> BrokerInfo {
        BrokerInfo::new(id, BrokerAddress::new(format!("broker-{id}"), 9092))
    }

    /// Topic `t` with partitions of these leaders and epochs.
    fn told(id: u8, partitions: &[(i32, i32)]) -> Metadata {
        let partitions = partitions.iter().zip(0..).map(|((leader, epoch), number)| {
            let mut partition = PartitionMetadata::new(number, Some(*leader).filter(|id| *id > 0));
            partition.leader_epoch = Some(*epoch).filter(|epoch| *epoch >= 0);
            partition
        });
        let mut topic = TopicMetadata::new("t", partitions.collect());
        topic.id = (id > 0).then_some(Uuid([id; 16]));
        Metadata::new((1..=3).map(broker).collect(), vec![topic])
    }

    fn failed(kind: ErrorKind) -> Metadata {
        let mut topic = TopicMetadata::new("t", Vec::new());
        topic.error = Some(Error::new(kind));
        Metadata::new(vec![broker(1)], vec![topic])
    }

    /// A picture and the clock beside it.
    struct Seen(Picture, Instant);

    impl Seen {
        fn new(first: Metadata) -> Seen {
            let now = Instant::now();
            Seen(Picture::empty(now).after(first, now).0, now)
        }

        /// After so many seconds this is told; whether it changed anything.
        fn hear(&mut self, seconds: u64, metadata: Metadata) -> bool {
            self.1 += Duration::from_secs(seconds);
            let serial = self.0.serial;
            let (next, changed) = self.0.after(metadata, self.1);
            assert_eq!(next.serial, serial + 1);
            self.0 = next;
            changed
        }

        /// Leaders (0 for none) and epochs (−1 for none).
        fn leaders(&self) -> Vec<(i32, i32)> {
            let Some(TopicState::Known(topic)) = self.0.topic("t") else { panic!("{:?}", self.0.topic("t")) };
            let states = topic.partitions.iter();
            states.map(|state| (state.leader.unwrap_or(0), state.epoch.unwrap_or(-1))).collect()
        }
    }

    #[tokio::test]
    async fn o4_an_older_epoch_is_ignored_for_a_minute_and_then_accepted() {
        let mut seen = Seen::new(told(7, &[(1, 5), (2, 5)]));
        assert!(!seen.hear(1, told(7, &[(3, 4), (2, 5)])));
        assert_eq!(seen.leaders(), [(1, 5), (2, 5)]);
        seen.hear(59, told(7, &[(3, 4), (2, 5)]));
        assert_eq!(seen.leaders(), [(1, 5), (2, 5)]);
        assert!(seen.hear(1, told(7, &[(3, 4), (2, 5)])));
        assert_eq!(seen.leaders(), [(3, 4), (2, 5)]);
    }

    #[tokio::test]
    async fn o4_the_minute_begins_anew_when_a_newer_epoch_was_seen_between() {
        let mut seen = Seen::new(told(7, &[(1, 5)]));
        for _ in 0..5 {
            seen.hear(30, told(7, &[(3, 4)]));
            assert_eq!(seen.leaders(), [(1, 5)]);
            seen.hear(20, told(7, &[(1, 5)]));
        }
    }

    #[tokio::test]
    async fn case_56_a_new_topic_id_is_a_new_topic_whatever_its_epochs() {
        let mut seen = Seen::new(told(7, &[(1, 5), (2, 5), (3, 5)]));
        assert!(seen.hear(1, told(8, &[(2, 0)])));
        assert_eq!(seen.leaders(), [(2, 0)]);
        let Some(TopicState::Known(topic)) = seen.0.topic("t") else { panic!() };
        assert_eq!(topic.id, Some(Uuid([8; 16])));
    }

    #[tokio::test]
    async fn case_57_epochs_of_answers_that_cannot_be_trusted_are_none() {
        let mut seen = Seen::new(told(0, &[(1, -1)]));
        assert_eq!(seen.leaders(), [(1, -1)]);
        // The cluster is upgraded, broker by broker.
        seen.hear(1, told(7, &[(1, 9)]));
        assert_eq!(seen.leaders(), [(1, 9)]);
        seen.hear(1, told(0, &[(1, -1)]));
        assert_eq!(seen.leaders(), [(1, 9)], "the same leader keeps its epoch");
        seen.hear(1, told(0, &[(2, -1)]));
        assert_eq!(seen.leaders(), [(2, -1)]);
        let Some(TopicState::Known(topic)) = seen.0.topic("t") else { panic!() };
        assert_eq!(topic.id, Some(Uuid([7; 16])), "an answer without ids takes none away");
    }

    #[tokio::test]
    async fn partitions_are_never_fewer_on_one_read_alone() {
        let mut seen = Seen::new(told(7, &[(1, 5), (2, 5), (3, 5)]));
        seen.hear(1, told(7, &[(1, 5)]));
        assert_eq!(seen.leaders(), [(1, 5), (0, 5), (0, 5)]);
        // Fewer, but not the same number: told once again.
        seen.hear(1, told(7, &[(1, 5), (2, 5)]));
        assert_eq!(seen.leaders(), [(1, 5), (2, 5), (0, 5)]);
        seen.hear(1, told(7, &[(1, 5), (2, 5), (3, 5)]));
        seen.hear(1, told(7, &[(1, 5)]));
        assert_eq!(seen.leaders().len(), 3);
        seen.hear(1, told(7, &[(1, 5)]));
        assert_eq!(seen.leaders(), [(1, 5)]);
    }

    #[tokio::test]
    async fn a_partition_that_is_left_out_is_there_without_a_leader() {
        let mut gap = told(7, &[(1, 5), (2, 5), (3, 5)]);
        gap.topics[0].partitions.remove(1);
        let mut seen = Seen::new(gap);
        assert_eq!(seen.leaders(), [(1, 5), (0, -1), (3, 5)]);
        let mut nonsense = told(7, &[(1, 5), (2, 5), (3, 5)]);
        nonsense.topics[0].partitions[0].id = i32::MAX;
        nonsense.topics[0].partitions[1].id = -1;
        seen.hear(1, nonsense);
        assert_eq!(seen.leaders(), [(0, 5), (0, -1), (3, 5)]);
    }

    #[tokio::test]
    async fn a_topic_that_vanishes_is_missing_and_keeps_its_near_names() {
        let mut seen = Seen::new(told(7, &[(1, 5)]));
        let unknown = || failed(ErrorKind::UnknownTopic { near: Vec::new() });
        assert!(seen.hear(1, unknown()));
        seen.0.suggest("t", vec!["tt".into()]);
        assert!(!seen.hear(1, unknown()));
        assert!(matches!(seen.0.topic("t"), Some(TopicState::Missing { near }) if near == &["tt"]));
        assert!(seen.hear(1, failed(ErrorKind::Broker { code: ErrorCode(29), message: None })));
        assert!(
            matches!(seen.0.topic("t"), Some(TopicState::Failed(why)) if why.code() == Some(ErrorCode(29)))
        );
    }

    #[tokio::test]
    async fn kip_951_a_hint_is_taken_when_its_epoch_is_newer_and_its_broker_known() {
        let seen = Seen::new(told(7, &[(1, 5)]));
        let hint = |leader, epoch, address| seen.0.hinted("t", 0, leader, epoch, address);
        for (leader, epoch, address) in
            [(2, 5, None), (2, 4, None), (-1, 6, None), (9, 6, None), (9, 6, Some(broker(8)))]
        {
            assert!(hint(leader, epoch, address.clone()).is_none(), "{leader} {epoch} {address:?}");
        }
        assert!(seen.0.hinted("t", 1, 2, 6, None).is_none());
        assert!(seen.0.hinted("u", 0, 2, 6, None).is_none());
        let next = hint(9, 6, Some(broker(9))).unwrap();
        assert_eq!((next.serial, next.brokers.contains_key(&9)), (seen.0.serial + 1, true));
        let mut next = Seen(next, seen.1);
        assert_eq!(next.leaders(), [(9, 6)]);
        // What was read before the move is older.
        next.hear(1, told(7, &[(1, 5)]));
        assert_eq!(next.leaders(), [(9, 6)]);
    }

    #[tokio::test]
    async fn case_67_after_a_rebootstrap_nothing_that_was_learnt_holds() {
        let mut seen = Seen::new(told(7, &[(1, 5), (2, 5)]));
        seen.0 = seen.0.forgotten();
        assert_eq!((seen.leaders(), seen.0.brokers.len()), (vec![(0, -1), (0, -1)], 0));
        seen.hear(1, told(7, &[(2, 3), (3, 3)]));
        assert_eq!(seen.leaders(), [(2, 3), (3, 3)]);
    }
}
