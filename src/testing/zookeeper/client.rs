//! One client: its session, its faults, and the trait.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::tree::{Denied, Tree, Write, Wrote};
use super::{MemoryZooKeeper, Server, ZooKeeperCall, ZooKeeperFault, ZooKeeperOperation};
use crate::error::{Error, ErrorKind, Result};
use crate::net::BoxFuture;
use crate::zookeeper::{Created, Deleted, Mode, Node, SessionId, Written, ZooKeeper};

pub(super) type Hook = Box<dyn Fn(&ZooKeeperCall) -> Option<ZooKeeperFault> + Send + Sync>;

pub(super) struct Client {
    server: Arc<Server>,
    session_timeout: Duration,
    call_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: u64,
    is_closed: bool,
    cut_off: Option<Instant>,
    silent_since: Option<Instant>,
    faults: VecDeque<ZooKeeperFault>,
    hook: Option<Arc<Hook>>,
    /// How often the children of a path had changed when they were looked at last.
    looked: HashMap<String, Option<u64>>,
}

impl Client {
    pub(super) fn new(server: Arc<Server>, session_timeout: Duration, call_timeout: Duration) -> Self {
        let session = server.tree().begin_session();
        let state = Mutex::new(State { session, ..State::default() });
        Client { server, session_timeout, call_timeout, state }
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(super) fn timeouts(&self) -> (Duration, Duration) {
        (self.session_timeout, self.call_timeout)
    }

    pub(super) fn inject(&self, fault: ZooKeeperFault) {
        self.state().faults.push_back(fault);
    }

    pub(super) fn on_call(&self, hook: Hook) {
        self.state().hook = Some(Arc::new(hook));
    }

    pub(super) fn set_reachable(&self, yes: bool) {
        let mut state = self.state();
        let now = Instant::now();
        if yes {
            (state.cut_off, state.silent_since) = (None, None);
        } else {
            let since = *state.cut_off.get_or_insert(now);
            state.silent_since.get_or_insert(since);
        }
        let ends = state.cut_off.map(|since| since + self.session_timeout);
        // Whatever has ended by now has ended.
        self.server.tree().end_at(state.session, ends);
        drop(state);
        self.server.changed();
    }

    pub(super) fn lose_session(&self) {
        let session = self.state().session;
        self.server.tree().end(session);
        self.server.changed();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes wrong with this call; an error if there is nobody to ask.
    fn begin(&self, operation: ZooKeeperOperation, path: &str) -> Result<Option<ZooKeeperFault>> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Error::new(ErrorKind::ClientClosed));
        }
        let call = ZooKeeperCall { operation, path: path.to_owned() };
        let fault = match state.hook.clone().and_then(|hook| hook(&call)) {
            Some(fault) => Some(fault),
            None => state.faults.pop_front(),
        };
        if state.cut_off.is_some() {
            return Ok(Some(ZooKeeperFault::NoAnswer));
        }
        if fault == Some(ZooKeeperFault::SessionLost) {
            self.server.tree().end(state.session);
            self.server.changed();
        } else {
            self.renew(&mut state);
        }
        Ok(fault)
    }

    /// A session that has ended is followed by another one.
    fn renew(&self, state: &mut State) {
        let mut tree = self.server.tree();
        if !tree.has_session(state.session) {
            state.session = tree.begin_session();
        }
    }

    /// The call is not answered.
    async fn unanswered(&self) -> Error {
        self.state().silent_since.get_or_insert_with(Instant::now);
        tokio::time::sleep(self.call_timeout).await;
        Error::new(ErrorKind::Timeout(self.call_timeout)).with_broker("zk://memory")
    }

    fn answered(&self) {
        let mut state = self.state();
        if state.cut_off.is_none() {
            state.silent_since = None;
        }
    }

    async fn read<T>(
        &self,
        operation: ZooKeeperOperation,
        path: &str,
        read: impl Fn(&Tree) -> std::result::Result<T, Denied>,
    ) -> Result<T> {
        match self.begin(operation, path)? {
            None | Some(ZooKeeperFault::ReadAgain { .. }) => {
                tokio::task::yield_now().await;
                let read = read(&self.server.tree());
                self.answered();
                read.map_err(|Denied| denied(path))
            }
            Some(ZooKeeperFault::SessionLost) => Err(Error::new(ErrorKind::Closed)),
            Some(_) => Err(self.unanswered().await),
        }
    }

    /// Sends a write. `None`: the outcome is not known, and the node is to be read again.
    async fn write(&self, operation: ZooKeeperOperation, path: &str, write: Write) -> Result<Option<Wrote>> {
        let fault = self.begin(operation, path)?;
        tokio::task::yield_now().await;
        match fault {
            None => {
                let wrote = self.server.tree().write(write);
                self.server.changed();
                self.answered();
                Ok(Some(wrote))
            }
            Some(ZooKeeperFault::SessionLost) => Err(Error::new(ErrorKind::Closed)),
            Some(ZooKeeperFault::ReadAgain { done }) => {
                if done {
                    self.server.tree().write(write);
                    self.server.changed();
                }
                self.unanswered().await;
                self.answered();
                Ok(None)
            }
            Some(fault) => {
                match fault {
                    ZooKeeperFault::LostAnswer => drop(self.server.tree().write(write)),
                    ZooKeeperFault::Late(after) => {
                        self.server.tree().write_at(Instant::now() + after, write);
                    }
                    _ => {}
                }
                self.server.changed();
                Err(self.unanswered().await)
            }
        }
    }

    fn end(&self) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.is_closed = true;
        // Nobody hears of it who cannot be reached.
        if state.cut_off.is_none() {
            self.server.tree().end(state.session);
            self.server.changed();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.state().session).finish_non_exhaustive()
    }
}

fn denied(path: &str) -> Error {
    let why = std::io::Error::new(std::io::ErrorKind::PermissionDenied, format!("{path} may not be read"));
    Error::new(ErrorKind::Io(Arc::new(why))).with_broker("zk://memory")
}

fn unknown(path: &str) -> Error {
    let why =
        std::io::Error::new(std::io::ErrorKind::TimedOut, format!("whether {path} was written is unknown"));
    Error::new(ErrorKind::Io(Arc::new(why))).with_broker("zk://memory")
}

impl ZooKeeper for MemoryZooKeeper {
    fn describe(&self) -> String {
        "zk://memory".to_owned()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>>> {
        Box::pin(self.client.read(ZooKeeperOperation::Get, path, |tree| tree.get(path)))
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>>> {
        Box::pin(async move {
            let read = |tree: &Tree| tree.children(path);
            let found = self.client.read(ZooKeeperOperation::Children, path, read).await?;
            let (names, changes) = found.unzip();
            self.client.state().looked.insert(path.to_owned(), changes);
            Ok(names)
        })
    }

    fn set<'a>(&'a self, path: &'a str, data: Vec<u8>, version: i32) -> BoxFuture<'a, Result<Written>> {
        Box::pin(async move {
            let write = Write::Set { path: path.to_owned(), data: data.clone(), version };
            match self.client.write(ZooKeeperOperation::Set, path, write).await? {
                Some(Wrote::Set(written)) => Ok(written),
                _ => match self.client.server.tree().get(path) {
                    Ok(None) => Ok(Written::Missing),
                    Ok(Some(node)) if node.version == version => Err(unknown(path)),
                    Ok(Some(node)) if node.version == version + 1 && node.data == data => {
                        Ok(Written::Stored { version: node.version })
                    }
                    Ok(Some(node)) => Ok(Written::Conflict(Some(node))),
                    Err(Denied) => Err(unknown(path)),
                },
            }
        })
    }

    fn create<'a>(&'a self, path: &'a str, data: Vec<u8>, mode: Mode) -> BoxFuture<'a, Result<Created>> {
        Box::pin(async move {
            let session = {
                let mut state = self.client.state();
                if state.cut_off.is_none() && !state.is_closed {
                    self.client.renew(&mut state);
                }
                state.session
            };
            let write = Write::create(path, data.clone(), mode, session);
            match self.client.write(ZooKeeperOperation::Create, path, write).await? {
                Some(Wrote::Create(created)) => Ok(created),
                _ => match self.client.server.tree().get(path) {
                    Ok(Some(node)) if node.version == 0 && node.data == data => Ok(Created::Made),
                    Ok(Some(_)) => Ok(Created::Exists),
                    Ok(None) | Err(Denied) => Err(unknown(path)),
                },
            }
        })
    }

    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(async move {
            let write = Write::Delete { path: path.to_owned(), version };
            match self.client.write(ZooKeeperOperation::Delete, path, write).await? {
                Some(Wrote::Delete(deleted)) => Ok(deleted),
                _ => match self.client.server.tree().get(path) {
                    Ok(None) => Ok(Deleted::Gone),
                    _ => Err(unknown(path)),
                },
            }
        })
    }

    fn changed<'a>(&'a self, path: &'a str, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let until = Instant::now() + at_most;
            let mut changes = self.client.server.changes.subscribe();
            let look = || {
                let tree = self.client.server.tree();
                let changed = tree.children(path).ok().flatten().map(|(_, changes)| changes);
                (changed, tree.next())
            };
            let (now, _) = look();
            let seen = *self.client.state().looked.entry(path.to_owned()).or_insert(now);
            let session = self.client.state().session;
            loop {
                changes.mark_unchanged();
                let (now, next) = look();
                let is_cut_off = self.client.state().cut_off.is_some();
                let is_lost = !self.client.server.tree().has_session(session);
                // Who is cut off hears nothing.
                if !is_cut_off && (now != seen || is_lost || self.client.state().session != session) {
                    self.client.renew(&mut self.client.state());
                    self.client.state().looked.remove(path);
                    return;
                }
                let wake = next.map_or(until, |next| next.min(until));
                let _ = tokio::time::timeout_at(wake, changes.changed()).await;
                if Instant::now() >= until {
                    return;
                }
            }
        })
    }

    fn session(&self) -> SessionId {
        let mut state = self.client.state();
        if state.cut_off.is_none() && !state.is_closed {
            self.client.renew(&mut state);
        }
        SessionId(state.session)
    }

    fn silence(&self) -> Duration {
        self.client.state().silent_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn timeout(&self) -> Duration {
        self.client.session_timeout
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.client.end() })
    }
}
