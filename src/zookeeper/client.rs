//! Calls to a client of the crate `zookeeper-async`, and what a call can come to. Nothing but this file and
//! `keeper.rs` touches that crate.
//!
//! A call is made only while there is a connection, so that none waits in the client's own queue to be done after
//! its caller has gone; and only so many at a time, since that queue stands still for ever when it is full at the
//! moment of a ping.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use zookeeper_async::{Acl, CreateMode, Stat, WatchedEvent, ZkError, ZkResult};

use super::keeper::{Event, Keeper, Settings};
use super::{Mode, Node};

pub(super) type Zk = zookeeper_async::ZooKeeper;

/// Calls in the client's queue, which has room for 64.
const AT_A_TIME: usize = 32;

/// No answer, or one that is a no.
#[derive(Debug)]
pub(super) enum No {
    /// No such node.
    Node,
    /// Another version.
    Version,
    /// There is one.
    Exists,
    /// It has children.
    NotEmpty,
    /// Not allowed.
    Denied,
    /// No answer; whether the question may have arrived.
    Lost { asked: bool },
    /// Something else.
    Other(String),
}

/// Something to be asked, with its way back.
pub(super) type Job =
    Box<dyn FnOnce(Arc<Zk>, Arc<AtomicBool>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Who may do what with a node.
#[derive(Clone)]
pub(super) struct Rights(Vec<Acl>);

impl Rights {
    /// Since 3.5 a hash is shown only to those who may change it; such a list cannot be given to another node.
    pub(super) fn is_masked(&self) -> bool {
        self.0.iter().any(|acl| acl.scheme == "digest" && acl.id.ends_with(":x"))
    }
}

/// How it stands with the connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turn {
    /// Another one for each connection and each loss.
    pub number: u64,
    pub is_up: bool,
}

/// What the thread and the callers both see.
#[derive(Debug)]
pub(super) struct Shared {
    pub turns: watch::Sender<Turn>,
    session: AtomicU64,
    /// In milliseconds: as asked for until a server has said what it gives.
    timeout: AtomicU64,
    heard: Mutex<Clock>,
    failures: Mutex<Vec<(String, String)>>,
}

/// A number for each session of this process.
static SESSIONS: AtomicU64 = AtomicU64::new(1);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(timeout: Duration) -> Self {
        let shared = Shared {
            turns: watch::Sender::new(Turn::default()),
            session: AtomicU64::new(0),
            timeout: AtomicU64::default(),
            heard: Mutex::new(Clock::now()),
            failures: Mutex::default(),
        };
        shared.new_session();
        shared.given(timeout);
        shared
    }

    pub(super) fn times(&self) -> Times {
        Times { session: Duration::from_millis(self.timeout.load(Ordering::SeqCst)) }
    }

    /// The session timeout is this one.
    pub(super) fn given(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout.store(millis, Ordering::SeqCst);
    }

    pub(super) fn session(&self) -> u64 {
        self.session.load(Ordering::SeqCst)
    }

    pub(super) fn new_session(&self) {
        self.session.store(SESSIONS.fetch_add(1, Ordering::Relaxed), Ordering::SeqCst);
    }

    /// When the last call was made that was answered.
    pub(super) fn heard(&self) -> Clock {
        *locked(&self.heard)
    }

    pub(super) fn answered(&self, asked: Clock) {
        let mut heard = locked(&self.heard);
        *heard = asked.max(*heard);
    }

    pub(super) fn turn(&self, is_up: bool) {
        self.turns.send_modify(|turn| *turn = Turn { number: turn.number + 1, is_up });
    }

    /// What each server met when it was last tried.
    pub(super) fn failures(&self) -> Vec<(String, String)> {
        locked(&self.failures).clone()
    }

    pub(super) fn failed(&self, failures: Vec<(String, String)>) {
        *locked(&self.failures) = failures;
    }
}

/// The callers' side.
pub(super) struct Client {
    pub shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Event>,
    permits: Arc<Semaphore>,
    has_auth: Option<(String, Vec<u8>)>,
}

impl Client {
    /// Starts the thread.
    pub(super) fn start(settings: Settings) -> std::io::Result<Self> {
        let (inbox, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(settings.timeout));
        let has_auth = settings.auth.clone();
        let keeper = Keeper::new(settings, Arc::clone(&shared), inbox.clone(), events);
        // A runtime that is dropped ends all that the client left behind, and must not be somebody else's.
        std::thread::Builder::new().name("downspout-zk".to_owned()).spawn(move || keeper.run())?;
        Ok(Client { shared, inbox, permits: Arc::new(Semaphore::new(AT_A_TIME)), has_auth })
    }

    /// Whether the thread has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Ends the session; the receiver is told when that has been done.
    pub(super) fn close(&self) -> oneshot::Receiver<()> {
        let (done, told) = oneshot::channel();
        let _ = self.inbox.send(Event::Close(done)); // it has ended otherwise
        told
    }

    /// Calls, at the latest at that time. What is denied is asked once more after the credentials: they are lost with
    /// each connection, and the call may have come before they were given again.
    async fn call<T, F, A>(&self, until: Instant, ask: F) -> Result<T, No>
    where
        T: Send + Sync + 'static,
        F: Fn(Arc<Zk>) -> A + Send + Sync + 'static,
        A: Future<Output = ZkResult<T>> + Send + 'static,
    {
        const NOT_ASKED: No = No::Lost { asked: false };
        let permit = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout_at(until, permit).await else { return Err(NOT_ASKED) };
        let (reply, answer) = oneshot::channel();
        let asked = Arc::new(AtomicBool::new(false));
        let (shared, auth, was_asked) = (Arc::clone(&self.shared), self.has_auth.clone(), Arc::clone(&asked));
        let job: Job = Box::new(move |zk, is_lost| {
            Box::pin(async move {
                // In this order, as the caller leaves and looks.
                was_asked.store(true, Ordering::SeqCst);
                if reply.is_closed() {
                    return;
                }
                let start = Clock::now();
                let mut result = ask(Arc::clone(&zk)).await;
                if let (Err(ZkError::NoAuth), Some((scheme, secret))) = (&result, auth) {
                    let _ = zk.add_auth(scheme, secret).await;
                    result = ask(zk).await;
                }
                drop(permit);
                // The client goes on in a new session by itself, and says nothing: that is no answer.
                if is_lost.load(Ordering::SeqCst) {
                    return;
                }
                let result = result.map_err(no);
                if !matches!(result, Err(No::Lost { .. })) {
                    shared.answered(start);
                }
                let _ = reply.send(result);
            })
        });
        if self.inbox.send(Event::Job(job)).is_err() {
            return Err(NOT_ASKED);
        }
        match timeout_at(until, answer).await {
            Ok(Ok(result)) => result,
            _ => Err(No::Lost { asked: asked.load(Ordering::SeqCst) }),
        }
    }

    pub(super) async fn get(&self, path: &str, until: Instant) -> Result<Node, No> {
        let path = path.to_owned();
        let ask = move |zk: Arc<Zk>| {
            let path = path.clone();
            async move { zk.get_data(&path, false).await }
        };
        self.call(until, ask).await.map(|(data, stat)| node(data, &stat))
    }

    pub(super) async fn children(&self, path: &str, until: Instant) -> Result<Vec<String>, No> {
        let path = path.to_owned();
        let ask = move |zk: Arc<Zk>| {
            let path = path.clone();
            async move { zk.get_children(&path, false).await }
        };
        self.call(until, ask).await
    }

    pub(super) async fn set(&self, path: &str, data: &[u8], version: i32, until: Instant) -> Result<i32, No> {
        let (path, data) = (path.to_owned(), data.to_owned());
        let ask = move |zk: Arc<Zk>| {
            let (path, data) = (path.clone(), data.clone());
            async move { zk.set_data(&path, data, Some(version)).await }
        };
        self.call(until, ask).await.map(|stat| stat.version)
    }

    pub(super) async fn create(
        &self,
        path: &str,
        data: &[u8],
        rights: &Rights,
        mode: Mode,
        until: Instant,
    ) -> Result<(), No> {
        let (path, data, rights) = (path.to_owned(), data.to_owned(), rights.clone());
        let ask = move |zk: Arc<Zk>| {
            let (path, data, Rights(acl)) = (path.clone(), data.clone(), rights.clone());
            let mode = match mode {
                Mode::Persistent => CreateMode::Persistent,
                Mode::Ephemeral => CreateMode::Ephemeral,
            };
            async move { zk.create(&path, data, acl, mode).await }
        };
        self.call(until, ask).await.map(drop)
    }

    pub(super) async fn delete(&self, path: &str, version: i32, until: Instant) -> Result<(), No> {
        let path = path.to_owned();
        let ask = move |zk: Arc<Zk>| {
            let path = path.clone();
            async move { zk.delete(&path, Some(version)).await }
        };
        self.call(until, ask).await
    }

    pub(super) async fn rights(&self, path: &str, until: Instant) -> Result<Rights, No> {
        let path = path.to_owned();
        let ask = move |zk: Arc<Zk>| {
            let path = path.clone();
            async move { zk.get_acl(&path).await }
        };
        self.call(until, ask).await.map(|(acl, _)| Rights(acl))
    }

    /// Has `fired` counted up, once, when the children of a node change, or when it comes to be.
    pub(super) async fn watch(
        &self,
        path: &str,
        fired: &watch::Sender<u64>,
        until: Instant,
    ) -> Result<(), No> {
        let (path, fired) = (path.to_owned(), fired.clone());
        let ask = move |zk: Arc<Zk>| {
            let (path, fired) = (path.clone(), fired.clone());
            // Called on the client's task: it may not wait there, nor panic.
            let count = move |fired: watch::Sender<u64>| {
                move |_: WatchedEvent| fired.send_modify(|count| *count = count.wrapping_add(1))
            };
            async move {
                match zk.get_children_w(&path, count(fired.clone())).await {
                    Err(ZkError::NoNode) => zk.exists_w(&path, count(fired)).await.map(drop),
                    children => children.map(drop),
                }
            }
        };
        self.call(until, ask).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("shared", &self.shared).finish_non_exhaustive()
    }
}

fn node(data: Vec<u8>, stat: &Stat) -> Node {
    Node { data, version: stat.version, is_ephemeral: stat.is_ephemeral() }
}

pub(super) fn no(why: ZkError) -> No {
    match why {
        ZkError::NoNode => No::Node,
        ZkError::BadVersion => No::Version,
        ZkError::NodeExists => No::Exists,
        ZkError::NotEmpty => No::NotEmpty,
        ZkError::NoAuth | ZkError::AuthFailed => No::Denied,
        ZkError::ConnectionLoss
        | ZkError::OperationTimeout
        | ZkError::SessionExpired
        | ZkError::SessionMoved
        | ZkError::NotReadOnly
        | ZkError::MarshallingError => No::Lost { asked: true },
        other => No::Other(format!("{other:?}")),
    }
}

/// As long as a call may take, and how often one is made when nobody makes any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub session: Duration,
}

impl Times {
    pub(super) fn call(self) -> Duration {
        self.session / 3
    }

    pub(super) fn probe(self) -> Duration {
        self.session / 6
    }

    /// From then on nobody may count on the session.
    pub(super) fn given_up(self) -> Duration {
        self.session * 2 / 3
    }
}
