//! Reads the partitions that one broker leads: one fetch after another, the next one on its way
//! while the last one is shown.

use std::time::Duration;

use downspout::Error;
use downspout::client::{Fetch, FetchedPartition, SimpleConsumer};
use tokio::sync::mpsc;

use super::plan::Part;

/// How to fetch.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) max_bytes: i32,
    pub(super) partition_max_bytes: i32,
    pub(super) min_bytes: i32,
    pub(super) max_wait: Duration,
}

/// What a reader tells.
#[derive(Debug)]
pub(super) enum Event {
    /// Records of a partition.
    Data(Box<Data>),
    /// A partition was read to where it should end.
    Done,
    /// Partitions, each with the offset that comes next, that this broker gives no more.
    Lost(Vec<Part>, Error),
}

/// What one fetch gave of a partition.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) part: Part,
    pub(super) broker: i32,
    pub(super) fetched: FetchedPartition,
}

/// The partitions of one leader.
pub(super) struct Reader {
    pub(super) consumer: SimpleConsumer,
    pub(super) broker: i32,
    pub(super) topic: String,
    pub(super) parts: Vec<Part>,
    pub(super) limits: Limits,
    pub(super) events: mpsc::Sender<Event>,
}

impl Reader {
    /// Reads until every partition is done or lost, or nobody listens any more.
    pub(super) async fn run(mut self) {
        loop {
            let before = self.parts.len();
            self.parts.retain(|part| !part.is_done());
            let mut events: Vec<Event> = (self.parts.len()..before).map(|_| Event::Done).collect();
            if !self.parts.is_empty() {
                match self.fetch().await {
                    Ok(fetched) => events.extend(fetched),
                    Err(error) => {
                        events.push(Event::Lost(std::mem::take(&mut self.parts), error));
                    }
                }
            }
            for event in events {
                if self.events.send(event).await.is_err() {
                    return;
                }
            }
            if self.parts.is_empty() {
                return;
            }
            // The broker fills an answer in the order of the request: every partition has its turn.
            self.parts.rotate_left(1);
        }
    }

    /// Fetches once, and moves each partition on behind what came.
    async fn fetch(&mut self) -> Result<Vec<Event>, Error> {
        let Some(fetch) = self.request() else { return Ok(Vec::new()) };
        let fetched = self.consumer.fetch(fetch).await?;
        let mut events = Vec::new();
        let parts = std::mem::take(&mut self.parts);
        for (mut part, fetched) in parts.into_iter().zip(fetched.into_partitions()) {
            if let Some(error) = fetched.error() {
                events.push(Event::Lost(vec![part], error.clone()));
                continue;
            }
            let next = fetched.next_offset();
            if fetched.record_set().is_empty() {
                self.parts.push(part);
            } else if next > part.start {
                part.start = next;
                events.push(Event::Data(Box::new(Data { part: part.clone(), broker: self.broker, fetched })));
                self.parts.push(part);
            } else {
                // Not even the first entry's end can be told: it is for who shows it to say so.
                events.push(Event::Data(Box::new(Data { part, broker: self.broker, fetched })));
            }
        }
        Ok(events)
    }

    /// All partitions in their order; `None` if there are none.
    fn request(&self) -> Option<Fetch> {
        let (first, rest) = self.parts.split_first()?;
        let limits = &self.limits;
        let fetch = Fetch::new(&self.topic, first.partition, first.start)
            .max_bytes(limits.partition_max_bytes)
            .response_bytes(limits.max_bytes)
            .min_bytes(limits.min_bytes)
            .max_wait(limits.max_wait);
        Some(rest.iter().fold(fetch, |fetch, part| fetch.and(&self.topic, part.partition, part.start)))
    }
}
