//! What Kafka's nodes in ZooKeeper may hold: the input is cut in four, for a broker, a topic, a state and the cluster's
//! id, all of which are read as they would be from a server.

#![no_main]

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use downspout::Result;
use downspout::discovery::{BrokerReader, TopicSelection, ZooKeeperBrokers};
use downspout::net::BoxFuture;
use downspout::zookeeper::{Created, Deleted, Mode, Node, SessionId, Written, ZooKeeper};
use libfuzzer_sys::fuzz_target;

#[derive(Debug)]
struct Nodes([Vec<u8>; 4]);

impl ZooKeeper for Nodes {
    fn describe(&self) -> String {
        "zk://fuzz:2181".to_owned()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>>> {
        let [broker, topic, state, id] = &self.0;
        let data = match path {
            "/brokers/ids/1" => broker,
            "/brokers/topics/t" => topic,
            "/cluster/id" | "/controller" => id,
            _ => state,
        };
        Box::pin(ready(Ok(Some(Node { data: data.clone(), version: 0, is_ephemeral: false }))))
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>>> {
        let name = if path.ends_with("ids") { "1" } else { "t" };
        Box::pin(ready(Ok(Some(vec![name.to_owned()]))))
    }

    fn set<'a>(&'a self, _: &'a str, _: Vec<u8>, _: i32) -> BoxFuture<'a, Result<Written>> {
        Box::pin(ready(Ok(Written::Denied)))
    }

    fn create<'a>(&'a self, _: &'a str, _: Vec<u8>, _: Mode) -> BoxFuture<'a, Result<Created>> {
        Box::pin(ready(Ok(Created::Denied)))
    }

    fn delete<'a>(&'a self, _: &'a str, _: i32) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(ready(Ok(Deleted::Denied)))
    }

    fn changed<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    fn session(&self) -> SessionId {
        SessionId(0)
    }

    fn silence(&self) -> Duration {
        Duration::ZERO
    }

    fn timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(4, |byte| *byte == b'\n').map(<[u8]>::to_vec);
    let nodes = Arc::new(Nodes(std::array::from_fn(|_| parts.next().unwrap_or_default())));
    for reader in [ZooKeeperBrokers::new(nodes.clone()), ZooKeeperBrokers::new(nodes.clone()).listener("SSL")] {
        let read = pin!(reader.read(&TopicSelection::All));
        // Nothing is waited for.
        let Poll::Ready(answer) = read.poll(&mut Context::from_waker(Waker::noop())) else { panic!("it waits") };
        let Ok(metadata) = answer else { continue };
        for topic in &metadata.topics {
            for partition in &topic.partitions {
                assert!(partition.id >= 0 && partition.leader.is_none_or(|id| metadata.broker(id).is_some()));
            }
        }
    }
});
