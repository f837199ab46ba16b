//! Foreign clients on the embedded broker: what they write to it in every codec they read back, and we
//! read the same.
//!
//! One quick test of each client runs always, the others with `tests/run --all`. What a machine lacks is
//! left out with a word.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![allow(unreachable_pub, missing_docs)]

mod console;
#[path = "../real/harness/mod.rs"]
#[allow(dead_code, unused_imports)] // a tool box: what a test may need
mod harness;
mod python;

use std::io::Write;

use downspout::client::Fetch;
use downspout::client::blocking::SimpleConsumer;
use downspout::testing::{EmbeddedBroker, Release};

use harness::LeftOut;

/// Says so past the capture of test output, so that nobody takes it for a success.
fn left_out(what: &str, LeftOut(why): &LeftOut) {
    let _ = writeln!(std::io::stderr(), "left out: {what}: {why}");
}

/// A broker that makes topics on first use.
fn broker(release: Release) -> EmbeddedBroker {
    EmbeddedBroker::builder().release(release).start().unwrap()
}

/// The values in partition 0 of a topic, as we read them.
fn values(broker: &EmbeddedBroker, topic: &str) -> Vec<String> {
    let consumer = SimpleConsumer::connect(broker.addr()).unwrap();
    let end = consumer.latest_offset(topic, 0).unwrap();
    let mut values = Vec::new();
    let mut offset = consumer.earliest_offset(topic, 0).unwrap();
    while offset < end {
        let fetched = consumer.fetch(Fetch::new(topic, 0, offset)).unwrap();
        let partition = &fetched.partitions()[0];
        for batch in partition.batches() {
            let batch = batch.unwrap();
            let records = batch.records().map(|record| record.unwrap().value().unwrap_or_default().to_vec());
            values.extend(records.map(|value| String::from_utf8(value).unwrap()));
        }
        assert!(partition.next_offset() > offset, "nothing came at {offset}");
        offset = partition.next_offset();
    }
    values
}

/// The codecs of the entries in partition 0 of a topic, each once, in their order.
fn codecs(broker: &EmbeddedBroker, topic: &str) -> Vec<&'static str> {
    let consumer = SimpleConsumer::connect(broker.addr()).unwrap();
    let fetched = consumer.fetch(Fetch::new(topic, 0, 0)).unwrap();
    let entries = fetched.partitions()[0].record_set().entries();
    let mut codecs: Vec<_> = entries.map(|entry| entry.unwrap().codec().unwrap().name()).collect();
    codecs.dedup();
    codecs
}
