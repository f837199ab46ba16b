//! Spouts over embedded clusters, in memory, with a clock that the test turns.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, clippy::single_range_in_vec_init)]

mod answers;
mod deaths;
mod limits;
mod lives;
mod members;
mod order;
mod parallel_consumer;
mod storm;
mod storm_client;
mod storm_discovery;

use std::sync::Arc;
use std::time::Duration;

use downspout::checkpoint::{Checkpoint, MemoryCheckpoints};
use downspout::client::*;
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::spout::*;
use downspout::testing::{EmbeddedBroker, Release};
use tokio::time::{sleep, timeout};

/// Three brokers with topic `t` of three partitions.
fn brokers() -> Arc<EmbeddedBroker> {
    Arc::new(EmbeddedBroker::builder().release(Release::V4_4).brokers(3).topic("t", 3).in_memory())
}

async fn cluster(brokers: &EmbeddedBroker) -> Cluster {
    Cluster::builder([brokers.addr()]).connector(brokers.connector()).connect().await.unwrap()
}

/// Appends records whose values are their offsets, in sets of `per_set`.
fn append(brokers: &EmbeddedBroker, partition: i32, count: i64, per_set: i64) {
    append_keyed(brokers, partition, count, per_set, |_| None);
}

fn append_keyed(
    brokers: &EmbeddedBroker,
    partition: i32,
    count: i64,
    per_set: i64,
    key: impl Fn(i64) -> Option<String>,
) {
    let mut next = brokers.with(|core| core.offsets("t", partition)).unwrap().end;
    let end = next + count;
    while next < end {
        let mut set = RecordSetWriter::new(Magic::V2);
        for offset in next..(next + per_set).min(end) {
            let (key, value) = (key(offset), offset.to_string());
            let record = NewRecord::value(value.as_bytes());
            let record = NewRecord { key: key.as_ref().map(String::as_bytes), ..record };
            set.push(record).unwrap();
        }
        assert_eq!(brokers.append("t", partition, &set.finish().unwrap()).unwrap(), next);
        next += per_set;
    }
}

async fn builder(brokers: &EmbeddedBroker, kept: &MemoryCheckpoints) -> SpoutBuilder {
    Spout::builder(cluster(brokers).await).topic("t").id("test").checkpoints(kept.clone())
}

async fn next(spout: &mut Spout) -> Delivery {
    timeout(Duration::from_secs(100), spout.next()).await.unwrap().unwrap().unwrap()
}

/// The spout goes without a word, as in a crash.
async fn crash(spout: Spout) {
    drop(spout);
    // Its driver sees that.
    sleep(Duration::from_millis(10)).await;
}

fn kept_of(kept: &MemoryCheckpoints, partition: i32) -> Checkpoint {
    kept.checkpoint("test", &TopicPartition::new("t", partition)).unwrap()
}

/// The next so many.
async fn take(spout: &mut Spout, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(next(spout).await);
    }
    taken
}

/// Whether nothing comes for that long.
async fn is_quiet(spout: &mut Spout, time: Duration) -> bool {
    timeout(time, spout.next()).await.is_err()
}

fn offsets(deliveries: &[Delivery]) -> Vec<i64> {
    deliveries.iter().map(Delivery::offset).collect()
}
