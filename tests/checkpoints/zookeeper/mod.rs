//! Positions in ZooKeeper, over one in memory.

mod documents;
mod layouts;
mod memory;
mod old_consumer;
mod owners;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use downspout::testing::{MemoryZooKeeper, ZooKeeperFault, ZooKeeperOperation};
use downspout::zookeeper::ZooKeeper;

use super::*;

const FLAT: &str = "/spouts/billing/partition_0";
const BY_TOPIC: &str = "/spouts/billing/clicks/partition_0";

fn over(zookeeper: &MemoryZooKeeper) -> ZooKeeperCheckpoints {
    ZooKeeperCheckpoints::over(Arc::new(zookeeper.clone()), "/spouts")
}

/// What the Java spout 1.2.4 was seen to write, but for topic, partition and offset.
fn java(topic: &str, partition: i32, offset: i64) -> String {
    format!(
        r#"{{"topology":{{"id":"top-1-1700000000","name":"top"}},"offset":{offset},"partition":{partition},"broker":{{"host":"127.0.0.1","port":29092}},"topic":"{topic}"}}"#
    )
}

fn text(zookeeper: &MemoryZooKeeper, path: &str) -> String {
    String::from_utf8(zookeeper.peek(path).unwrap().data).unwrap()
}

/// What the Java spout takes from a node: null if it is none.
fn as_java_reads(text: &str) -> Option<i64> {
    let document: serde_json::Value = serde_json::from_str(text).ok()?;
    document["topology"]["id"].as_str()?;
    document["offset"].as_i64()
}

#[tokio::test]
async fn the_laws_hold_in_zookeeper() {
    laws::hold(&over(&MemoryZooKeeper::new())).await;
}
