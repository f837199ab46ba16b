//! Streams that are read to the last record in the background while the cluster changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use downspout::client::{Item, MergedStream, PartitionStream, Recovered, StartOffset};

use crate::harness::{Result, wait_for};

use super::final_log::Log;
use super::reading::{self, Reading, Record};

/// What one stream handed out.
#[derive(Default)]
struct Seen {
    records: BTreeMap<i32, Vec<Record>>,
    /// Nothing is read for so long that the stream says so: no fault of anybody.
    stalled: usize,
    /// Other events, and errors. There must be none.
    wrong: Vec<String>,
    last: Option<Instant>,
    longest_pause: Duration,
}

/// A stream being read.
pub struct Follower {
    name: &'static str,
    seen: Arc<Mutex<Seen>>,
}

impl Follower {
    /// Reads one partition by a stream of its own.
    pub fn of_partition(reading: &Reading, topic: &str, partition: i32) -> Result<Self> {
        let builder = reading.cluster.partition(topic, partition).stream(StartOffset::Earliest);
        let mut stream: PartitionStream =
            reading.runtime.block_on(builder.open()).map_err(|e| e.to_string())?;
        let follower = Self { name: "a stream of one partition", seen: Arc::default() };
        let seen = Arc::clone(&follower.seen);
        reading.runtime.spawn(async move {
            loop {
                let next = stream.next().await.map(|item| item.map(|item| (partition, item)));
                if !seen.lock().unwrap().take(next) {
                    return;
                }
            }
        });
        Ok(follower)
    }

    /// Reads all partitions by one stream.
    pub fn of_topic(reading: &Reading, topic: &str) -> Result<Self> {
        let builder = reading.cluster.streams().topic(topic).start(StartOffset::Earliest);
        let mut stream: MergedStream = reading.runtime.block_on(builder.open()).map_err(|e| e.to_string())?;
        let follower = Self { name: "the merged stream", seen: Arc::default() };
        let seen = Arc::clone(&follower.seen);
        reading.runtime.spawn(async move {
            loop {
                let next = stream.next().await.map(|next| next.map(|(place, item)| (place.partition, item)));
                if !seen.lock().unwrap().take(next) {
                    return;
                }
            }
        });
        Ok(follower)
    }

    /// Returns when it has come to the end of a log, and fails unless it saw that log and nothing else.
    pub fn saw(&self, partition: i32, log: &Log) -> Result<()> {
        let end = log.last_key_value().map_or(0, |(last, _)| last + 1);
        let read = || {
            let seen = self.seen.lock().unwrap();
            let next = seen.records.get(&partition).and_then(|records| records.last()).map(|last| last.0 + 1);
            let wrong = seen.wrong.first().map(|wrong| Err(format!("{}: {wrong}", self.name)));
            wrong.unwrap_or(Ok(next.unwrap_or(0)))
        };
        let what = format!("{} to come to offset {end} of partition {partition}", self.name);
        wait_for(&what, Duration::from_secs(60), || Ok((read()? >= end).then_some(())))
            .map_err(|e| format!("{e}; it is at {:?}", read()))?;
        let expected: Vec<Record> = log.iter().map(|(&offset, value)| (offset, value.clone())).collect();
        let seen = self.seen.lock().unwrap();
        let found = seen.records.get(&partition).map_or(&[][..], Vec::as_slice);
        reading::same(&format!("{}, partition {partition}", self.name), &expected, found)
    }

    /// For a person to read.
    pub fn summary(&self) -> String {
        let seen = self.seen.lock().unwrap();
        let records: usize = seen.records.values().map(Vec::len).sum();
        format!(
            "{}: {records} records, longest pause {:.1?}, {} times said to stand still",
            self.name, seen.longest_pause, seen.stalled
        )
    }
}

impl Seen {
    /// Whether to go on.
    fn take(&mut self, next: downspout::Result<Option<(i32, Item)>>) -> bool {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.longest_pause = self.longest_pause.max(now - last);
        }
        match next {
            Ok(Some((partition, Item::Batch(batch)))) => match reading::records(&batch) {
                Ok(records) => self.records.entry(partition).or_default().extend(records),
                Err(why) => self.wrong.push(format!("partition {partition}: {why}")),
            },
            Ok(Some((_, Item::Recovered(Recovered::Stalled { .. })))) => self.stalled += 1,
            Ok(Some((partition, other))) => self.wrong.push(format!("partition {partition}: {other:?}")),
            Ok(None) => self.wrong.push("it ended".to_owned()),
            Err(why) => self.wrong.push(why.to_string()),
        }
        self.wrong.is_empty()
    }
}
