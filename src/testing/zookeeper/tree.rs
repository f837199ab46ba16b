//! What a ZooKeeper keeps: nodes, and the sessions that some of them belong to. A plain state machine:
//! the time comes from outside.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use crate::zookeeper::{Created, Deleted, Mode, Node, Written};

/// Nodes by path, and who is alive.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Kept>,
    last_session: u64,
    /// Sessions, and when those end that nobody keeps up.
    sessions: BTreeMap<u64, Option<Instant>>,
    /// Writes that are on their way: when each arrives.
    late: Vec<(Instant, Write)>,
}

#[derive(Debug, Clone)]
struct Kept {
    data: Vec<u8>,
    version: i32,
    /// Its session, if it is ephemeral.
    owner: Option<u64>,
    /// Counts changes among its children.
    children_changed: u64,
    acl: Acl,
}

/// What nobody may; new nodes take it from their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Acl {
    no_reading: bool,
    no_writing: bool,
}

/// Something that changes the tree.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Set { path: String, data: Vec<u8>, version: i32 },
    Create { path: String, data: Vec<u8>, owner: Option<u64> },
    Delete { path: String, version: i32 },
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) enum Wrote {
    Set(Written),
    Create(Created),
    Delete(Deleted),
}

/// Nobody may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Denied;

impl Tree {
    pub(super) fn new() -> Self {
        let root =
            Kept { data: Vec::new(), version: 0, owner: None, children_changed: 0, acl: Acl::default() };
        Tree {
            nodes: BTreeMap::from([("/".to_owned(), root)]),
            last_session: 0,
            sessions: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    /// Time goes on: late writes arrive, sessions that nobody keeps up end.
    pub(super) fn advance(&mut self, now: Instant) {
        let mut arrived: Vec<(Instant, Write)> = self.late.extract_if(.., |(at, _)| *at <= now).collect();
        arrived.sort_by_key(|(at, _)| *at);
        for (_, write) in arrived {
            self.write(write);
        }
        let over = |ends: &Option<Instant>| ends.is_some_and(|ends| ends <= now);
        let ended: Vec<u64> =
            self.sessions.iter().filter(|(_, ends)| over(ends)).map(|(session, _)| *session).collect();
        ended.into_iter().for_each(|session| self.end(session));
    }

    /// When `advance` has something to do next.
    pub(super) fn next(&self) -> Option<Instant> {
        let late = self.late.iter().map(|(at, _)| *at);
        late.chain(self.sessions.values().copied().flatten()).min()
    }

    pub(super) fn begin_session(&mut self) -> u64 {
        self.last_session += 1;
        self.sessions.insert(self.last_session, None);
        self.last_session
    }

    pub(super) fn has_session(&self, session: u64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The session ends at that time unless it is kept up.
    pub(super) fn end_at(&mut self, session: u64, ends: Option<Instant>) {
        if let Some(end) = self.sessions.get_mut(&session) {
            *end = ends;
        }
    }

    /// The session ends, and what belongs to it goes.
    pub(super) fn end(&mut self, session: u64) {
        self.sessions.remove(&session);
        let gone: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.owner == Some(session))
            .map(|(path, _)| path.clone())
            .collect();
        gone.iter().for_each(|path| self.remove(path));
    }

    pub(super) fn get(&self, path: &str) -> Result<Option<Node>, Denied> {
        match self.nodes.get(path) {
            None => Ok(None),
            Some(node) if node.acl.no_reading => Err(Denied),
            Some(node) => Ok(Some(node.shown())),
        }
    }

    /// The children, and how often they have changed.
    pub(super) fn children(&self, path: &str) -> Result<Option<(Vec<String>, u64)>, Denied> {
        let Some(node) = self.nodes.get(path) else { return Ok(None) };
        if node.acl.no_reading {
            return Err(Denied);
        }
        let below = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let names = self.nodes.range(below.clone()..).map_while(|(path, _)| path.strip_prefix(&below));
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty() && !name.contains('/')).collect();
        Ok(Some((names.into_iter().map(str::to_owned).collect(), node.children_changed)))
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.nodes.keys().filter(|path| *path != "/").cloned().collect()
    }

    pub(super) fn deny(&mut self, path: &str, reading: bool, writing: bool) {
        let below = format!("{}/", path.trim_end_matches('/'));
        for (name, node) in &mut self.nodes {
            if name == path || name.starts_with(&below) {
                node.acl = Acl { no_reading: reading, no_writing: writing };
            }
        }
    }

    /// A write that arrives later.
    pub(super) fn write_at(&mut self, at: Instant, write: Write) {
        self.late.push((at, write));
    }

    pub(super) fn write(&mut self, write: Write) -> Wrote {
        match write {
            Write::Set { path, data, version } => Wrote::Set(self.set(&path, data, version)),
            Write::Create { path, data, owner } => Wrote::Create(self.create(&path, data, owner)),
            Write::Delete { path, version } => Wrote::Delete(self.delete(&path, version)),
        }
    }

    fn set(&mut self, path: &str, data: Vec<u8>, version: i32) -> Written {
        let Some(node) = self.nodes.get_mut(path) else { return Written::Missing };
        if node.acl.no_writing {
            return Written::Denied;
        }
        if version >= 0 && node.version != version {
            return Written::Conflict((!node.acl.no_reading).then(|| node.shown()));
        }
        node.data = data;
        node.version += 1;
        Written::Stored { version: node.version }
    }

    fn create(&mut self, path: &str, data: Vec<u8>, owner: Option<u64>) -> Created {
        if self.nodes.contains_key(path) {
            return Created::Exists;
        }
        let parent = parent(path).to_owned();
        if !self.nodes.contains_key(&parent) && self.create(&parent, Vec::new(), None) == Created::Denied {
            return Created::Denied;
        }
        let Some(above) = self.nodes.get_mut(&parent) else { return Created::Denied };
        // What is ephemeral has no children; a session that has ended has no nodes.
        let is_over = owner.is_some_and(|owner| !self.sessions.contains_key(&owner));
        if above.acl.no_writing || above.owner.is_some() || is_over {
            return Created::Denied;
        }
        above.children_changed += 1;
        let acl = above.acl;
        self.nodes.insert(path.to_owned(), Kept { data, version: 0, owner, children_changed: 0, acl });
        Created::Made
    }

    fn delete(&mut self, path: &str, version: i32) -> Deleted {
        let Some(node) = self.nodes.get(path) else { return Deleted::Gone };
        if self.nodes.get(parent(path)).is_some_and(|above| above.acl.no_writing) {
            return Deleted::Denied;
        }
        if version >= 0 && node.version != version {
            return Deleted::Conflict;
        }
        let below = format!("{path}/");
        if self.nodes.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below)) {
            return Deleted::NotEmpty;
        }
        self.remove(path);
        Deleted::Gone
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        if let Some(above) = self.nodes.get_mut(parent(path)) {
            above.children_changed += 1;
        }
    }
}

impl Kept {
    fn shown(&self) -> Node {
        Node { data: self.data.clone(), version: self.version, is_ephemeral: self.owner.is_some() }
    }
}

impl Write {
    pub(super) fn create(path: &str, data: Vec<u8>, mode: Mode, session: u64) -> Self {
        let owner = (mode == Mode::Ephemeral).then_some(session);
        Write::Create { path: path.to_owned(), data, owner }
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((parent, _)) => parent,
    }
}
