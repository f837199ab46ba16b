//! Committed offsets: FindCoordinator, OffsetCommit, OffsetFetch.

use super::Call;
use crate::protocol::*;
use crate::testing::Release;
use crate::testing::groups::Phase;
use crate::testing::state::{Committed, State};

/// One broker coordinates all groups.
pub(super) fn find_coordinator(
    state: &mut State,
    call: Call<'_>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let node = state.coordinator().and_then(|id| state.node(id)).filter(|_| call.injected.only().is_none());
    let error_code = match (call.injected.only(), node) {
        (Some(code), _) => code,
        (None, None) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        (None, Some(_)) => ErrorCode::NONE,
    };
    let (node_id, host, port) =
        node.map_or((-1, String::new(), -1), |node| (node.id, node.host.clone(), node.port.into()));
    if call.version < 4 {
        return FindCoordinatorResponse {
            error_code,
            error_message: None,
            node_id,
            host,
            port,
            ..Default::default()
        };
    }
    let coordinators = request
        .coordinator_keys
        .into_iter()
        .map(|key| Coordinator { key, node_id, host: host.clone(), port, error_code, error_message: None })
        .collect();
    FindCoordinatorResponse { coordinators, ..Default::default() }
}

pub(super) fn commit(
    state: &mut State,
    call: Call<'_>,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let membership = may_commit(state, call, &request);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let known = state.name_of(topic.topic_id).map(str::to_owned);
        let name = if call.version >= 10 { known } else { Some(topic.name.clone()) };
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let partition_index = partition.partition_index;
            let result = membership
                .and_then(|()| name.as_deref().ok_or(ErrorCode::UNKNOWN_TOPIC_ID))
                .and_then(|name| commit_one(state, call, &request.group_id, name, partition));
            let error_code = result.err().unwrap_or_default();
            partitions.push(OffsetCommitResponsePartition { partition_index, error_code });
        }
        topics.push(OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions });
    }
    OffsetCommitResponse { topics, ..Default::default() }
}

/// Members commit in their generation; others only while the group has no members.
fn may_commit(state: &mut State, call: Call<'_>, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
    if call.version == 0 {
        return Ok(());
    }
    state.check_coordinator(call.node)?;
    if request.group_id.is_empty() && state.release() >= Release::V2_4 {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let generation = request.generation_id_or_member_epoch;
    if let Some(group) = state.modern_groups.get(&request.group_id).filter(|group| !group.members.is_empty())
    {
        return group.check(&request.member_id, generation);
    }
    let Some(group) = state.groups.get_mut(&request.group_id) else {
        return if generation >= 0 { Err(ErrorCode::UNKNOWN_MEMBER_ID) } else { Ok(()) };
    };
    group.tick(call.now);
    if generation < 0 && group.members.is_empty() {
        return Ok(());
    }
    group.check(&request.member_id, generation, call.now)?;
    if group.phase == Phase::Assigning { Err(ErrorCode::REBALANCE_IN_PROGRESS) } else { Ok(()) }
}

fn commit_one(
    state: &mut State,
    call: Call<'_>,
    group: &str,
    topic: &str,
    partition: OffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    let index = partition.partition_index;
    if let Some(code) = call.injected.partition(topic, index) {
        return Err(code);
    }
    state.partition(topic, index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if partition
        .committed_metadata
        .as_ref()
        .is_some_and(|text| text.len() > state.settings.offset_metadata_limit)
    {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    let committed = Committed {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        // In ZooKeeper there is a place for the offset alone.
        metadata: partition.committed_metadata.filter(|_| call.version > 0),
    };
    let key = (group.to_owned(), topic.to_owned(), index);
    let store = if call.version == 0 { &mut state.committed_in_zookeeper } else { &mut state.committed };
    store.insert(key, committed);
    Ok(())
}

pub(super) fn fetch(state: &mut State, call: Call<'_>, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let astray = || if call.version == 0 { None } else { state.check_coordinator(call.node).err() };
    if let Some(error_code) = call.injected.top().or_else(astray) {
        if call.version < 2 {
            // Only the partitions have a place for it.
            let partition = |index| OffsetFetchResponsePartition {
                partition_index: index,
                committed_offset: -1,
                metadata: Some(String::new()),
                error_code,
                ..Default::default()
            };
            let topics =
                request.topics.unwrap_or_default().into_iter().map(|topic| OffsetFetchResponseTopic {
                    name: topic.name,
                    partitions: topic.partition_indexes.into_iter().map(partition).collect(),
                });
            return OffsetFetchResponse { topics: topics.collect(), ..Default::default() };
        }
        let failed = |group: OffsetFetchRequestGroup| OffsetFetchResponseGroup {
            group_id: group.group_id,
            error_code,
            ..Default::default()
        };
        let groups: Vec<_> = request.groups.into_iter().map(failed).collect();
        let error_code = if groups.is_empty() { error_code } else { ErrorCode::NONE };
        return OffsetFetchResponse { error_code, groups, ..Default::default() };
    }
    if call.version >= 8 {
        let groups = request.groups.into_iter().map(|group| fetch_group(state, call, group)).collect();
        return OffsetFetchResponse { groups, ..Default::default() };
    }
    let asked = request.topics.unwrap_or_else(|| {
        let all = all_of(state, &request.group_id);
        all.into_iter()
            .map(|(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes })
            .collect()
    });
    let topics = asked
        .into_iter()
        .map(|topic| {
            let one = |index| {
                let found = fetch_one(state, call, &request.group_id, &topic.name, index);
                OffsetFetchResponsePartition {
                    partition_index: index,
                    committed_offset: found.offset,
                    committed_leader_epoch: found.leader_epoch,
                    metadata: found.metadata,
                    error_code: found.error_code,
                }
            };
            let partitions = topic.partition_indexes.iter().copied().map(one).collect();
            OffsetFetchResponseTopic { name: topic.name.clone(), partitions }
        })
        .collect();
    OffsetFetchResponse { topics, ..Default::default() }
}

fn fetch_group(state: &State, call: Call<'_>, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
    let asked = group.topics.unwrap_or_else(|| {
        let all = all_of(state, &group.group_id).into_iter();
        all.map(|(name, partition_indexes)| OffsetFetchRequestTopics {
            topic_id: state.topics.get(&name).map(|topic| topic.id).unwrap_or_default(),
            name,
            partition_indexes,
        })
        .collect()
    });
    let topics = asked
        .into_iter()
        .map(|topic| {
            let name = match call.version >= 10 {
                true => state.name_of(topic.topic_id),
                false => Some(topic.name.as_str()),
            };
            let one = |index| {
                let found = match name {
                    Some(name) => fetch_one(state, call, &group.group_id, name, index),
                    None => Found::refused(ErrorCode::UNKNOWN_TOPIC_ID),
                };
                OffsetFetchResponsePartitions {
                    partition_index: index,
                    committed_offset: found.offset,
                    committed_leader_epoch: found.leader_epoch,
                    metadata: found.metadata,
                    error_code: found.error_code,
                }
            };
            let partitions = topic.partition_indexes.iter().copied().map(one).collect();
            OffsetFetchResponseTopics { name: topic.name.clone(), topic_id: topic.topic_id, partitions }
        })
        .collect();
    OffsetFetchResponseGroup { group_id: group.group_id, topics, ..Default::default() }
}

struct Found {
    offset: i64,
    leader_epoch: i32,
    metadata: Option<String>,
    error_code: ErrorCode,
}

impl Found {
    fn refused(error_code: ErrorCode) -> Self {
        Found { offset: -1, leader_epoch: -1, metadata: Some(String::new()), error_code }
    }
}

fn fetch_one(state: &State, call: Call<'_>, group: &str, topic: &str, partition: i32) -> Found {
    if let Some(code) = call.injected.partition(topic, partition) {
        return Found::refused(code);
    }
    let store = if call.version == 0 { &state.committed_in_zookeeper } else { &state.committed };
    match store.get(&(group.to_owned(), topic.to_owned(), partition)) {
        Some(committed) => Found {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.clone(),
            error_code: ErrorCode::NONE,
        },
        // Version 0 says so by an error, also where the topic exists.
        None if call.version == 0 => Found::refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => Found::refused(ErrorCode::NONE),
    }
}

/// All topics that a group has committed to, with their partitions.
fn all_of(state: &State, group: &str) -> Vec<(String, Vec<i32>)> {
    let mut all: Vec<(String, Vec<i32>)> = Vec::new();
    let own = state.committed.keys().filter(|(owner, ..)| owner == group);
    for (_, topic, partition) in own {
        match all.last_mut() {
            Some((last, partitions)) if last == topic => partitions.push(*partition),
            _ => all.push((topic.clone(), vec![*partition])),
        }
    }
    all
}
