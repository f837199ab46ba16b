//! A ZooKeeper in memory, behind the same trait as a real one.

mod client;
mod tree;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use self::client::Client;
use self::tree::{Tree, Write};
use crate::zookeeper::Node;

/// How long a session lasts without an answer, unless said otherwise.
const SESSION: Duration = Duration::from_secs(10);
/// How long a call takes that is not answered, unless said otherwise.
const CALL: Duration = Duration::from_secs(1);

/// A ZooKeeper in memory, and one client of it, for tests without a server.
///
/// [`connect`](Self::connect) makes another client with a session of its own, on the same tree; a clone is
/// the same client. It keeps versions, ephemeral nodes and what nobody may, and can lose answers, requests
/// and sessions. All waiting is on tokio's clock, so that a test may pause that.
///
/// ```
/// # use downspout::testing::{MemoryZooKeeper, ZooKeeperFault};
/// # use downspout::zookeeper::{Mode, Written, ZooKeeper};
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let one = MemoryZooKeeper::new();
/// let other = one.connect();
/// one.create("/spouts/billing", b"one".to_vec(), Mode::Ephemeral).await?;
///
/// // The write is done, and nobody hears of it.
/// other.inject(ZooKeeperFault::LostAnswer);
/// assert!(other.set("/spouts/billing", b"two".to_vec(), 0).await.is_err());
/// assert_eq!(one.peek("/spouts/billing").unwrap().data, b"two");
///
/// one.lose_session();
/// assert_eq!(other.get("/spouts/billing").await?, None);
/// # Ok::<(), downspout::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct MemoryZooKeeper {
    client: Arc<Client>,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZooKeeperFault {
    /// It never arrives, and nobody answers: an error after the time-out of calls.
    NoAnswer,
    /// What it is to do is done, and the answer is lost: an error after the time-out of calls.
    LostAnswer,
    /// As [`NoAnswer`](Self::NoAnswer), but it arrives all the same, so long after it was sent.
    Late(Duration),
    /// The answer is lost, and then the node is read and compared, as a session does it: for a `set`,
    /// the bytes under the next version count as stored, the old version as an error, anything else as a
    /// conflict; for a `create`, those bytes count as made.
    ReadAgain {
        /// Whether it had been done.
        done: bool,
    },
    /// The session has ended before the call arrives: an error. The next call has another session.
    SessionLost,
}

/// A call, for [`MemoryZooKeeper::on_call`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperCall {
    /// What is asked for.
    pub operation: ZooKeeperOperation,
    /// Of which node.
    pub path: String,
}

/// What may be asked of ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZooKeeperOperation {
    /// To read a node.
    Get,
    /// To list its children.
    Children,
    /// To write it.
    Set,
    /// To make it.
    Create,
    /// To delete it.
    Delete,
}

impl ZooKeeperOperation {
    /// Whether it changes something.
    pub fn is_write(self) -> bool {
        !matches!(self, ZooKeeperOperation::Get | ZooKeeperOperation::Children)
    }
}

/// What the clients of one ZooKeeper share.
#[derive(Debug)]
struct Server {
    tree: Mutex<Tree>,
    /// Tells that the tree may have changed.
    changes: watch::Sender<u64>,
}

impl Server {
    /// The tree as it is by now.
    fn tree(&self) -> MutexGuard<'_, Tree> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.advance(Instant::now());
        tree
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Default for MemoryZooKeeper {
    fn default() -> Self {
        MemoryZooKeeper::new()
    }
}

impl MemoryZooKeeper {
    /// An empty tree, and a client of it with a session of 10 s and calls that are given up after 1 s.
    pub fn new() -> Self {
        let server = Arc::new(Server { tree: Mutex::new(Tree::new()), changes: watch::Sender::new(0) });
        MemoryZooKeeper { client: Arc::new(Client::new(server, SESSION, CALL)) }
    }

    /// Another client of the same tree, with a session of its own of the same length.
    #[must_use]
    pub fn connect(&self) -> Self {
        let (session, call) = self.client.timeouts();
        self.connect_with(session, call)
    }

    /// Another client of the same tree, whose session lasts so long without an answer, and whose calls
    /// are given up after that time.
    #[must_use]
    pub fn connect_with(&self, session: Duration, call: Duration) -> Self {
        MemoryZooKeeper { client: Arc::new(Client::new(Arc::clone(self.server()), session, call)) }
    }

    /// What goes wrong with the next call of this client that nothing else goes wrong with.
    pub fn inject(&self, fault: ZooKeeperFault) {
        self.client.inject(fault);
    }

    /// From now on this decides what goes wrong with calls of this client.
    pub fn on_call(&self, fault: impl Fn(&ZooKeeperCall) -> Option<ZooKeeperFault> + Send + Sync + 'static) {
        self.client.on_call(Box::new(fault));
    }

    /// Whether calls of this client reach the server. While they don't, they are errors after their
    /// time-out; a session that is cut off for as long as it lasts ends on the server, and its ephemeral
    /// nodes go. That a client is dropped meanwhile looks like a killed process.
    pub fn set_reachable(&self, yes: bool) {
        self.client.set_reachable(yes);
    }

    /// The session ends now; the next call has another one.
    pub fn lose_session(&self) {
        self.client.lose_session();
    }

    /// Nobody may read this node, and what is below it, or write there. New nodes take that from their
    /// parent.
    pub fn deny(&self, path: &str, reading: bool, writing: bool) {
        self.server().tree().deny(path, reading, writing);
    }

    /// The node as it is, whatever goes wrong with calls.
    pub fn peek(&self, path: &str) -> Option<Node> {
        self.server().tree().get(path).ok().flatten()
    }

    /// Paths of all nodes, in order.
    pub fn paths(&self) -> Vec<String> {
        self.server().tree().paths()
    }

    /// Writes a node behind everybody's back, whatever its version, or makes it, as storm-kafka does.
    pub fn put(&self, path: &str, data: impl Into<Vec<u8>>) {
        let data = data.into();
        let mut tree = self.server().tree();
        let is_there = matches!(tree.get(path), Ok(Some(_)) | Err(_));
        tree.write(match is_there {
            true => Write::Set { path: path.to_owned(), data, version: -1 },
            false => Write::Create { path: path.to_owned(), data, owner: None },
        });
        drop(tree);
        self.server().changed();
    }

    /// Removes a node without children behind everybody's back.
    pub fn cut(&self, path: &str) {
        self.server().tree().write(Write::Delete { path: path.to_owned(), version: -1 });
        self.server().changed();
    }

    fn server(&self) -> &Arc<Server> {
        self.client.server()
    }
}
