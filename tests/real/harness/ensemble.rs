//! Three ZooKeeper servers that agree.

use std::fmt::Write as _;
use std::time::Duration;

use super::java::Java;
use super::process::{Result, wait_for};
use super::zookeeper::{ZooKeeper, free_port};

const SIZE: usize = 3;

/// An ensemble of three. Dropping it ends every process and removes all data.
pub struct Ensemble {
    pub members: Vec<ZooKeeper>,
    _dir: tempfile::TempDir,
}

impl Ensemble {
    /// Starts them, and returns when all of them serve.
    pub fn start(java: &Java) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("downspout-zk-").tempdir().map_err(|e| e.to_string())?;
        let mut peers = "initLimit=20\nsyncLimit=10\n".to_owned();
        for id in 1..=SIZE {
            let _ = writeln!(peers, "server.{id}=127.0.0.1:{}:{}", free_port()?, free_port()?);
        }
        let mut members = Vec::new();
        for id in 1..=SIZE {
            let home = dir.path().join(format!("member-{id}"));
            let member = ZooKeeper::prepare(java, &home, free_port()?, &peers, "quorum.QuorumPeerMain")?;
            std::fs::write(home.join("data/myid"), id.to_string()).map_err(|e| e.to_string())?;
            members.push(member);
        }
        let mut ensemble = Self { members, _dir: dir };
        ensemble.members.iter_mut().try_for_each(ZooKeeper::launch)?;
        ensemble.members.iter_mut().try_for_each(|member| member.wait_serving(Duration::from_secs(60)))?;
        Ok(ensemble)
    }

    /// All of them as `host:port,host:port,host:port`.
    pub fn connect_string(&self) -> String {
        let all: Vec<String> = self.members.iter().map(|member| member.address().to_string()).collect();
        all.join(",")
    }

    /// The member that leads.
    pub fn leader(&self) -> Result<usize> {
        wait_for("a leader", Duration::from_secs(30), || {
            Ok(self.members.iter().position(|member| member.role().as_deref() == Some("leader")))
        })
    }
}
