//! Real ZooKeepers, alone and three together, and what befalls sessions with them: see `harness::ZooKeeper`,
//! `harness::Ensemble` and `harness::Proxy` for how they are had.

mod checkpoints;
mod discovery;
mod ensembles;
mod faults;
mod flaws;
mod members;
mod servers;
mod sessions;
mod spouts;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use downspout::zookeeper::{Session, ZooKeeper as _};

use crate::harness::{Java, ZOOKEEPER, ZooKeeper};

/// A ZooKeeper alone, with its data. Dropping it ends it and removes them.
pub struct Alone {
    pub server: ZooKeeper,
    _dir: tempfile::TempDir, // after the server
}

/// What a ZooKeeper needs; `None`, and said so, where it can't be had here.
pub fn java(release: &str) -> Option<Java> {
    let left_out = |why: &crate::harness::LeftOut| {
        let _ = writeln!(std::io::stderr(), "left out: ZooKeeper {release}: {}", why.0);
    };
    ZooKeeper::java_of(release).inspect_err(left_out).ok()
}

impl Alone {
    /// The usual release; `None` where it can't be had.
    pub fn start() -> Option<Self> {
        Some(Self::of(&java(ZOOKEEPER)?))
    }

    pub fn of(java: &Java) -> Self {
        let dir = tempfile::Builder::new().prefix("downspout-zk-").tempdir().unwrap();
        let server = ZooKeeper::start(java, Path::new(dir.path())).unwrap();
        Self { server, _dir: dir }
    }

    /// `host:port`.
    pub fn connect_string(&self) -> String {
        self.server.address().to_string()
    }
}

/// The shortest there can be.
const SESSION: Duration = Duration::from_secs(4);

/// No call may take longer, one that is in doubt included; a loaded machine is given a second.
const BOUND: Duration = Duration::from_millis(4_000 * 2 / 3 + 1_000);

/// A session of [`SESSION`].
async fn session(servers: &str) -> Session {
    Session::builder(servers).unwrap().timeout(SESSION).connect().await.unwrap()
}

/// What comes of a call, which must not hang.
async fn bounded<T>(what: &str, call: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let outcome = tokio::time::timeout(BOUND, call).await;
    outcome.unwrap_or_else(|_| panic!("{what} still hangs after {:?}", start.elapsed()))
}

/// Waits for something that must come in time.
async fn eventually(what: &str, limit: Duration, mut check: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !check().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The time that this process's threads of that name have had on a core.
fn cpu_of(name: &str) -> Duration {
    let mut ticks = 0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let Some((start, rest)) = stat.rsplit_once(") ") else { continue };
        if start.ends_with(&format!("({name}")) {
            let fields: Vec<u64> = rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
            ticks += fields[11] + fields[12];
        }
    }
    Duration::from_millis(ticks * 10)
}

/// Of how many cores the threads of sessions are using during this.
async fn cores_used<T>(during: impl Future<Output = T>) -> (f64, T) {
    let (start, before) = (Instant::now(), cpu_of("downspout-zk"));
    let outcome = during.await;
    let used = cpu_of("downspout-zk").saturating_sub(before);
    (used.as_secs_f64() / start.elapsed().as_secs_f64(), outcome)
}
