//! APIs with little behind them: InitProducerId, OffsetForLeaderEpoch, SaslHandshake.

use super::Call;
use crate::protocol::*;
use crate::testing::release::Release;
use crate::testing::state::State;

/// Every asker gets a new producer id, or a new epoch of the one it names.
pub(super) fn init_producer_id(
    state: &mut State,
    call: Call<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if let Some(error_code) = call.injected.only() {
        return InitProducerIdResponse { error_code, ..Default::default() };
    }
    if let Some(id) = request.transactional_id.filter(|_| request.producer_id < 0) {
        // Whoever comes under the same name fences the one before.
        let next = state.next_producer_id;
        let (producer_id, producer_epoch) = *state
            .transactional
            .entry(id)
            .and_modify(|(_, epoch)| *epoch = epoch.wrapping_add(1).max(0))
            .or_insert((next, 0));
        state.next_producer_id += i64::from(producer_id == next);
        return InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() };
    }
    if request.producer_id >= 0 && request.producer_epoch < i16::MAX - 1 {
        let producer_epoch = request.producer_epoch.max(-1) + 1;
        return InitProducerIdResponse {
            producer_id: request.producer_id,
            producer_epoch,
            ..Default::default()
        };
    }
    let producer_id = state.next_producer_id;
    state.next_producer_id += 1;
    InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() }
}

/// No listener here wants a login.
pub(super) fn sasl_handshake(_: &mut State, _: Call<'_>, _: SaslHandshakeRequest) -> SaslHandshakeResponse {
    SaslHandshakeResponse { error_code: ErrorCode::ILLEGAL_SASL_STATE, mechanisms: Vec::new() }
}

pub(super) fn offset_for_leader_epoch(
    state: &mut State,
    call: Call<'_>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let one = |topic: &str, asked: &OffsetForLeaderPartition| {
        if let Some(code) = call.injected.partition(topic, asked.partition) {
            return Err(code);
        }
        let found = state.led(call.node, topic, asked.partition, asked.current_leader_epoch)?;
        let ends = found.log.end_of_epoch(asked.leader_epoch).unwrap_or((-1, -1));
        // Before 2.0 nothing was known of epochs before the log's first one.
        let is_lost = found.log.first_epoch().is_some_and(|first| asked.leader_epoch < first);
        Ok(if is_lost && state.release() < Release::V2_0 { (-1, -1) } else { ends })
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let result = one(&topic.topic, asked);
                let (leader_epoch, end_offset) = result.unwrap_or((-1, -1));
                OffsetForLeaderPartitionResult {
                    error_code: result.err().unwrap_or_default(),
                    partition: asked.partition,
                    leader_epoch,
                    end_offset,
                }
            });
            OffsetForLeaderTopicResult { topic: topic.topic.clone(), partitions: partitions.collect() }
        })
        .collect();
    OffsetForLeaderEpochResponse { topics, ..Default::default() }
}
