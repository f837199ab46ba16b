//! Produce: offsets are assigned, the bytes stay as they came.

use super::Call;
use crate::protocol::{
    ErrorCode, LeaderIdAndEpoch, ProducePartition, ProduceRequest, ProduceResponse, ProducedPartition,
    ProducedTopic,
};
use crate::records::{Codec, Magic};
use crate::testing::cluster::append;
use crate::testing::entry::{Entry, entries};
use crate::testing::state::State;

/// The answer, and whether any partition was refused.
pub(super) fn answer(state: &mut State, call: Call<'_>, request: ProduceRequest) -> (ProduceResponse, bool) {
    let mut refused = false;
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let known = state.name_of(topic.topic_id).map(str::to_owned);
        let name = if call.version >= 13 { known } else { Some(topic.name.clone()) };
        let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
        for partition in topic.partition_data {
            let index = partition.index;
            let appended = check_acks(state, request.acks)
                .and_then(|()| name.as_deref().ok_or(ErrorCode::UNKNOWN_TOPIC_ID))
                .and_then(|name| append_one(state, call, name, partition));
            refused |= appended.is_err();
            let log_start = name.as_deref().and_then(|name| state.partition(name, index));
            partition_responses.push(ProducedPartition {
                index,
                error_code: appended.err().unwrap_or_default(),
                base_offset: appended.unwrap_or(-1),
                log_start_offset: log_start.map_or(-1, |partition| partition.log.start()),
                current_leader: hint(state, call, name.as_deref(), index, appended.err()),
                ..Default::default()
            });
        }
        responses.push(ProducedTopic { name: topic.name, topic_id: topic.topic_id, partition_responses });
    }
    let hinted = responses.iter().flat_map(|topic| &topic.partition_responses);
    let node_endpoints = super::endpoints(state, hinted.map(|it| it.current_leader.leader_id));
    (ProduceResponse { responses, node_endpoints, ..Default::default() }, refused)
}

fn check_acks(state: &State, acks: i16) -> Result<(), ErrorCode> {
    // Before 0.9 any number meant that many replicas.
    let checked = state.release() >= crate::testing::Release::V0_9_0;
    if checked && !(-1..=1).contains(&acks) { Err(ErrorCode::INVALID_REQUIRED_ACKS) } else { Ok(()) }
}

fn append_one(
    state: &mut State,
    call: Call<'_>,
    topic: &str,
    partition: ProducePartition,
) -> Result<i64, ErrorCode> {
    let index = partition.index;
    if let Some(code) = call.injected.partition(topic, index) {
        return Err(code);
    }
    state.led(call.node, topic, index, -1)?;
    let set = partition.records.unwrap_or_default();
    let found = entries(&set)?;
    if call.version >= 3 {
        let [batch] = &found[..] else { return Err(invalid_record(state)) };
        if batch.magic != Magic::V2 {
            return Err(invalid_record(state));
        }
        if batch.codec == Some(Codec::Zstd) && call.version < 7 {
            return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        }
    }
    if found.iter().any(|entry| entry.magic.number() as i8 > state.release().magic()) {
        return Err(ErrorCode::CORRUPT_MESSAGE);
    }
    let producers = state.partition(topic, index).map(|partition| partition.log.producers());
    if let (Some(producers), [Entry { header: Some(header), .. }]) = (producers, &found[..])
        && let Some(stored) = producers.check(header)?
    {
        return Ok(stored);
    }
    append(state, topic, index, &set, call.wall_ms)
}

/// 87 came with 2.4 (KIP-467).
fn invalid_record(state: &State) -> ErrorCode {
    match state.release() >= crate::testing::Release::V2_4 {
        true => ErrorCode::INVALID_RECORD,
        false => ErrorCode::CORRUPT_MESSAGE,
    }
}

fn hint(
    state: &State,
    call: Call<'_>,
    topic: Option<&str>,
    partition: i32,
    error: Option<ErrorCode>,
) -> LeaderIdAndEpoch {
    let moved = call.version >= 10 && error == Some(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let found = topic.filter(|_| moved).and_then(|topic| state.partition(topic, partition));
    found.map_or_else(LeaderIdAndEpoch::default, super::leader)
}
