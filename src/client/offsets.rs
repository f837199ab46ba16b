use std::collections::HashSet;

use super::simple_consumer::SimpleConsumer;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic, Request,
    Versions,
};
use crate::records::Isolation;

/// Which offset of a partition is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OffsetSpec {
    /// Where the log starts.
    Earliest,
    /// Where it ends: the high watermark, or the last stable offset under read_committed (0.11 on).
    Latest,
    /// The first record with this timestamp (ms since 1970) or a later one. Before 0.10.1 a hint
    /// from the files' times: records before that offset are older, some after it too.
    Timestamp(i64),
    /// The record with the largest timestamp (3.0 on, KIP-734).
    MaxTimestamp,
    /// Where the part starts that the broker has on its own disks (3.5 on, KIP-405).
    EarliestLocal,
    /// The last offset in tiered storage (3.9 on, KIP-1005).
    LatestTiered,
    /// The first offset that is not in tiered storage yet (4.2 on, KIP-1023).
    EarliestPendingUpload,
}

impl OffsetSpec {
    /// As the wire has it.
    fn timestamp(self) -> i64 {
        match self {
            OffsetSpec::Latest => -1,
            OffsetSpec::Earliest => -2,
            OffsetSpec::MaxTimestamp => -3,
            OffsetSpec::EarliestLocal => -4,
            OffsetSpec::LatestTiered => -5,
            OffsetSpec::EarliestPendingUpload => -6,
            OffsetSpec::Timestamp(time) => time,
        }
    }

    /// The first version of ListOffsets that knows it.
    fn since(self) -> i16 {
        match self {
            OffsetSpec::Latest | OffsetSpec::Earliest | OffsetSpec::Timestamp(_) => 0,
            OffsetSpec::MaxTimestamp => 7,
            OffsetSpec::EarliestLocal => 8,
            OffsetSpec::LatestTiered => 9,
            OffsetSpec::EarliestPendingUpload => 11,
        }
    }
}

/// The one version that knows segments.
const VERSION_0: Versions = Versions { min: 0, max: 0 };

/// An offset that was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListedOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// What was asked.
    pub spec: OffsetSpec,
    /// The offset; `None` if there is none: no record that late, nothing in tiered storage.
    pub offset: Option<i64>,
    /// The record's timestamp in ms since 1970, for look-ups by time (0.10.1 on). With compressed
    /// data some 3.x brokers give the offset of another record of its batch (KAFKA-16310).
    pub timestamp: Option<i64>,
    /// Epoch of the leader that wrote it (2.1 on).
    pub leader_epoch: Option<i32>,
    /// Why it is not known.
    pub error: Option<Error>,
}

impl SimpleConsumer {
    /// Where a partition's log starts.
    pub async fn earliest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.one_offset(topic, partition, OffsetSpec::Earliest).await?.required()
    }

    /// Where a partition's log ends: the offset that the next record will have. Under read_committed
    /// (the default) on 0.11 and later, where its first open transaction starts.
    pub async fn latest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.one_offset(topic, partition, OffsetSpec::Latest).await?.required()
    }

    /// The first record with this timestamp (ms since 1970) or a later one; `None` if there is none.
    ///
    /// Before 0.10.1 an offset at or before it: the start of the newest segment whose file is not
    /// newer than that time, else the start of the log.
    pub async fn offset_for_time(&self, topic: &str, partition: i32, time: i64) -> Result<Option<i64>> {
        if time < 0 {
            return Err(Error::config(format!("{time} is no time: it counts ms since 1970"))
                .with_topic(topic)
                .with_partition(partition));
        }
        let listed = self.one_offset(topic, partition, OffsetSpec::Timestamp(time)).await?;
        Ok(listed.offset)
    }

    async fn one_offset(&self, topic: &str, partition: i32, spec: OffsetSpec) -> Result<ListedOffset> {
        let mut listed = self.list_offsets(&[(topic, partition, spec)]).await?;
        let listed = listed.pop().ok_or_else(|| Error::new(ErrorKind::Incomplete("this partition")))?;
        match listed.error {
            Some(why) => Err(why),
            None => Ok(listed),
        }
    }

    /// Offsets of several partitions, in the order of asking; what goes wrong with one stands in its
    /// result. The broker must lead the partitions.
    pub async fn list_offsets(&self, wanted: &[(&str, i32, OffsetSpec)]) -> Result<Vec<ListedOffset>> {
        let mut listed: Vec<Option<ListedOffset>> = vec![None; wanted.len()];
        // A partition twice in one request is refused with error 42: the second goes into another.
        let mut left: Vec<usize> = (0..wanted.len()).collect();
        while !left.is_empty() {
            let mut seen = HashSet::new();
            let (now, later) = left.into_iter().partition::<Vec<_>, _>(|i| {
                let (topic, partition, _) = wanted[*i];
                seen.insert((topic, partition))
            });
            let asked: Vec<_> = now.iter().map(|i| wanted[*i]).collect();
            for (i, result) in now.into_iter().zip(self.list_distinct(&asked).await?) {
                listed[i] = Some(result);
            }
            left = later;
        }
        Ok(listed.into_iter().flatten().collect())
    }

    async fn list_distinct(&self, wanted: &[(&str, i32, OffsetSpec)]) -> Result<Vec<ListedOffset>> {
        let since = wanted.iter().map(|(.., spec)| spec.since()).max().unwrap_or(0);
        let exchange = self
            .ask(Versions { min: since, max: i16::MAX }, |version| {
                Ok(self.offsets_request(wanted, version, 1))
            })
            .await?;
        let (version, answers) = (exchange.version, exchange.response.topics);
        let mut listed = Vec::with_capacity(wanted.len());
        for (topic, partition, spec) in wanted {
            let answer = answers
                .iter()
                .filter(|answer| answer.name == *topic)
                .flat_map(|answer| &answer.partitions)
                .find(|answer| answer.partition_index == *partition);
            let mut result = self.listed(topic, *partition, *spec, version, answer);
            if let Some(why) = result.error.take() {
                result.error = Some(self.explain(why).await);
            } else if version == 0 && result.offset.is_none() {
                // By time, and older than every segment: an empty list without an error.
                result.offset = self.segments_before(topic, *partition, OffsetSpec::Earliest, 1).await?.pop();
            }
            listed.push(result);
        }
        Ok(listed)
    }

    /// Offsets before a time, descending, at most `most`: `Earliest`, `Latest` or a timestamp. Kafka
    /// 0.8's `getOffsetsBefore`.
    ///
    /// Up to 3.9 these are the first offsets of segments, judged by the times of their files, with the
    /// end of the log in front for `Latest`; a copied or restored file has another time. 4.0 on does
    /// not tell segments: then they are the end (`Latest`) or the first record of that time, and the
    /// start of the log.
    pub async fn offsets_before(
        &self,
        topic: &str,
        partition: i32,
        before: OffsetSpec,
        most: usize,
    ) -> Result<Vec<i64>> {
        if before.since() > 0 {
            return Err(Error::config("offsets before a time take Earliest, Latest or a timestamp"));
        }
        let versions = self.versions().await?;
        if self.choose::<ListOffsetsRequest>(&versions, VERSION_0).is_err() {
            return self.offsets_before_without_segments(topic, partition, before, most).await;
        }
        self.segments_before(topic, partition, before, most).await
    }

    async fn segments_before(
        &self,
        topic: &str,
        partition: i32,
        before: OffsetSpec,
        most: usize,
    ) -> Result<Vec<i64>> {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let wanted = [(topic, partition, before)];
        let exchange =
            self.ask(VERSION_0, |version| Ok(self.offsets_request(&wanted, version, most))).await?;
        let answer = exchange
            .response
            .topics
            .into_iter()
            .flat_map(|answer| answer.partitions)
            .find(|answer| answer.partition_index == partition);
        let why = match answer {
            Some(answer) if !answer.error_code.is_err() => return Ok(answer.old_style_offsets),
            Some(answer) => Error::broker_code(answer.error_code),
            None => Error::new(ErrorKind::Incomplete("this partition")),
        };
        Err(self.explain(self.place::<ListOffsetsRequest>(why, exchange.version, topic, partition)).await)
    }

    async fn offsets_before_without_segments(
        &self,
        topic: &str,
        partition: i32,
        before: OffsetSpec,
        most: usize,
    ) -> Result<Vec<i64>> {
        let earliest = self.earliest_offset(topic, partition).await?;
        let mut offsets = match before {
            OffsetSpec::Earliest => vec![],
            OffsetSpec::Timestamp(time) => match self.offset_for_time(topic, partition, time).await? {
                // Everything before the first record of that time is older.
                Some(offset) => vec![offset],
                None => vec![self.latest_offset(topic, partition).await?],
            },
            _ => vec![self.latest_offset(topic, partition).await?],
        };
        if !offsets.contains(&earliest) {
            offsets.push(earliest);
        }
        offsets.truncate(most);
        Ok(offsets)
    }

    fn offsets_request(
        &self,
        wanted: &[(&str, i32, OffsetSpec)],
        version: i16,
        most: i32,
    ) -> ListOffsetsRequest {
        let mut topics: Vec<ListOffsetsTopic> = Vec::new();
        for (topic, partition, spec) in wanted {
            let partition = ListOffsetsPartition {
                partition_index: *partition,
                timestamp: spec.timestamp(),
                max_num_offsets: if version == 0 { most } else { 1 },
                ..ListOffsetsPartition::default()
            };
            match topics.iter_mut().find(|known| known.name == *topic) {
                Some(known) => known.partitions.push(partition),
                None => {
                    topics.push(ListOffsetsTopic { name: (*topic).to_owned(), partitions: vec![partition] })
                }
            }
        }
        let settings = &self.inner.settings;
        ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(version >= 2 && settings.isolation == Isolation::ReadCommitted),
            topics,
            timeout_ms: i32::try_from(settings.request_timeout.as_millis()).unwrap_or(i32::MAX),
        }
    }

    fn listed(
        &self,
        topic: &str,
        partition: i32,
        spec: OffsetSpec,
        version: i16,
        answer: Option<&ListOffsetsPartitionResponse>,
    ) -> ListedOffset {
        let error = match answer {
            None => Some(Error::new(ErrorKind::Incomplete("this partition"))),
            Some(answer) if answer.error_code.is_err() => Some(Error::broker_code(answer.error_code)),
            Some(_) => None,
        };
        let answer = answer.filter(|answer| !answer.error_code.is_err());
        let offset = answer.and_then(|answer| match version {
            // The first is the one; a second would be a segment's start (librdkafka#700).
            0 => answer.old_style_offsets.first().copied(),
            _ => Some(answer.offset),
        });
        ListedOffset {
            topic: topic.to_owned(),
            partition,
            spec,
            offset: offset.filter(|offset| *offset >= 0),
            timestamp: answer.map(|answer| answer.timestamp).filter(|time| *time >= 0),
            leader_epoch: answer.map(|answer| answer.leader_epoch).filter(|epoch| *epoch >= 0),
            error: error.map(|why| self.place::<ListOffsetsRequest>(why, version, topic, partition)),
        }
    }
}

impl ListedOffset {
    pub(super) fn failed(topic: &str, partition: i32, spec: OffsetSpec, why: Error) -> Self {
        ListedOffset {
            topic: topic.to_owned(),
            partition,
            spec,
            offset: None,
            timestamp: None,
            leader_epoch: None,
            error: Some(why.with_topic(topic).with_partition(partition)),
        }
    }

    pub(super) fn required(self) -> Result<i64> {
        self.offset.ok_or_else(|| {
            Error::new(ErrorKind::Incomplete("an offset"))
                .with_topic(self.topic)
                .with_partition(self.partition)
                .with_api(ListOffsetsRequest::KEY, 0)
        })
    }
}
