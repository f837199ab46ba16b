//! What a test does to the cluster: topics, records, leaders, retention, brokers that go down.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;

use super::append::assign;
use super::compaction::compact;
use super::core::{Core, Seen};
use super::entry::entries;
use super::state::{Node, Partition, State};
use super::{Fault, Log};
use crate::error::{Error, Result};
use crate::protocol::ErrorCode;

/// The ends of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOffsets {
    /// First offset.
    pub start: i64,
    /// Offset before which no transaction is open.
    pub last_stable: i64,
    /// Offset after the last one that consumers may see.
    pub high_watermark: i64,
    /// Offset after the last one.
    pub end: i64,
}

impl Core {
    /// Creates a topic, or replaces one by a new one of the same name with a new id.
    pub fn create_topic(&mut self, name: &str, partitions: i32) {
        self.state.create_topic(name, partitions);
    }

    /// Deletes a topic, if there is one.
    pub fn delete_topic(&mut self, name: &str) {
        self.state.delete_topic(name);
    }

    /// Adds partitions to a topic, until there are `count`.
    pub fn add_partitions(&mut self, topic: &str, count: i32) -> Result<()> {
        let found = self.state.topics.get(topic).ok_or_else(|| unknown(topic, 0))?;
        let first = found.partitions.len() as i32;
        let added: Vec<Partition> = (first..count).map(|index| self.state.new_partition(index)).collect();
        if let Some(found) = self.state.topics.get_mut(topic) {
            found.partitions.extend(added);
        }
        self.state.changes += 1;
        Ok(())
    }

    /// Appends a record set as a producer's request would: its entries, in whatever format they are,
    /// get the next offsets. Gives the first one.
    pub fn append(&mut self, topic: &str, partition: i32, set: &Bytes) -> Result<i64> {
        let wall_ms = self.wall_ms();
        append(&mut self.state, topic, partition, set, wall_ms)
            .map_err(|code| refused(code, topic, partition))
    }

    /// Puts entries into the log as they are, with the offsets that they carry and without a look at
    /// their checksums: holes, old formats, markers, anything broken.
    pub fn store(&mut self, topic: &str, partition: i32, set: &Bytes) -> Result<()> {
        let wall_ms = self.wall_ms();
        let segment_bytes = self.state.settings.segment_bytes;
        let entries = entries(set).map_err(|code| refused(code, topic, partition))?;
        let partition = self.partition(topic, partition)?;
        for entry in entries {
            partition.log.push(entry, partition.epoch, wall_ms, segment_bytes);
        }
        self.state.changes += 1;
        Ok(())
    }

    /// Where a partition's log begins and ends.
    pub fn offsets(&self, topic: &str, partition: i32) -> Result<LogOffsets> {
        let found = self.state.partition(topic, partition).ok_or_else(|| unknown(topic, partition))?;
        let log = &found.log;
        Ok(LogOffsets {
            start: log.start(),
            last_stable: log.last_stable_offset(),
            high_watermark: log.high_watermark(),
            end: log.end(),
        })
    }

    /// Replaces the log of a partition by an empty one whose first offset is `start`.
    pub fn reset_log(&mut self, topic: &str, partition: i32, start: i64) -> Result<()> {
        let partition = self.partition(topic, partition)?;
        partition.log = Log::starting_at(start);
        partition.log.begin_epoch(partition.epoch);
        Ok(())
    }

    /// Moves the start of the log, as retention and DeleteRecords do.
    pub fn delete_before(&mut self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        self.partition(topic, partition)?.log.delete_before(offset);
        Ok(())
    }

    /// Cuts the end of the log off from `offset` on and begins a new leader epoch, as an unclean
    /// election does.
    pub fn truncate(&mut self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let partition = self.partition(topic, partition)?;
        partition.log.truncate_to(offset);
        partition.elect(partition.leader);
        Ok(())
    }

    /// Removes the entries that lie within `offsets`: the others stay where they are.
    pub fn remove(&mut self, topic: &str, partition: i32, offsets: Range<i64>) -> Result<()> {
        let partition = self.partition(topic, partition)?;
        partition.log.compact(|entry| !(offsets.contains(&entry.offset) && offsets.contains(&entry.last)));
        Ok(())
    }

    /// Compacts the log, up to its last entry: of each key only the last record stays, at its offset.
    pub fn compact(&mut self, topic: &str, partition: i32) -> Result<()> {
        compact(&mut self.partition(topic, partition)?.log);
        Ok(())
    }

    /// Begins a new segment with the next entry (ListOffsets 0 shows segments).
    pub fn roll(&mut self, topic: &str, partition: i32) -> Result<()> {
        self.partition(topic, partition)?.log.roll();
        Ok(())
    }

    /// Holds consumers back at this offset; `None` lets them go to the end again.
    pub fn hold_high_watermark(&mut self, topic: &str, partition: i32, at: Option<i64>) -> Result<()> {
        self.partition(topic, partition)?.log.hold_high_watermark(at);
        Ok(())
    }

    /// Makes another broker, or none, the leader, in a new epoch.
    pub fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<i32>) -> Result<()> {
        self.partition(topic, partition)?.elect(leader);
        Ok(())
    }

    /// Who leads a partition, and in which epoch.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<(Option<i32>, i32)> {
        let found = self.state.partition(topic, partition).ok_or_else(|| unknown(topic, partition))?;
        Ok((found.leader, found.epoch))
    }

    /// Lets a follower lag: its log ends at `end` for as long as it does not lead. `None` lets it
    /// catch up.
    pub fn hold_follower(&mut self, topic: &str, partition: i32, node: i32, end: Option<i64>) -> Result<()> {
        let ends = &mut self.partition(topic, partition)?.follower_ends;
        match end {
            Some(end) => drop(ends.insert(node, end)),
            None => drop(ends.remove(&node)),
        }
        Ok(())
    }

    /// Lets Metadata show another leader epoch than the real one, as brokers before 2.4 did during a
    /// reassignment (KAFKA-9212); `None` for the real one.
    pub fn show_epoch(&mut self, topic: &str, partition: i32, epoch: Option<i32>) -> Result<()> {
        self.partition(topic, partition)?.shown_epoch = epoch;
        Ok(())
    }

    /// Keeps what a broker says of topics, partitions and leaders in Metadata as it is now, whatever
    /// happens; `false` brings it up to date.
    pub fn hold_metadata(&mut self, node: i32, hold: bool) {
        let layout = hold.then(|| self.state.layout());
        self.change_node(node, |node| node.outdated = layout);
    }

    /// Leaves a broker out of the list in Metadata, although it is up and may lead (KAFKA-9261).
    pub fn hide_broker(&mut self, node: i32, hide: bool) {
        self.change_node(node, |node| node.hidden = hide);
    }

    /// Freezes a broker, as SIGSTOP does: connections are taken and requests read, and nothing comes
    /// back. `false` lets it go on where it stopped. Leaders do not move by themselves.
    pub fn freeze_broker(&mut self, node: i32, freeze: bool) {
        self.change_node(node, |node| node.frozen = freeze);
    }

    /// Lets a broker forget its fetch sessions.
    pub fn forget_fetch_sessions(&mut self, node: i32) {
        self.change_node(node, |node| node.sessions.clear());
    }

    /// How many fetch sessions a broker remembers.
    pub fn fetch_sessions(&self, node: i32) -> usize {
        self.state.node(node).map_or(0, |node| node.sessions.len())
    }

    fn change_node(&mut self, node: i32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.state.node_mut(node) {
            change(node);
        }
        self.state.changes += 1;
    }

    /// Takes a broker down: its connections close, new ones are refused, and what it led goes to the
    /// next broker that is up.
    pub fn stop_broker(&mut self, node: i32) {
        self.set_up(node, false);
    }

    /// Brings a broker up again; it leads what has no leader.
    pub fn start_broker(&mut self, node: i32) {
        self.set_up(node, true);
    }

    fn set_up(&mut self, node: i32, up: bool) {
        self.change_node(node, |node| {
            node.up = up;
            node.frozen = false;
            node.sessions.clear();
        });
        self.elect_missing();
    }

    /// Makes the first replica that is up the leader where there is none that is up.
    pub(crate) fn elect_missing(&mut self) {
        self.state.changes += 1;
        let live: BTreeSet<i32> = self.state.live_nodes().map(|node| node.id).collect();
        for partition in self.state.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if partition.leader.is_none_or(|leader| !live.contains(&leader)) {
                let next = partition.replicas.iter().copied().find(|id| live.contains(id));
                if next != partition.leader {
                    partition.elect(next);
                }
            }
        }
    }

    /// Makes a broker the coordinator of all groups; `None` for the first one that is up. Others answer
    /// with NOT_COORDINATOR.
    pub fn set_coordinator(&mut self, node: Option<i32>) {
        self.state.chosen_coordinator = node;
        self.state.changes += 1;
    }

    /// The ids of a group's members.
    pub fn members(&self, group: &str) -> Vec<String> {
        let classic = self.state.groups.get(group).into_iter().flat_map(|group| group.members.keys());
        let modern = self.state.modern_groups.get(group).into_iter().flat_map(|group| group.members.keys());
        classic.chain(modern).cloned().collect()
    }

    /// The position that a group has committed, wherever it is kept.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let key = (group.to_owned(), topic.to_owned(), partition);
        let found = self.state.committed.get(&key).or_else(|| self.state.committed_in_zookeeper.get(&key));
        found.map(|committed| committed.offset)
    }

    /// What stands beside a position that a group has committed.
    pub fn committed_metadata(&self, group: &str, topic: &str, partition: i32) -> Option<String> {
        let key = (group.to_owned(), topic.to_owned(), partition);
        self.state.committed.get(&key)?.metadata.clone()
    }

    /// Forgets a position that a group has committed, as its retention does.
    pub fn expire_committed(&mut self, group: &str, topic: &str, partition: i32) {
        let key = (group.to_owned(), topic.to_owned(), partition);
        self.state.committed.remove(&key);
        self.state.committed_in_zookeeper.remove(&key);
    }

    /// Adds a fault; those added earlier go first.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Takes all faults away; answers already held back by them stay so.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// The requests that came in, oldest first (the last 100,000 of them).
    pub fn requests(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter()
    }

    /// A partition about to be changed: whoever waits for a change looks again.
    fn partition(&mut self, topic: &str, partition: i32) -> Result<&mut Partition> {
        self.state.changes += 1;
        self.state.partition_mut(topic, partition).ok_or_else(|| unknown(topic, partition))
    }
}

fn refused(code: ErrorCode, topic: &str, partition: i32) -> Error {
    Error::broker_code(code).with_topic(topic).with_partition(partition)
}

fn unknown(topic: &str, partition: i32) -> Error {
    refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, topic, partition)
}

/// Appends a produced set; gives the first offset.
pub(crate) fn append(
    state: &mut State,
    topic: &str,
    partition: i32,
    set: &Bytes,
    wall_ms: i64,
) -> std::result::Result<i64, ErrorCode> {
    let segment_bytes = state.settings.segment_bytes;
    let found = state.partition_mut(topic, partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let first = found.log.end();
    for entry in assign(set, first, found.epoch)? {
        found.log.push(entry, found.epoch, wall_ms, segment_bytes);
    }
    state.changes += 1;
    Ok(first)
}
