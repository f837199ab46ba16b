//! Reads the partitions that one broker leads: one fetch after another, the next one on its way
//! while the last one is shown.

use std::time::Duration;

use downspout::net::{Connection, RequestOptions};
use downspout::protocol::{
    AbortedTransaction, FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition, Request,
    Versions,
};
use downspout::records::{Isolation, RecordSet};
use downspout::wire::Uuid;
use downspout::{Error, ErrorKind};
use tokio::sync::mpsc;

use super::plan::Part;
use crate::cluster::version_of;

/// How to fetch.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) max_bytes: i32,
    pub(super) partition_max_bytes: i32,
    pub(super) min_bytes: i32,
    pub(super) max_wait: Duration,
    pub(super) timeout: Duration,
    pub(super) isolation: Isolation,
}

/// What a reader tells.
#[derive(Debug)]
pub(super) enum Event {
    /// Records of a partition, asked for from `offset` on.
    Data(Data),
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
    /// The offset that was asked for.
    pub(super) offset: i64,
    pub(super) records: RecordSet,
    pub(super) aborted: Vec<AbortedTransaction>,
}

/// The partitions of one leader.
pub(super) struct Reader {
    connection: Connection,
    broker: i32,
    topic: String,
    topic_id: Uuid,
    parts: Vec<Reading>,
    limits: Limits,
    events: mpsc::Sender<Event>,
}

/// A partition that is being read.
struct Reading {
    part: Part,
    /// Its fetch limit; grows where a record does not fit (brokers before 0.10.1).
    limit: i32,
}

/// What a partition's fetch limit may grow to.
const LARGEST: i32 = 512 << 20;

impl Reader {
    pub(super) fn new(
        connection: Connection,
        (broker, topic, topic_id): (i32, &str, Uuid),
        parts: Vec<Part>,
        limits: &Limits,
        events: &mpsc::Sender<Event>,
    ) -> Reader {
        let parts =
            parts.into_iter().map(|part| Reading { part, limit: limits.partition_max_bytes }).collect();
        let (topic, limits, events) = (topic.to_owned(), limits.clone(), events.clone());
        Reader { connection, broker, topic, topic_id, parts, limits, events }
    }

    /// Reads until every partition is done or lost, or nobody listens any more.
    pub(super) async fn run(mut self) {
        loop {
            let before = self.parts.len();
            self.parts.retain(|reading| !reading.part.is_done());
            let mut events: Vec<Event> = (self.parts.len()..before).map(|_| Event::Done).collect();
            if !self.parts.is_empty() {
                match self.fetch().await {
                    Ok(fetched) => events.extend(fetched),
                    Err(error) => {
                        let parts = self.parts.drain(..).map(|reading| reading.part).collect();
                        events.push(Event::Lost(parts, error));
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

    async fn fetch(&mut self) -> Result<Vec<Event>, Error> {
        // From 13 on topics go by their ids, which older brokers do not tell.
        let newest = if self.topic_id.is_zero() { 12 } else { i16::MAX };
        let version = version_of::<FetchRequest>(&self.connection, Versions { min: 0, max: newest })?;
        let asked: i64 = self.parts.iter().map(|reading| i64::from(reading.limit)).sum();
        let options = RequestOptions {
            timeout: Some(self.limits.max_wait + self.limits.timeout),
            asked: asked.min(self.limits.max_bytes.into()) as usize,
            permit: None,
        };
        let response = self.connection.request(&self.request(version), version, options)?.await?;
        let place =
            |error: Error| error.with_api(FetchRequest::KEY, version).with_broker(self.connection.broker());
        response.error_code.ok().map_err(|code| place(Error::broker_code(code)))?;
        let mut events = Vec::new();
        for fetched in partitions(response) {
            let Some(at) =
                self.parts.iter().position(|reading| reading.part.partition == fetched.partition_index)
            else {
                continue;
            };
            match self.parts[at].take(self.broker, fetched, version) {
                Ok(None) => {}
                Ok(Some((data, goes_on))) => {
                    events.push(Event::Data(data));
                    if !goes_on {
                        self.parts.remove(at);
                    }
                }
                Err(error) => {
                    let part = self.parts.remove(at).part;
                    let error = error.with_partition(part.partition).with_offset(part.start);
                    let error = error.with_topic(&self.topic).with_api(FetchRequest::KEY, version);
                    events.push(Event::Lost(vec![part], error.with_broker(self.connection.broker())));
                }
            }
        }
        Ok(events)
    }

    fn request(&self, version: i16) -> FetchRequest {
        let partition = |reading: &Reading| FetchPartition {
            partition: reading.part.partition,
            fetch_offset: reading.part.start,
            partition_max_bytes: reading.limit,
            ..FetchPartition::default()
        };
        let topic = FetchTopic {
            topic: self.topic.clone(),
            topic_id: self.topic_id,
            partitions: self.parts.iter().map(partition).collect(),
        };
        let mut request = FetchRequest {
            max_wait_ms: self.limits.max_wait.as_millis() as i32,
            min_bytes: self.limits.min_bytes,
            max_bytes: self.limits.max_bytes,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        if version >= 4 && self.limits.isolation == Isolation::ReadCommitted {
            request.isolation_level = 1;
        }
        request
    }
}

impl Reading {
    /// Takes what a fetch gave, and moves on behind it. Says whether reading can go on.
    fn take(
        &mut self,
        broker: i32,
        fetched: FetchedPartition,
        version: i16,
    ) -> Result<Option<(Data, bool)>, Error> {
        fetched.error_code.ok().map_err(Error::broker_code)?;
        let records = RecordSet::new(fetched.records.unwrap_or_default());
        if records.is_empty() {
            return Ok(None);
        }
        let offset = self.part.start;
        let goes_on = match records.next_offset() {
            Some(next) if next > offset => {
                self.part.start = next;
                true
            }
            Some(_) => return Err(Error::new(ErrorKind::NoProgress)),
            None => {
                let tail = records.tail();
                if tail.bytes == 0 {
                    // Not even the first entry's end can be told: it is for who shows it to say so.
                    false
                } else if version > 2 {
                    return Err(Error::new(ErrorKind::NoProgress));
                } else {
                    return self.grow(tail.needed).map(|()| None);
                }
            }
        };
        let aborted = fetched.aborted_transactions.unwrap_or_default();
        Ok(Some((Data { part: self.part.clone(), broker, offset, records, aborted }, goes_on)))
    }

    /// The first record does not fit: brokers before 0.10.1 cut it at the limit (KIP-74).
    fn grow(&mut self, needed: Option<usize>) -> Result<(), Error> {
        let wanted = needed.unwrap_or(0).max(2 * self.limit as usize);
        match i32::try_from(wanted) {
            Ok(wanted) if wanted <= LARGEST => {
                self.limit = wanted;
                Ok(())
            }
            _ => {
                let limit = LARGEST as u64;
                Err(Error::new(ErrorKind::RecordTooLarge { needed: wanted as u64, limit }))
            }
        }
    }
}

fn partitions(response: FetchResponse) -> impl Iterator<Item = FetchedPartition> {
    response.responses.into_iter().flat_map(|topic| topic.partitions)
}
