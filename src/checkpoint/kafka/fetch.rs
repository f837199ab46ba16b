//! Reading positions.

use std::time::Duration;

use tokio::time::sleep;

use super::positions::Found;
use super::{Opened, note};
use crate::checkpoint::{Checkpoint, Extras, Loaded, Owner, parallel_consumer};
use crate::client::{CommittedOffset, OffsetSpec, TopicPartition};
use crate::error::{Error, ErrorKind, Result};

/// A coordinator that has just moved may say "none" of what it has not read yet, without an error
/// (0.8.2.2): so often it is asked again, at the coordinator that is found then.
const ASK_AGAIN: u32 = 2;
const AFTER: Duration = Duration::from_millis(150);

impl Opened {
    pub(super) async fn load_all(&self, partitions: &[TopicPartition]) -> Vec<Result<Loaded>> {
        let mut positions = self.positions.lock().await;
        let committed = match self.fetch_surely(partitions).await {
            Ok(committed) => committed,
            Err(why) => return partitions.iter().map(|_| Err(why.clone())).collect(),
        };
        let mut outcomes = Vec::with_capacity(partitions.len());
        for (partition, committed) in partitions.iter().zip(committed) {
            let loaded = self.read(partition, committed).await;
            if let Ok(loaded) = &loaded {
                let found = loaded.checkpoint.as_ref().map(|checkpoint| {
                    let Checkpoint { offset, owner, extras, .. } = checkpoint;
                    Found::new(*offset, owner.clone(), extras.as_ref())
                });
                positions.loaded(partition, found.as_ref());
            }
            outcomes.push(loaded);
        }
        outcomes
    }

    /// Positions, in this order; "none" only if that is certain.
    async fn fetch_surely(&self, partitions: &[TopicPartition]) -> Result<Vec<CommittedOffset>> {
        let mut found = self.fetch(partitions).await?;
        for _ in 0..ASK_AGAIN {
            let missing: Vec<usize> = (0..found.len())
                .filter(|at| found[*at].offset.is_none() && found[*at].error.is_none())
                .collect();
            if missing.is_empty() {
                break;
            }
            sleep(AFTER).await;
            self.cluster.forget_coordinator(&self.group);
            let wanted: Vec<TopicPartition> = missing.iter().map(|at| partitions[*at].clone()).collect();
            for (at, again) in missing.into_iter().zip(self.fetch(&wanted).await?) {
                found[at] = again;
            }
        }
        Ok(found)
    }

    /// Positions, in this order.
    pub(super) async fn fetch(&self, partitions: &[TopicPartition]) -> Result<Vec<CommittedOffset>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<(&str, i32)> =
            partitions.iter().map(|partition| (&*partition.topic, partition.partition)).collect();
        let found = self.cluster.fetch_offsets(&self.group, &wanted).await?;
        if found.len() == partitions.len() {
            return Ok(found);
        }
        Err(Error::new(ErrorKind::Incomplete("all partitions")))
    }

    async fn read(&self, partition: &TopicPartition, committed: CommittedOffset) -> Result<Loaded> {
        if let Some(why) = committed.error {
            return Err(why);
        }
        let Some(offset) = committed.offset else { return Ok(Loaded::default()) };
        let (owner, mut extras, discarded) = self.read_beside(partition, offset, &committed.metadata).await;
        if let Some(epoch) = committed.leader_epoch {
            // Kept by the broker, whatever became of the rest.
            extras.get_or_insert_default().leader_epoch.get_or_insert(epoch);
        }
        let checkpoint = Checkpoint { offset, owner, broker: None, extras };
        Ok(Loaded { checkpoint: Some(checkpoint), discarded })
    }

    async fn read_beside(
        &self,
        partition: &TopicPartition,
        offset: i64,
        text: &str,
    ) -> (Option<Owner>, Option<Extras>, Option<String>) {
        if text.is_empty() {
            return (None, None, None);
        }
        let why = match note::read(text, offset) {
            Ok((owner, extras)) => return (owner, Some(extras), None),
            Err(why) => why,
        };
        if let Some(owner) = note::storm_kafka_client(text) {
            return (Some(owner), None, None);
        }
        if !self.reads_parallel_consumer || text.starts_with('{') {
            return (None, None, Some(why));
        }
        let done = match self.end(partition).await {
            Ok(end) => parallel_consumer::read(text, offset, end),
            Err(why) => Err(format!("Parallel Consumer's map cannot be checked against the log: {why}")),
        };
        match done {
            Ok(done) => (None, Some(Extras { done, ..Extras::default() }), None),
            Err(why) => (None, None, Some(why)),
        }
    }

    async fn end(&self, partition: &TopicPartition) -> Result<i64> {
        let wanted = (&*partition.topic, partition.partition, OffsetSpec::Latest);
        let listed = self.cluster.list_offsets(&[wanted]).await?.into_iter().next();
        let unknown = || Error::new(ErrorKind::Incomplete("the end of the log"));
        let listed = listed.ok_or_else(unknown)?;
        match listed.error {
            Some(why) => Err(why),
            None => listed.offset.ok_or_else(unknown),
        }
    }

    /// All partitions that have a position.
    pub(super) async fn list_all(&self) -> Result<Vec<TopicPartition>> {
        let found = match self.cluster.fetch_all_offsets(&self.group).await {
            // Before 0.10.2 they have to be asked for one by one.
            Err(why) if matches!(why.kind(), ErrorKind::Unsupported { .. }) => {
                let topics = self.cluster.all_topics().await?.topics;
                let all = topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|partition| TopicPartition::new(&*topic.name, partition.id))
                });
                self.fetch(&all.collect::<Vec<_>>()).await?
            }
            found => found?,
        };
        let mut listed = Vec::new();
        for one in found {
            if let Some(why) = one.error {
                return Err(why);
            }
            if one.offset.is_some() {
                listed.push(TopicPartition::new(one.topic, one.partition));
            }
        }
        listed.sort();
        Ok(listed)
    }
}
