//! The broker without sockets, clocks or tasks: a request and a time go in, a [`Reaction`] comes out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::api::{self, Call, Outcome, Waiting};
use super::fault::{Faults, Injected};
use super::release::{OnUnknown, Release};
use super::state::{Settings, State};
use crate::protocol::{ApiKey, RequestHeader};
use crate::wire::{Reader, Uuid};

/// A connection to one broker of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// What the broker does about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// It writes this frame, its 4-byte size in front, and reads the next request.
    Answer(Bytes),
    /// It writes nothing and reads the next request.
    Nothing,
    /// It writes these bytes, perhaps none, and closes the connection.
    Close(Bytes),
    /// It is not done: [`Core::resume`] says more at `until`, or once [`Core::changes`] has changed.
    Wait {
        /// Time since the start of the cluster; `None` for "not by time alone".
        until: Option<Duration>,
    },
}

/// A request that came in, for tests that count them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The broker that was asked.
    pub node: i32,
    /// The connection it came on.
    pub connection: ConnectionId,
    /// The API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// When, since the start of the cluster.
    pub at: Duration,
}

/// Requests remembered at most.
const SEEN_LIMIT: usize = 100_000;

/// The embedded cluster as a state machine.
///
/// Each connection carries one request at a time, as with real brokers: the next frame is given to
/// [`Core::request`] when the reaction to the last one was not [`Reaction::Wait`]. Time is what
/// [`Core::advance`] said last.
#[derive(Debug)]
pub struct Core {
    pub(crate) state: State,
    pub(crate) faults: Faults,
    pub(crate) seen: VecDeque<Seen>,
    pub(crate) now: Duration,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
}

#[derive(Debug)]
struct Connection {
    node: i32,
    pending: Option<Pending>,
    /// Nothing is read from it before this time (KIP-219).
    muted_until: Duration,
}

#[derive(Debug)]
enum Pending {
    /// A frame that is not looked at yet: the connection is muted, or the broker frozen.
    Unread {
        frame: Bytes,
    },
    /// A request that is answered later; it is looked at again at `until`, if not before.
    Request {
        header: RequestHeader,
        waiting: Waiting,
        until: Duration,
        injected: Injected,
    },
    /// A delayed answer.
    Held {
        until: Duration,
        reaction: Reaction,
    },
    Frozen,
}

impl Core {
    /// A cluster with nothing in it.
    pub fn new(settings: Settings) -> Self {
        Core {
            state: State::new(settings),
            faults: Faults::default(),
            seen: VecDeque::new(),
            now: Duration::ZERO,
            connections: BTreeMap::new(),
            next_connection: 0,
        }
    }

    /// A client has connected to `node`; `None` if that broker is down or does not exist.
    pub fn connect(&mut self, node: i32) -> Option<ConnectionId> {
        self.state.node(node).filter(|node| node.up)?;
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id, Connection { node, pending: None, muted_until: Duration::ZERO });
        Some(id)
    }

    /// The connection is gone.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    /// The release that the brokers are.
    pub fn release(&self) -> Release {
        self.state.release()
    }

    /// Counts the changes that a waiting request may be waiting for.
    pub fn changes(&self) -> u64 {
        self.state.changes
    }

    /// Tells the time since the start of the cluster. It never goes back.
    pub fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Whether a connection is open on the broker's side.
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.node_of(connection).is_some()
    }

    /// Whether a change can matter to a connection: something waits on it, or it is to be closed.
    pub(crate) fn is_waiting(&self, connection: ConnectionId) -> bool {
        let waits = |entry: &Connection| entry.pending.is_some();
        !self.is_open(connection) || self.connections.get(&connection).is_some_and(waits)
    }

    /// Whether there is such a broker, and it is up.
    pub fn is_up(&self, node: i32) -> bool {
        self.state.node(node).is_some_and(|node| node.up)
    }

    /// A request frame, without its 4-byte size, has come in.
    pub fn request(&mut self, connection: ConnectionId, frame: Bytes) -> Reaction {
        let Some(node) = self.node_of(connection) else { return Reaction::Close(Bytes::new()) };
        if self.is_frozen(node) || self.muted_until(connection) > self.now {
            return self.wait(connection, Pending::Unread { frame });
        }
        let Ok(header) = RequestHeader::read(&mut Reader::new(&frame, "header")) else {
            tracing::warn!(node, size = frame.len(), "not a request");
            return Reaction::Close(Bytes::new());
        };
        let api = header.request_api_key;
        let version = header.request_api_version;
        tracing::trace!(node, %api, version, "request");
        if self.seen.len() == SEEN_LIMIT {
            self.seen.pop_front();
        }
        self.seen.push_back(Seen { node, connection, api, version, at: self.now });
        let injected = self.faults.take(node, api);
        if injected.close {
            return Reaction::Close(Bytes::new());
        }
        if injected.freeze {
            return self.wait(connection, Pending::Frozen);
        }
        let call = self.call(node, &injected);
        let outcome = api::carry_out(&mut self.state, call, &header, &frame);
        self.react(connection, header, injected, outcome)
    }

    /// Whether a waiting request has its answer by now.
    pub fn resume(&mut self, connection: ConnectionId) -> Reaction {
        let Some(node) = self.node_of(connection) else { return Reaction::Close(Bytes::new()) };
        let pending = self.connections.get_mut(&connection).and_then(|entry| entry.pending.take());
        match pending {
            None => Reaction::Nothing,
            Some(pending) if self.is_frozen(node) => self.wait(connection, pending),
            Some(Pending::Unread { frame }) => self.request(connection, frame),
            Some(Pending::Held { until, reaction }) if until <= self.now => reaction,
            Some(Pending::Request { header, waiting, injected, .. }) => {
                let call = self.call(node, &injected);
                let outcome = api::go_on(&mut self.state, call, &header, waiting);
                self.react(connection, header, injected, outcome)
            }
            Some(pending) => self.wait(connection, pending),
        }
    }

    fn call<'a>(&self, node: i32, injected: &'a Injected) -> Call<'a> {
        let (now, wall_ms) = (self.now, self.wall_ms());
        Call { node, version: 0, wall_ms, now, injected }
    }

    /// Does what a request came to.
    fn react(
        &mut self,
        connection: ConnectionId,
        header: RequestHeader,
        injected: Injected,
        outcome: Result<Outcome, api::Refused>,
    ) -> Reaction {
        match outcome {
            Ok(Outcome::Answer(answer)) => self.deliver(connection, &header, answer, &injected),
            Ok(Outcome::NoAnswer) => Reaction::Nothing,
            Ok(Outcome::Wait(until, waiting)) => {
                self.wait(connection, Pending::Request { header, waiting, until, injected })
            }
            Ok(Outcome::Close) => Reaction::Close(Bytes::new()),
            Err(api::Refused) => match self.state.release().on_unknown() {
                OnUnknown::Close => Reaction::Close(Bytes::new()),
                OnUnknown::Ignore => Reaction::Nothing,
            },
        }
    }

    /// The broker behind a connection; `None` once it is down.
    fn node_of(&self, connection: ConnectionId) -> Option<i32> {
        let node = self.connections.get(&connection)?.node;
        self.state.node(node).filter(|node| node.up).map(|node| node.id)
    }

    fn is_frozen(&self, node: i32) -> bool {
        self.state.node(node).is_some_and(|node| node.frozen)
    }

    fn muted_until(&self, connection: ConnectionId) -> Duration {
        self.connections.get(&connection).map_or(Duration::ZERO, |entry| entry.muted_until)
    }

    fn wait(&mut self, connection: ConnectionId, pending: Pending) -> Reaction {
        let is_frozen = self.node_of(connection).is_some_and(|node| self.is_frozen(node));
        let until = match &pending {
            _ if is_frozen => None,
            Pending::Unread { .. } => Some(self.muted_until(connection)),
            Pending::Request { until, .. } | Pending::Held { until, .. } => Some(*until),
            Pending::Frozen => None,
        };
        if let Some(entry) = self.connections.get_mut(&connection) {
            entry.pending = Some(pending);
        }
        Reaction::Wait { until }
    }

    /// Lets the faults go over an answer and sends it when it is due.
    fn deliver(
        &mut self,
        connection: ConnectionId,
        header: &RequestHeader,
        answer: Bytes,
        injected: &Injected,
    ) -> Reaction {
        if injected.silence {
            return Reaction::Nothing;
        }
        let reaction = if injected.spoils() {
            let spoiled = self.faults.spoil(injected, answer.to_vec());
            let bytes = Bytes::from(spoiled.bytes);
            if spoiled.then_close { Reaction::Close(bytes) } else { Reaction::Answer(bytes) }
        } else {
            Reaction::Answer(answer)
        };
        let mut delay = injected.delay;
        if let Some(time) = injected.throttle {
            if api::mutes(header.request_api_key, header.request_api_version) {
                if let Some(entry) = self.connections.get_mut(&connection) {
                    entry.muted_until = self.now + time;
                }
            } else {
                delay += time;
            }
        }
        if delay.is_zero() {
            return reaction;
        }
        self.wait(connection, Pending::Held { until: self.now + delay, reaction })
    }

    /// The names of all topics by their ids.
    pub(crate) fn topic_names(&self) -> BTreeMap<Uuid, String> {
        self.state.topics.iter().map(|(name, topic)| (topic.id, name.clone())).collect()
    }

    /// Time of the cluster's clock, in ms since 1970.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.state.settings.started_ms.saturating_add(self.now.as_millis() as i64)
    }
}
