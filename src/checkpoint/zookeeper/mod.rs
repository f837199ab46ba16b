//! Positions in ZooKeeper, where storm-kafka keeps them and as it keeps them.

mod claims;
mod commit;
mod find;
mod old_consumer;
mod opened;
mod presence;
mod token;

use std::sync::Arc;

pub use self::old_consumer::OldConsumerCheckpoints;
use self::opened::Opened;
use super::{Access, CheckpointStore, Checkpoints, Problem, check_id, problem};
use crate::error::{Error, Result};
use crate::net::BoxFuture;
use crate::zookeeper::{Session, SessionBuilder, ZooKeeper};

/// Positions in ZooKeeper: `<root>/<id>/partition_<n>`, or `<root>/<id>/<topic>/partition_<n>`, each with
/// storm-kafka's document.
///
/// **Owners.** Whoever begins a partition claims it: the same document is written again under the next
/// version, with the owner's run as one last key. Each later write is for the version that the owner
/// knows, so of two owners only the last one to claim can write; the other one's next commit is
/// [`Problem::Foreign`]. A write whose outcome is not known is read again before the next one. After ⅔ of
/// the session's timeout without an answer, or with another session, claims are read again first; until
/// that was possible, commits are [`Problem::Lapsed`].
///
/// **Layout.** An id has one of two, fixed when it is first written: see [`Layout`].
///
/// **The original spout.** It may go on from what is kept here, and the other way round. Where it wrote
/// last, its very bytes are written, without extras, unless [`compat_storm`](Self::compat_storm) says
/// otherwise. It writes whatever the version: never let both run at once. One that does run is noticed
/// at the next commit.
///
/// **By hand.** Owners keep an ephemeral node, `<root>/<id>/~owners/<run>` (storm-kafka does not look
/// there, and no topic has such a name): while there is one, positions are not changed by hand, unless
/// forced. After a crash it stays for as long as the session lasts. The original spout leaves none, and
/// cannot be noticed. Removing a node by force under a running owner is for those who know that it does not
/// run: a node made anew counts its versions from 0 again.
///
/// ACLs of nodes that are there are left alone; new ones take their parent's.
#[derive(Debug, Clone)]
pub struct ZooKeeperCheckpoints {
    source: Source,
    root: String,
    layout: Option<Layout>,
    compat: Option<bool>,
}

/// Where the nodes of an id are.
///
/// Unless one is named, the one that is there counts; the one by topic if there is none. A named one takes
/// over what is found in the other. Two documents of one partition that differ are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `<root>/<id>/partition_<n>`: storm-kafka's, for one topic. An id that finds another topic's document
    /// there refuses to begin.
    OneTopic,
    /// `<root>/<id>/<topic>/partition_<n>`: storm-kafka's with `kafka.topic.wildcard.match`.
    #[doc(alias = "wildcard")]
    ByTopic,
}

/// Where the session comes from.
#[derive(Debug, Clone)]
enum Source {
    /// Somebody else's, who closes it.
    Given(Arc<dyn ZooKeeper>),
    /// One for each time that the store is opened, with these servers.
    Connect(String),
    /// The same, with settings.
    Build(SessionBuilder),
}

/// A session, and whether it is for whoever has it to close.
#[derive(Debug)]
struct Connected {
    session: Arc<dyn ZooKeeper>,
    is_ours: bool,
}

impl Source {
    async fn connect(&self) -> Result<Connected> {
        let builder = match self {
            Source::Given(session) => {
                return Ok(Connected { session: Arc::clone(session), is_ours: false });
            }
            Source::Connect(servers) => Session::builder(servers)?,
            Source::Build(builder) => builder.clone(),
        };
        Ok(Connected { session: Arc::new(builder.connect().await?), is_ours: true })
    }

    fn describe(&self) -> String {
        match self {
            Source::Given(session) => session.describe(),
            Source::Connect(servers) => format!("zk://{}", servers.trim_start_matches("zk://")),
            Source::Build(builder) => format!("zk://{}", builder.servers()),
        }
    }
}

impl Connected {
    /// The end of a call that needed a session of its own.
    async fn close(self) {
        if self.is_ours {
            self.session.close().await;
        }
    }
}

impl ZooKeeperCheckpoints {
    /// At these servers, `host:port,host:port`, below this node: absolute, without a `/` at its end; empty for the
    /// top. A session is made each time that it is opened, and closed with what was opened.
    ///
    /// ```no_run
    /// # use downspout::checkpoint::ZooKeeperCheckpoints;
    /// let checkpoints = ZooKeeperCheckpoints::new("zk1:2181,zk2:2181,zk3:2181", "/kafka-spout");
    /// ```
    pub fn new(servers: impl Into<String>, root: impl Into<String>) -> Self {
        ZooKeeperCheckpoints::at(Source::Connect(servers.into()), root.into())
    }

    /// As [`new`](Self::new), with sessions of these settings.
    pub fn with(session: SessionBuilder, root: impl Into<String>) -> Self {
        ZooKeeperCheckpoints::at(Source::Build(session), root.into())
    }

    fn at(source: Source, root: String) -> Self {
        ZooKeeperCheckpoints { source, root, layout: None, compat: None }
    }

    /// Through this session, which the caller closes, below this node: absolute, without a `/` at its end;
    /// empty for the top.
    pub fn over(session: Arc<dyn ZooKeeper>, root: impl Into<String>) -> Self {
        ZooKeeperCheckpoints::at(Source::Given(session), root.into())
    }

    /// In this layout. What is found in the other one is moved here by the first owner.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Whether documents are exactly what storm-kafka writes, without extras. Not said: where storm-kafka
    /// wrote last.
    #[must_use]
    pub fn compat_storm(mut self, yes: bool) -> Self {
        self.compat = Some(yes);
        self
    }

    /// The ids that have a node below the root, in order.
    ///
    /// # Errors
    ///
    /// What the session says.
    pub async fn ids(&self) -> Result<Vec<String>> {
        let root = check_root(&self.root)?;
        let connected = self.source.connect().await?;
        let names = connected.session.children(if root.is_empty() { "/" } else { root }).await;
        connected.close().await;
        let names = names?.unwrap_or_default();
        Ok(names.into_iter().filter(|name| !name.starts_with('~')).collect())
    }
}

impl CheckpointStore for ZooKeeperCheckpoints {
    fn describe(&self) -> String {
        format!("ZooKeeper {}{}", self.source.describe(), self.root)
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async move {
            check_id(id)?;
            let place = format!("{}/{id}", check_root(&self.root)?);
            let connected = self.source.connect().await?;
            let opened = Opened::new(connected, place, access, self.layout, self.compat).await?;
            Ok(Box::new(opened) as Box<dyn Checkpoints>)
        })
    }
}

/// Without a `/` at its end.
fn check_root(root: &str) -> Result<&str> {
    let root = if root == "/" { "" } else { root };
    let is_path = |root: &str| {
        root.starts_with('/') && !root[1..].split('/').any(|name| matches!(name, "" | "." | ".."))
    };
    if root.is_empty() || (is_path(root) && !root.contains('\0')) {
        return Ok(root);
    }
    Err(Error::config(format!(
        "{root:?} is no root: it begins with '/', does not end with it, and has a name between two"
    )))
}

fn denied(place: &str) -> Error {
    problem(Problem::Denied { place: place.to_owned() })
}
