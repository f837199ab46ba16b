//! What the `kafka-protocol` crate reads in the same bytes: another implementation, generated from Kafka's own
//! definitions. It has no versions from before the 0.11 era for most APIs; there is no second opinion on those.

use bytes::{Buf, Bytes};
use downspout::protocol::*;
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Message as TheirMessage};

use crate::harness::Result;

pub trait SecondOpinion {
    /// Fails where the other decoder finds something else in the frame.
    fn compare(&self, frame: &Bytes, version: i16) -> Result<()>;
}

/// `None` where the other one does not have the version.
fn decode<M: Decodable + TheirMessage + HeaderVersion>(frame: &Bytes, version: i16) -> Result<Option<M>> {
    if version < M::VERSIONS.min || version > M::VERSIONS.max {
        return Ok(None);
    }
    let mut bytes = frame.clone();
    theirs::ResponseHeader::decode(&mut bytes, M::header_version(version))
        .map_err(|e| format!("header: {e}"))?;
    let message = M::decode(&mut bytes, version).map_err(|e| e.to_string())?;
    if bytes.has_remaining() {
        Err(format!("{} bytes left over", bytes.remaining()))
    } else {
        Ok(Some(message))
    }
}

/// Equal, or an error that shows both.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, theirs: T) -> Result<()> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: ours {ours:?}, theirs {theirs:?}")) }
}

impl SecondOpinion for ApiVersionsResponse {
    fn compare(&self, frame: &Bytes, version: i16) -> Result<()> {
        let Some(other) = decode::<theirs::ApiVersionsResponse>(frame, version)? else { return Ok(()) };
        same("error", self.error_code.0, other.error_code)?;
        same("throttle", self.throttle_time_ms, other.throttle_time_ms)?;
        let ours: Vec<_> = self.api_keys.iter().map(|a| (a.api_key, a.min_version, a.max_version)).collect();
        same(
            "keys",
            ours,
            other.api_keys.iter().map(|a| (a.api_key, a.min_version, a.max_version)).collect(),
        )?;
        let ours: Vec<_> =
            self.supported_features.iter().map(|f| (f.name.clone(), f.min_version, f.max_version)).collect();
        let others = other.supported_features.iter();
        same("features", ours, others.map(|f| (f.name.to_string(), f.min_version, f.max_version)).collect())?;
        same("features' epoch", self.finalized_features_epoch, other.finalized_features_epoch)?;
        let ours: Vec<_> = self
            .finalized_features
            .iter()
            .map(|f| (f.name.clone(), f.max_version_level, f.min_version_level))
            .collect();
        let others = other.finalized_features.iter();
        let others = others.map(|f| (f.name.to_string(), f.max_version_level, f.min_version_level));
        same("features in force", ours, others.collect())?;
        same("migration", self.zk_migration_ready, other.zk_migration_ready)
    }
}

impl SecondOpinion for MetadataResponse {
    fn compare(&self, frame: &Bytes, version: i16) -> Result<()> {
        let Some(other) = decode::<theirs::MetadataResponse>(frame, version)? else { return Ok(()) };
        same("throttle", self.throttle_time_ms, other.throttle_time_ms)?;
        same("cluster", self.cluster_id.clone(), other.cluster_id.map(|id| id.to_string()))?;
        same("controller", self.controller_id, other.controller_id.0)?;
        same(
            "cluster's operations",
            self.cluster_authorized_operations,
            other.cluster_authorized_operations,
        )?;
        let ours: Vec<_> =
            self.brokers.iter().map(|b| (b.node_id, b.host.clone(), b.port, b.rack.clone())).collect();
        let others = other.brokers.iter();
        let others =
            others.map(|b| (b.node_id.0, b.host.to_string(), b.port, b.rack.as_ref().map(|r| r.to_string())));
        same("brokers", ours, others.collect())?;
        same("topics", self.topics.len(), other.topics.len())?;
        for (ours, others) in self.topics.iter().zip(&other.topics) {
            same("topic's error", ours.error_code.0, others.error_code)?;
            same("topic", ours.name.clone(), others.name.as_ref().map(|name| name.to_string()))?;
            same("topic id", ours.topic_id.0, *others.topic_id.as_bytes())?;
            same("internal", ours.is_internal, others.is_internal)?;
            same("operations", ours.topic_authorized_operations, others.topic_authorized_operations)?;
            let of_ours = ours.partitions.iter().map(|p| {
                let nodes = [&p.replica_nodes, &p.isr_nodes, &p.offline_replicas].map(Clone::clone);
                (p.error_code.0, p.partition_index, p.leader_id, p.leader_epoch, nodes)
            });
            let of_others = others.partitions.iter().map(|p| {
                let nodes = [&p.replica_nodes, &p.isr_nodes, &p.offline_replicas];
                let nodes = nodes.map(|list| list.iter().map(|id| id.0).collect());
                (p.error_code, p.partition_index, p.leader_id.0, p.leader_epoch, nodes)
            });
            same("partitions", of_ours.collect::<Vec<_>>(), of_others.collect())?;
        }
        Ok(())
    }
}

impl SecondOpinion for FetchResponse {
    fn compare(&self, frame: &Bytes, version: i16) -> Result<()> {
        let Some(other) = decode::<theirs::FetchResponse>(frame, version)? else { return Ok(()) };
        same("throttle", self.throttle_time_ms, other.throttle_time_ms)?;
        same("error", self.error_code.0, other.error_code)?;
        same("session", self.session_id, other.session_id)?;
        same("topics", self.responses.len(), other.responses.len())?;
        for (ours, others) in self.responses.iter().zip(&other.responses) {
            same("topic", ours.topic.clone(), others.topic.to_string())?;
            same("topic id", ours.topic_id.0, *others.topic_id.as_bytes())?;
            same("partitions", ours.partitions.len(), others.partitions.len())?;
            for (ours, others) in ours.partitions.iter().zip(&others.partitions) {
                same("partition", ours.partition_index, others.partition_index)?;
                same("partition's error", ours.error_code.0, others.error_code)?;
                same("high watermark", ours.high_watermark, others.high_watermark)?;
                same("last stable offset", ours.last_stable_offset, others.last_stable_offset)?;
                same("log start", ours.log_start_offset, others.log_start_offset)?;
                same("preferred replica", ours.preferred_read_replica, others.preferred_read_replica.0)?;
                let aborted = ours.aborted_transactions.as_ref();
                let aborted =
                    aborted.map(|list| list.iter().map(|t| (t.producer_id, t.first_offset)).collect());
                let theirs = others.aborted_transactions.as_ref();
                let theirs =
                    theirs.map(|list| list.iter().map(|t| (t.producer_id.0, t.first_offset)).collect());
                same::<Option<Vec<_>>>("aborted", aborted, theirs)?;
                if ours.records != others.records {
                    return Err(format!("records of partition {} differ", ours.partition_index));
                }
            }
        }
        Ok(())
    }
}

/// A second opinion on fields: what each is in our message and in theirs.
macro_rules! fields {
    ($message:ident, |$ours:ident, $theirs:ident| $($what:literal: $left:expr, $right:expr;)*) => {
        impl SecondOpinion for $message {
            fn compare(&self, frame: &Bytes, version: i16) -> Result<()> {
                let Some($theirs) = decode::<theirs::$message>(frame, version)? else { return Ok(()) };
                let $ours = self;
                $(same($what, $left, $right)?;)*
                Ok(())
            }
        }
    };
}

/// Each element as a tuple, to be compared as a whole.
fn each<'a, T: 'a, V>(list: impl IntoIterator<Item = &'a T>, value: impl Fn(&'a T) -> V) -> Vec<V> {
    list.into_iter().map(value).collect()
}

fn text(text: &Option<kafka_protocol::protocol::StrBytes>) -> Option<String> {
    text.as_ref().map(|text| text.to_string())
}

fields! { ListOffsetsResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "topics": each(&ours.topics, |t| (t.name.clone(), each(&t.partitions, |p| {
        (p.partition_index, p.error_code.0, p.timestamp, p.offset, p.leader_epoch)
    }))), each(&other.topics, |t| (t.name.to_string(), each(&t.partitions, |p| {
        (p.partition_index, p.error_code, p.timestamp, p.offset, p.leader_epoch)
    })));
}

fields! { OffsetForLeaderEpochResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "topics": each(&ours.topics, |t| (t.topic.clone(), each(&t.partitions, |p| {
        (p.partition, p.error_code.0, p.leader_epoch, p.end_offset)
    }))), each(&other.topics, |t| (t.topic.to_string(), each(&t.partitions, |p| {
        (p.partition, p.error_code, p.leader_epoch, p.end_offset)
    })));
}

fields! { ProduceResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "topics": each(&ours.responses, |t| (t.name.clone(), t.topic_id.0, each(&t.partition_responses, |p| {
        let errors = each(&p.record_errors, |e| (e.batch_index, e.batch_index_error_message.clone()));
        let times = (p.base_offset, p.log_append_time_ms, p.log_start_offset);
        (p.index, p.error_code.0, times, p.error_message.clone(), errors)
    }))), each(&other.responses, |t| (t.name.to_string(), *t.topic_id.as_bytes(), each(&t.partition_responses, |p| {
        let errors = each(&p.record_errors, |e| (e.batch_index, text(&e.batch_index_error_message)));
        let times = (p.base_offset, p.log_append_time_ms, p.log_start_offset);
        (p.index, p.error_code, times, text(&p.error_message), errors)
    })));
}

fields! { InitProducerIdResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "id": (ours.error_code.0, ours.producer_id, ours.producer_epoch),
        (other.error_code, other.producer_id.0, other.producer_epoch);
}

fields! { FindCoordinatorResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "answer": (ours.error_code.0, ours.error_message.clone(), ours.node_id, ours.host.clone(), ours.port),
        (other.error_code, text(&other.error_message), other.node_id.0, other.host.to_string(), other.port);
    "coordinators": each(&ours.coordinators, |c| {
        (c.key.clone(), c.node_id, c.host.clone(), c.port, c.error_code.0, c.error_message.clone())
    }), each(&other.coordinators, |c| {
        (c.key.to_string(), c.node_id.0, c.host.to_string(), c.port, c.error_code, text(&c.error_message))
    });
}

fields! { OffsetCommitResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "topics": each(&ours.topics, |t| (t.name.clone(), t.topic_id.0, each(&t.partitions, |p| {
        (p.partition_index, p.error_code.0)
    }))), each(&other.topics, |t| (t.name.to_string(), *t.topic_id.as_bytes(), each(&t.partitions, |p| {
        (p.partition_index, p.error_code)
    })));
}

fields! { OffsetFetchResponse, |ours, other|
    "throttle": (ours.throttle_time_ms, ours.error_code.0), (other.throttle_time_ms, other.error_code);
    "topics": each(&ours.topics, |t| (t.name.clone(), each(&t.partitions, |p| {
        let offset = (p.committed_offset, p.committed_leader_epoch);
        (p.partition_index, p.error_code.0, offset, p.metadata.clone())
    }))), each(&other.topics, |t| (t.name.to_string(), each(&t.partitions, |p| {
        let offset = (p.committed_offset, p.committed_leader_epoch);
        (p.partition_index, p.error_code, offset, text(&p.metadata))
    })));
    "groups": each(&ours.groups, |g| (g.group_id.clone(), g.error_code.0, each(&g.topics, |t| {
        (t.name.clone(), t.topic_id.0, each(&t.partitions, |p| {
            let offset = (p.committed_offset, p.committed_leader_epoch);
            (p.partition_index, p.error_code.0, offset, p.metadata.clone())
        }))
    }))), each(&other.groups, |g| (g.group_id.to_string(), g.error_code, each(&g.topics, |t| {
        (t.name.to_string(), *t.topic_id.as_bytes(), each(&t.partitions, |p| {
            let offset = (p.committed_offset, p.committed_leader_epoch);
            (p.partition_index, p.error_code, offset, text(&p.metadata))
        }))
    })));
}

fields! { JoinGroupResponse, |ours, other|
    "throttle": ours.throttle_time_ms, other.throttle_time_ms;
    "answer": (ours.error_code.0, ours.generation_id, ours.skip_assignment),
        (other.error_code, other.generation_id, other.skip_assignment);
    "protocol": (ours.protocol_type.clone(), ours.protocol_name.clone()),
        (text(&other.protocol_type), text(&other.protocol_name));
    "leader": (ours.leader.clone(), ours.member_id.clone()), (other.leader.to_string(), other.member_id.to_string());
    "members": each(&ours.members, |m| (m.member_id.clone(), m.group_instance_id.clone(), m.metadata.clone())),
        each(&other.members, |m| (m.member_id.to_string(), text(&m.group_instance_id), m.metadata.clone()));
}

fields! { SyncGroupResponse, |ours, other|
    "answer": (ours.throttle_time_ms, ours.error_code.0), (other.throttle_time_ms, other.error_code);
    "protocol": (ours.protocol_type.clone(), ours.protocol_name.clone()),
        (text(&other.protocol_type), text(&other.protocol_name));
    "assignment": &ours.assignment, &other.assignment;
}

fields! { HeartbeatResponse, |ours, other|
    "answer": (ours.throttle_time_ms, ours.error_code.0), (other.throttle_time_ms, other.error_code);
}

fields! { LeaveGroupResponse, |ours, other|
    "answer": (ours.throttle_time_ms, ours.error_code.0), (other.throttle_time_ms, other.error_code);
    "members": each(&ours.members, |m| (m.member_id.clone(), m.group_instance_id.clone(), m.error_code.0)),
        each(&other.members, |m| (m.member_id.to_string(), text(&m.group_instance_id), m.error_code));
}

fields! { ListGroupsResponse, |ours, other|
    "answer": (ours.throttle_time_ms, ours.error_code.0), (other.throttle_time_ms, other.error_code);
    "groups": each(&ours.groups, |g| {
        (g.group_id.clone(), g.protocol_type.clone(), g.group_state.clone(), g.group_type.clone())
    }), each(&other.groups, |g| {
        (g.group_id.to_string(), g.protocol_type.to_string(), g.group_state.to_string(), g.group_type.to_string())
    });
}

fields! { ConsumerGroupHeartbeatResponse, |ours, other|
    "answer": (ours.throttle_time_ms, ours.error_code.0, ours.error_message.clone()),
        (other.throttle_time_ms, other.error_code, text(&other.error_message));
    "member": (ours.member_id.clone(), ours.member_epoch, ours.heartbeat_interval_ms),
        (text(&other.member_id), other.member_epoch, other.heartbeat_interval_ms);
    "assignment": ours.assignment.as_ref().map(|a| each(&a.topic_partitions, |t| (t.topic_id.0, t.partitions.clone()))),
        other.assignment.as_ref().map(|a| {
            each(&a.topic_partitions, |t| (*t.topic_id.as_bytes(), t.partitions.clone()))
        });
}

fields! { SaslHandshakeResponse, |ours, other|
    "error": ours.error_code.0, other.error_code;
    "mechanisms": ours.mechanisms.clone(), each(&other.mechanisms, |m| m.to_string());
}

fields! { SaslAuthenticateResponse, |ours, other|
    "error": (ours.error_code.0, ours.error_message.clone()), (other.error_code, text(&other.error_message));
    "bytes": &*ours.auth_bytes, &other.auth_bytes;
    "lifetime": ours.session_lifetime_ms, other.session_lifetime_ms;
}
