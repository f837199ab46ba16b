//! What a release's own producer is made to write: one topic per codec, with every kind of key, value and header.

use crate::harness::{Produced, Release, Result, Send};
use crate::record;
use crate::stage::Stage;

/// A topic of the corpus, and per partition the records in order of their offsets.
pub struct Topic {
    pub name: String,
    pub partitions: Vec<Vec<Entry>>,
}

/// A record and where it lies.
#[derive(Clone, Debug)]
pub struct Entry {
    pub offset: i64,
    /// `None` in formats without.
    pub timestamp: Option<i64>,
    pub record: Send,
}

/// 2017-07-14T02:40:00Z: long ago, so that no broker takes it for the future.
pub const THEN: i64 = 1_500_000_000_000;
const DAY: i64 = 86_400_000;

pub fn produce(stage: &mut Stage) -> Result<Vec<Topic>> {
    let mut topics =
        stage.release.codecs().iter().map(|codec| one_topic(stage, codec)).collect::<Result<Vec<_>>>()?;
    if stage.release.has_timestamps() {
        topics.push(append_time(stage)?);
    }
    if record::dir().is_some() {
        for codec in stage.release.codecs() {
            topics.push(small(stage, codec)?);
        }
    }
    Ok(topics)
}

/// For recording: two sets of every kind of record, in few bytes.
fn small(stage: &mut Stage, codec: &'static str) -> Result<Topic> {
    let name = format!("small-{codec}");
    stage.driver.create_topic(&stage.kafka, &name, 2, &[])?;
    stage.driver.producer(codec, &[&format!("compression.type={codec}")])?;
    let mut partitions = vec![Vec::new(); 2];
    let short = |value: &Option<Vec<u8>>| value.as_ref().is_none_or(|bytes| bytes.len() <= 100);
    for mut records in odd(stage.release) {
        records.retain(|record| short(&record.value) && record.headers.iter().all(|(_, value)| short(value)));
        for partition in 0..2 {
            // Partition 1 is for down-conversion, which 0.11 can't do with headers.
            records.retain(|record| partition == 0 || record.headers.is_empty());
            records.iter_mut().for_each(|record| record.partition = partition);
            let sent = stage.driver.send(codec, &name, &records)?;
            place(&mut partitions[partition as usize], sent, stage.release);
        }
    }
    stage.driver.close(codec)?;
    Ok(Topic { name, partitions })
}

/// A topic whose broker sets the time (KIP-32): the producer's is lost, and one time stands for a whole batch.
fn append_time(stage: &mut Stage) -> Result<Topic> {
    let name = "append-time".to_owned();
    stage.driver.create_topic(&stage.kafka, &name, 2, &["message.timestamp.type=LogAppendTime"])?;
    let mut partitions = vec![Vec::new(); 2];
    for (partition, codec) in [(0, "none"), (1, "gzip")] {
        stage.driver.producer(codec, &[&format!("compression.type={codec}")])?;
        let entries = &mut partitions[partition as usize];
        for mut records in many(stage.release).split_off(1) {
            records.iter_mut().for_each(|record| record.partition = partition);
            place(entries, stage.driver.send(codec, &name, &records)?, stage.release);
        }
        // What its producer is told is still its own time in 0.10.0: the consumer's word counts.
        let end = entries.len() as i64;
        for (entry, seen) in entries.iter_mut().zip(stage.driver.read(&name, partition, 0, end, false)?) {
            assert_eq!(seen.timestamp_type.as_deref(), Some("LogAppendTime"));
            assert!(seen.timestamp > entry.record.timestamp, "the broker set the time");
            entry.timestamp = seen.timestamp;
        }
        stage.driver.close(codec)?;
    }
    Ok(Topic { name, partitions })
}

fn one_topic(stage: &mut Stage, codec: &'static str) -> Result<Topic> {
    let name = format!("corpus-{codec}");
    stage.driver.create_topic(&stage.kafka, &name, 3, &[])?;
    stage.driver.producer(codec, &[&format!("compression.type={codec}")])?;
    let mut partitions = vec![Vec::new(); 3];
    for (partition, sets) in [(0, odd(stage.release)), (1, many(stage.release)), (2, large(stage.release))] {
        for mut records in sets {
            records.iter_mut().for_each(|record| record.partition = partition);
            let sent = stage.driver.send(codec, &name, &records)?;
            place(&mut partitions[partition as usize], sent, stage.release);
        }
    }
    stage.driver.close(codec)?;
    Ok(Topic { name, partitions })
}

/// Adds what was sent, in order of offsets; a producer that tells none has appended in the order given.
pub fn place(partition: &mut Vec<Entry>, sent: Vec<Produced>, release: &Release) {
    for produced in sent {
        let offset = produced.offset.unwrap_or(partition.len() as i64);
        let timestamp = produced.timestamp.filter(|_| release.has_timestamps());
        partition.push(Entry { offset, timestamp, record: produced.record });
    }
    partition.sort_by_key(|entry| entry.offset);
}

/// Every kind of key with every kind of value, and every kind of header.
pub fn odd(release: &Release) -> Vec<Vec<Send>> {
    let keys = [None, Some(vec![]), Some(vec![0xff, 0xfe, 0, b'k', 0x80]), Some(b"key".to_vec())];
    let mut values =
        vec![Some(vec![]), Some(vec![0]), Some(text(100)), Some(noise(40 << 10, 7)), Some(text(40 << 10))];
    if release.has_null_values() {
        values.push(None);
    }
    let mut records = Vec::new();
    for key in &keys {
        for value in &values {
            records.push(Send { key: key.clone(), value: value.clone(), ..Send::default() });
        }
    }
    if release.has_headers() {
        let header = |key: &str, value: Option<&[u8]>| (key.to_owned(), value.map(<[u8]>::to_vec));
        for headers in [
            vec![header("one", Some(b"1"))],
            vec![header("null", None), header("empty", Some(b""))],
            vec![header("again", Some(b"1")), header("again", Some(b"2")), header("again", None)],
            vec![
                header("", Some(b"empty key")),
                header("bytes \u{00fc}\u{1f980}", Some(&[0xff, 0, 0xc3, 0x28])),
            ],
            vec![header("large", Some(&noise(20_000, 3)))],
        ] {
            records.push(Send { value: Some(text(10)), headers, ..Send::default() });
        }
        records.push(Send { headers: vec![header("all else is null", Some(b"x"))], ..Send::default() });
    }
    set_times(&mut records, release);
    // sets of one, of a few, of the rest
    let rest = records.split_off(8);
    let few = records.split_off(1);
    vec![records, few, rest]
}

/// Times that stand still, jump by more than 2^31 ms and go back, and one that the producer chooses.
fn set_times(records: &mut [Send], release: &Release) {
    if !release.has_timestamps() {
        return;
    }
    let steps = [0, 1, 0, 30 * DAY, -60 * DAY, 977, -1, 5];
    let mut time = THEN;
    for (i, record) in records.iter_mut().enumerate() {
        time += steps[i % steps.len()];
        record.timestamp = (i != 3).then_some(time);
    }
}

/// Many small records, so that sets and batches hold more than one, and there are several of them.
fn many(release: &Release) -> Vec<Vec<Send>> {
    let set = |from: usize, count: usize| -> Vec<Send> {
        (from..from + count)
            .map(|i| Send {
                timestamp: release.has_timestamps().then_some(THEN + i as i64),
                key: Some(format!("key-{i}").into_bytes()),
                value: Some(format!("{i}:{}", "v".repeat(i % 97)).into_bytes()),
                ..Send::default()
            })
            .collect()
    };
    vec![set(0, 1500), set(1500, 2), set(1502, 300)]
}

pub fn large(release: &Release) -> Vec<Vec<Send>> {
    let mut sets: Vec<Vec<Send>> =
        [noise(1 << 20, 1), text(1 << 20), [text(1 << 20), noise(1 << 20, 2)].concat(), text(1)]
            .into_iter()
            .map(|value| vec![Send { key: Some(b"large".to_vec()), value: Some(value), ..Send::default() }])
            .collect();
    sets.iter_mut().for_each(|set| set_times(set, release));
    sets
}

/// Bytes that compress well.
pub fn text(length: usize) -> Vec<u8> {
    b"The quick brown fox jumps over the lazy dog. ".iter().copied().cycle().take(length).collect()
}

/// Bytes that don't compress: xorshift64.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
