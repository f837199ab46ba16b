//! Where a partition's document is: in this layout or the other.

use super::opened::Opened;
use super::{Layout, denied, token};
use crate::checkpoint::{Problem, document, problem, problem_at};
use crate::client::TopicPartition;
use crate::error::{Error, Result};
use crate::zookeeper::{Created, Deleted, Mode, Node, Written, ZooKeeper};

/// Where a partition's document is, or would be.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    pub(super) node: Option<Node>,
}

/// The layout that an id has; none that is named, and none that is there: by topic.
pub(super) async fn layout(session: &dyn ZooKeeper, place: &str) -> Result<Layout> {
    let names = session.children(place).await?.unwrap_or_default();
    let (flat, others): (Vec<&String>, Vec<&String>) =
        names.iter().filter(|name| !name.starts_with('~')).partition(|name| partition_number(name).is_some());
    Ok(if others.is_empty() && !flat.is_empty() { Layout::OneTopic } else { Layout::ByTopic })
}

/// The partition of `partition_7`.
fn partition_number(name: &str) -> Option<i32> {
    let digits = name.strip_prefix("partition_")?;
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

impl Opened {
    /// The path in a layout.
    fn path(&self, partition: &TopicPartition, layout: Layout) -> String {
        let TopicPartition { topic, partition } = partition;
        match layout {
            Layout::OneTopic => format!("{}/partition_{partition}", self.place),
            Layout::ByTopic => format!("{}/{topic}/partition_{partition}", self.place),
        }
    }

    /// The partition's document. One that is found in the other layout is taken over, if that is allowed.
    pub(super) async fn find(&self, partition: &TopicPartition) -> Result<Found> {
        check_topic(partition)?;
        let other_layout = match self.layout {
            Layout::OneTopic => Layout::ByTopic,
            Layout::ByTopic => Layout::OneTopic,
        };
        let (path, other_path) = (self.path(partition, self.layout), self.path(partition, other_layout));
        // In this order, and the other one once more: perhaps somebody moves it at this moment.
        let mut other = self.node(partition, &other_path).await?;
        let node = self.node(partition, &path).await?;
        if other.is_none() && node.is_none() {
            other = self.node(partition, &other_path).await?;
        }
        let Some(other) = other else { return Ok(Found { path, node }) };
        if self.layout == Layout::ByTopic {
            match document::topic_of(&other.data) {
                Ok(Some(topic)) if *topic == *partition.topic => {}
                Ok(Some(_)) => return Ok(Found { path, node }),
                _ if node.is_some() => return Ok(Found { path, node }),
                Ok(None) => {
                    let why = "it does not say of which topic it is";
                    return Err(unreadable(partition, &other_path, why));
                }
                Err(why) => return Err(unreadable(partition, &other_path, why)),
            }
        }
        match node {
            None if self.may_write() => self.take_over(partition, path, &other_path, other).await,
            None => Ok(Found { path: other_path, node: Some(other) }),
            Some(node) => self.settle(partition, (path, node), (&other_path, other)).await,
        }
    }

    /// There are two: the same, of which one goes, or an error.
    async fn settle(
        &self,
        partition: &TopicPartition,
        (path, node): (String, Node),
        (other_path, other): (&str, Node),
    ) -> Result<Found> {
        let offset = |path: &str, node: &Node| {
            let loaded =
                document::read(&node.data, partition).map_err(|why| unreadable(partition, path, why))?;
            Ok::<_, Error>(loaded.checkpoint.map_or(-1, |checkpoint| checkpoint.offset))
        };
        let (here, there) = (offset(&path, &node)?, offset(other_path, &other)?);
        if here == there {
            if self.may_write() {
                self.delete(partition, other_path, other.version).await?;
            }
        } else if self.node(partition, other_path).await?.is_some() {
            let why = format!("it says {here}, and {other_path} says {there}: remove one");
            return Err(unreadable(partition, &path, why));
        }
        Ok(Found { path, node: Some(node) })
    }

    /// Moves a document from the other layout into this one. At each step one of the two is whole, and
    /// while there are both they say the same.
    async fn take_over(
        &self,
        partition: &TopicPartition,
        path: String,
        other_path: &str,
        other: Node,
    ) -> Result<Found> {
        let at = |why: Error| at(partition, why);
        // Claimed first: another owner of this kind can't write to it any more.
        let claimed = token::claimed(&other.data, &self.token);
        let set = self.session.set(other_path, claimed, other.version);
        let Written::Stored { version } = set.await.map_err(at)? else {
            return Err(at(busy(other_path)));
        };
        match self
            .session
            .create(&path, token::claimed(&other.data, &self.token), Mode::Persistent)
            .await
            .map_err(at)?
        {
            Created::Made => {}
            Created::Exists => return Err(at(busy(&path))),
            Created::Denied => return Err(at(denied(&path))),
        }
        // If that fails, both stay and are looked at again. The new one is never removed: somebody may count
        // on it already.
        self.delete(partition, other_path, version).await?;
        tracing::info!(%partition, from = other_path, to = %path, "a checkpoint was taken over");
        let node = self.node(partition, &path).await?;
        Ok(Found { path, node })
    }

    /// The partition's documents are removed, in both layouts.
    pub(super) async fn remove_one(&self, partition: &TopicPartition) -> Result<()> {
        check_topic(partition)?;
        for layout in [Layout::ByTopic, Layout::OneTopic] {
            let path = self.path(partition, layout);
            let Some(node) = self.node(partition, &path).await? else { continue };
            let is_its = |topic: Option<String>| topic.is_none_or(|topic| *topic == *partition.topic);
            if layout == Layout::ByTopic
                || document::topic_of(&node.data).map_or(self.layout == Layout::OneTopic, is_its)
            {
                self.delete(partition, &path, node.version).await?;
            }
        }
        self.claims().forget(partition);
        Ok(())
    }

    async fn delete(&self, partition: &TopicPartition, path: &str, version: i32) -> Result<()> {
        let deleted = self.session.delete(path, version).await.map_err(|why| at(partition, why))?;
        match deleted {
            Deleted::Gone => Ok(()),
            Deleted::Conflict => Err(at(partition, busy(path))),
            Deleted::NotEmpty => Err(unreadable(partition, path, "it has children, which no checkpoint has")),
            Deleted::Denied => Err(at(partition, denied(path))),
        }
    }

    /// The node with a document; `None` only if there is none for certain.
    pub(super) async fn node(&self, partition: &TopicPartition, path: &str) -> Result<Option<Node>> {
        let node = self.session.get(path).await.map_err(|why| at(partition, why))?;
        if node.as_ref().is_some_and(|node| node.data.is_empty()) {
            // That of a topic with such a name.
            let children = self.session.children(path).await.map_err(|why| at(partition, why))?;
            if children.is_some_and(|children| !children.is_empty()) {
                return Ok(None);
            }
        }
        Ok(node)
    }

    /// All partitions that have a document, in order.
    pub(super) async fn all(&self) -> Result<Vec<TopicPartition>> {
        let mut all = Vec::new();
        for name in self.session.children(&self.place).await?.unwrap_or_default() {
            let path = format!("{}/{name}", self.place);
            let node = match partition_number(&name) {
                Some(number) => {
                    self.session.get(&path).await?.filter(|node| !node.data.is_empty()).zip(Some(number))
                }
                None if name.starts_with('~') => continue,
                None => None,
            };
            let Some((node, number)) = node else {
                let numbers = self.session.children(&path).await?.unwrap_or_default();
                let numbers = numbers.iter().filter_map(|name| partition_number(name));
                all.extend(numbers.map(|number| TopicPartition::new(&*name, number)));
                continue;
            };
            let why = match document::topic_of(&node.data) {
                Ok(Some(topic)) => {
                    all.push(TopicPartition::new(topic, number));
                    continue;
                }
                Ok(None) => "it does not say of which topic it is".to_owned(),
                Err(why) => why,
            };
            return Err(problem(Problem::Unreadable { place: path, why }));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

pub(super) fn at(partition: &TopicPartition, why: Error) -> Error {
    why.with_topic(&*partition.topic).with_partition(partition.partition)
}

pub(super) fn unreadable(partition: &TopicPartition, path: &str, why: impl Into<String>) -> Error {
    problem_at(partition, Problem::Unreadable { place: path.to_owned(), why: why.into() })
}

/// Somebody else was faster; it can be tried again.
pub(super) fn busy(path: &str) -> Error {
    let why = std::io::Error::other("somebody else writes it at this moment");
    problem(Problem::Io { place: path.to_owned(), why: why.into() })
}

/// A topic is one name, and no way to another place.
fn check_topic(partition: &TopicPartition) -> Result<()> {
    let topic = &*partition.topic;
    if topic.is_empty()
        || topic.contains(['/', '\0'])
        || topic.starts_with('~')
        || matches!(topic, "." | "..")
    {
        return Err(at(partition, Error::config(format!("{topic:?} is no topic that ZooKeeper could keep"))));
    }
    Ok(())
}
