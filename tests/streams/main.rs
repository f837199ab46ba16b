//! Partition streams over embedded clusters, in memory, with a clock that the test turns.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod cancel;
mod damage;
mod epochs;
mod followers;
mod memory;
mod network;
mod reading;
mod recovery;
mod sessions;
mod simulation;
mod slow_parts;
mod transactions;
mod wide;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use downspout::ErrorKind;
use downspout::client::*;
use downspout::protocol::{ApiKey, ErrorCode};
use downspout::records::{Codec, Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Fault, Release};
use tokio::time::{Instant, sleep, timeout};

/// Three brokers with topic `t` of three partitions, each led by another.
fn brokers(release: Release) -> Arc<EmbeddedBroker> {
    Arc::new(EmbeddedBroker::builder().release(release).brokers(3).topic("t", 3).in_memory())
}

fn builder(brokers: &EmbeddedBroker) -> ClusterBuilder {
    Cluster::builder([brokers.addr()]).connector(brokers.connector())
}

async fn cluster(brokers: &EmbeddedBroker) -> Cluster {
    builder(brokers).connect().await.unwrap()
}

/// The format that a release stores.
fn magic(release: Release) -> Magic {
    match release {
        release if release >= Release::V0_11_0 => Magic::V2,
        release if release >= Release::V0_10_0 => Magic::V1,
        _ => Magic::V0,
    }
}

/// Appends records whose values are their offsets, `count` in sets of `per_set`.
fn append(brokers: &EmbeddedBroker, topic: &str, partition: i32, count: i64, per_set: i64) {
    let format = magic(brokers.with(|core| core.release()));
    append_as(brokers, topic, partition, count, per_set, format, Codec::None);
}

fn append_as(
    brokers: &EmbeddedBroker,
    topic: &str,
    partition: i32,
    count: i64,
    per_set: i64,
    format: Magic,
    codec: Codec,
) {
    let mut next = brokers.with(|core| core.offsets(topic, partition)).unwrap().end;
    let end = next + count;
    while next < end {
        let mut set = RecordSetWriter::new(format).codec(codec);
        for offset in next..(next + per_set).min(end) {
            set.push(NewRecord::value(offset.to_string().as_bytes())).unwrap();
        }
        assert_eq!(brokers.append(topic, partition, &set.finish().unwrap()).unwrap(), next);
        next += per_set;
    }
}

/// The offsets of a batch, whose values must be the same.
fn offsets(batch: &downspout::records::Batch) -> Vec<i64> {
    let of = |record: downspout::records::Record<'_>| {
        let value = std::str::from_utf8(record.value().unwrap()).unwrap();
        assert_eq!(value, record.offset().to_string());
        record.offset()
    };
    batch.records().map(|record| of(record.unwrap())).collect()
}

/// Reads until so many records have come; events are an error.
async fn read(stream: &mut PartitionStream, count: usize) -> Vec<i64> {
    let mut found = Vec::new();
    while found.len() < count {
        match stream.next().await.unwrap() {
            Some(Item::Batch(batch)) => found.extend(offsets(&batch)),
            other => panic!("after {found:?}: {other:?}"),
        }
    }
    found
}

/// The next thing that is no batch.
async fn event(stream: &mut PartitionStream) -> Recovered {
    let limit = Instant::now() + Duration::from_secs(600);
    loop {
        let next = tokio::time::timeout_at(limit, stream.next()).await;
        match next.unwrap().unwrap() {
            Some(Item::Batch(_)) => {}
            Some(Item::Recovered(event)) => return event,
            other => panic!("{other:?}"),
        }
    }
}

fn to(end: i64) -> Vec<i64> {
    (0..end).collect()
}

/// Appends sets of one record each, whose value is `size` times the same byte.
fn append_large(
    brokers: &EmbeddedBroker,
    topic: &str,
    partition: i32,
    count: usize,
    size: usize,
    codec: Codec,
) {
    let mut set = RecordSetWriter::new(Magic::V2).codec(codec);
    set.push(NewRecord::value(&vec![b'x'; size])).unwrap();
    let set = set.finish().unwrap();
    for _ in 0..count {
        brokers.append(topic, partition, &set).unwrap();
    }
}

/// How many fetches a broker got.
fn fetches(brokers: &EmbeddedBroker, node: i32) -> usize {
    let is_it = |api, at| api == ApiKey::FETCH && at == node;
    brokers.with(|core| core.requests().filter(|seen| is_it(seen.api, seen.node)).count())
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
