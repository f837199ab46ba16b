//! SimpleConsumer against the embedded broker of every release, in memory, with a clock that the test
//! turns.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod blocking;
mod connections;
mod group_offsets;
mod metadata;
mod offsets;
mod oversize;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use downspout::client::*;
use downspout::error::*;
use downspout::net::{BrokerAddress, ConnectWith, LegacyRelease};
use downspout::protocol::*;
use downspout::records::{Isolation, Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Release};

/// A broker with topic `clicks` of two partitions.
fn broker(release: Release) -> Arc<EmbeddedBroker> {
    Arc::new(
        EmbeddedBroker::builder().release(release).topic("clicks", 2).auto_create_topics(true).in_memory(),
    )
}

/// Settings of a consumer of that broker, in memory.
fn builder(broker: &Arc<EmbeddedBroker>) -> SimpleConsumerBuilder {
    builder_at(broker, broker.addr())
}

fn builder_at(broker: &Arc<EmbeddedBroker>, address: &str) -> SimpleConsumerBuilder {
    let broker = Arc::clone(broker);
    let connector = ConnectWith(move |to: &BrokerAddress| broker.connect_in_memory(&to.to_string()));
    SimpleConsumer::builder(address).connector(connector)
}

async fn consumer(broker: &Arc<EmbeddedBroker>) -> SimpleConsumer {
    builder(broker).connect().await.unwrap()
}

/// The newest format that the release keeps.
fn magic(release: Release) -> Magic {
    if release < Release::V0_10_0 {
        Magic::V0
    } else if release < Release::V0_11_0 {
        Magic::V1
    } else {
        Magic::V2
    }
}

/// A set with one batch of these values.
fn set(magic: Magic, values: &[&str]) -> Bytes {
    let mut writer = RecordSetWriter::new(magic);
    for value in values {
        writer.push(NewRecord::value(value.as_bytes())).unwrap();
    }
    writer.finish().unwrap()
}

/// All that a fetch gave: offset and value.
fn records(fetched: &Fetched) -> Vec<(i64, String)> {
    let mut records = Vec::new();
    for batch in fetched.batches() {
        for record in batch.unwrap().records() {
            let record = record.unwrap();
            let value = String::from_utf8(record.value().unwrap_or_default().to_vec()).unwrap();
            records.push((record.offset(), value));
        }
    }
    records
}
