//! Several processes that share the partitions of a spout, agreed on in ZooKeeper.
//!
//! Members are ephemeral nodes; the first of them by name writes who gets what, once members and
//! partitions have not changed for a while. A deal is a plan and no right: a partition is read by whoever
//! the checkpoint store lets claim it, so that two owners never both commit.
//!
//! - [`deal`]: who gets which partitions
//! - [`document`]: a deal in ZooKeeper
//! - [`group`]: what one member sees, and does about it
//! - [`member`]: the task that looks and writes

mod deal;
mod document;
mod group;
mod member;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub(super) use member::{Member, Share};

use crate::zookeeper::ZooKeeper;

/// Below the spout's node; no topic has such a name.
const GROUP: &str = "~group";
/// Time in which nothing has changed, before partitions are dealt anew.
const SETTLE: Duration = Duration::from_secs(3);

/// Shares the partitions of a spout among the processes that run it with the same id.
///
/// Positions are to be kept in the same ZooKeeper: its store lets one owner at a time have a partition.
/// Members may come and go at any time; partitions move only where they must, [`settle_delay`] after
/// the last change, and a partition that moves is handed over: its old owner hands out no more of it, waits for
/// what is out (at most the drain timeout), commits, and lets go.
///
/// A member without an answer from ZooKeeper for two thirds of its session timeout stops handing out, by its
/// own clock. One that was frozen for longer has lost its partitions: what it still commits is refused.
///
/// [`settle_delay`]: Self::settle_delay
#[derive(Debug, Clone)]
#[doc(alias = "ZkCoordinator")]
pub struct Membership {
    zookeeper: Arc<dyn ZooKeeper>,
    root: String,
    settle: Duration,
}

impl Membership {
    /// In this ZooKeeper, below `root` (`/downspout`), in the node of the spout's id.
    pub fn over(zookeeper: Arc<dyn ZooKeeper>, root: impl Into<String>) -> Self {
        Membership { zookeeper, root: root.into(), settle: SETTLE }
    }

    /// How long nothing may have changed before partitions are dealt anew; 3 s unless set.
    pub fn settle_delay(mut self, delay: Duration) -> Self {
        self.settle = delay;
        self
    }

    /// The node of the group of that id.
    fn node(&self, id: &str) -> String {
        format!("{}/{id}/{GROUP}", self.root.trim_end_matches('/'))
    }
}
