use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use super::{BrokerReader, Metadata, PartitionMetadata, TopicMetadata, TopicSelection};
use crate::error::{Error, ErrorKind, Result};
use crate::net::BoxFuture;

/// How much longer than the brokers ZooKeeper may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Two readers side by side: brokers, and the ZooKeeper that they use.
///
/// Who leads, and where brokers are, is what the brokers say. A topic or a partition that only one of them knows is
/// there; nobody forgets one over a single answer (a [`Spout`](crate::spout::Spout) does after three in a row). Each
/// answer in which they differ is [counted](Self::disagreements); for a moment after an election that is normal. When
/// only one of them can be asked, its word is taken. Two that name different clusters are an error for good.
#[derive(Debug)]
pub struct CrossChecked {
    brokers: Arc<dyn BrokerReader>,
    zookeeper: Arc<dyn BrokerReader>,
    disagreements: AtomicU64,
    /// The cluster's id, as each of them said last.
    ids: Mutex<[Option<String>; 2]>,
}

impl CrossChecked {
    /// What brokers say beside what ZooKeeper says.
    pub fn new(brokers: Arc<dyn BrokerReader>, zookeeper: Arc<dyn BrokerReader>) -> Self {
        CrossChecked { brokers, zookeeper, disagreements: AtomicU64::new(0), ids: Mutex::default() }
    }

    /// In how many answers they differed.
    pub fn disagreements(&self) -> u64 {
        self.disagreements.load(Ordering::Relaxed)
    }

    async fn read_both(&self, topics: &TopicSelection) -> Result<Metadata> {
        let (brokers, zookeeper) = self.ask_both(topics).await;
        let ids =
            [&brokers, &zookeeper].map(|answer| answer.as_ref().ok().and_then(|it| it.cluster_id.clone()));
        self.same_cluster(ids)?;
        let zookeeper = match (zookeeper, &brokers) {
            (Ok(metadata), _) => Some(metadata),
            // Its settings are wrong, and that should not wait for the day when the brokers are away.
            (Err(why), _) if matches!(why.kind(), ErrorKind::Config(_)) => return Err(why),
            (Err(why), Ok(_)) => {
                tracing::warn!(error = %why, "only brokers were read, and not ZooKeeper");
                None
            }
            (Err(why), Err(first)) => return Err(Error::new(ErrorKind::NoBroker(vec![first.clone(), why]))),
        };
        match (brokers, zookeeper) {
            (Ok(brokers), None) => Ok(brokers),
            (Ok(brokers), Some(zookeeper)) => {
                let (merged, differences) = merge(brokers, zookeeper);
                if let Some(first) = differences.first() {
                    self.disagreements.fetch_add(1, Ordering::Relaxed);
                    #[cfg(feature = "metrics")]
                    metrics::counter!("downspout_discovery_disagreements").increment(1);
                    tracing::info!(first, count = differences.len(), "brokers and ZooKeeper differ");
                }
                Ok(merged)
            }
            (Err(why), Some(zookeeper)) => {
                tracing::warn!(error = %why, "only ZooKeeper was read, and no broker");
                Ok(zookeeper)
            }
            (Err(why), None) => Err(why),
        }
    }

    /// Brokers take what time they are given; ZooKeeper is waited for two seconds longer, whatever they said.
    async fn ask_both(&self, topics: &TopicSelection) -> (Result<Metadata>, Result<Metadata>) {
        let (mut brokers, mut zookeeper) =
            (pin!(self.brokers.read(topics)), pin!(self.zookeeper.read(topics)));
        let mut early = None;
        let brokers = poll_fn(|cx| {
            if early.is_none()
                && let Poll::Ready(answer) = zookeeper.as_mut().poll(cx)
            {
                early = Some(answer);
            }
            brokers.as_mut().poll(cx)
        })
        .await;
        let zookeeper = match early {
            Some(answer) => answer,
            None => match timeout(PATIENCE, zookeeper).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::new(ErrorKind::Timeout(PATIENCE))),
            },
        };
        (brokers, zookeeper)
    }

    fn same_cluster(&self, ids: [Option<String>; 2]) -> Result<()> {
        let mut known = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        for (known, new) in known.iter_mut().zip(ids) {
            *known = new.or(known.take());
        }
        match &*known {
            [Some(brokers), Some(zookeeper)] if brokers != zookeeper => Err(Error::config(format!(
                "the brokers belong to the cluster {brokers}, ZooKeeper to {zookeeper}: check both addresses, and the \
                 chroot"
            ))),
            _ => Ok(()),
        }
    }
}

/// What both say as one, and in what they differ.
fn merge(brokers: Metadata, zookeeper: Metadata) -> (Metadata, Vec<String>) {
    let mut differences = Vec::new();
    let mut merged = brokers;
    merged.cluster_id = merged.cluster_id.or(zookeeper.cluster_id);
    merged.controller_id = merged.controller_id.or(zookeeper.controller_id);
    // Releases before 0.8.2 name only brokers that have a part in the topics asked for: no difference.
    for broker in zookeeper.brokers {
        if merged.broker(broker.id).is_none() {
            merged.brokers.push(broker);
        }
    }
    merged.brokers.sort_by_key(|broker| broker.id);
    let mut theirs: BTreeMap<String, TopicMetadata> =
        zookeeper.topics.into_iter().map(|topic| (topic.name.clone(), topic)).collect();
    for topic in &mut merged.topics {
        let Some(other) = theirs.remove(&topic.name) else {
            differences.push(format!("{}: not in ZooKeeper", topic.name));
            continue;
        };
        match (&topic.error, &other.error) {
            (Some(_), Some(_)) => {}
            (Some(_), None) => {
                differences.push(format!("{}: brokers do not know it, or cannot tell", topic.name));
                *topic = other;
            }
            (None, Some(_)) => differences.push(format!("{}: not in ZooKeeper", topic.name)),
            (None, None) => merge_partitions(topic, other, &mut differences),
        }
    }
    for (name, topic) in theirs {
        differences.push(format!("{name}: brokers do not know it"));
        merged.topics.push(topic);
    }
    merged.topics.sort_by(|a, b| a.name.cmp(&b.name));
    (merged, differences)
}

fn merge_partitions(topic: &mut TopicMetadata, other: TopicMetadata, differences: &mut Vec<String>) {
    let name = topic.name.clone();
    let mut theirs: BTreeMap<i32, PartitionMetadata> =
        other.partitions.into_iter().map(|partition| (partition.id, partition)).collect();
    for partition in &topic.partitions {
        match theirs.remove(&partition.id) {
            Some(other) if other.leader == partition.leader => {}
            Some(other) => differences.push(format!(
                "{name}/{}: brokers say {:?} leads, ZooKeeper {:?}",
                partition.id, partition.leader, other.leader
            )),
            None => differences.push(format!("{name}/{}: not in ZooKeeper", partition.id)),
        }
    }
    for (id, partition) in theirs {
        differences.push(format!("{name}/{id}: brokers do not know it"));
        topic.partitions.push(partition);
    }
    topic.partitions.sort_by_key(|partition| partition.id);
}

impl BrokerReader for CrossChecked {
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
        Box::pin(self.read_both(topics))
    }

    fn rotate(&self) {
        self.brokers.rotate();
        self.zookeeper.rotate();
    }

    fn restart(&self) {
        self.brokers.restart();
        self.zookeeper.restart();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::discovery::{BrokerInfo, unknown_topic};
    use crate::net::BrokerAddress;

    /// Answers always the same; `None` never.
    #[derive(Debug)]
    struct Says(Option<Result<Metadata>>);

    impl BrokerReader for Says {
        fn read<'a>(&'a self, _: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
            match &self.0 {
                Some(answer) => Box::pin(ready(answer.clone())),
                None => Box::pin(pending()),
            }
        }
    }

    fn cluster(id: Option<&str>, leaders: &[(i32, Option<i32>)], port: u16) -> Metadata {
        let brokers = [1, 2].map(|id| BrokerInfo::new(id, BrokerAddress::new("h", port + id as u16)));
        let partitions = leaders.iter().map(|(id, leader)| PartitionMetadata::new(*id, *leader)).collect();
        let cluster_id = id.map(str::to_owned);
        Metadata { cluster_id, ..Metadata::new(brokers.to_vec(), vec![TopicMetadata::new("t", partitions)]) }
    }

    fn nothing() -> Result<Metadata> {
        Err(Error::new(ErrorKind::Closed))
    }

    async fn read(brokers: Says, zookeeper: Says) -> (Result<Metadata>, u64) {
        let both = CrossChecked::new(Arc::new(brokers), Arc::new(zookeeper));
        (both.read(&TopicSelection::All).await, both.disagreements())
    }

    fn leaders(metadata: &Metadata) -> Vec<(i32, Option<i32>)> {
        let topic = metadata.topic("t").unwrap();
        topic.partitions.iter().map(|partition| (partition.id, partition.leader)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn brokers_win_on_leadership_and_the_highest_count_of_partitions_counts() {
        let one = [(0, Some(1)), (1, Some(2))];
        for (brokers, zookeeper, expected, differ) in [
            (&one[..], &one[..], &one[..], 0),
            (&[(0, Some(2)), (1, None)], &one, &[(0, Some(2)), (1, None)], 1),
            (&one[..1], &one, &one, 1),
            (&one, &one[1..], &one, 1),
            (&[], &one, &one, 1),
        ] {
            let says = |leaders, port| Says(Some(Ok(cluster(Some("c"), leaders, port))));
            let (merged, disagreements) = read(says(brokers, 100), says(zookeeper, 200)).await;
            let merged = merged.unwrap();
            assert_eq!(leaders(&merged), expected);
            assert_eq!(disagreements, differ, "{brokers:?} {zookeeper:?}");
            assert_eq!(merged.broker(1).unwrap().address.port, 101, "where brokers are, brokers say");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_one_of_them_does_not_know_is_there_and_counted() {
        let none = || Metadata {
            topics: vec![TopicMetadata {
                error: Some(unknown_topic("t", [])),
                ..TopicMetadata::new("t", Vec::new())
            }],
            ..cluster(None, &[], 100)
        };
        let some = || cluster(None, &[(0, Some(1))], 100);
        let absent = || Metadata { topics: Vec::new(), ..some() };
        for (brokers, zookeeper, is_there, differ) in [
            (none(), some(), true, 1),
            (some(), none(), true, 1),
            (none(), none(), false, 0),
            (absent(), some(), true, 1),
            (some(), absent(), true, 1),
        ] {
            let (merged, disagreements) = read(Says(Some(Ok(brokers))), Says(Some(Ok(zookeeper)))).await;
            let merged = merged.unwrap();
            assert_eq!(merged.topic("t").unwrap().error.is_none(), is_there);
            assert_eq!(disagreements, differ);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_be_asked_is_not_missed() {
        let some = || Says(Some(Ok(cluster(Some("c"), &[(0, Some(1))], 100))));
        assert!(read(some(), Says(Some(nothing()))).await.0.is_ok());
        assert!(read(Says(Some(nothing())), some()).await.0.is_ok());
        let start = tokio::time::Instant::now();
        assert!(read(some(), Says(None)).await.0.is_ok());
        assert_eq!(start.elapsed(), PATIENCE);
        let error = read(Says(Some(nothing())), Says(Some(nothing()))).await.0.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoBroker(errors) if errors.len() == 2), "{error}");
        let wrong = Says(Some(Err(Error::config("no Kafka there"))));
        assert!(read(some(), wrong).await.0.is_err(), "a wrong setting is found at the start");
    }

    #[tokio::test(start_paused = true)]
    async fn two_clusters_are_refused() {
        let says = |id| Says(Some(Ok(cluster(id, &[(0, Some(1))], 100))));
        let error = read(says(Some("a")), says(Some("b"))).await.0.unwrap_err();
        assert_eq!(error.retry(), crate::Retry::No);
        assert!(error.to_string().contains("cluster a, ZooKeeper to b"), "{error}");
        // 0.10.0 and before have no id.
        assert!(read(says(None), says(None)).await.0.is_ok());
        assert_eq!(read(says(None), says(Some("b"))).await.0.unwrap().cluster_id.as_deref(), Some("b"));
    }
}
