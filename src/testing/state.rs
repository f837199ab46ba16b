//! What the brokers of the embedded cluster know: topics, logs, leaders, committed offsets.

use std::collections::BTreeMap;

use super::Release;
use super::log::Log;
use crate::protocol::{ApiKey, ErrorCode, Versions};
use crate::wire::Uuid;

/// How the embedded cluster is set up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The release that all its brokers are.
    pub release: Release,
    /// How many brokers there are; their ids count from 1.
    pub brokers: i32,
    /// Whether asking for a topic that does not exist creates it, as `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// Partitions of a topic created that way.
    pub default_partitions: i32,
    /// Size at which a log begins its next segment, in bytes; only ListOffsets 0 shows segments.
    pub segment_bytes: usize,
    /// The time of the cluster's start, in ms since 1970.
    pub started_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            release: Release::LATEST,
            brokers: 1,
            auto_create_topics: true,
            default_partitions: 1,
            segment_bytes: 1 << 30,
            started_ms: 1_700_000_000_000,
        }
    }
}

/// A broker of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) up: bool,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<Partition>,
}

#[derive(Debug)]
pub(crate) struct Partition {
    /// `None` while there is none.
    pub(crate) leader: Option<i32>,
    pub(crate) epoch: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) log: Log,
}

/// A position that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Option<String>,
}

/// Group, topic, partition.
pub(crate) type CommitKey = (String, String, i32);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) apis: Vec<(ApiKey, Versions)>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) committed: BTreeMap<CommitKey, Committed>,
    /// What OffsetCommit 0 stored: real brokers keep that in ZooKeeper.
    pub(crate) committed_in_zookeeper: BTreeMap<CommitKey, Committed>,
    pub(crate) next_producer_id: i64,
    topics_created: u64,
    /// Counts the changes that a waiting request may be waiting for.
    pub(crate) changes: u64,
}

impl State {
    pub(crate) fn new(settings: Settings) -> Self {
        let nodes = (1..=settings.brokers.max(1))
            .map(|id| Node { id, host: format!("broker-{id}"), port: 9092, up: true })
            .collect();
        State {
            apis: settings.release.apis(),
            settings,
            nodes,
            topics: BTreeMap::new(),
            committed: BTreeMap::new(),
            committed_in_zookeeper: BTreeMap::new(),
            next_producer_id: 1_000,
            topics_created: 0,
            changes: 0,
        }
    }

    pub(crate) fn release(&self) -> Release {
        self.settings.release
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.up)
    }

    /// Creates a topic, or replaces one by a new one of the same name, with a new id.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) {
        self.topics_created += 1;
        self.changes += 1;
        let id = match self.release().has_topic_ids() {
            true => Uuid((0x7465_7374_u128 << 96 | u128::from(self.topics_created)).to_be_bytes()),
            false => Uuid::ZERO,
        };
        let ids: Vec<i32> = self.nodes.iter().map(|node| node.id).collect();
        let partitions = (0..partitions.max(1))
            .map(|index| {
                let mut replicas = ids.clone();
                replicas.rotate_left(index as usize % ids.len());
                Partition { leader: replicas.first().copied(), epoch: 0, replicas, log: Log::default() }
            })
            .collect();
        self.topics.insert(name.to_owned(), Topic { id, partitions });
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        if id.is_zero() {
            return None;
        }
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.as_str())
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// The partition, if `node` leads it and the client's idea of its epoch (−1 for none) is right.
    pub(crate) fn led(
        &self,
        node: i32,
        topic: &str,
        partition: i32,
        epoch: i32,
    ) -> Result<&Partition, ErrorCode> {
        let found = self.partition(topic, partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        match found.leader {
            Some(leader) if leader == node => {}
            _ => return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        }
        match epoch {
            -1 => Ok(found),
            old if old < found.epoch => Err(ErrorCode::FENCED_LEADER_EPOCH),
            new if new > found.epoch => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            _ => Ok(found),
        }
    }
}
