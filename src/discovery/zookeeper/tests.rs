use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::zookeeper::{Created, Deleted, Mode, Node, SessionId, Written};

/// Nodes in memory, and nothing else.
#[derive(Debug, Default)]
struct Nodes(Mutex<BTreeMap<String, String>>);

impl Nodes {
    fn put(&self, path: &str, data: &str) {
        self.0.lock().unwrap().insert(path.to_owned(), data.to_owned());
    }

    fn remove(&self, path: &str) {
        self.0.lock().unwrap().retain(|known, _| known != path && !known.starts_with(&format!("{path}/")));
    }
}

impl ZooKeeper for Nodes {
    fn describe(&self) -> String {
        "zk://fake:2181".to_owned()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>>> {
        let data = self.0.lock().unwrap().get(path).cloned();
        let node = data.map(|data| Node { data: data.into_bytes(), version: 0, is_ephemeral: false });
        Box::pin(ready(Ok(node)))
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>>> {
        let below = format!("{path}/");
        let nodes = self.0.lock().unwrap();
        let mut names: Vec<String> = nodes
            .keys()
            .filter_map(|known| known.strip_prefix(&below))
            .map(|rest| rest.split('/').next().unwrap().to_owned())
            .collect();
        names.dedup();
        let is_there = !names.is_empty() || nodes.contains_key(path);
        Box::pin(ready(Ok(is_there.then_some(names))))
    }

    fn set<'a>(&'a self, _: &'a str, _: Vec<u8>, _: i32) -> BoxFuture<'a, Result<Written>> {
        unreachable!()
    }

    fn create<'a>(&'a self, _: &'a str, _: Vec<u8>, _: Mode) -> BoxFuture<'a, Result<Created>> {
        unreachable!()
    }

    fn delete<'a>(&'a self, _: &'a str, _: i32) -> BoxFuture<'a, Result<Deleted>> {
        unreachable!()
    }

    fn changed<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, ()> {
        unreachable!()
    }

    fn session(&self) -> SessionId {
        unreachable!()
    }

    fn silence(&self) -> Duration {
        unreachable!()
    }

    fn timeout(&self) -> Duration {
        unreachable!()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        unreachable!()
    }
}

/// Two brokers, and the topic `t` of three partitions.
fn cluster(above: &str) -> Arc<Nodes> {
    let nodes = Nodes::default();
    let put = |path: &str, data: &str| nodes.put(&format!("{above}{path}"), data);
    put("/cluster/id", r#"{"version":"1","id":"c"}"#);
    put("/controller", r#"{"version":1,"brokerid":2,"timestamp":"1"}"#);
    for id in [1, 2] {
        put(
            &format!("/brokers/ids/{id}"),
            &format!(
                r#"{{"host":"h{id}","port":9092,"endpoints":["PLAINTEXT://h{id}:9092","SSL://h{id}:9093"]}}"#
            ),
        );
    }
    put("/brokers/topics/t", r#"{"version":1,"partitions":{"0":[1,2],"1":[2,1],"2":[1,2]}}"#);
    for (id, leader) in [(0, 1), (1, 2), (2, 1)] {
        let state = format!(r#"{{"leader":{leader},"leader_epoch":5,"isr":[1,2]}}"#);
        put(&format!("/brokers/topics/t/partitions/{id}/state"), &state);
    }
    Arc::new(nodes)
}

async fn read(nodes: &Arc<Nodes>, topics: &TopicSelection) -> Metadata {
    ZooKeeperBrokers::new(Arc::clone(nodes) as Arc<dyn ZooKeeper>).read(topics).await.unwrap()
}

fn leaders(metadata: &Metadata) -> Vec<Option<i32>> {
    metadata.topic("t").unwrap().partitions.iter().map(|partition| partition.leader).collect()
}

#[tokio::test]
async fn all_that_metadata_would_tell_is_read() {
    let metadata = read(&cluster(""), &TopicSelection::named(["t"])).await;
    assert_eq!((metadata.cluster_id.as_deref(), metadata.controller_id), (Some("c"), Some(2)));
    assert_eq!(metadata.broker(2).unwrap().address.to_string(), "h2:9092");
    assert_eq!(
        metadata.topic("t").unwrap().partitions[1],
        PartitionMetadata {
            id: 1,
            leader: Some(2),
            leader_epoch: Some(5),
            replicas: vec![2, 1],
            in_sync: vec![1, 2],
            offline: Vec::new(),
            error: None,
        }
    );
}

#[tokio::test]
async fn storm_1682_storm_380_c8_no_partition_is_left_out_for_want_of_a_leader_a_broker_or_a_state() {
    let nodes = cluster("");
    nodes.put("/brokers/topics/t/partitions/0/state", r#"{"leader":-1,"leader_epoch":6,"isr":[]}"#);
    assert_eq!(leaders(&read(&nodes, &TopicSelection::All).await), [None, Some(2), Some(1)]);
    nodes.remove("/brokers/ids/2");
    let metadata = read(&nodes, &TopicSelection::All).await;
    assert_eq!(leaders(&metadata), [None, None, Some(1)]);
    let partition = &metadata.topic("t").unwrap().partitions[1];
    assert_eq!(
        (partition.offline.as_slice(), partition.error),
        (&[2][..], Some(ErrorCode::LEADER_NOT_AVAILABLE))
    );
    // Just after its creation a topic has its document and nothing below it.
    nodes.remove("/brokers/topics/t/partitions");
    assert_eq!(leaders(&read(&nodes, &TopicSelection::All).await), [None, None, None]);
    // What cannot be read costs what it is about, and nothing else.
    nodes.put("/brokers/ids/2", "creator:h2:9092");
    nodes.put("/brokers/topics/t/partitions/2/state", "{");
    nodes.put("/brokers/topics/u", "[]");
    nodes.put("/brokers/topics/v", r#"{"partitions":{"0":[1]}}"#);
    nodes.put("/brokers/topics/v/partitions/0/state", r#"{"leader":1}"#);
    let metadata = read(&nodes, &TopicSelection::All).await;
    assert_eq!(leaders(&metadata), [None, None, None]);
    let error = metadata.topic("u").unwrap().error.as_ref().unwrap().to_string();
    assert!(error.contains("/brokers/topics/u cannot be used"), "{error}");
    assert_eq!(metadata.leader("v", 0).unwrap().id, 1);
    // All brokers down is a state too.
    nodes.put("/brokers/ids", "");
    nodes.remove("/brokers/ids/1");
    nodes.remove("/brokers/ids/2");
    assert_eq!(read(&nodes, &TopicSelection::All).await.brokers, []);
}

#[tokio::test]
async fn storm_817_topics_come_and_go_between_reads() {
    let nodes = cluster("");
    let names = |metadata: Metadata| metadata.topics.into_iter().map(|topic| topic.name).collect::<Vec<_>>();
    nodes.put("/brokers/topics/__consumer_offsets", r#"{"partitions":{"0":[1]}}"#);
    let metadata = read(&nodes, &TopicSelection::All).await;
    assert!(metadata.topic("__consumer_offsets").unwrap().is_internal);
    nodes.put("/brokers/topics/u", r#"{"partitions":{"0":[1]}}"#);
    assert_eq!(names(read(&nodes, &TopicSelection::All).await), ["__consumer_offsets", "t", "u"]);
    nodes.remove("/brokers/topics/t");
    assert_eq!(names(read(&nodes, &TopicSelection::All).await), ["__consumer_offsets", "u"]);
    let metadata = read(&nodes, &TopicSelection::named(["u", "uu", "", "a/b", ".."])).await;
    assert_eq!(metadata.topics.len(), 5);
    let error = metadata.topic("uu").unwrap().error.clone().unwrap();
    assert!(matches!(error.kind(), ErrorKind::UnknownTopic { .. }), "{error}");
    assert!(metadata.topic("u").unwrap().error.is_none());
}

#[tokio::test]
async fn sk31_where_no_kafka_is_and_a_listener_that_no_broker_has_are_errors_that_say_so() {
    let nodes = cluster("/prod");
    let at = |root| ZooKeeperBrokers::new(Arc::clone(&nodes) as Arc<dyn ZooKeeper>).root(root);
    let error = at("/brokers").read(&TopicSelection::All).await.unwrap_err();
    assert!(error.to_string().contains("no /brokers/ids at zk://fake:2181"), "{error}");
    let metadata = at("/prod/brokers/").read(&TopicSelection::All).await.unwrap();
    assert_eq!(metadata.cluster_id.as_deref(), Some("c"));
    let metadata = at("/prod/brokers").listener("SSL").read(&TopicSelection::All).await.unwrap();
    assert_eq!(metadata.broker(1).unwrap().address.port, 9093);
    let error = at("/prod/brokers").listener("INSIDE").read(&TopicSelection::All).await.unwrap_err();
    assert!(error.to_string().contains("no listener INSIDE, only PLAINTEXT, SSL"), "{error}");
}
