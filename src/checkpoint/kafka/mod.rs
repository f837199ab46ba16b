//! Positions kept by Kafka for a group: OffsetCommit and OffsetFetch.

mod commit;
mod fetch;
mod note;
mod positions;

use std::fmt;

use tokio::sync::Mutex;

use self::positions::Positions;
use super::{Access, CheckpointStore, Checkpoints, Loaded, Offer, Stored, check_id};
use crate::client::{Cluster, TopicPartition};
use crate::error::{Error, Result};
use crate::net::BoxFuture;

/// Positions kept by Kafka for a group (0.8.2 on), or by a broker in ZooKeeper (0.8.1).
///
/// The group is the spout's id, unless another one is named. It has to be a group of its own: one with
/// live members refuses what does not come from them. Extras, and who the owner is, go into the metadata
/// beside the offset, as far as the broker has room for it (4,096 bytes unless `offset.metadata.max.bytes`
/// says otherwise; none on 0.8.1).
///
/// Kafka cannot keep a second owner out. What is there is read before the first commit of a partition,
/// every 10 s from then on, and when a commit is refused: one that another owner has written since is
/// left alone, and is an error.
///
/// Kafka forgets positions that were not committed for long (`offsets.retention.minutes`: 7 days, one day
/// before 2.0). Unchanged ones are committed again every hour while the spout runs, and earlier where the
/// broker forgets earlier. Nothing helps a spout that is down for longer than that: it starts anew, or
/// does not with [`require_checkpoint`](crate::spout::SpoutSettings::require_checkpoint).
#[derive(Debug, Clone)]
pub struct KafkaCheckpoints {
    cluster: Cluster,
    group: Option<String>,
    reads_parallel_consumer: bool,
}

impl KafkaCheckpoints {
    /// In this cluster, for a group of the spout's id.
    pub fn new(cluster: Cluster) -> Self {
        KafkaCheckpoints { cluster, group: None, reads_parallel_consumer: false }
    }

    /// For another group than the spout's id.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Reads what Confluent's Parallel Consumer left beside an offset too: records that it had done
    /// beyond the offset are not handed out again. Off by default. From the first commit on the metadata
    /// is ours, which Parallel Consumer passes over: going back repeats them.
    #[must_use]
    pub fn reads_parallel_consumer(mut self, yes: bool) -> Self {
        self.reads_parallel_consumer = yes;
        self
    }
}

impl CheckpointStore for KafkaCheckpoints {
    fn describe(&self) -> String {
        match &self.group {
            Some(group) => format!("Kafka, group {group}"),
            None => "Kafka, the group of the spout's id".to_owned(),
        }
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async move {
            check_id(id)?;
            let group = self.group.clone().unwrap_or_else(|| id.to_owned());
            let has_room = !self.cluster.keeps_offsets_in_zookeeper(&group).await?;
            let run = match &access {
                Access::Own(owner) => Some(owner.run.clone()),
                _ => None,
            };
            let opened = Opened {
                cluster: self.cluster.clone(),
                group,
                reads_parallel_consumer: self.reads_parallel_consumer,
                has_room,
                spares_live_owners: access == Access::Edit { force: false },
                is_forced: access == Access::Edit { force: true },
                positions: Mutex::new(Positions::new(run, has_room)),
            };
            Ok(Box::new(opened) as Box<dyn Checkpoints>)
        })
    }
}

struct Opened {
    cluster: Cluster,
    group: String,
    reads_parallel_consumer: bool,
    /// Whether there is room beside the offset.
    has_room: bool,
    /// Nothing is written over an owner that has not closed.
    spares_live_owners: bool,
    /// Whatever is there is written over.
    is_forced: bool,
    /// Held by whoever reads or writes: what is known, and what is there, change together.
    positions: Mutex<Positions>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Checkpoints for Opened {
    fn describe(&self) -> String {
        format!("Kafka, group {}", self.group)
    }

    fn keeps_extras(&self) -> bool {
        self.has_room
    }

    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>> {
        Box::pin(self.load_all(partitions))
    }

    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>> {
        Box::pin(self.commit_all(offers))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>> {
        Box::pin(self.list_all())
    }

    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>> {
        let refused = |partition: &TopicPartition| {
            Err(Error::config(format!(
                "positions of single partitions cannot be removed from Kafka by this program; use Kafka's own tool: kafka-consumer-groups --group {} --delete-offsets --topic {}",
                self.group, partition.topic
            )))
        };
        let refused = partitions.iter().map(refused).collect();
        Box::pin(async move { refused })
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut positions = self.positions.lock().await;
            partitions.iter().for_each(|partition| positions.forget(partition));
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // A commit that is under way is waited for.
        Box::pin(async move { drop(self.positions.lock().await) })
    }
}
