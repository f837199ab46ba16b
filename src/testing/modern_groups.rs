//! Groups whose broker assigns (KIP-848): members heartbeat, and move to the target step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::protocol::{ConsumerGroupHeartbeatRequest, ErrorCode};
use crate::wire::Uuid;

/// `group.consumer.session.timeout.ms`.
const SESSION: Duration = Duration::from_secs(45);

pub(crate) type Assigned = BTreeSet<(Uuid, i32)>;

/// A group of the consumer protocol.
#[derive(Debug, Default)]
pub(crate) struct ModernGroup {
    epoch: i32,
    pub(crate) members: BTreeMap<String, ModernMember>,
    given: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ModernMember {
    epoch: i32,
    topics: Vec<String>,
    /// What it may have: its assignment as it was told, until it says that it gave something up.
    held: Assigned,
    target: Assigned,
    deadline: Duration,
}

/// What a member is told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) member: String,
    pub(crate) epoch: i32,
    /// `None` for "as before".
    pub(crate) assigned: Option<Assigned>,
}

impl ModernGroup {
    /// A heartbeat. `partitions` tells those of a topic, by its name.
    pub(crate) fn heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
        now: Duration,
        partitions: impl Fn(&str) -> Assigned,
    ) -> Result<Told, ErrorCode> {
        self.members.retain(|_, member| member.deadline > now);
        let mut member = request.member_id.clone();
        let epoch = request.member_epoch;
        if epoch < 0 {
            self.members.remove(&member).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
            self.assign(partitions);
            return Ok(Told { member, epoch, assigned: None });
        }
        if epoch == 0 {
            if member.is_empty() {
                self.given += 1;
                member = format!("member-{:032x}", self.given);
            }
            self.members.insert(member.clone(), ModernMember::default());
        }
        let found = self.members.get_mut(&member).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if epoch != found.epoch {
            return Err(ErrorCode::FENCED_MEMBER_EPOCH);
        }
        found.deadline = now + SESSION;
        if let Some(topics) = &request.subscribed_topic_names {
            found.topics.clone_from(topics);
        }
        let owned = request.topic_partitions.as_ref().map(|owned| {
            let each = owned.iter().flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it)));
            each.collect::<Assigned>()
        });
        if let Some(owned) = &owned {
            found.held.retain(|partition| owned.contains(partition));
        }
        self.assign(partitions);
        Ok(self.reconcile(member, owned))
    }

    /// The member's next step: first it gives up what it is to lose, then it gets what is free.
    fn reconcile(&mut self, member: String, owned: Option<Assigned>) -> Told {
        let others = self.members.iter().filter(|(id, _)| **id != member);
        let taken: Assigned = others.flat_map(|(_, other)| other.held.iter().copied()).collect();
        let epoch = self.epoch;
        let Some(found) = self.members.get_mut(&member) else {
            return Told { member, epoch: -1, assigned: None };
        };
        let before = (found.epoch, found.held.clone());
        let kept: Assigned = found.held.intersection(&found.target).copied().collect();
        if kept != found.held {
            // It holds on to them until it says that it does not.
            return Told { member, epoch: found.epoch, assigned: Some(kept) };
        }
        found.epoch = epoch;
        found.held = found.target.difference(&taken).copied().collect();
        let news =
            before != (found.epoch, found.held.clone()) || owned.is_some_and(|owned| owned != found.held);
        Told { member, epoch, assigned: news.then(|| found.held.clone()) }
    }

    /// The target of everybody: each topic in ranges over those who want it. A new one begins an epoch.
    fn assign(&mut self, partitions: impl Fn(&str) -> Assigned) {
        let mut targets: BTreeMap<String, Assigned> = BTreeMap::new();
        let topics: BTreeSet<String> = self.members.values().flat_map(|it| it.topics.clone()).collect();
        for topic in topics {
            let all: Vec<(Uuid, i32)> = partitions(&topic).into_iter().collect();
            let wanting = self.members.iter().filter(|(_, it)| it.topics.contains(&topic));
            let wanting: Vec<&String> = wanting.map(|(id, _)| id).collect();
            let share = all.len().div_ceil(wanting.len().max(1)).max(1);
            for (id, part) in wanting.into_iter().zip(all.chunks(share)) {
                targets.entry(id.clone()).or_default().extend(part);
            }
        }
        let mut changed = self.epoch == 0;
        for (id, member) in &mut self.members {
            let target = targets.remove(id).unwrap_or_default();
            changed |= member.epoch == 0 || member.target != target;
            member.target = target;
        }
        self.epoch += i32::from(changed);
    }

    /// Whether a member may commit in this epoch of its own.
    pub(crate) fn check(&self, member: &str, epoch: i32) -> Result<(), ErrorCode> {
        let found = self.members.get(member).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if found.epoch == epoch { Ok(()) } else { Err(ErrorCode::STALE_MEMBER_EPOCH) }
    }
}
