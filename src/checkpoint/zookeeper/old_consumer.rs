//! Positions of Kafka's old high-level consumer, which kept them in ZooKeeper.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::find::{at, busy, unreadable};
use super::{Connected, Source, denied};
use crate::checkpoint::{
    Access, Checkpoint, CheckpointStore, Checkpoints, Loaded, Offer, Problem, Stored, check_id, problem,
    problem_at,
};
use crate::client::TopicPartition;
use crate::error::{Error, Result};
use crate::net::{BoxFuture, together};
use crate::zookeeper::{Created, Deleted, Mode, Written, ZooKeeper};

/// Positions of Kafka's old high-level consumer (0.7 to 1.1, `zookeeper.connect`): a number as text at
/// `/consumers/<group>/offsets/<topic>/<partition>`. For moving positions from there and back: a spout
/// cannot run on it, as there is room for nothing but the offset and no way to keep another owner out.
///
/// The id is the group. Nothing is changed by hand while it has members, unless forced.
#[derive(Debug, Clone)]
pub struct OldConsumerCheckpoints {
    source: Source,
}

impl OldConsumerCheckpoints {
    /// At these servers: `host:port,host:port/chroot`, as in `zookeeper.connect`.
    pub fn new(servers: impl Into<String>) -> Self {
        OldConsumerCheckpoints { source: Source::Connect(servers.into()) }
    }

    /// Through this session, which the caller closes.
    pub fn over(session: Arc<dyn ZooKeeper>) -> Self {
        OldConsumerCheckpoints { source: Source::Given(session) }
    }
}

impl CheckpointStore for OldConsumerCheckpoints {
    fn describe(&self) -> String {
        format!("the old consumer's offsets in {}", self.source.describe())
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async move {
            check_id(id)?;
            if matches!(access, Access::Own(_)) {
                let why = "a spout cannot keep its positions where the old consumer has them: move them to another store";
                return Err(Error::config(why));
            }
            let Connected { session, is_ours } = self.source.connect().await?;
            let group = format!("/consumers/{id}");
            let opened = Group {
                session,
                is_ours,
                group,
                may_write: access != Access::Read,
                versions: Mutex::default(),
            };
            let members = match access {
                Access::Edit { force: false } => {
                    opened.session.children(&format!("{}/ids", opened.group)).await?
                }
                _ => None,
            };
            if members.is_some_and(|members| !members.is_empty()) {
                opened.close().await;
                return Err(problem(Problem::Members { group: id.to_owned() }));
            }
            Ok(Box::new(opened) as Box<dyn Checkpoints>)
        })
    }
}

#[derive(Debug)]
struct Group {
    session: Arc<dyn ZooKeeper>,
    is_ours: bool,
    /// `/consumers/<group>`
    group: String,
    may_write: bool,
    /// Of the nodes that were read, with their offsets; none if there was no node.
    versions: Mutex<HashMap<TopicPartition, Option<(i32, i64)>>>,
}

impl Group {
    fn path(&self, partition: &TopicPartition) -> String {
        format!("{}/offsets/{}/{}", self.group, partition.topic, partition.partition)
    }

    fn versions(&self) -> MutexGuard<'_, HashMap<TopicPartition, Option<(i32, i64)>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load_one(&self, partition: &TopicPartition) -> Result<Loaded> {
        let path = self.path(partition);
        let node = self.session.get(&path).await.map_err(|why| at(partition, why))?;
        let Some(node) = node else {
            self.versions().insert(partition.clone(), None);
            return Ok(Loaded::default());
        };
        let text = std::str::from_utf8(&node.data).ok().map(str::trim);
        let offset = text.and_then(|text| text.parse().ok()).filter(|offset: &i64| *offset >= 0);
        let offset = offset.ok_or_else(|| unreadable(partition, &path, "it is no whole number from 0 on"))?;
        self.versions().insert(partition.clone(), Some((node.version, offset)));
        Ok(Loaded { checkpoint: Some(Checkpoint::at(offset)), discarded: None })
    }

    async fn commit_one(&self, offer: &Offer) -> Result<Stored> {
        let (partition, offset) = (&offer.partition, offer.checkpoint.offset);
        if !self.may_write {
            return Err(at(partition, Error::config(format!("{} was opened for reading", self.group))));
        }
        let path = self.path(partition);
        if !self.versions().contains_key(partition) {
            self.load_one(partition).await?;
        }
        let known = self.versions().get(partition).copied().flatten();
        let text = offset.to_string().into_bytes();
        // Whatever becomes of it, it is read again before the next one.
        self.versions().remove(partition);
        let changed = |found| {
            let expected = known.map(|(_, offset)| offset);
            Err(problem_at(partition, Problem::Changed { expected, found }))
        };
        match known {
            Some((version, _)) => {
                match self.session.set(&path, text, version).await.map_err(|why| at(partition, why))? {
                    Written::Stored { .. } => {}
                    Written::Denied => return Err(at(partition, denied(&path))),
                    Written::Missing => return changed(None),
                    Written::Conflict(_) => {
                        let found = self.load_one(partition).await?;
                        self.versions().remove(partition);
                        return changed(found.checkpoint.map(|found| found.offset));
                    }
                }
            }
            None => {
                let created = self.session.create(&path, text, Mode::Persistent).await;
                match created.map_err(|why| at(partition, why))? {
                    Created::Made => {}
                    Created::Denied => return Err(at(partition, denied(&path))),
                    Created::Exists => return Err(at(partition, busy(&path))),
                }
            }
        }
        Ok(Stored { done_until: offset })
    }

    async fn remove_one(&self, partition: &TopicPartition) -> Result<()> {
        let path = self.path(partition);
        self.versions().remove(partition);
        match self.session.delete(&path, -1).await.map_err(|why| at(partition, why))? {
            Deleted::Gone => Ok(()),
            Deleted::Denied => Err(at(partition, denied(&path))),
            Deleted::Conflict | Deleted::NotEmpty => Err(at(partition, busy(&path))),
        }
    }

    async fn all(&self) -> Result<Vec<TopicPartition>> {
        let offsets = format!("{}/offsets", self.group);
        let mut all = Vec::new();
        for topic in self.session.children(&offsets).await?.unwrap_or_default() {
            let numbers = self.session.children(&format!("{offsets}/{topic}")).await?.unwrap_or_default();
            let numbers = numbers.iter().filter_map(|number| number.parse().ok());
            all.extend(numbers.map(|number: i32| TopicPartition::new(&*topic, number)));
        }
        all.sort_unstable();
        Ok(all)
    }
}

impl Checkpoints for Group {
    fn describe(&self) -> String {
        format!("the old consumer's offsets in {}{}", self.session.describe(), self.group)
    }

    fn keeps_extras(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>> {
        Box::pin(together(partitions.iter().map(|one| Box::pin(self.load_one(one)) as BoxFuture<'_, _>)))
    }

    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>> {
        Box::pin(together(offers.iter().map(|one| Box::pin(self.commit_one(one)) as BoxFuture<'_, _>)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>> {
        Box::pin(self.all())
    }

    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(together(partitions.iter().map(|one| Box::pin(self.remove_one(one)) as BoxFuture<'_, _>)))
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut versions = self.versions();
            versions.retain(|partition, _| !partitions.contains(partition));
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.is_ours {
                self.session.close().await;
            }
        })
    }
}
