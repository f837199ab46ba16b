//! Metadata: brokers and topics, and the creation of topics that were only asked for.

use std::collections::BTreeSet;

use super::Call;
use crate::protocol::{
    ErrorCode, MetadataBroker, MetadataPartition, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    MetadataTopic,
};
use crate::testing::state::{Partition, State};

pub(super) fn answer(state: &mut State, call: Call<'_>, request: MetadataRequest) -> MetadataResponse {
    // An empty list asks for all topics in version 0, and for none later.
    let asked = request.topics.filter(|topics| call.version > 0 || !topics.is_empty());
    let topics: Vec<MetadataTopic> = match asked {
        None => {
            let outdated = state.node(call.node).and_then(|node| node.outdated.as_ref());
            let names: Vec<String> = match outdated {
                Some(layout) => layout.keys().cloned().collect(),
                None => state.topics.keys().cloned().collect(),
            };
            names.into_iter().map(|name| by_name(state, call, name, false)).collect()
        }
        Some(asked) => {
            let may_create = request.allow_auto_topic_creation && state.settings.auto_create_topics;
            asked.into_iter().map(|topic| topic_answer(state, call, topic, may_create)).collect()
        }
    };
    MetadataResponse {
        brokers: brokers(state, &topics),
        cluster_id: Some(state.settings.cluster_id.clone()),
        controller_id: state.live_nodes().next().map_or(-1, |node| node.id),
        topics,
        error_code: call.injected.top().unwrap_or_default(),
        ..Default::default()
    }
}

/// All live brokers; before 0.8.2 only those with a part in the topics returned.
fn brokers(state: &State, topics: &[MetadataTopic]) -> Vec<MetadataBroker> {
    let involved: BTreeSet<i32> = topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .flat_map(|partition| partition.replica_nodes.iter().copied())
        .collect();
    state
        .live_nodes()
        .filter(|node| !node.hidden && (state.release().lists_all_brokers() || involved.contains(&node.id)))
        .map(|node| MetadataBroker {
            node_id: node.id,
            host: node.host.clone(),
            port: node.port.into(),
            rack: node.rack.clone(),
        })
        .collect()
}

fn topic_answer(
    state: &mut State,
    call: Call<'_>,
    asked: MetadataRequestTopic,
    may_create: bool,
) -> MetadataTopic {
    match asked.name {
        Some(name) => by_name(state, call, name, may_create),
        // By id, which no topic is created by (version 12 on).
        None => match state.name_of(asked.topic_id).map(str::to_owned) {
            Some(name) => by_name(state, call, name, false),
            None => MetadataTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_ID,
                topic_id: asked.topic_id,
                name: None,
                ..Default::default()
            },
        },
    }
}

fn by_name(state: &mut State, call: Call<'_>, name: String, may_create: bool) -> MetadataTopic {
    let error = |error_code, name| MetadataTopic { error_code, name: Some(name), ..Default::default() };
    if let Some(code) = call.injected.topic(&name) {
        return error(code, name);
    }
    let outdated = state.node(call.node).and_then(|node| node.outdated.as_ref());
    if outdated.map_or(state.topics.contains_key(&name), |layout| layout.contains_key(&name)) {
        return described(state, call, name);
    }
    if !may_create {
        return error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, name);
    }
    if !is_valid_topic(&name) {
        return error(ErrorCode::INVALID_TOPIC_EXCEPTION, name);
    }
    state.create_topic(&name, state.settings.default_partitions);
    // The topic is there with the next answer only.
    let code = match state.release().is_kraft() {
        true => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        false => ErrorCode::LEADER_NOT_AVAILABLE,
    };
    error(code, name)
}

fn described(state: &State, call: Call<'_>, name: String) -> MetadataTopic {
    let outdated = state.node(call.node).and_then(|node| node.outdated.as_ref()?.get(&name));
    let current = || {
        let topic = state.topics.get(&name)?;
        Some((topic.id, topic.partitions.iter().map(Partition::layout).collect()))
    };
    let Some((topic_id, partitions)) = outdated.cloned().or_else(current) else {
        return MetadataTopic::default();
    };
    let is_up = |id: &i32| state.node(*id).is_some_and(|node| node.up);
    let partitions: Vec<_> = (0..)
        .zip(partitions)
        .map(|(partition_index, partition)| {
            let (up, down): (Vec<i32>, Vec<i32>) = partition.replicas.iter().copied().partition(is_up);
            let natural = match partition.leader {
                None => ErrorCode::LEADER_NOT_AVAILABLE,
                Some(_) if !down.is_empty() && call.version < 5 => ErrorCode::REPLICA_NOT_AVAILABLE,
                Some(_) => ErrorCode(0),
            };
            MetadataPartition {
                error_code: call.injected.partition(&name, partition_index).unwrap_or(natural),
                partition_index,
                leader_id: partition.leader.unwrap_or(-1),
                leader_epoch: partition.epoch,
                replica_nodes: partition.replicas,
                isr_nodes: up,
                offline_replicas: down,
            }
        })
        .collect();
    MetadataTopic {
        topic_id,
        is_internal: name.starts_with("__"),
        name: Some(name),
        partitions,
        ..Default::default()
    }
}

/// Letters, digits, `.`, `_` and `-`, at most 249 of them, and neither `.` nor `..`.
fn is_valid_topic(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !matches!(name, "" | "." | "..") && name.len() <= 249 && name.chars().all(allowed)
}
