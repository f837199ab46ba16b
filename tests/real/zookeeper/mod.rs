//! Real ZooKeepers, alone and three together, and what befalls sessions with them: see `harness::ZooKeeper`,
//! `harness::Ensemble` and `harness::Proxy` for how they are had.

mod servers;

use std::io::Write as _;
use std::path::Path;

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
