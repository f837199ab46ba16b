use super::{Access, CheckpointStore, Checkpoints};
use crate::client::Cluster;
use crate::error::{Error, Result};
use crate::net::BoxFuture;

/// Positions kept by Kafka for a group (0.8.1 on).
#[derive(Debug, Clone)]
pub struct KafkaCheckpoints {
    _cluster: Cluster,
    group: Option<String>,
}

impl KafkaCheckpoints {
    /// In this cluster, for a group of the spout's id.
    pub fn new(cluster: Cluster) -> Self {
        KafkaCheckpoints { _cluster: cluster, group: None }
    }

    /// For another group than the spout's id.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }
}

impl CheckpointStore for KafkaCheckpoints {
    fn describe(&self) -> String {
        match &self.group {
            Some(group) => format!("Kafka, group {group}"),
            None => "Kafka".to_owned(),
        }
    }

    fn open<'a>(&'a self, _: &'a str, _: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async { Err(Error::config("not built yet")) })
    }
}
