use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;

use super::fetch_limits::{Oversize, oversize};
use super::fetched::{Fetched, FetchedPartition};
use super::metadata::{TopicIds, by_name_or_id};
use super::simple_consumer::{LAST_FETCH_BY_NAME, SimpleConsumer};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition as Answer, Request,
};
use crate::records::{Isolation, ReadOptions, RecordSet};

/// What to fetch: one partition or several, in the order in which they may fill the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Fetch {
    pub(super) wanted: Vec<Wanted>,
    max_wait: Duration,
    min_bytes: i32,
    response_bytes: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) max_bytes: i32,
}

/// What Java's consumer asks for per partition.
const DEFAULT_MAX_BYTES: i32 = 1 << 20;
/// And in all.
const DEFAULT_RESPONSE_BYTES: i32 = 50 << 20;
/// From this version on the first batch comes whole, whatever its size (KIP-74).
const FIRST_BATCH_WHOLE: i16 = 3;

impl Fetch {
    /// Records of a partition from an offset on: up to 1 MiB, waiting up to 500 ms for the first.
    pub fn new(topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        let none = Fetch {
            wanted: Vec::new(),
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            response_bytes: None,
        };
        none.and(topic, partition, offset)
    }

    /// Another partition in the same request.
    pub fn and(mut self, topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        let max_bytes = self.wanted.last().map_or(DEFAULT_MAX_BYTES, |last| last.max_bytes);
        self.wanted.push(Wanted { topic: topic.into(), partition, offset, max_bytes });
        self
    }

    /// The limit in bytes for the partition named last, and for those named after it.
    ///
    /// From Fetch 3 on (0.10.1) the first batch comes whole even if it is larger; before, the limit
    /// is raised for a record that does not fit (see `SimpleConsumerBuilder::fetch_limit`).
    pub fn max_bytes(mut self, bytes: i32) -> Self {
        if let Some(last) = self.wanted.last_mut() {
            last.max_bytes = bytes;
        }
        self
    }

    /// How long the broker may wait for `min_bytes`; 500 ms by default.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Bytes for which the broker waits; 1 by default, 0 for an answer at once.
    pub fn min_bytes(mut self, bytes: i32) -> Self {
        self.min_bytes = bytes;
        self
    }

    /// The limit of the whole answer, in bytes (Fetch 3 on); what the partitions add up to, at most
    /// 50 MiB, by default.
    pub fn response_bytes(mut self, bytes: i32) -> Self {
        self.response_bytes = Some(bytes);
        self
    }

    fn check(&self) -> Result<()> {
        let mut seen = HashSet::new();
        for Wanted { topic, partition, offset, max_bytes } in &self.wanted {
            let place = |why: &str| {
                Err(Error::config(why)
                    .with_topic(topic.as_str())
                    .with_partition(*partition)
                    .with_offset(*offset))
            };
            if topic.is_empty() || *partition < 0 {
                return place("a fetch needs the name of a topic and a partition from 0 on");
            }
            if *offset < 0 {
                return place("a fetch needs an offset from 0 on; ask for the earliest or latest one first");
            }
            if *max_bytes < 1 {
                return place("a fetch needs a limit of at least one byte");
            }
            if !seen.insert((topic, partition)) {
                return place("this partition is asked for twice in one fetch");
            }
        }
        Ok(())
    }

    fn topics(&self) -> Vec<&str> {
        let mut topics: Vec<&str> = Vec::new();
        for wanted in &self.wanted {
            if !topics.contains(&wanted.topic.as_str()) {
                topics.push(&wanted.topic);
            }
        }
        topics
    }

    fn bytes(&self) -> i32 {
        let sum = self.wanted.iter().fold(0, |sum: i32, wanted| sum.saturating_add(wanted.max_bytes));
        self.response_bytes.unwrap_or(sum.min(DEFAULT_RESPONSE_BYTES))
    }

    fn request(&self, version: i16, isolation: Isolation, ids: Option<&TopicIds>) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for wanted in &self.wanted {
            let partition = FetchPartition {
                partition: wanted.partition,
                fetch_offset: wanted.offset,
                partition_max_bytes: wanted.max_bytes,
                ..FetchPartition::default()
            };
            // Neighbours of one topic share an entry; the order of the partitions is kept otherwise.
            match topics.last_mut() {
                Some(last) if last.topic == wanted.topic => last.partitions.push(partition),
                _ => topics.push(FetchTopic {
                    topic: wanted.topic.clone(),
                    topic_id: ids.and_then(|ids| ids.get(&wanted.topic)).copied().unwrap_or_default(),
                    partitions: vec![partition],
                }),
            }
        }
        FetchRequest {
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.min_bytes,
            max_bytes: self.bytes(),
            isolation_level: i8::from(version >= 4 && isolation == Isolation::ReadCommitted),
            topics,
            ..FetchRequest::default()
        }
    }
}

impl SimpleConsumer {
    /// Fetches records, of several partitions at once if asked to.
    ///
    /// What can go wrong with one partition stands in its result; an error of the call is about all
    /// of them. A result may be empty: the broker waits for data only as long as it was told.
    pub async fn fetch(&self, fetch: Fetch) -> Result<Fetched> {
        fetch.check()?;
        let topics = fetch.topics();
        let ids = if self.fetches_by_id().await? { self.ids_of(&topics).await? } else { None };
        let mut fetched = self.fetch_once(&fetch, ids.as_ref()).await?;
        if fetched.version < FIRST_BATCH_WHOLE {
            for (wanted, got) in fetch.wanted.iter().zip(&mut fetched.partitions) {
                self.grow_until_it_fits(&fetch, wanted, got).await;
            }
        }
        for partition in &mut fetched.partitions {
            self.look_for_progress(partition);
            if let Some(why) = partition.error.take() {
                self.forget_id_if(Some(&why), &partition.topic);
                partition.error = Some(self.explain(why).await);
            }
        }
        Ok(fetched)
    }

    /// Whether the broker and the settings let fetches name topics by id.
    async fn fetches_by_id(&self) -> Result<bool> {
        let versions = self.versions().await?;
        let newest = self.choose::<FetchRequest>(&versions, FetchRequest::VERSIONS);
        newest.map(|version| version > LAST_FETCH_BY_NAME).map_err(|why| why.with_broker(self.broker()))
    }

    async fn fetch_once(&self, fetch: &Fetch, ids: Option<&TopicIds>) -> Result<Fetched> {
        let settings = &self.inner.settings;
        let raised = self.with_raised_limits(fetch);
        let most = i32::try_from(settings.frame_limit).unwrap_or(i32::MAX);
        let allowed = by_name_or_id(LAST_FETCH_BY_NAME, ids);
        let timeout = settings.request_timeout + fetch.max_wait;
        let asked = fetch.bytes().max(0) as usize + 256 * fetch.wanted.len();
        let exchange = self
            .ask_within(allowed, timeout, asked, |version| {
                let limits = if version < FIRST_BATCH_WHOLE { &raised } else { fetch };
                let mut request = limits.request(version, settings.isolation, ids);
                request.max_bytes = request.max_bytes.min(most);
                Ok(request)
            })
            .await?;
        let (version, response) = (exchange.version, exchange.response);
        if response.error_code.is_err() {
            return Err(Error::broker_code(response.error_code)
                .with_request::<FetchRequest>(version)
                .with_broker(self.broker()));
        }
        let limits = if version < FIRST_BATCH_WHOLE { &raised } else { fetch };
        Ok(self.understand_fetch(limits, version, response, ids))
    }

    fn with_raised_limits(&self, fetch: &Fetch) -> Fetch {
        let limits = self.inner.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fetch = fetch.clone();
        for wanted in &mut fetch.wanted {
            wanted.max_bytes = limits.limit(&wanted.topic, wanted.partition, wanted.max_bytes);
        }
        fetch
    }

    /// Looks up what was asked for: an answer may lack partitions, or hold some that were not asked
    /// for.
    fn understand_fetch(
        &self,
        fetch: &Fetch,
        version: i16,
        mut response: FetchResponse,
        ids: Option<&TopicIds>,
    ) -> Fetched {
        let mut partitions = Vec::with_capacity(fetch.wanted.len());
        for wanted in &fetch.wanted {
            let id = ids.and_then(|ids| ids.get(&wanted.topic)).copied().unwrap_or_default();
            let answer = response
                .responses
                .iter_mut()
                .filter(|topic| match version {
                    ..=LAST_FETCH_BY_NAME => topic.topic == wanted.topic,
                    _ => topic.topic_id == id,
                })
                .find_map(|topic| {
                    let is_it = |found: &Answer| found.partition_index == wanted.partition;
                    let at = topic.partitions.iter().position(is_it)?;
                    Some(topic.partitions.swap_remove(at))
                });
            partitions.push(self.understand_partition(wanted, version, answer));
        }
        let throttled = u64::try_from(response.throttle_time_ms).unwrap_or(0);
        Fetched { partitions, version, throttled: Duration::from_millis(throttled) }
    }

    fn understand_partition(
        &self,
        wanted: &Wanted,
        version: i16,
        answer: Option<Answer>,
    ) -> FetchedPartition {
        let settings = &self.inner.settings;
        let place = |why: Error| {
            self.place::<FetchRequest>(why, version, &wanted.topic, wanted.partition)
                .with_offset(wanted.offset)
        };
        let missing = answer.is_none();
        let answer = answer.unwrap_or_default();
        let error = if missing {
            Some(ErrorKind::Incomplete("this partition"))
        } else {
            let code = answer.error_code;
            code.is_err().then_some(ErrorKind::Broker { code, message: None })
        };
        let known = |offset: i64| (offset >= 0).then_some(offset);
        FetchedPartition {
            topic: wanted.topic.clone(),
            partition: wanted.partition,
            offset: wanted.offset,
            limit: wanted.max_bytes,
            error: error.map(|kind| place(Error::new(kind))),
            high_watermark: known(answer.high_watermark).filter(|_| !missing),
            last_stable_offset: known(answer.last_stable_offset),
            log_start_offset: known(answer.log_start_offset),
            preferred_read_replica: Some(answer.preferred_read_replica).filter(|id| *id >= 0),
            set: RecordSet::new(answer.records.unwrap_or_default()),
            options: ReadOptions {
                from_offset: wanted.offset,
                crc: settings.crc,
                isolation: settings.isolation,
                aborted: answer.aborted_transactions.unwrap_or_default(),
                max_inflated: settings.max_inflated,
                ..ReadOptions::default()
            },
            place: place(Error::new(ErrorKind::NoProgress)),
        }
    }

    /// Fetch 0–2: asks again for a partition whose first record is larger than the limit, with one
    /// that it fits into.
    async fn grow_until_it_fits(&self, fetch: &Fetch, wanted: &Wanted, got: &mut FetchedPartition) {
        let settings = &self.inner.settings;
        // Room for the rest of the frame.
        let frame = settings.frame_limit.saturating_sub(64 << 10);
        let most = settings.fetch_limit.min(i32::try_from(frame).unwrap_or(i32::MAX));
        while got.error.is_none() && !got.set.is_empty() && got.set.next_offset().is_none() {
            let limit = match oversize(got.set.bytes(), got.limit, most) {
                Oversize::Grow(limit) => limit,
                Oversize::TooLarge(needed) => {
                    let limit = u64::from(most.unsigned_abs());
                    got.fail(ErrorKind::RecordTooLarge { needed, limit });
                    return;
                }
            };
            let again =
                Fetch { wanted: vec![Wanted { max_bytes: limit, ..wanted.clone() }], ..fetch.clone() };
            tracing::debug!(topic = %wanted.topic, partition = wanted.partition, offset = wanted.offset, limit, "fetch limit raised");
            match self.fetch_once(&again, None).await {
                Ok(mut fetched) => match fetched.partitions.pop() {
                    // The broker was upgraded meanwhile: no growing any more.
                    Some(grown) if fetched.version >= FIRST_BATCH_WHOLE => {
                        *got = grown;
                        return;
                    }
                    Some(grown) => *got = FetchedPartition { limit: limit.max(grown.limit), ..grown },
                    None => return,
                },
                Err(why) => {
                    got.error = Some(why.with_topic(&wanted.topic).with_partition(wanted.partition));
                    got.set = RecordSet::new(Bytes::new());
                    return;
                }
            }
        }
        if got.error.is_none() && !got.set.is_empty() {
            let mut limits = self.inner.limits.lock().unwrap_or_else(PoisonError::into_inner);
            limits.succeeded(&wanted.topic, wanted.partition, wanted.max_bytes, got.limit, &got.set);
        }
    }

    /// Bytes that lead nowhere are an error, never a reason to ask the same again.
    fn look_for_progress(&self, got: &mut FetchedPartition) {
        if got.error.is_some() || got.set.is_empty() {
            return;
        }
        let stands_still = match got.set.next_offset() {
            Some(next) => next <= got.offset,
            // Damage in the first entry is reported by whoever reads it, with its place.
            None => got.set.entries().next().is_none(),
        };
        if stands_still {
            got.fail(ErrorKind::NoProgress);
        }
    }
}
