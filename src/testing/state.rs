//! What the brokers of the embedded cluster know: topics, logs, leaders, committed offsets.

use std::collections::BTreeMap;

use super::Release;
use super::groups::Group;
use super::log::Log;
use super::modern_groups::ModernGroup;
use super::sessions::Sessions;
use crate::protocol::{ApiKey, ErrorCode, Versions};
use crate::wire::Uuid;

/// How the embedded cluster is set up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The release that all its brokers are.
    pub release: Release,
    /// The cluster's id, where the release has one (0.10.1 on).
    pub cluster_id: String,
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
    /// How many brokers keep a partition; all of them keep it if there are fewer.
    pub replication_factor: i32,
    /// The rack of each broker, in order; a broker without one is in none. Where there are racks,
    /// clients that name theirs are sent to a follower in it (KIP-392, from 2.4 on).
    pub racks: Vec<String>,
    /// Fetch sessions that a broker remembers at most; 0 for none (KIP-227,
    /// `max.incremental.fetch.session.cache.slots`).
    pub fetch_session_slots: usize,
    /// Metadata of a committed offset that is longer is refused (`offset.metadata.max.bytes`).
    pub offset_metadata_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            release: Release::LATEST,
            cluster_id: "embedded-cluster-000000".to_owned(),
            brokers: 1,
            auto_create_topics: true,
            default_partitions: 1,
            segment_bytes: 1 << 30,
            started_ms: 1_700_000_000_000,
            replication_factor: i32::MAX,
            racks: Vec::new(),
            fetch_session_slots: 1_000,
            offset_metadata_limit: 4_096,
        }
    }
}

/// A broker of the cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) rack: Option<String>,
    pub(crate) up: bool,
    /// It takes requests in and does nothing about them.
    pub(crate) frozen: bool,
    /// Metadata leaves it out, even where it leads (KAFKA-9261).
    pub(crate) hidden: bool,
    /// What its Metadata answers say instead of what is.
    pub(crate) outdated: Option<Layout>,
    pub(crate) sessions: Sessions,
}

/// Topics without their logs, as Metadata shows them.
pub(crate) type Layout = BTreeMap<String, (Uuid, Vec<PartitionLayout>)>;

#[derive(Debug, Clone)]
pub(crate) struct PartitionLayout {
    pub(crate) leader: Option<i32>,
    pub(crate) epoch: i32,
    pub(crate) replicas: Vec<i32>,
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
    /// Where the logs of followers end that lag behind.
    pub(crate) follower_ends: BTreeMap<i32, i64>,
    /// The epoch that Metadata shows instead.
    pub(crate) shown_epoch: Option<i32>,
}

impl Partition {
    /// Where the log of a replica ends.
    pub(crate) fn end_at(&self, node: i32) -> i64 {
        let behind = self.follower_ends.get(&node).filter(|_| self.leader != Some(node));
        behind.map_or(self.log.end(), |end| self.log.end().min(*end))
    }

    /// Makes another broker, or none, the leader, in a new epoch; it becomes a replica if it is none.
    pub(crate) fn elect(&mut self, leader: Option<i32>) {
        self.replicas.extend(leader.filter(|leader| !self.replicas.contains(leader)));
        self.leader = leader;
        self.epoch += 1;
        self.log.begin_epoch(self.epoch);
    }

    pub(crate) fn layout(&self) -> PartitionLayout {
        PartitionLayout {
            leader: self.leader,
            epoch: self.shown_epoch.unwrap_or(self.epoch),
            replicas: self.replicas.clone(),
        }
    }
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
    pub(crate) groups: BTreeMap<String, Group>,
    pub(crate) modern_groups: BTreeMap<String, ModernGroup>,
    /// The broker that coordinates all groups; `None` for the first one that is up.
    pub(crate) chosen_coordinator: Option<i32>,
    pub(crate) next_producer_id: i64,
    /// Producer ids and epochs of transactional ids.
    pub(crate) transactional: BTreeMap<String, (i64, i16)>,
    names: BTreeMap<Uuid, String>,
    topics_created: u64,
    /// Counts the changes that a waiting request may be waiting for.
    pub(crate) changes: u64,
}

impl State {
    pub(crate) fn new(settings: Settings) -> Self {
        let nodes = (1..=settings.brokers.max(1))
            .map(|id| Node {
                id,
                host: format!("broker-{id}"),
                port: 9092,
                rack: settings.racks.get(id as usize - 1).cloned(),
                up: true,
                frozen: false,
                hidden: false,
                outdated: None,
                sessions: Sessions::new(id, settings.fetch_session_slots),
            })
            .collect();
        State {
            apis: settings.release.apis(),
            settings,
            nodes,
            topics: BTreeMap::new(),
            committed: BTreeMap::new(),
            committed_in_zookeeper: BTreeMap::new(),
            groups: BTreeMap::new(),
            modern_groups: BTreeMap::new(),
            chosen_coordinator: None,
            next_producer_id: 1_000,
            transactional: BTreeMap::new(),
            names: BTreeMap::new(),
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

    pub(crate) fn node_mut(&mut self, id: i32) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id == id)
    }

    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.up)
    }

    /// Creates a topic, or replaces one by a new one of the same name, with a new id.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) {
        self.delete_topic(name);
        self.topics_created += 1;
        let id = match self.release().has_topic_ids() {
            true => Uuid((0x7465_7374_u128 << 96 | u128::from(self.topics_created)).to_be_bytes()),
            false => Uuid::ZERO,
        };
        if !id.is_zero() {
            self.names.insert(id, name.to_owned());
        }
        let partitions = (0..partitions.max(1)).map(|index| self.new_partition(index)).collect();
        self.topics.insert(name.to_owned(), Topic { id, partitions });
    }

    pub(crate) fn delete_topic(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.id);
        }
        self.changes += 1;
    }

    /// Its replicas are the brokers from `index` on, in a circle.
    pub(crate) fn new_partition(&self, index: i32) -> Partition {
        let mut replicas: Vec<i32> = self.nodes.iter().map(|node| node.id).collect();
        let brokers = replicas.len();
        replicas.rotate_left(index.unsigned_abs() as usize % brokers);
        replicas.truncate(self.settings.replication_factor.max(1) as usize);
        let is_up = |id: &i32| self.node(*id).is_some_and(|node| node.up);
        let mut log = Log::default();
        log.begin_epoch(0);
        Partition {
            leader: replicas.iter().copied().find(is_up),
            epoch: 0,
            replicas,
            log,
            follower_ends: BTreeMap::new(),
            shown_epoch: None,
        }
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The broker that coordinates all groups.
    pub(crate) fn coordinator(&self) -> Option<i32> {
        let mut live = self.live_nodes().map(|node| node.id);
        match self.chosen_coordinator {
            Some(chosen) => live.find(|id| *id == chosen),
            None => live.next(),
        }
    }

    pub(crate) fn check_coordinator(&self, node: i32) -> Result<(), ErrorCode> {
        // The code's first name was NOT_COORDINATOR_FOR_CONSUMER.
        if self.coordinator() == Some(node) { Ok(()) } else { Err(ErrorCode::NOT_COORDINATOR) }
    }

    /// All topics as Metadata would show them.
    pub(crate) fn layout(&self) -> Layout {
        let shown = |topic: &Topic| (topic.id, topic.partitions.iter().map(Partition::layout).collect());
        self.topics.iter().map(|(name, topic)| (name.clone(), shown(topic))).collect()
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// The partition, if `node` keeps it and the client's idea of its epoch (−1 for none) is right.
    pub(crate) fn kept(
        &self,
        node: i32,
        topic: &str,
        partition: i32,
        epoch: i32,
    ) -> Result<&Partition, ErrorCode> {
        let found = self.partition(topic, partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        if !found.replicas.contains(&node) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        match epoch {
            -1 => Ok(found),
            old if old < found.epoch => Err(ErrorCode::FENCED_LEADER_EPOCH),
            new if new > found.epoch => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            _ => Ok(found),
        }
    }

    /// The partition, if `node` leads it and the client's idea of its epoch (−1 for none) is right.
    pub(crate) fn led(
        &self,
        node: i32,
        topic: &str,
        partition: i32,
        epoch: i32,
    ) -> Result<&Partition, ErrorCode> {
        let found = self.kept(node, topic, partition, epoch)?;
        if found.leader == Some(node) { Ok(found) } else { Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) }
    }
}
