//! `--store`: where positions are kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use downspout::checkpoint::{
    CheckpointStore, FileCheckpoints, KafkaCheckpoints, Layout, MemoryCheckpoints, OldConsumerCheckpoints,
    ZooKeeperCheckpoints,
};
use downspout::client::Cluster;
use downspout::spout::Membership;
use downspout::zookeeper::{Servers, ZooKeeper};

/// What a store is called, for those who got it wrong.
pub(crate) const STORES: &str =
    "zk://HOST:PORT,…/ROOT, file:DIR, kafka, kafka:GROUP, old-consumer://HOST:PORT,…, or memory";

/// A store, as it is said on the command line: `memory`, `file:DIR`, `kafka[:GROUP]`, `zk://HOST:PORT,…/ROOT`
/// or `old-consumer://HOST:PORT,…[/CHROOT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreName {
    Memory,
    File(PathBuf),
    /// For the group of the spout's id, unless one is named.
    Kafka(Option<String>),
    /// Where storm-kafka has them.
    ZooKeeper(ZooKeeperName),
    /// Where the old high-level consumer had them; the id is its group.
    OldConsumer(String),
}

/// `zk://HOST:PORT,…/ROOT[?layout=one-topic|by-topic][&compat=storm|none]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZooKeeperName {
    servers: String,
    root: String,
    pub(crate) layout: Option<Layout>,
    pub(crate) compat: Option<bool>,
}

impl StoreName {
    /// The store; the cluster is the one that a spout reads from.
    pub(crate) fn store(&self, cluster: &Cluster) -> Arc<dyn CheckpointStore> {
        match (self.alone(), self) {
            (Some(store), _) => store,
            (None, StoreName::Kafka(Some(group))) => {
                Arc::new(KafkaCheckpoints::new(cluster.clone()).group(group))
            }
            (None, _) => Arc::new(KafkaCheckpoints::new(cluster.clone())),
        }
    }

    /// The store for moving positions away from it: what other programs left there is read too.
    pub(crate) fn left_behind(&self, cluster: &Cluster) -> Arc<dyn CheckpointStore> {
        match self {
            StoreName::Kafka(group) => {
                let store = KafkaCheckpoints::new(cluster.clone()).reads_parallel_consumer(true);
                Arc::new(group.iter().fold(store, |store, group| store.group(group)))
            }
            _ => self.store(cluster),
        }
    }

    /// The store, if it can do without a cluster.
    pub(crate) fn alone(&self) -> Option<Arc<dyn CheckpointStore>> {
        match self {
            StoreName::Memory => Some(Arc::new(MemoryCheckpoints::new())),
            StoreName::File(dir) => Some(Arc::new(FileCheckpoints::new(dir))),
            StoreName::Kafka(_) => None,
            StoreName::ZooKeeper(name) => Some(Arc::new(name.store())),
            StoreName::OldConsumer(servers) => Some(Arc::new(OldConsumerCheckpoints::new(servers))),
        }
    }

    /// Whether positions outlive the process.
    pub(crate) fn is_durable(&self) -> bool {
        *self != StoreName::Memory
    }
}

impl ZooKeeperName {
    pub(crate) fn store(&self) -> ZooKeeperCheckpoints {
        self.set_up(ZooKeeperCheckpoints::new(&self.servers, &self.root))
    }

    /// The store, and the group of those who share a spout, in one session.
    pub(crate) fn shared(&self, session: Arc<dyn ZooKeeper>) -> (ZooKeeperCheckpoints, Membership) {
        let store = ZooKeeperCheckpoints::over(Arc::clone(&session), &self.root);
        (self.set_up(store), Membership::over(session, &self.root))
    }

    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    fn set_up(&self, mut store: ZooKeeperCheckpoints) -> ZooKeeperCheckpoints {
        if let Some(layout) = self.layout {
            store = store.layout(layout);
        }
        if let Some(compat) = self.compat {
            store = store.compat_storm(compat);
        }
        store
    }

    /// Whether these are the same nodes, whatever the layout.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        (&self.servers, &self.root) == (&other.servers, &other.root)
    }
}

impl FromStr for ZooKeeperName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let (servers, root) = place.split_at(place.find('/').unwrap_or(place.len()));
        servers.parse::<Servers>().map_err(|why| why.to_string())?;
        let (root, mut layout, mut compat) = (root.trim_end_matches('/').to_owned(), None, None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option {
                "layout=one-topic" => layout = Some(Layout::OneTopic),
                "layout=by-topic" => layout = Some(Layout::ByTopic),
                "compat=storm" => compat = Some(true),
                "compat=none" => compat = Some(false),
                _ => {
                    return Err(format!(
                        "{option:?}: expected layout=one-topic, layout=by-topic, compat=storm or compat=none"
                    ));
                }
            }
        }
        Ok(ZooKeeperName { servers: servers.to_owned(), root, layout, compat })
    }
}

impl fmt::Display for ZooKeeperName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers, self.root)?;
        let layout = self.layout.map(|layout| match layout {
            Layout::OneTopic => "layout=one-topic",
            Layout::ByTopic => "layout=by-topic",
        });
        let compat = self.compat.map(|yes| if yes { "compat=storm" } else { "compat=none" });
        for (option, sign) in layout.into_iter().chain(compat).zip(["?", "&"]) {
            write!(f, "{sign}{option}")?;
        }
        Ok(())
    }
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(StoreName::Memory),
            None if text == "kafka" => Ok(StoreName::Kafka(None)),
            Some(("file", dir)) if !dir.is_empty() => Ok(StoreName::File(dir.into())),
            Some(("kafka", group)) if !group.trim_start_matches("//").is_empty() => {
                Ok(StoreName::Kafka(Some(group.trim_start_matches("//").to_owned())))
            }
            Some(("zk", place)) if place.starts_with("//") => Ok(StoreName::ZooKeeper(place[2..].parse()?)),
            Some(("old-consumer", servers)) if servers.starts_with("//") => {
                servers[2..].parse::<Servers>().map_err(|why| why.to_string())?;
                Ok(StoreName::OldConsumer(servers[2..].to_owned()))
            }
            _ => Err(format!("expected {STORES}")),
        }
    }
}

/// As it is said on the command line.
impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreName::Memory => f.write_str("memory"),
            StoreName::File(dir) => write!(f, "file:{}", dir.display()),
            StoreName::Kafka(None) => f.write_str("kafka"),
            StoreName::Kafka(Some(group)) => write!(f, "kafka:{group}"),
            StoreName::ZooKeeper(name) => write!(f, "zk://{name}"),
            StoreName::OldConsumer(servers) => write!(f, "old-consumer://{servers}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_reads_as_it_is_shown() {
        for text in [
            "memory",
            "file:/var/lib/billing",
            "file:a:b",
            "kafka",
            "kafka:billing",
            "zk://zk1:2181,zk2:2181/kafka-spout",
            "zk://zk1:2181/a/b?layout=one-topic&compat=storm",
            "zk://zk1:2181/a?compat=none",
            "old-consumer://zk1:2181,zk2/chroot",
        ] {
            let name: StoreName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.is_durable(), text != "memory");
        }
        for text in [
            "",
            "file",
            "file:",
            "kafka:",
            "memory:x",
            "/var/lib/billing",
            "zookeeper:z",
            "zk:",
            "zk://",
            "zk://zk1:x/root",
            "zk://zk1/root?layout=x",
            "old-consumer://",
        ] {
            assert!(text.parse::<StoreName>().is_err(), "{text}");
        }
        assert_eq!("kafka://billing".parse(), Ok(StoreName::Kafka(Some("billing".into()))));
    }
}
