//! Fetch: sizes before and after KIP-74, both isolation levels, topic ids, leader hints.

use bytes::Bytes;

use super::Call;
use crate::protocol::{
    AbortedTransaction, ErrorCode, FetchPartition, FetchRequest, FetchResponse, FetchedPartition,
    FetchedTopic, LeaderIdAndEpoch,
};
use crate::records::Magic;
use crate::testing::convert;
use crate::testing::log::{Aborted, FirstEntry, ReadLimit};
use crate::testing::state::State;

/// The answer as of now, and whether it is worth sending before the time to wait is over.
pub(super) fn answer(state: &State, call: Call<'_>, request: &FetchRequest) -> (FetchResponse, bool) {
    if let Some(error_code) = call.injected.top() {
        return (FetchResponse { error_code, ..Default::default() }, true);
    }
    // No session is ever opened: to clients that is a broker whose cache of sessions is full.
    if request.session_id != 0 && request.session_epoch > 0 {
        let error_code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND;
        return (FetchResponse { error_code, ..Default::default() }, true);
    }
    let mut fetch = Fetch {
        state,
        call,
        read_committed: request.isolation_level == 1,
        room: if call.version >= 3 { request.max_bytes.max(0) as usize } else { i32::MAX as usize }
            .min(state.release().fetch_max_bytes()),
        first: if call.version >= 3 { FirstEntry::Whole } else { FirstEntry::Cut },
        bytes: 0,
        failed: false,
    };
    let mut responses = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let name =
            if call.version >= 13 { state.name_of(topic.topic_id) } else { Some(topic.topic.as_str()) };
        let partitions = topic.partitions.iter().map(|partition| fetch.partition(name, partition)).collect();
        responses.push(FetchedTopic { topic: topic.topic.clone(), topic_id: topic.topic_id, partitions });
    }
    let nothing_asked = request.topics.iter().all(|topic| topic.partitions.is_empty());
    let complete = fetch.failed || nothing_asked || fetch.bytes >= request.min_bytes.max(0) as usize;
    let hinted = responses.iter().flat_map(|topic| &topic.partitions);
    let node_endpoints = super::endpoints(state, hinted.map(|it| it.current_leader.leader_id));
    (FetchResponse { responses, node_endpoints, ..Default::default() }, complete)
}

struct Fetch<'a> {
    state: &'a State,
    call: Call<'a>,
    read_committed: bool,
    /// Bytes that the answer may still grow by.
    room: usize,
    /// What becomes of a first entry that is too large: only the first partition that has any
    /// bytes may go beyond the limits (KIP-74).
    first: FirstEntry,
    bytes: usize,
    failed: bool,
}

impl Fetch<'_> {
    fn partition(&mut self, topic: Option<&str>, asked: &FetchPartition) -> FetchedPartition {
        match self.read(topic, asked) {
            Ok(fetched) => {
                let size = fetched.records.as_ref().map_or(0, Bytes::len);
                self.bytes += size;
                self.room = self.room.saturating_sub(size);
                if size > 0 && self.first == FirstEntry::Whole {
                    self.first = FirstEntry::Leave;
                }
                fetched
            }
            Err(code) => {
                self.failed = true;
                self.refusal(code, topic, asked)
            }
        }
    }

    fn read(&self, topic: Option<&str>, asked: &FetchPartition) -> Result<FetchedPartition, ErrorCode> {
        let topic = topic.ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        if let Some(code) = self.call.injected.partition(topic, asked.partition) {
            return Err(code);
        }
        let epoch = asked.current_leader_epoch;
        let partition = self.state.led(self.call.node, topic, asked.partition, epoch)?;
        let log = &partition.log;
        let from = asked.fetch_offset;
        if from < log.start() || from > log.end() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let stable = log.last_stable_offset();
        let end = if self.read_committed { stable } else { log.high_watermark() };
        let bytes = self.room.min(asked.partition_max_bytes.max(0) as usize);
        let records = log.read(from, ReadLimit { bytes, end, first: self.first });
        let records = self.converted(records)?;
        let aborted = || {
            let aborted = log.aborted(from, end);
            let entry =
                |it: Aborted| AbortedTransaction { producer_id: it.producer_id, first_offset: it.first };
            aborted.map(entry).collect()
        };
        Ok(FetchedPartition {
            partition_index: asked.partition,
            high_watermark: log.high_watermark(),
            last_stable_offset: if self.read_committed { stable } else { -1 },
            log_start_offset: log.start(),
            aborted_transactions: self.read_committed.then(aborted),
            records: Some(records),
            ..Default::default()
        })
    }

    /// Fetch 0 and 1 know magic 0 only, 2 and 3 no magic 2: what is newer is converted.
    fn converted(&self, records: Bytes) -> Result<Bytes, ErrorCode> {
        match self.call.version {
            0..=1 => convert::down(&records, Magic::V0),
            2..=3 => convert::down(&records, Magic::V1),
            _ => Ok(records),
        }
    }

    fn refusal(
        &self,
        error_code: ErrorCode,
        topic: Option<&str>,
        asked: &FetchPartition,
    ) -> FetchedPartition {
        let current_leader = topic
            .and_then(|topic| self.state.partition(topic, asked.partition))
            .filter(|_| self.call.version >= 16 && is_about_the_leader(error_code))
            .map_or_else(LeaderIdAndEpoch::default, super::leader);
        FetchedPartition {
            partition_index: asked.partition,
            error_code,
            high_watermark: -1,
            current_leader,
            // Null from where the set may be null without anybody being surprised.
            records: if self.call.version >= 12 { None } else { Some(Bytes::new()) },
            ..Default::default()
        }
    }
}

fn is_about_the_leader(code: ErrorCode) -> bool {
    code == ErrorCode::NOT_LEADER_OR_FOLLOWER || code == ErrorCode::FENCED_LEADER_EPOCH
}
