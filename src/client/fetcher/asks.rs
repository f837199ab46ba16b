//! What the fetcher asks leaders over their control connections: ends of logs, ends of epochs, who
//! holds a partition back. Many partitions go into one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::Key;
use super::request::choose;
use crate::client::cluster::Shared;
use crate::client::recovery::{Ends, Position};
use crate::client::stream::StartOffset;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Connection, RequestOptions};
use crate::protocol::{
    FetchPartition, FetchRequest, FetchTopic, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic, Request, Versions,
};
use crate::records::{Isolation, RecordSet};
use crate::wire::Uuid;

/// A question about one partition.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) key: Key,
    pub(super) generation: u64,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Option<Uuid>,
    pub(super) partition: i32,
    /// The leader's epoch as it is known here.
    pub(super) epoch: Option<i32>,
    pub(super) isolation: Isolation,
    pub(super) question: Question,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Where to start, and to end if `end`.
    Start { at: StartOffset, end: bool },
    /// Both ends of the log.
    Bounds,
    /// Where that epoch ended.
    EpochEnd(i32),
    /// Who wrote what stands at that offset.
    Producer(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Start {
        at: Position,
        end: Option<i64>,
    },
    Bounds(Ends),
    /// The epoch asked about, or the last one before it, and where it ended; `None` if the broker can't
    /// say.
    EpochEnd(Option<Position>),
    Producer(Option<i64>),
}

/// The answers to questions asked together.
pub(super) type Answers = Vec<(Ask, Result<Told>)>;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// What stands for "all segments are newer than that time", where version 0 says nothing; later
/// versions say nothing where all records are older.
const ALL_LATER: Option<Position> = Some(Position { offset: i64::MIN, epoch: None });

/// Asks one broker; every question gets an answer or an error.
pub(super) async fn ask(shared: Arc<Shared>, broker: i32, asks: Vec<Ask>) -> Answers {
    let connection = match shared.control(broker).await {
        Ok(connection) => connection,
        Err(why) => return asks.into_iter().map(|ask| (ask, Err(why.clone()))).collect(),
    };
    let teller = Teller { shared, connection };
    let mut answers = Vec::with_capacity(asks.len());
    let mut offsets = Vec::new();
    let mut epochs = Vec::new();
    for ask in asks {
        match ask.question {
            Question::Start { .. } | Question::Bounds => offsets.push(ask),
            Question::EpochEnd(_) => epochs.push(ask),
            Question::Producer(offset) => {
                let told = teller.producer(&ask, offset).await;
                answers.push((ask, told.map(Told::Producer)));
            }
        }
    }
    answers.extend(teller.offsets(offsets).await);
    answers.extend(teller.epochs(epochs).await);
    answers
}

struct Teller {
    shared: Arc<Shared>,
    connection: Connection,
}

/// What one ListOffsets says about a partition: an offset, with its epoch where the version has it; or
/// none.
type Listed = BTreeMap<Key, Result<Option<Position>>>;

impl Teller {
    fn choose<R: Request>(&self, allowed: Versions) -> Result<i16> {
        let Some(versions) = self.connection.versions() else { return Err(Error::new(ErrorKind::Closed)) };
        choose::<R>(versions, &self.shared.settings.client.pinned, allowed)
            .map_err(|why| why.with_broker(self.connection.broker()))
    }

    fn options(&self) -> RequestOptions {
        RequestOptions::within(self.shared.settings.client.request_timeout)
    }

    async fn offsets(&self, asks: Vec<Ask>) -> Answers {
        let mut answers = Vec::with_capacity(asks.len());
        for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
            let asks: Vec<Ask> = asks.iter().filter(|ask| ask.ends_under() == isolation).cloned().collect();
            if asks.is_empty() {
                continue;
            }
            let need = |time: i64| asks.iter().filter(|ask| ask.needs(time)).collect::<Vec<_>>();
            let start = self.list(&need(EARLIEST), EARLIEST, isolation).await;
            let end = self.list(&need(LATEST), LATEST, isolation).await;
            let mut by_time = Listed::new();
            for ask in &asks {
                if let Question::Start { at: StartOffset::Timestamp(time), .. } = ask.question {
                    by_time.extend(self.list(&[ask], time, isolation).await);
                }
            }
            for ask in asks {
                let told = ask.understand(&start, &end, &by_time);
                answers.push((ask, told));
            }
        }
        answers
    }

    async fn list(&self, asks: &[&Ask], time: i64, isolation: Isolation) -> Listed {
        let mut listed = Listed::new();
        let mut left: Vec<&Ask> = asks.to_vec();
        while !left.is_empty() {
            // A partition twice in one request is refused (error 42).
            let mut seen = std::collections::BTreeSet::new();
            let (now, later) = left.into_iter().partition(|ask| seen.insert((&ask.topic, ask.partition)));
            listed.extend(self.list_distinct(now, time, isolation).await);
            left = later;
        }
        listed
    }

    async fn list_distinct(&self, asks: Vec<&Ask>, time: i64, isolation: Isolation) -> Listed {
        let fail = |why: Error| asks.iter().map(|ask| (ask.key, Err(why.clone()))).collect();
        let version = match self.choose::<ListOffsetsRequest>(ListOffsetsRequest::VERSIONS) {
            Ok(version) => version,
            Err(why) => return fail(why),
        };
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for ask in &asks {
            topics.entry(&ask.topic).or_default().push(ListOffsetsPartition {
                partition_index: ask.partition,
                current_leader_epoch: ask.epoch.unwrap_or(-1),
                timestamp: time,
                ..ListOffsetsPartition::default()
            });
        }
        let request = ListOffsetsRequest {
            isolation_level: i8::from(version >= 2 && isolation == Isolation::ReadCommitted),
            topics: topics
                .into_iter()
                .map(|(name, partitions)| ListOffsetsTopic { name: name.to_owned(), partitions })
                .collect(),
            timeout_ms: i32::try_from(self.shared.settings.client.request_timeout.as_millis())
                .unwrap_or(i32::MAX),
            ..ListOffsetsRequest::default()
        };
        let answer = match self.connection.request(&request, version, self.options()) {
            Ok(answer) => answer.await,
            Err(why) => Err(why),
        };
        let response = match answer {
            Ok(response) => response,
            Err(why) => return fail(why),
        };
        let mut listed = Listed::new();
        for ask in &asks {
            let found = response
                .topics
                .iter()
                .filter(|topic| *topic.name == *ask.topic)
                .flat_map(|topic| &topic.partitions)
                .find(|found| found.partition_index == ask.partition);
            let told = match found {
                None => Err(ErrorKind::Incomplete("this partition")),
                Some(found) if found.error_code.is_err() => {
                    Err(ErrorKind::Broker { code: found.error_code, message: None })
                }
                Some(found) if version == 0 => {
                    let first = found.old_style_offsets.first();
                    Ok(first.map(|&offset| Position { offset, epoch: None }).or(ALL_LATER))
                }
                Some(found) => {
                    let epoch = Some(found.leader_epoch).filter(|epoch| *epoch >= 0);
                    Ok((found.offset >= 0).then_some(Position { offset: found.offset, epoch }))
                }
            };
            let told = told.map_err(|kind| {
                Error::new(kind)
                    .with_request::<ListOffsetsRequest>(version)
                    .with_broker(self.connection.broker())
            });
            listed.insert(ask.key, told);
        }
        listed
    }

    async fn epochs(&self, asks: Vec<Ask>) -> Answers {
        if asks.is_empty() {
            return Vec::new();
        }
        // Version 0 does not say which epoch it found.
        let allowed = Versions { min: 1, max: i16::MAX };
        let Ok(version) = self.choose::<OffsetForLeaderEpochRequest>(allowed) else {
            return asks.into_iter().map(|ask| (ask, Ok(Told::EpochEnd(None)))).collect();
        };
        let mut answers = Vec::with_capacity(asks.len());
        let mut left = asks;
        while !left.is_empty() {
            let mut seen = std::collections::BTreeSet::new();
            let (now, later): (Vec<Ask>, Vec<Ask>) =
                left.into_iter().partition(|ask| seen.insert((Arc::clone(&ask.topic), ask.partition)));
            answers.extend(self.epochs_distinct(now, version).await);
            left = later;
        }
        answers
    }

    async fn epochs_distinct(&self, asks: Vec<Ask>, version: i16) -> Answers {
        let mut topics: BTreeMap<&str, Vec<OffsetForLeaderPartition>> = BTreeMap::new();
        for ask in &asks {
            let Question::EpochEnd(leader_epoch) = ask.question else { continue };
            topics.entry(&ask.topic).or_default().push(OffsetForLeaderPartition {
                partition: ask.partition,
                current_leader_epoch: ask.epoch.unwrap_or(-1),
                leader_epoch,
            });
        }
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: topics
                .into_iter()
                .map(|(topic, partitions)| OffsetForLeaderTopic { topic: topic.to_owned(), partitions })
                .collect(),
        };
        let answer = match self.connection.request(&request, version, self.options()) {
            Ok(answer) => answer.await,
            Err(why) => Err(why),
        };
        let response = match answer {
            Ok(response) => response,
            Err(why) => return asks.into_iter().map(|ask| (ask, Err(why.clone()))).collect(),
        };
        let told = |ask: &Ask| {
            let found = response
                .topics
                .iter()
                .filter(|topic| *topic.topic == *ask.topic)
                .flat_map(|topic| &topic.partitions)
                .find(|found| found.partition == ask.partition);
            let kind = match found {
                Some(found) if !found.error_code.is_err() => {
                    let epoch = Some(found.leader_epoch).filter(|epoch| *epoch >= 0);
                    let end = Position { offset: found.end_offset, epoch };
                    return Ok(Told::EpochEnd((found.end_offset >= 0).then_some(end)));
                }
                // Brokers before 2.3 tell only other brokers, if they ask who is asking.
                Some(found) if !found.error_code.retriable() => return Ok(Told::EpochEnd(None)),
                Some(found) => ErrorKind::Broker { code: found.error_code, message: None },
                None => ErrorKind::Incomplete("this partition"),
            };
            Err(Error::new(kind)
                .with_request::<OffsetForLeaderEpochRequest>(version)
                .with_broker(self.connection.broker()))
        };
        let told: Vec<_> = asks.iter().map(told).collect();
        asks.into_iter().zip(told).collect()
    }

    /// The first batch from the last stable offset on opens the oldest transaction.
    async fn producer(&self, ask: &Ask, offset: i64) -> Result<Option<i64>> {
        let max = if ask.topic_id.is_some() { i16::MAX } else { 12 };
        let version = self.choose::<FetchRequest>(Versions { min: 4, max })?;
        let request = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: 1,
            topics: vec![FetchTopic {
                topic: ask.topic.to_string(),
                topic_id: ask.topic_id.unwrap_or_default(),
                partitions: vec![FetchPartition {
                    partition: ask.partition,
                    fetch_offset: offset,
                    partition_max_bytes: 1,
                    ..FetchPartition::default()
                }],
            }],
            ..FetchRequest::default()
        };
        let response = self.connection.request(&request, version, self.options())?.await?;
        let records =
            response.responses.into_iter().flat_map(|topic| topic.partitions).find_map(|found| found.records);
        let set = RecordSet::new(records.unwrap_or_default());
        let header = set.entries().flatten().find_map(|entry| entry.batch_header());
        Ok(header.map(|header| header.producer_id).filter(|id| *id >= 0))
    }
}

impl Ask {
    /// A log's bounds reach to the high watermark, whatever the stream may read of it.
    fn ends_under(&self) -> Isolation {
        match self.question {
            Question::Bounds => Isolation::ReadUncommitted,
            _ => self.isolation,
        }
    }

    fn needs(&self, time: i64) -> bool {
        match self.question {
            Question::Bounds => true,
            Question::Start { at, end } => match at {
                StartOffset::Tail(_) => true,
                StartOffset::Latest => time == LATEST,
                StartOffset::At(_) | StartOffset::InEpoch { .. } => end && time == LATEST,
                // By time: where no record is that late, the end; where all are later, the start.
                StartOffset::Earliest => time == EARLIEST || end,
                StartOffset::Timestamp(_) => true,
            },
            Question::EpochEnd(_) | Question::Producer(_) => false,
        }
    }

    fn understand(&self, start: &Listed, end: &Listed, by_time: &Listed) -> Result<Told> {
        let of = |listed: &Listed| match listed.get(&self.key) {
            Some(Ok(Some(found))) => Ok(*found),
            Some(Err(why)) => Err(why.clone()),
            _ => Err(Error::new(ErrorKind::Incomplete("an offset"))),
        };
        let Question::Start { at, end: to_end } = self.question else {
            return Ok(Told::Bounds(Ends { start: of(start)?, end: of(end)? }));
        };
        let at = match at {
            StartOffset::At(offset) | StartOffset::InEpoch { offset, .. } => {
                at.position().unwrap_or(Position { offset, epoch: None })
            }
            StartOffset::Earliest => of(start)?,
            StartOffset::Latest => of(end)?,
            StartOffset::Tail(count) => {
                let (start, end) = (of(start)?, of(end)?);
                let offset = end.offset.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
                if offset <= start.offset { start } else { Position { offset, epoch: None } }
            }
            StartOffset::Timestamp(_) => match by_time.get(&self.key) {
                Some(Ok(found)) if *found == ALL_LATER => of(start)?,
                Some(Ok(Some(found))) => *found,
                Some(Err(why)) => return Err(why.clone()),
                _ => of(end)?,
            },
        };
        let end = if to_end { Some(of(end)?.offset) } else { None };
        Ok(Told::Start { at, end })
    }
}
