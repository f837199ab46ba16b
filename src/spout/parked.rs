//! Records that were tried before: waiting for their next time, or handed out again. A plain state
//! machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lot::Lot;
use crate::checkpoint::Unfinished;
use crate::records::Batch;

/// Milliseconds since the spout began.
pub(super) type Millis = u64;

/// When a record is due that waits for another one.
pub(super) const NEVER: Millis = Millis::MAX;

/// The records of a partition that were tried before.
#[derive(Debug, Default)]
pub(super) struct Parked {
    nodes: BTreeMap<i64, Node>,
    due: BTreeSet<(Millis, i64)>,
    waiting: usize,
    bytes: usize,
}

/// A record that was tried before.
#[derive(Debug)]
pub(super) struct Node {
    /// Failures that count.
    pub(super) failures: u32,
    /// Drops in a row, which count for the time it waits.
    pub(super) drops: u32,
    /// Times that the process died while it ran alone.
    pub(super) deaths: u32,
    /// Why it failed last.
    pub(super) reason: String,
    /// It is not to be tried again.
    pub(super) giving_up: bool,
    /// What it was handed out as, while it is.
    pub(super) lot: Option<Arc<Lot>>,
    state: State,
    /// The record by itself, if there was room to keep it.
    body: Option<Batch>,
    /// The lot that it first came in.
    pub(super) parent: u64,
}

/// What a record that was tried before is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Until then.
    Waiting(Millis),
    /// It is due, and being fetched again.
    Fetching,
    /// Handed out, as that lot.
    Out(u64),
    /// On its way to the dead-letter topic.
    GivingUp,
}

impl Node {
    pub(super) fn new(parent: u64) -> Self {
        Node {
            failures: 0,
            drops: 0,
            deaths: 0,
            reason: String::new(),
            giving_up: false,
            lot: None,
            state: State::Waiting(0),
            body: None,
            parent,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// What a checkpoint says of it.
    pub(super) fn unfinished(&self, offset: i64) -> Unfinished {
        Unfinished { offset, attempts: self.failures, deaths: self.deaths }
    }

    pub(super) fn body(&self) -> Option<&Batch> {
        self.body.as_ref()
    }

    /// Which attempt the next hand-out is.
    pub(super) fn attempt(&self) -> u32 {
        self.failures.saturating_add(self.drops).saturating_add(self.deaths).saturating_add(1)
    }
}

impl Parked {
    pub(super) fn get(&self, offset: i64) -> Option<&Node> {
        self.nodes.get(&offset)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Node)> {
        self.nodes.iter().map(|(offset, node)| (*offset, node))
    }

    /// Records that wait for their time, or to be fetched.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether some of them wait for nothing but their time.
    pub(super) fn is_stirring(&self) -> bool {
        self.waiting > self.due.range((NEVER, i64::MIN)..).count()
    }

    /// Bytes kept for them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The only way to change a node, or to add one; what is counted follows.
    pub(super) fn put(&mut self, offset: i64, mut node: Node, state: State, body: Option<Batch>) {
        self.remove(offset);
        node.state = state;
        node.body = body;
        if !matches!(state, State::Out(_)) {
            node.lot = None;
        }
        self.bytes += node.body.as_ref().map_or(0, Batch::size);
        self.waiting += usize::from(is_waiting(state));
        if let State::Waiting(due) = state {
            self.due.insert((due, offset));
        }
        self.nodes.insert(offset, node);
    }

    /// Likewise, of one that is there.
    pub(super) fn set(&mut self, offset: i64, state: State) {
        if let Some((node, body)) = self.take(offset) {
            self.put(offset, node, state, body);
        }
    }

    /// Takes a node out, with its body apart.
    pub(super) fn take(&mut self, offset: i64) -> Option<(Node, Option<Batch>)> {
        let mut node = self.nodes.remove(&offset)?;
        let body = node.body.take();
        self.bytes -= body.as_ref().map_or(0, Batch::size);
        self.waiting -= usize::from(is_waiting(node.state));
        if let State::Waiting(due) = node.state {
            self.due.remove(&(due, offset));
        }
        Some((node, body))
    }

    /// A record is done, or gone.
    pub(super) fn remove(&mut self, offset: i64) -> bool {
        self.take(offset).is_some()
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Millis> {
        self.due.first().map(|(due, _)| *due).filter(|due| *due < NEVER)
    }

    /// Those that are due, the longest first, at most so many; they wait on until their state is set.
    pub(super) fn due(&self, now: Millis, limit: usize) -> Vec<i64> {
        self.due.iter().take_while(|(due, _)| *due <= now).take(limit).map(|(_, offset)| *offset).collect()
    }

    /// Takes out those in that range.
    pub(super) fn drop_range(&mut self, range: impl std::ops::RangeBounds<i64>) -> Vec<(i64, Node)> {
        let gone: Vec<i64> = self.nodes.range(range).map(|(offset, _)| *offset).collect();
        gone.into_iter().filter_map(|offset| Some((offset, self.take(offset)?.0))).collect()
    }

    /// What is counted, counted anew.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        let waiting = self.nodes.values().filter(|node| is_waiting(node.state)).count();
        let bytes: usize = self.nodes.values().filter_map(Node::body).map(Batch::size).sum();
        let due: BTreeSet<(Millis, i64)> = self
            .nodes
            .iter()
            .filter_map(|(offset, node)| match node.state {
                State::Waiting(due) => Some((due, *offset)),
                _ => None,
            })
            .collect();
        match (waiting, bytes) == (self.waiting, self.bytes) && due == self.due {
            true => Ok(()),
            false => Err(format!("parked: {waiting} {bytes} counted, {} {} kept", self.waiting, self.bytes)),
        }
    }
}

fn is_waiting(state: State) -> bool {
    matches!(state, State::Waiting(_) | State::Fetching)
}
