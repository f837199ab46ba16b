//! Sessions with ZooKeeper: what the layers above need of one, and nothing else.
//!
//! [`ZooKeeper`] is a trait, so that stores and members can be tried without a server. With the feature `zookeeper`,
//! [`Session`] is a real one.

#[cfg(feature = "zookeeper")]
mod brake;
#[cfg(feature = "zookeeper")]
mod client;
#[cfg(feature = "zookeeper")]
mod handshake;
#[cfg(feature = "zookeeper")]
mod keeper;
mod path;
mod servers;
#[cfg(feature = "zookeeper")]
mod session;
mod trouble;
#[cfg(feature = "zookeeper")]
mod watches;

use std::fmt;
use std::time::Duration;

pub use servers::Servers;
#[cfg(feature = "zookeeper")]
pub use session::{Session, SessionBuilder};
pub use trouble::Trouble;

use crate::error::Result;
use crate::net::BoxFuture;

/// What is asked of ZooKeeper.
///
/// Paths are absolute, below the chroot of the session. An error is an answer that nobody has: the
/// server could not be asked, or not in time. What the server says is in the answers.
pub trait ZooKeeper: Send + Sync + fmt::Debug {
    /// Where it is, as people would say it: `zk://127.0.0.1:2181/chroot`.
    fn describe(&self) -> String;

    /// The node; `None` only if the server says that there is none.
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>>>;

    /// Names of the children, in order; `None` only if the server says that there is no such node.
    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>>>;

    /// Writes if the node still has that version. Where the outcome was unknown, the node was read again:
    /// [`Written::Stored`] then means that these very bytes are there under the next version. Who writes
    /// what others may write as well cannot tell theirs from its own, and should ask once more.
    fn set<'a>(&'a self, path: &'a str, data: Vec<u8>, version: i32) -> BoxFuture<'a, Result<Written>>;

    /// Creates a node, and its parents where they are missing (persistent, with the ACL of the nearest
    /// one that is there).
    fn create<'a>(&'a self, path: &'a str, data: Vec<u8>, mode: Mode) -> BoxFuture<'a, Result<Created>>;

    /// Deletes a node of that version; any if it is −1.
    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<Deleted>>;

    /// Returns when something may have changed among the children of that path or the session was lost and
    /// made again, or after `at_most`: a hint to look. Never an error. The first call for a path may return at once: who
    /// looks after each call misses nothing in between.
    fn changed<'a>(&'a self, path: &'a str, at_most: Duration) -> BoxFuture<'a, ()>;

    /// The session as it stands. Another [`SessionId`] means that what was ephemeral is gone.
    fn session(&self) -> SessionId;

    /// How long ago the last call was made that has been answered; calls are made all the time, so it stays far below
    /// [`timeout`](Self::timeout) while all is well. By this side's clock, which goes on while this process is
    /// frozen: from ⅔ of the timeout on nobody may count on what is ephemeral any more.
    fn silence(&self) -> Duration;

    /// The session timeout, as the server has set it.
    fn timeout(&self) -> Duration;

    /// Ends the session; ephemeral nodes go at once. Nothing more is asked of it.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it holds.
    pub data: Vec<u8>,
    /// How often that was written.
    pub version: i32,
    /// Whether it belongs to a session.
    pub is_ephemeral: bool,
}

/// How a node is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It stays.
    Persistent,
    /// It goes with the session.
    Ephemeral,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is there, under this version.
    Stored {
        /// The node's new version.
        version: i32,
    },
    /// The node has another version. What is there now, if that was read; look again.
    Conflict(Option<Node>),
    /// There is no such node.
    Missing,
    /// The server does not allow it.
    Denied,
}

/// What became of a node to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is there, with that data, under version 0.
    Made,
    /// There was one already.
    Exists,
    /// The server does not allow it.
    Denied,
}

/// What became of a node to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// It has another version.
    Conflict,
    /// It has children.
    NotEmpty,
    /// The server does not allow it.
    Denied,
}

/// Names a session among those of one process: another one each time that it had to be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);
