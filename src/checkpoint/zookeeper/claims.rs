//! What an owner knows of its documents: a plain state machine, without session or clock.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::token;
use crate::checkpoint::{Owner, Problem, document};
use crate::client::TopicPartition;
use crate::zookeeper::{Node, SessionId};

/// Documents as they were claimed, read or written last.
#[derive(Debug, Default)]
pub(super) struct Claims {
    held: HashMap<TopicPartition, Held>,
    /// Under which session they were checked last.
    session: Option<SessionId>,
}

/// A document.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) path: String,
    /// The node's version; none if there is no node.
    pub(super) version: Option<i32>,
    /// Its offset, if it has one.
    pub(super) offset: Option<i64>,
    /// It is exactly what storm-kafka writes, and is to stay so.
    pub(super) is_storms: bool,
    /// Nobody knows whether it is still like this.
    pub(super) is_doubtful: bool,
    /// Hashes of writes to this version without an answer.
    in_doubt: Vec<u64>,
}

impl Held {
    pub(super) fn new(path: String, version: Option<i32>, offset: Option<i64>, is_storms: bool) -> Self {
        Held { path, version, offset, is_storms, is_doubtful: false, in_doubt: Vec::new() }
    }

    /// Whether this node is as it was left, or what a write without an answer made of it: then its version.
    pub(super) fn recognize(&self, node: &Node) -> Option<i32> {
        let next = self.version.map_or(0, |version| version.saturating_add(1));
        let is_as_it_was = self.version == Some(node.version);
        let is_next = node.version == next && self.in_doubt.contains(&hash(&node.data));
        (is_as_it_was || is_next).then_some(node.version)
    }
}

impl Claims {
    pub(super) fn get(&self, partition: &TopicPartition) -> Option<Held> {
        self.held.get(partition).cloned()
    }

    pub(super) fn hold(&mut self, partition: &TopicPartition, held: Held) {
        self.held.insert(partition.clone(), held);
    }

    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.held.remove(partition);
    }

    /// All are to be checked before they are written to again: too long without an answer, or another
    /// session.
    pub(super) fn doubt(&mut self, session: SessionId, is_silent: bool) {
        let is_new = self.session.is_some_and(|known| known != session);
        self.session = Some(session);
        if is_new || is_silent {
            self.held.values_mut().for_each(|held| held.is_doubtful = true);
        }
    }

    /// This is about to be written to the version that is known; perhaps its answer is lost.
    pub(super) fn sending(&mut self, partition: &TopicPartition, document: &[u8]) {
        if let Some(held) = self.held.get_mut(partition) {
            held.in_doubt.push(hash(document));
        }
    }

    /// The node has this version, and it is this owner's.
    pub(super) fn is_at(&mut self, partition: &TopicPartition, version: i32, offset: Option<i64>) {
        let Some(held) = self.held.get_mut(partition) else { return };
        if held.version != Some(version) {
            held.in_doubt.clear();
        }
        held.version = Some(version);
        held.offset = offset.or(held.offset);
        held.is_doubtful = false;
    }

    /// It is as it was.
    pub(super) fn checked(&mut self, partition: &TopicPartition) {
        if let Some(held) = self.held.get_mut(partition) {
            held.is_doubtful = false;
        }
    }
}

/// Why this owner may not write over what is there now.
pub(super) fn foreign(
    partition: &TopicPartition,
    held: &Held,
    node: Option<&Node>,
    me: Option<&Owner>,
) -> Problem {
    let document = node.map(|node| node.data.as_slice());
    let found = document.and_then(|document| document::read(document, partition).ok()?.checkpoint);
    let mut owner = found.as_ref().and_then(|found| found.owner.clone()).unwrap_or_default();
    if let Some(claimant) = document.and_then(token::claimant) {
        owner.run = claimant;
    }
    let is_mine = |me: &Owner| match owner.run.is_empty() {
        true => owner.instance.is_empty() || owner.instance == me.instance,
        false => owner.run == me.run || owner.run == token::name(&me.run),
    };
    let offset = found.map(|found| found.offset);
    match me {
        Some(me) if !is_mine(me) => {
            let Owner { instance, name, run } = owner;
            let offset = offset.map_or("?".to_owned(), |offset| offset.to_string());
            let run = if run.is_empty() { "the original spout?".to_owned() } else { format!("run {run}") };
            Problem::Foreign { owner: format!("{name} (instance {instance}, {run}), at offset {offset}") }
        }
        _ => Problem::Changed { expected: held.offset, found: offset },
    }
}

fn hash(document: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    document.hash(&mut hasher);
    hasher.finish()
}
