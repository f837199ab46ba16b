//! `--store`: where positions are kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use downspout::checkpoint::{CheckpointStore, FileCheckpoints, KafkaCheckpoints, MemoryCheckpoints};
use downspout::client::Cluster;

/// A store, as it is said on the command line: `memory`, `file:DIR` or `kafka[:GROUP]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreName {
    Memory,
    File(PathBuf),
    /// For the group of the spout's id, unless one is named.
    Kafka(Option<String>),
}

impl StoreName {
    /// The store; the cluster is the one that a spout reads from.
    pub(crate) fn store(&self, cluster: &Cluster) -> Arc<dyn CheckpointStore> {
        match self {
            StoreName::Memory => Arc::new(MemoryCheckpoints::new()),
            StoreName::File(dir) => Arc::new(FileCheckpoints::new(dir)),
            StoreName::Kafka(None) => Arc::new(KafkaCheckpoints::new(cluster.clone())),
            StoreName::Kafka(Some(group)) => Arc::new(KafkaCheckpoints::new(cluster.clone()).group(group)),
        }
    }

    /// The store, if it can do without a cluster.
    pub(crate) fn alone(&self) -> Option<Arc<dyn CheckpointStore>> {
        match self {
            StoreName::Memory => Some(Arc::new(MemoryCheckpoints::new())),
            StoreName::File(dir) => Some(Arc::new(FileCheckpoints::new(dir))),
            StoreName::Kafka(_) => None,
        }
    }

    /// Whether positions outlive the process.
    pub(crate) fn is_durable(&self) -> bool {
        *self != StoreName::Memory
    }
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(StoreName::Memory),
            None if text == "kafka" => Ok(StoreName::Kafka(None)),
            Some(("file", dir)) if !dir.is_empty() => Ok(StoreName::File(dir.into())),
            Some(("kafka", group)) if !group.is_empty() => Ok(StoreName::Kafka(Some(group.to_owned()))),
            _ => Err("expected file:DIR, kafka, kafka:GROUP, or memory".to_owned()),
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_reads_as_it_is_shown() {
        for text in ["memory", "file:/var/lib/billing", "file:a:b", "kafka", "kafka:billing"] {
            let name: StoreName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.is_durable(), text != "memory");
        }
        for text in ["", "file", "file:", "kafka:", "memory:x", "/var/lib/billing", "zookeeper:z"] {
            assert!(text.parse::<StoreName>().is_err(), "{text}");
        }
    }
}
