//! FindCoordinator, OffsetCommit and OffsetFetch, membership of groups, ListGroups, and SASL where there is none.

use bytes::Bytes;
use downspout::protocol::*;

use super::{Pins, fine, only};
use crate::harness::{Mode, Result};

const GROUP: &str = "pinned";
const TOPIC: &str = crate::offsets::TOPIC;

pub fn all(pins: &mut Pins<'_>) -> Result<()> {
    pins.each::<FindCoordinatorRequest>(find_coordinator)?;
    // What was committed by one version is read by the others.
    pins.each::<OffsetCommitRequest>(commit)?;
    pins.each::<OffsetFetchRequest>(fetch)?;
    if pins.stage.release.since(&[0, 9]) {
        membership(pins)?;
        pins.each::<ListGroupsRequest>(list_groups)?;
    }
    pins.each::<ConsumerGroupHeartbeatRequest>(consumer_group_heartbeat)?;
    pins.each::<SaslHandshakeRequest>(sasl_handshake)?;
    pins.each::<SaslAuthenticateRequest>(sasl_authenticate)
}

fn find_coordinator(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = FindCoordinatorRequest {
        key: if version < 4 { GROUP.to_owned() } else { String::new() },
        coordinator_keys: if version < 4 { Vec::new() } else { vec![GROUP.to_owned()] },
        ..FindCoordinatorRequest::default()
    };
    let port = i32::from(pins.stage.kafka.address().port());
    pins.connection.answer_when(&request, version, |told| {
        let (code, address) = match &told.coordinators[..] {
            [one] => (one.error_code, (one.host.clone(), one.port)),
            _ => (told.error_code, (told.host.clone(), told.port)),
        };
        assert!([0, 15].contains(&code.0), "{told:?}"); // 15: the offsets topic is being made
        (code.0 == 0).then(|| assert_eq!(address, ("127.0.0.1".to_owned(), port)))
    })
}

/// Each version commits an offset of its own, so that a later look finds the last one.
fn commit(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset_of(version),
        committed_metadata: Some(format!("by version {version}")),
        ..OffsetCommitRequestPartition::default()
    };
    let (name, topic_id) = pins.topic(TOPIC, version, 10);
    let request = OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        topics: vec![OffsetCommitRequestTopic { name, topic_id, partitions: vec![partition] }],
        ..OffsetCommitRequest::default()
    };
    let wanted = if in_zookeeper_without_one(pins, version) { 35 } else { 0 };
    pins.connection.answer_when(&request, version, |told| {
        let code = told.topics[0].partitions[0].error_code.0;
        assert!([wanted, 14, 15, 16].contains(&code), "{told:?}"); // the coordinator is loading
        (code == wanted).then_some(())
    })
}

/// Version 0 of both keeps offsets in ZooKeeper, and a KRaft broker that has it in its range refuses it.
fn in_zookeeper_without_one(pins: &Pins<'_>, version: i16) -> bool {
    version == 0 && pins.stage.release.mode() == Mode::KRaft
}

fn offset_of(version: i16) -> i64 {
    100 + i64::from(version)
}

fn fetch(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    // Version 0 looks in ZooKeeper, where only version 0 has written.
    let newest = pins.newest::<OffsetCommitRequest>().ok_or("no OffsetCommit")?;
    let expected = if version == 0 { 0 } else { newest };
    let mut request = OffsetFetchRequest::default();
    if version < 8 {
        let topic = OffsetFetchRequestTopic { name: TOPIC.to_owned(), partition_indexes: vec![0] };
        (request.group_id, request.topics) = (GROUP.to_owned(), Some(vec![topic]));
    } else {
        let (name, topic_id) = pins.topic(TOPIC, version, 10);
        let topic = OffsetFetchRequestTopics { name, topic_id, partition_indexes: vec![0] };
        let topics = Some(vec![topic]);
        request.groups =
            vec![OffsetFetchRequestGroup { group_id: GROUP.to_owned(), topics, ..Default::default() }];
    }
    let told = pins.connection.answer(&request, version)?;
    fine("answer", told.error_code)?;
    let (code, offset, metadata) = if version < 8 {
        let found = only(&only(&told.topics)?.partitions)?;
        (found.error_code, found.committed_offset, &found.metadata)
    } else {
        let group = only(&told.groups)?;
        fine("group", group.error_code)?;
        let found = only(&only(&group.topics)?.partitions)?;
        (found.error_code, found.committed_offset, &found.metadata)
    };
    if in_zookeeper_without_one(pins, version) {
        assert_eq!(code.0, 35);
        return Ok(());
    }
    fine("partition", code)?;
    assert_eq!(offset, offset_of(expected));
    // ZooKeeper has no place for it.
    let text = if version == 0 { String::new() } else { format!("by version {expected}") };
    assert_eq!(metadata.as_deref(), Some(text.as_str()));
    Ok(())
}

/// Join with each version; then, as a member, sync and heartbeat with each; then leave with each.
fn membership(pins: &mut Pins<'_>) -> Result<()> {
    pins.each::<JoinGroupRequest>(|pins, version| {
        join(pins, &format!("group-{version}"), version).map(drop)
    })?;
    let newest = pins.newest::<JoinGroupRequest>().ok_or("no JoinGroup")?;
    let member = join(pins, "members", newest)?;
    pins.each::<SyncGroupRequest>(|pins, version| {
        let kind = |text: &str| (version >= 5).then(|| text.to_owned());
        let mine = SyncGroupAssignment {
            member_id: member.member_id.clone(),
            assignment: Bytes::from_static(b"all of it"),
        };
        let request = SyncGroupRequest {
            group_id: "members".to_owned(),
            generation_id: member.generation_id,
            member_id: member.member_id.clone(),
            protocol_type: kind("test"),
            protocol_name: kind("first"),
            assignments: vec![mine],
            ..SyncGroupRequest::default()
        };
        let told = pins.connection.answer(&request, version)?;
        fine("answer", told.error_code)?;
        assert_eq!(&told.assignment[..], b"all of it");
        Ok(())
    })?;
    pins.each::<HeartbeatRequest>(|pins, version| {
        let request = HeartbeatRequest {
            group_id: "members".to_owned(),
            generation_id: member.generation_id,
            member_id: member.member_id.clone(),
            ..HeartbeatRequest::default()
        };
        fine("answer", pins.connection.answer(&request, version)?.error_code)
    })?;
    pins.each::<LeaveGroupRequest>(|pins, version| {
        let group = format!("leaving-{version}");
        let member = join(pins, &group, newest)?.member_id;
        let mut request = LeaveGroupRequest { group_id: group, ..LeaveGroupRequest::default() };
        if version < 3 {
            request.member_id = member;
        } else {
            let reason = (version >= 5).then(|| "the test is over".to_owned());
            request.members = vec![LeavingMember { member_id: member, reason, ..LeavingMember::default() }];
        }
        let told = pins.connection.answer(&request, version)?;
        told.members.iter().try_for_each(|left| fine("member", left.error_code))?;
        fine("answer", told.error_code)
    })
}

/// Joins as the only member. From version 4 on the first answer is 79 and the member id to come with (KIP-394).
fn join(pins: &mut Pins<'_>, group: &str, version: i16) -> Result<JoinGroupResponse> {
    let protocol =
        JoinGroupProtocol { name: "first".to_owned(), metadata: Bytes::from_static(b"\0\x01meta") };
    let mut request = JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: if version == 0 { -1 } else { 30_000 },
        protocol_type: "test".to_owned(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    };
    let mut told = pins.connection.answer(&request, version)?;
    if version >= 4 {
        assert_eq!(told.error_code.0, 79, "{told:?}");
        request.member_id.clone_from(&told.member_id);
        told = pins.connection.answer(&request, version)?;
    }
    fine("answer", told.error_code)?;
    assert_eq!((&told.leader, told.generation_id), (&told.member_id, 1));
    assert_eq!(told.protocol_name.as_deref(), Some("first"));
    let member = only(&told.members)?;
    assert_eq!((&member.member_id, &member.metadata[..]), (&told.member_id, &b"\0\x01meta"[..]));
    Ok(told)
}

fn list_groups(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let told = pins.connection.answer(&ListGroupsRequest::default(), version)?;
    fine("answer", told.error_code)?;
    let found = told.groups.iter().find(|group| group.group_id == "members").ok_or("the group is missing")?;
    assert_eq!(found.protocol_type, "test");
    assert_eq!(found.group_state, if version < 4 { "" } else { "Stable" });
    assert_eq!(found.group_type.to_lowercase(), if version < 5 { "" } else { "classic" });
    Ok(())
}

fn consumer_group_heartbeat(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: format!("assigned-{version}"),
        member_id: if version == 0 { String::new() } else { "AAAAAAAAAAAAAAAAAAAAAg".to_owned() },
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(vec![TOPIC.to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let told = pins.connection.answer(&request, version)?;
    if !pins.stage.release.since(&[4]) {
        assert!([0, 35].contains(&told.error_code.0), "{told:?}"); // an early access to be switched on
        return Ok(());
    }
    fine("answer", told.error_code)?;
    assert!(told.member_id.is_some_and(|id| !id.is_empty()));
    assert!(told.heartbeat_interval_ms > 0 && told.member_epoch > 0);
    let assigned = told.assignment.ok_or("no assignment")?;
    let topic = only(&assigned.topic_partitions)?;
    assert_eq!((topic.topic_id, &topic.partitions[..]), (pins.ids[TOPIC], &[0][..]));
    Ok(())
}

/// Refused with 34, ILLEGAL_SASL_STATE, on a listener without SASL.
fn sasl_handshake(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = SaslHandshakeRequest { mechanism: "PLAIN".to_owned() };
    assert_eq!(pins.connection.answer(&request, version)?.error_code.0, 34);
    Ok(())
}

fn sasl_authenticate(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = SaslAuthenticateRequest { auth_bytes: Bytes::from_static(b"\0user\0secret").into() };
    assert_eq!(pins.connection.answer(&request, version)?.error_code.0, 34);
    Ok(())
}
