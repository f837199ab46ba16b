//! Fetch: sizes before and after KIP-74, both isolation levels, sessions, topic ids, followers,
//! leader hints.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::Call;
use crate::protocol::{
    AbortedTransaction, ErrorCode, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic,
    LeaderIdAndEpoch,
};
use crate::records::Magic;
use crate::testing::convert;
use crate::testing::entry::whole_entries;
use crate::testing::log::{Aborted, FirstEntry, ReadLimit};
use crate::testing::release::Release;
use crate::testing::sessions::{Context, Sessions, Wanted};
use crate::testing::state::{Partition, State};

/// A fetch that is not answered yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// When it is answered at the latest.
    pub(super) until: Duration,
    context: Context,
    read_committed: bool,
    min_bytes: usize,
    max_bytes: i32,
    rack: String,
}

/// Takes a request in; an answer at once is one that has nothing to wait for.
pub(super) fn begin(
    state: &mut State,
    call: Call<'_>,
    request: &FetchRequest,
) -> Result<Waiting, FetchResponse> {
    let refusal = |error_code| FetchResponse { error_code, ..Default::default() };
    if let Some(code) = call.injected.top() {
        return Err(refusal(code));
    }
    let mut sessions = take_sessions(state, call.node);
    let name_of = |id| state.name_of(id).map(Arc::from);
    let context = sessions.begin(request, call.version, call.now, name_of);
    put_sessions(state, call.node, sessions);
    Ok(Waiting {
        until: call.now + Duration::from_millis(request.max_wait_ms.max(0) as u64),
        context: context.map_err(refusal)?,
        read_committed: request.isolation_level == 1,
        min_bytes: request.min_bytes.max(0) as usize,
        max_bytes: request.max_bytes,
        rack: request.rack_id.clone(),
    })
}

/// The answer, once it is worth sending or the time to wait is over.
pub(super) fn answer(state: &mut State, call: Call<'_>, waiting: Waiting) -> Result<FetchResponse, Waiting> {
    let throttled = call.injected.throttle.is_some();
    let Some((fetched, complete)) = look(state, call, &waiting) else {
        let error_code = ErrorCode::INVALID_FETCH_SESSION_EPOCH;
        return Ok(FetchResponse { error_code, ..Default::default() });
    };
    if throttled {
        // A throttled fetch brings nothing but the time, and opens no session.
        let session_id = if let Context::Incremental { session, .. } = waiting.context { session } else { 0 };
        return Ok(FetchResponse { session_id, ..Default::default() });
    }
    if !complete && call.now < waiting.until {
        return Err(waiting);
    }
    let mut sessions = take_sessions(state, call.node);
    let (session_id, mut fetched) = sessions.end(waiting.context, fetched, call.now);
    put_sessions(state, call.node, sessions);
    if call.injected.corrupt_records {
        corrupt(&mut fetched);
    }
    let hinted = fetched.iter().map(|(_, partition)| partition.current_leader.leader_id);
    let node_endpoints = super::endpoints(state, hinted);
    Ok(FetchResponse { session_id, responses: by_topic(fetched), node_endpoints, ..Default::default() })
}

/// Changes the last byte of the first whole entry there is.
fn corrupt(fetched: &mut [(Wanted, FetchedPartition)]) {
    for records in fetched.iter_mut().filter_map(|(_, partition)| partition.records.as_mut()) {
        let size = whole_entries(records).0.first().map_or(0, |entry| entry.bytes.len());
        let mut bytes = BytesMut::from(&records[..]);
        if let Some(byte) = size.checked_sub(1).and_then(|last| bytes.get_mut(last)) {
            *byte ^= 0x10;
            *records = bytes.freeze();
            return;
        }
    }
}

fn take_sessions(state: &mut State, node: i32) -> Sessions {
    state.node_mut(node).map_or_else(
        || Sessions::new(node, 0),
        |node| std::mem::replace(&mut node.sessions, Sessions::new(node.id, 0)),
    )
}

fn put_sessions(state: &mut State, node: i32, sessions: Sessions) {
    if let Some(node) = state.node_mut(node) {
        node.sessions = sessions;
    }
}

fn by_topic(fetched: Vec<(Wanted, FetchedPartition)>) -> Vec<FetchedTopic> {
    let mut topics: Vec<FetchedTopic> = Vec::new();
    for (wanted, partition) in fetched {
        let name = wanted.topic.as_deref().unwrap_or_default();
        match topics.last_mut() {
            Some(topic) if topic.topic == name && topic.topic_id == wanted.topic_id => {
                topic.partitions.push(partition);
            }
            _ => topics.push(FetchedTopic {
                topic: name.to_owned(),
                topic_id: wanted.topic_id,
                partitions: vec![partition],
            }),
        }
    }
    topics
}

/// What can be read now, and whether it is worth sending; `None` if the session has gone on.
fn look(state: &State, call: Call<'_>, waiting: &Waiting) -> Option<(Vec<(Wanted, FetchedPartition)>, bool)> {
    let wanted = state.node(call.node)?.sessions.wanted(&waiting.context)?;
    let mut fetch = Fetch {
        state,
        call,
        waiting,
        room: if call.version >= 3 { waiting.max_bytes.max(0) as usize } else { i32::MAX as usize }
            .min(state.release().fetch_max_bytes()),
        first: if call.version >= 3 { FirstEntry::Whole } else { FirstEntry::Cut },
        bytes: 0,
        urgent: false,
    };
    let nothing_asked = wanted.is_empty();
    let fetched = wanted.into_iter().map(|wanted| (wanted.clone(), fetch.partition(wanted))).collect();
    Some((fetched, fetch.urgent || nothing_asked || fetch.bytes >= waiting.min_bytes))
}

struct Fetch<'a> {
    state: &'a State,
    call: Call<'a>,
    waiting: &'a Waiting,
    /// Bytes that the answer may still grow by.
    room: usize,
    /// What becomes of a first entry that is too large: only the first partition that has any
    /// bytes may go beyond the limits (KIP-74).
    first: FirstEntry,
    bytes: usize,
    /// There is an error, or a follower to go to: that does not wait.
    urgent: bool,
}

impl Fetch<'_> {
    fn partition(&mut self, wanted: &Wanted) -> FetchedPartition {
        let fetched = self.read(wanted).unwrap_or_else(|code| self.refusal(code, wanted));
        let size = fetched.records.as_ref().map_or(0, Bytes::len);
        self.bytes += size;
        self.room = self.room.saturating_sub(size);
        if size > 0 && self.first == FirstEntry::Whole {
            self.first = FirstEntry::Leave;
        }
        self.urgent |= fetched.error_code.is_err() || fetched.preferred_read_replica >= 0;
        fetched
    }

    fn read(&self, wanted: &Wanted) -> Result<FetchedPartition, ErrorCode> {
        let asked = &wanted.asked;
        let topic = wanted.topic.as_deref().ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        if let Some(code) = self.call.injected.partition(topic, asked.partition) {
            return Err(code);
        }
        let partition = self.readable(topic, wanted)?;
        let log = &partition.log;
        let from = asked.fetch_offset;
        let log_end = partition.end_at(self.call.node);
        if from < log.start() || from > log_end {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let high_watermark = log.high_watermark().min(log_end);
        let stable = log.last_stable_offset().min(log_end);
        let seen = FetchedPartition {
            partition_index: asked.partition,
            high_watermark,
            last_stable_offset: if self.waiting.read_committed { stable } else { -1 },
            log_start_offset: log.start(),
            aborted_transactions: None,
            records: Some(Bytes::new()),
            ..Default::default()
        };
        if let Some(follower) = self.preferred(partition, from) {
            return Ok(FetchedPartition { preferred_read_replica: follower, ..seen });
        }
        let end = if self.waiting.read_committed { stable } else { high_watermark };
        let bytes = self.room.min(asked.partition_max_bytes.max(0) as usize);
        let records = self.converted(log.read(from, ReadLimit { bytes, end, first: self.first }))?;
        let aborted = || {
            let entry =
                |it: Aborted| AbortedTransaction { producer_id: it.producer_id, first_offset: it.first };
            log.aborted(from, end).map(entry).collect()
        };
        Ok(FetchedPartition {
            aborted_transactions: self.waiting.read_committed.then(aborted),
            records: Some(records),
            ..seen
        })
    }

    /// The partition, if this broker may serve it: as its leader, or as a follower to clients that
    /// know of followers (KIP-392).
    fn readable(&self, topic: &str, wanted: &Wanted) -> Result<&Partition, ErrorCode> {
        let (node, partition) = (self.call.node, wanted.asked.partition);
        let id = self.state.topics.get(topic).map(|topic| topic.id);
        if !wanted.topic_id.is_zero() && id.is_some_and(|id| id != wanted.topic_id) {
            return Err(ErrorCode::INCONSISTENT_TOPIC_ID);
        }
        let found = self.state.kept(node, topic, partition, wanted.asked.current_leader_epoch)?;
        let serves_followers = self.call.version >= 11 && self.state.release() >= Release::V2_4;
        match found.leader {
            Some(leader) if leader == node || serves_followers => Ok(found),
            _ => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        }
    }

    /// The follower in the client's rack that has most of the log, if this is the leader and in
    /// another rack.
    fn preferred(&self, partition: &Partition, from: i64) -> Option<i32> {
        let rack = Some(self.waiting.rack.as_str()).filter(|rack| !rack.is_empty())?;
        let leads = partition.leader == Some(self.call.node);
        if !leads || self.call.version < 11 || self.state.release() < Release::V2_4 {
            return None;
        }
        let is_in_rack =
            |id: i32| self.state.node(id).is_some_and(|node| node.up && node.rack.as_deref() == Some(rack));
        if is_in_rack(self.call.node) {
            return None;
        }
        let reaches = |id: &i32| is_in_rack(*id) && partition.end_at(*id) >= from;
        let near = partition.replicas.iter().copied().filter(reaches);
        near.rev().max_by_key(|id| partition.end_at(*id))
    }

    /// Fetch 0 and 1 know magic 0 only, 2 and 3 no magic 2: what is newer is converted.
    fn converted(&self, records: Bytes) -> Result<Bytes, ErrorCode> {
        match self.call.version {
            0..=1 => convert::down(&records, Magic::V0),
            2..=3 => convert::down(&records, Magic::V1),
            _ => Ok(records),
        }
    }

    fn refusal(&self, error_code: ErrorCode, wanted: &Wanted) -> FetchedPartition {
        let partition = wanted.asked.partition;
        let found = wanted.topic.as_deref().and_then(|topic| self.state.partition(topic, partition));
        let current_leader = found
            .filter(|_| self.call.version >= 16 && is_about_the_leader(error_code))
            .map_or_else(LeaderIdAndEpoch::default, super::leader);
        FetchedPartition {
            partition_index: partition,
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
