//! ListOffsets: by segments in version 0, exact since (KIP-79).

use std::collections::BTreeMap;

use super::Call;
use crate::protocol::{
    ErrorCode, ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use crate::testing::log::Log;
use crate::testing::state::State;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

pub(super) fn answer(state: &mut State, call: Call<'_>, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let mut times: BTreeMap<(&str, i32), u32> = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *times.entry((topic.name.as_str(), partition.partition_index)).or_default() += 1;
        }
    }
    let one = |topic: &str, asked: &ListOffsetsPartition| {
        if call.version >= 1 && times.get(&(topic, asked.partition_index)).is_some_and(|times| *times > 1) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        partition(state, call, &request, topic, asked)
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| {
                    let answer = one(&topic.name, asked).unwrap_or_else(|error_code| {
                        ListOffsetsPartitionResponse { error_code, ..Default::default() }
                    });
                    ListOffsetsPartitionResponse { partition_index: asked.partition_index, ..answer }
                })
                .collect(),
        })
        .collect();
    ListOffsetsResponse { topics, ..Default::default() }
}

fn partition(
    state: &State,
    call: Call<'_>,
    request: &ListOffsetsRequest,
    topic: &str,
    asked: &ListOffsetsPartition,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    if let Some(code) = call.injected.partition(topic, asked.partition_index) {
        return Err(code);
    }
    let found = state.led(call.node, topic, asked.partition_index, asked.current_leader_epoch)?;
    let log = &found.log;
    if call.version == 0 {
        let offsets = by_segments(log, asked, call.wall_ms);
        return Ok(ListOffsetsPartitionResponse { old_style_offsets: offsets, ..Default::default() });
    }
    let end = if request.isolation_level == 1 { log.last_stable_offset() } else { log.high_watermark() };
    let at_end = asked.timestamp == LATEST;
    let (offset, timestamp) = exact(log, asked.timestamp, call.version, end)?;
    let leader_epoch = match offset {
        _ if call.version < 4 => -1,
        _ if at_end => found.epoch,
        offset => log.epoch_at(offset).unwrap_or(-1),
    };
    Ok(ListOffsetsPartitionResponse { offset, timestamp, leader_epoch, ..Default::default() })
}

/// Offset and timestamp; both −1 where there is none.
fn exact(log: &Log, timestamp: i64, version: i16, end: i64) -> Result<(i64, i64), ErrorCode> {
    const NONE: (i64, i64) = (-1, -1);
    match timestamp {
        LATEST => Ok((end, -1)),
        EARLIEST => Ok((log.start(), -1)),
        MAX_TIMESTAMP if version >= 7 => {
            let visible = log.entries().iter().filter(|entry| entry.last < end);
            let newest = visible.filter_map(|entry| Some((entry.max_timestamp()?, entry)));
            // The first of several that are equally new.
            let newest = newest.rev().max_by_key(|(stamp, _)| *stamp);
            Ok(newest.and_then(|(_, entry)| entry.newest()).unwrap_or(NONE))
        }
        EARLIEST_LOCAL if version >= 8 => Ok((log.start(), -1)),
        // Nothing is ever tiered here.
        LATEST_TIERED if version >= 9 => Ok(NONE),
        EARLIEST_PENDING_UPLOAD if version >= 11 => Ok(NONE),
        0.. => {
            let mut visible = log.entries().iter().filter(|entry| entry.last < end).peekable();
            if visible.peek().is_some_and(|entry| entry.magic.number() == 0) {
                return Err(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT);
            }
            let mut late = visible.filter(|entry| entry.max_timestamp().is_some_and(|max| max >= timestamp));
            Ok(late.find_map(|entry| entry.first_since(timestamp)).unwrap_or(NONE))
        }
        _ => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}

/// Descending offsets of segments and of the end, at most as many as wanted.
fn by_segments(log: &Log, asked: &ListOffsetsPartition, now_ms: i64) -> Vec<i64> {
    let wanted = asked.max_num_offsets.max(0) as usize;
    let known = log.segment_offsets(now_ms);
    let newest = match asked.timestamp {
        LATEST => known.len(),
        EARLIEST => 1,
        timestamp => known.iter().rposition(|(_, time)| *time <= timestamp).map_or(0, |at| at + 1),
    };
    let offsets = known.iter().take(newest).rev().map(|(offset, _)| *offset).take(wanted);
    // What lies above the high watermark is shown as one high watermark.
    let shown = log.high_watermark();
    let mut offsets: Vec<i64> = offsets.map(|offset| offset.min(shown)).collect();
    offsets.dedup();
    offsets
}
