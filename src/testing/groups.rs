//! Groups with members, as their coordinator keeps them: generations that begin when all have joined.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::protocol::{ErrorCode, JoinGroupRequest};

/// A group of the classic protocol.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) generation: i32,
    pub(crate) phase: Phase,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) members: BTreeMap<String, Member>,
    /// Ids that were given out and did not join yet (KIP-394), and until when they may.
    promised: BTreeMap<String, Duration>,
    given: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Empty,
    /// Members join, until all have or the time is over.
    Joining {
        until: Duration,
    },
    /// The leader is to say who gets what.
    Assigning,
    Stable,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance: Option<String>,
    protocols: Vec<(String, Bytes)>,
    session: Duration,
    rebalance: Duration,
    /// When it counts as dead.
    deadline: Duration,
    /// It waits for the next generation.
    joining: bool,
    /// What its join came to, until that is fetched.
    joined: Option<Joined>,
    pub(crate) assignment: Bytes,
}

/// A generation as a member learns of it.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    /// For the leader: member, its instance, what it said of itself.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
}

/// Sessions between these times are allowed (`group.min.session.timeout.ms` and so on).
const SESSIONS_MS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;

impl Group {
    /// Forgets members that were silent for too long, and begins the next generation if it is time.
    /// Gives whether anything happened.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        self.promised.retain(|_, until| *until > now);
        let before = self.members.len();
        self.members.retain(|_, member| member.joining || member.deadline > now);
        let lost = self.members.len() != before;
        if lost {
            self.rebalance(now);
        }
        let Phase::Joining { until } = self.phase else { return lost };
        if until <= now {
            self.members.retain(|_, member| member.joining);
        }
        if self.members.values().all(|member| member.joining) {
            self.begin_generation(now);
            return true;
        }
        lost
    }

    /// When `tick` has something to do next, if nobody calls.
    pub(crate) fn next_tick(&self, now: Duration) -> Duration {
        let sleeping = self.members.values().filter(|member| !member.joining);
        let deadline = sleeping.map(|member| member.deadline).min();
        let joining = if let Phase::Joining { until } = self.phase { Some(until) } else { None };
        let next = deadline.into_iter().chain(joining).min();
        // Never in the past, or the one who waits would turn in circles.
        next.unwrap_or(now + Duration::from_secs(60)).max(now + Duration::from_millis(1))
    }

    /// Takes a join in; gives the member's id.
    pub(crate) fn join(
        &mut self,
        request: &JoinGroupRequest,
        client: &str,
        must_know_its_id: bool,
        now: Duration,
    ) -> Result<String, (ErrorCode, String)> {
        let refused = |code| Err((code, request.member_id.clone()));
        if !SESSIONS_MS.contains(&request.session_timeout_ms) {
            return refused(ErrorCode::INVALID_SESSION_TIMEOUT);
        }
        let others = self.members.iter().filter(|(id, _)| **id != request.member_id);
        let others: Vec<&Member> = others.map(|(_, member)| member).collect();
        let knows = |name: &str, member: &Member| member.protocols.iter().any(|(own, _)| own == name);
        let common = |name: &str| others.iter().all(|member| knows(name, member));
        if request.protocols.is_empty()
            || !request.protocols.iter().any(|protocol| common(&protocol.name))
            || (!others.is_empty() && self.protocol_type != request.protocol_type)
        {
            return refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let id = request.member_id.clone();
        let id = if id.is_empty() {
            self.given += 1;
            let id = format!("{client}-{:032x}", self.given);
            if must_know_its_id && request.group_instance_id.is_none() {
                self.promised
                    .insert(id.clone(), now + Duration::from_millis(request.session_timeout_ms as u64));
                return Err((ErrorCode::MEMBER_ID_REQUIRED, id));
            }
            id
        } else if self.members.contains_key(&id) || self.promised.remove(&id).is_some() {
            id
        } else {
            return refused(ErrorCode::UNKNOWN_MEMBER_ID);
        };
        // A static member that comes back takes the place of its former self (KIP-345).
        if let Some(instance) = &request.group_instance_id {
            self.members.retain(|own, member| *own == id || member.instance.as_ref() != Some(instance));
        }
        let millis = |ms: i32| Duration::from_millis(ms.max(0) as u64);
        let session = millis(request.session_timeout_ms);
        let rebalance =
            if request.rebalance_timeout_ms < 0 { session } else { millis(request.rebalance_timeout_ms) };
        let protocols = request.protocols.iter().map(|it| (it.name.clone(), it.metadata.clone())).collect();
        let member = Member {
            instance: request.group_instance_id.clone(),
            protocols,
            session,
            rebalance,
            deadline: now + session,
            joining: true,
            joined: None,
            assignment: Bytes::new(),
        };
        self.members.insert(id.clone(), member);
        self.protocol_type.clone_from(&request.protocol_type);
        self.rebalance(now);
        Ok(id)
    }

    /// What a member's join came to, once its generation has begun.
    pub(crate) fn joined(&mut self, member: &str) -> Option<Result<Joined, ErrorCode>> {
        let Some(found) = self.members.get_mut(member) else {
            return Some(Err(ErrorCode::UNKNOWN_MEMBER_ID));
        };
        found.joined.take().map(Ok)
    }

    /// The member, if it is one and of this generation; that counts as a sign of life.
    pub(crate) fn check(&mut self, member: &str, generation: i32, now: Duration) -> Result<(), ErrorCode> {
        let found = self.members.get_mut(member).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        found.deadline = now + found.session;
        Ok(())
    }

    pub(crate) fn is_joining(&self) -> bool {
        matches!(self.phase, Phase::Joining { .. })
    }

    /// The leader has said who gets what.
    pub(crate) fn assign(&mut self, assignments: impl Iterator<Item = (String, Bytes)>) {
        for (id, assignment) in assignments {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = assignment;
            }
        }
        self.phase = Phase::Stable;
    }

    pub(crate) fn leave(
        &mut self,
        member: &str,
        instance: Option<&str>,
        now: Duration,
    ) -> Result<(), ErrorCode> {
        self.promised.remove(member);
        let id = match instance {
            None => member.to_owned(),
            Some(_) => {
                let named = self.members.iter().find(|(_, member)| member.instance.as_deref() == instance);
                named.map(|(id, _)| id.clone()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?
            }
        };
        self.members.remove(&id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        self.rebalance(now);
        Ok(())
    }

    /// All are to join again.
    fn rebalance(&mut self, now: Duration) {
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            self.generation += 1;
        } else if !self.is_joining() {
            let longest = self.members.values().map(|member| member.rebalance).max().unwrap_or_default();
            self.phase = Phase::Joining { until: now + longest };
        }
    }

    fn begin_generation(&mut self, now: Duration) {
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return;
        }
        self.generation += 1;
        self.phase = Phase::Assigning;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        self.protocol = self.choose();
        let metadata = |member: &Member| {
            let own = member.protocols.iter().find(|(name, _)| *name == self.protocol);
            own.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
        };
        let all =
            self.members.iter().map(|(id, it)| (id.clone(), it.instance.clone(), metadata(it))).collect();
        let told = Joined {
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: all,
        };
        for (id, member) in &mut self.members {
            let members = if *id == self.leader { told.members.clone() } else { Vec::new() };
            member.joined = Some(Joined { members, ..told.clone() });
            member.joining = false;
            member.deadline = now + member.session;
            member.assignment = Bytes::new();
        }
    }

    /// The protocol that all know and most prefer.
    fn choose(&self) -> String {
        let known_by_all = |name: &String| {
            self.members.values().all(|member| member.protocols.iter().any(|(own, _)| own == name))
        };
        let mut votes: BTreeMap<&String, usize> = BTreeMap::new();
        for member in self.members.values() {
            let names = member.protocols.iter().map(|(name, _)| name);
            if let Some(name) = names.into_iter().find(|name| known_by_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(name, _)| name.clone()).unwrap_or_default()
    }
}
