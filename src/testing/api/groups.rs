//! Groups with members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ListGroups.

use std::time::Duration;

use super::Call;
use crate::protocol::*;
use crate::testing::groups::{Group, Phase};
use crate::testing::state::State;

/// A member that waits for the others.
#[derive(Debug)]
pub(crate) struct Waiting {
    group: String,
    member: String,
    /// Of a SyncGroup.
    generation: i32,
}

/// An answer, or until when there is none.
pub(super) type Answer<T> = Result<T, (Duration, Waiting)>;

/// The group, if this broker coordinates it, with whatever time has done to it.
fn group<'a>(state: &'a mut State, call: Call<'_>, name: &str) -> Result<&'a mut Group, ErrorCode> {
    if let Some(code) = call.injected.only() {
        return Err(code);
    }
    state.check_coordinator(call.node)?;
    if name.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let group = state.groups.entry(name.to_owned()).or_default();
    if group.tick(call.now) {
        state.changes += 1;
    }
    Ok(group)
}

pub(super) fn join(
    state: &mut State,
    call: Call<'_>,
    client: &str,
    request: &JoinGroupRequest,
) -> Answer<JoinGroupResponse> {
    let refusal = |error_code, member_id| JoinGroupResponse {
        error_code,
        member_id,
        // Not null before version 7.
        protocol_name: Some(String::new()),
        ..Default::default()
    };
    let found = match group(state, call, &request.group_id) {
        Ok(found) => found,
        Err(code) => return Ok(refusal(code, request.member_id.clone())),
    };
    let member = match found.join(request, client, call.version >= 4, call.now) {
        Ok(member) => member,
        Err((code, member)) => return Ok(refusal(code, member)),
    };
    state.changes += 1;
    join_again(state, call, Waiting { group: request.group_id.clone(), member, generation: -1 })
}

pub(super) fn join_again(state: &mut State, call: Call<'_>, waiting: Waiting) -> Answer<JoinGroupResponse> {
    let member_id = waiting.member.clone();
    let refusal = |error_code| JoinGroupResponse { error_code, member_id, ..Default::default() };
    let found = match group(state, call, &waiting.group) {
        Ok(found) => found,
        Err(code) => return Ok(refusal(code)),
    };
    match found.joined(&waiting.member) {
        None => Err((found.next_tick(call.now), waiting)),
        Some(Err(code)) => Ok(refusal(code)),
        Some(Ok(joined)) => Ok(JoinGroupResponse {
            generation_id: joined.generation,
            protocol_type: Some(found.protocol_type.clone()),
            protocol_name: Some(joined.protocol),
            leader: joined.leader,
            member_id: waiting.member,
            members: joined
                .members
                .into_iter()
                .map(|(member_id, group_instance_id, metadata)| JoinGroupMember {
                    member_id,
                    group_instance_id,
                    metadata,
                })
                .collect(),
            ..Default::default()
        }),
    }
}

pub(super) fn sync(
    state: &mut State,
    call: Call<'_>,
    request: SyncGroupRequest,
) -> Answer<SyncGroupResponse> {
    let (name, member, generation) = (request.group_id, request.member_id, request.generation_id);
    let assigned = group(state, call, &name).and_then(|found| {
        found.check(&member, generation, call.now)?;
        if found.phase == Phase::Assigning && found.leader == member {
            found.assign(request.assignments.into_iter().map(|it| (it.member_id, it.assignment)));
            return Ok(true);
        }
        Ok(false)
    });
    match assigned {
        Err(error_code) => return Ok(SyncGroupResponse { error_code, ..Default::default() }),
        Ok(true) => state.changes += 1,
        Ok(false) => {}
    }
    sync_again(state, call, Waiting { group: name, member, generation })
}

pub(super) fn sync_again(state: &mut State, call: Call<'_>, waiting: Waiting) -> Answer<SyncGroupResponse> {
    let refusal = |error_code| Ok(SyncGroupResponse { error_code, ..Default::default() });
    let found = match group(state, call, &waiting.group) {
        Ok(found) => found,
        Err(code) => return refusal(code),
    };
    if found.is_joining() {
        return refusal(ErrorCode::REBALANCE_IN_PROGRESS);
    }
    if let Err(code) = found.check(&waiting.member, waiting.generation, call.now) {
        return refusal(code);
    }
    if found.phase != Phase::Stable {
        return Err((found.next_tick(call.now), waiting));
    }
    let assignment = found.members.get(&waiting.member).map(|member| member.assignment.clone());
    Ok(SyncGroupResponse {
        protocol_type: Some(found.protocol_type.clone()),
        protocol_name: Some(found.protocol.clone()),
        assignment: assignment.unwrap_or_default(),
        ..Default::default()
    })
}

pub(super) fn heartbeat(state: &mut State, call: Call<'_>, request: HeartbeatRequest) -> HeartbeatResponse {
    let alive = group(state, call, &request.group_id).and_then(|found| {
        found.check(&request.member_id, request.generation_id, call.now)?;
        if found.is_joining() { Err(ErrorCode::REBALANCE_IN_PROGRESS) } else { Ok(()) }
    });
    HeartbeatResponse { error_code: alive.err().unwrap_or_default(), ..Default::default() }
}

pub(super) fn leave(state: &mut State, call: Call<'_>, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let found = match group(state, call, &request.group_id) {
        Ok(found) => found,
        Err(error_code) => return LeaveGroupResponse { error_code, ..Default::default() },
    };
    let answer = if call.version >= 3 {
        let members = request.members.into_iter().map(|member| {
            let left = found.leave(&member.member_id, member.group_instance_id.as_deref(), call.now);
            LeftMember {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: left.err().unwrap_or_default(),
            }
        });
        LeaveGroupResponse { members: members.collect(), ..Default::default() }
    } else {
        let left = found.leave(&request.member_id, None, call.now);
        LeaveGroupResponse { error_code: left.err().unwrap_or_default(), ..Default::default() }
    };
    found.tick(call.now);
    state.changes += 1;
    answer
}

/// How often members of the consumer protocol are to say that they are alive, in ms: more often than
/// with real brokers, where nothing moves for 5 s.
const HEARTBEAT_MS: i32 = 500;

pub(super) fn consumer_heartbeat(
    state: &mut State,
    call: Call<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    let refusal = |error_code| ConsumerGroupHeartbeatResponse { error_code, ..Default::default() };
    if let Some(code) = call.injected.only().or(state.check_coordinator(call.node).err()) {
        return refusal(code);
    }
    // librdkafka sends an empty pattern for none. Others would need a library for them.
    let has_pattern = request.subscribed_topic_regex.as_ref().is_some_and(|pattern| !pattern.is_empty());
    if request.group_id.is_empty() || has_pattern {
        return refusal(ErrorCode::INVALID_REQUEST);
    }
    let topics = &state.topics;
    let partitions = |name: &str| {
        let found = topics.get(name);
        let each =
            found.into_iter().flat_map(|topic| (0..topic.partitions.len()).map(|it| (topic.id, it as i32)));
        each.collect()
    };
    let group = state.modern_groups.entry(request.group_id.clone()).or_default();
    match group.heartbeat(&request, call.now, partitions) {
        Err(code) => refusal(code),
        Ok(told) => ConsumerGroupHeartbeatResponse {
            member_id: Some(told.member),
            member_epoch: told.epoch,
            heartbeat_interval_ms: HEARTBEAT_MS,
            assignment: told.assigned.map(|assigned| {
                let mut topic_partitions: Vec<TopicPartitions> = Vec::new();
                for (topic_id, partition) in assigned {
                    match topic_partitions.last_mut() {
                        Some(last) if last.topic_id == topic_id => last.partitions.push(partition),
                        _ => topic_partitions.push(TopicPartitions { topic_id, partitions: vec![partition] }),
                    }
                }
                TargetAssignment { topic_partitions }
            }),
            ..Default::default()
        },
    }
}

/// Groups that have members, or offsets.
pub(super) fn list(state: &mut State, call: Call<'_>, request: ListGroupsRequest) -> ListGroupsResponse {
    let error_code = call.injected.only().unwrap_or_default();
    let mut groups: Vec<ListedGroup> = Vec::new();
    let with_offsets = state.committed.keys().map(|(group, ..)| group.as_str());
    let with_members =
        state.groups.iter().filter(|(_, group)| group.generation > 0 || !group.members.is_empty());
    let mut names: Vec<&str> = with_members.map(|(name, _)| name.as_str()).chain(with_offsets).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|_| state.coordinator() == Some(call.node)) {
        let found = state.groups.get(name);
        let group_state = match found.map(|group| group.phase) {
            None | Some(Phase::Empty) => "Empty",
            Some(Phase::Joining { .. }) => "PreparingRebalance",
            Some(Phase::Assigning) => "CompletingRebalance",
            Some(Phase::Stable) => "Stable",
        };
        let filtered = |filter: &[String], own: &str| {
            !filter.is_empty() && !filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(own))
        };
        if filtered(&request.states_filter, group_state) || filtered(&request.types_filter, "classic") {
            continue;
        }
        groups.push(ListedGroup {
            group_id: name.to_owned(),
            protocol_type: found.map(|group| group.protocol_type.clone()).unwrap_or_default(),
            group_state: group_state.to_owned(),
            group_type: "classic".to_owned(),
        });
    }
    ListGroupsResponse { error_code, groups, ..Default::default() }
}
