//! `SimpleConsumer` on the topics of the other checks (`simple_consumer` has the corpus as a whole): transactions,
//! compaction, upgraded formats, and offsets as the release's own tool tells them.

use downspout::client::blocking::SimpleConsumer;
use downspout::client::{Fetch, OffsetSpec, SimpleConsumer as Async};
use downspout::records::Isolation;

use crate::harness::{Result, Seen};
use crate::stage::Stage;
use crate::{offsets, reads, transactions};

fn connect(stage: &Stage, isolation: Isolation) -> Result<SimpleConsumer> {
    let builder = Async::builder(&stage.kafka.address().to_string()).isolation(isolation);
    SimpleConsumer::with(builder).map_err(|e| e.to_string())
}

/// All records from `from` until `end`.
fn read(consumer: &SimpleConsumer, topic: &str, partition: i32, from: i64, end: i64) -> Result<Vec<Seen>> {
    let (mut seen, mut offset) = (Vec::new(), from);
    while offset < end {
        let fetch = Fetch::new(topic, partition, offset).max_bytes(1 << 20);
        let fetched = consumer.fetch(fetch).map_err(|e| e.to_string())?;
        for batch in fetched.batches() {
            let batch = batch.map_err(|e| e.to_string())?;
            for record in batch.records() {
                seen.push(reads::seen(&record.map_err(|e| e.to_string())?)?);
            }
        }
        let found = fetched.partition(topic, partition).ok_or("the partition is missing")?;
        if found.next_offset() <= offset {
            return Err(format!("{topic} {partition}: nothing at {offset} of {end}"));
        }
        offset = found.next_offset();
    }
    seen.retain(|record| record.offset < end);
    Ok(seen)
}

/// A compressed set comes whole, wherever in it the asked offset lies; what is below it is not handed out.
pub fn from_the_middle(stage: &Stage) -> Result<()> {
    let consumer = connect(stage, Isolation::ReadCommitted)?;
    for topic in &stage.topics {
        for (partition, entries) in (0..).zip(&topic.partitions) {
            let rest = &entries[entries.len() / 2..];
            let (from, end) = (rest[0].offset, rest[rest.len() - 1].offset + 1);
            let seen = read(&consumer, &topic.name, partition, from, end)?;
            reads::compare(&format!("{} {partition} from {from}", topic.name), rest, &seen)?;
        }
    }
    Ok(())
}

pub fn transactions(stage: &Stage, expected: &transactions::Expected) -> Result<()> {
    let topic = transactions::TOPIC;
    let committed = connect(stage, Isolation::ReadCommitted)?;
    let seen = read(&committed, topic, 0, 0, expected.last_stable)?;
    reads::compare("SimpleConsumer, read_committed", &expected.committed, &seen)?;
    let end = committed.latest_offset(topic, 0).map_err(|e| e.to_string())?;
    assert_eq!(end, expected.last_stable, "under read_committed the end is the last stable offset");

    let uncommitted = connect(stage, Isolation::ReadUncommitted)?;
    let seen = read(&uncommitted, topic, 0, 0, expected.end)?;
    reads::compare("SimpleConsumer, read_uncommitted", &expected.uncommitted, &seen)?;
    let end = uncommitted.latest_offset(topic, 0).map_err(|e| e.to_string())?;
    assert_eq!(end, expected.end, "under read_uncommitted the end is the high watermark");
    Ok(())
}

/// What a partition gives is what its own consumer gave.
pub fn same(stage: &Stage, topic: &str, expected: &[Seen], end: i64) -> Result<()> {
    let consumer = connect(stage, Isolation::ReadCommitted)?;
    let seen = read(&consumer, topic, 0, 0, end)?;
    reads::same_records(&format!("SimpleConsumer, {topic}"), expected, &seen)
}

/// Earliest, latest, by time, and the segments before a time, as GetOffsetShell has them.
pub fn offsets(stage: &mut Stage) -> Result<()> {
    let consumer = connect(stage, Isolation::ReadCommitted)?;
    let text = |e: downspout::Error| e.to_string();
    let topic = offsets::TOPIC;
    let tool = |stage: &mut Stage, time, count| offsets::own_tool(stage, time, count);
    assert_eq!(tool(stage, -1, 1)?, [consumer.latest_offset(topic, 0).map_err(text)?], "latest");
    assert_eq!(tool(stage, -2, 1)?, [consumer.earliest_offset(topic, 0).map_err(text)?], "earliest");
    if stage.release.since(&[2]) {
        for time in offsets::times() {
            let expected = tool(stage, time, 1)?.first().copied();
            assert_eq!(consumer.offset_for_time(topic, 0, time).map_err(text)?, expected, "at {time}");
        }
    } else {
        // The tool of these asks the old way: the first offsets of segments, by the times of their files.
        for (time, spec) in [(-1, OffsetSpec::Latest), (-2, OffsetSpec::Earliest)] {
            for most in [1, 2, 10] {
                let expected = tool(stage, time, most)?;
                let seen = consumer.offsets_before(topic, 0, spec, most).map_err(text)?;
                assert_eq!(seen, expected, "{most} before {spec:?}");
            }
        }
        for time in [offsets::times()[0], 2_500_000_000_000] {
            let expected = tool(stage, time, 10)?;
            let seen = consumer.offsets_before(topic, 0, OffsetSpec::Timestamp(time), 10).map_err(text)?;
            assert_eq!(seen, expected, "before {time}");
        }
    }
    Ok(())
}
