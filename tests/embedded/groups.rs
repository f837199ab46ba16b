//! Groups with members.

use super::direct::{Direct, read};
use super::*;
use downspout::testing::{ConnectionId, Reaction};

const SESSION_MS: u64 = 10_000;

fn join(member: &str) -> JoinGroupRequest {
    let protocol = |name: &str| JoinGroupProtocol {
        name: name.to_owned(),
        metadata: Bytes::copy_from_slice(member.as_bytes()),
    };
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: SESSION_MS as i32,
        rebalance_timeout_ms: 30_000,
        member_id: member.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol("range"), protocol("roundrobin")],
        ..Default::default()
    }
}

fn sync(member: &str, generation: i32, assigned: &[&str]) -> SyncGroupRequest {
    let assignments = assigned.iter().map(|member| SyncGroupAssignment {
        member_id: (*member).to_owned(),
        assignment: Bytes::from(format!("for {member}")),
    });
    SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

fn heartbeat(cluster: &mut Direct, at: ConnectionId, member: &str, generation: i32) -> i16 {
    let request = HeartbeatRequest {
        group_id: "g".to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        ..Default::default()
    };
    cluster.ask(at, 2, request).error_code.0
}

/// Two members in a stable group: their connections and ids, the leader first.
fn pair(cluster: &mut Direct) -> [(ConnectionId, String); 2] {
    let (one, two) = (cluster.connect(1), cluster.connect(1));
    let first = cluster.ask(one, 2, join("")).member_id;
    assert!(matches!(cluster.send(two, 2, &join("")), Reaction::Wait { .. }));
    assert!(matches!(cluster.send(one, 2, &join(&first)), Reaction::Answer(_)));
    let second = cluster.resume::<JoinGroupRequest>(two, 2).member_id;
    assert!(matches!(cluster.send(two, 1, &sync(&second, 2, &[])), Reaction::Wait { .. }));
    let own = cluster.ask(one, 1, sync(&first, 2, &[&first, &second])).assignment;
    assert_eq!(own, format!("for {first}").as_bytes());
    assert_eq!(cluster.resume::<SyncGroupRequest>(two, 1).assignment, format!("for {second}").as_bytes());
    [(one, first), (two, second)]
}

#[test]
fn a_generation_begins_when_all_have_joined_and_its_leader_assigns() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let alone = cluster.ask(at, 5, JoinGroupRequest { group_id: "other".to_owned(), ..join("") });
    // KIP-394: the first join is to be done again with the id that is told.
    assert_eq!(alone.error_code, ErrorCode(79));
    let again = JoinGroupRequest { group_id: "other".to_owned(), ..join(&alone.member_id) };
    let alone = cluster.ask(at, 5, again);
    assert_eq!((alone.error_code, alone.generation_id, alone.leader), (ErrorCode(0), 1, alone.member_id));
    assert_eq!((alone.protocol_name.as_deref(), alone.members.len()), (Some("range"), 1));

    let [(one, first), (two, second)] = pair(&mut cluster);
    assert_eq!(cluster.core.members("g").len(), 2);
    assert_eq!(heartbeat(&mut cluster, one, &first, 2), 0);
    assert_eq!(heartbeat(&mut cluster, two, &second, 1), 22);
    assert_eq!(heartbeat(&mut cluster, two, "stranger", 2), 25);
}

#[test]
fn whoever_joins_or_leaves_makes_the_others_join_again() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let [(one, first), (two, second)] = pair(&mut cluster);
    let three = cluster.connect(1);
    cluster.send(three, 2, &join(""));
    assert_eq!(heartbeat(&mut cluster, one, &first, 2), 27);
    cluster.send(one, 2, &join(&first));
    let leave = LeaveGroupRequest { group_id: "g".to_owned(), member_id: second, ..Default::default() };
    assert_eq!(cluster.ask(two, 2, leave).error_code, ErrorCode(0));
    let joined = cluster.resume::<JoinGroupRequest>(one, 2);
    assert_eq!((joined.generation_id, joined.leader == first, joined.members.len()), (3, true, 2));
    assert_eq!(cluster.resume::<JoinGroupRequest>(three, 2).members.len(), 0);
}

#[test]
fn a_silent_member_is_dropped_after_its_session_and_a_late_one_after_the_rebalance() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let [(one, first), _] = pair(&mut cluster);
    cluster.pass(SESSION_MS - 1);
    assert_eq!(heartbeat(&mut cluster, one, &first, 2), 0);
    cluster.pass(1);
    assert_eq!(heartbeat(&mut cluster, one, &first, 2), 27);
    assert_eq!(cluster.ask(one, 2, join(&first)).members.len(), 1);
    // Now a second one comes, and the first keeps its session alive without joining.
    let two = cluster.connect(1);
    cluster.send(two, 2, &join(""));
    for _ in 0..4 {
        assert_eq!(heartbeat(&mut cluster, one, &first, 3), 27);
        cluster.pass(7_500);
        cluster.core.resume(two);
    }
    assert_eq!(cluster.core.members("g").len(), 1);
    assert_eq!(heartbeat(&mut cluster, one, &first, 3), 25);
}

#[test]
fn members_commit_in_their_generation_and_others_only_to_a_group_without_members() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let commit = |cluster: &mut Direct, member: &str, generation| {
        let partition = OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() };
        let topic = OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g".to_owned(),
            generation_id_or_member_epoch: generation,
            member_id: member.to_owned(),
            topics: vec![topic],
            ..Default::default()
        };
        let at = cluster.connect(1);
        cluster.ask(at, 5, request).topics[0].partitions[0].error_code.0
    };
    assert_eq!(commit(&mut cluster, "", -1), 0);
    assert_eq!(commit(&mut cluster, "", 1), 25);
    let [(_, first), _] = pair(&mut cluster);
    assert_eq!(commit(&mut cluster, "", -1), 25);
    assert_eq!(commit(&mut cluster, &first, 1), 22);
    assert_eq!(commit(&mut cluster, &first, 2), 0);
    assert_eq!(cluster.core.committed("g", "t", 0), Some(5));
}

#[test]
fn only_the_coordinator_knows_the_group() {
    let mut cluster = Direct::new(Release::V2_4, |settings| settings.brokers = 2);
    let (one, two) = (cluster.connect(1), cluster.connect(2));
    let asked = |cluster: &mut Direct| {
        let request = FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() };
        cluster.ask(one, 2, request).node_id
    };
    assert_eq!(asked(&mut cluster), 1);
    assert_eq!(cluster.ask(two, 2, join("")).error_code, ErrorCode(16));
    cluster.core.set_coordinator(Some(2));
    assert_eq!(asked(&mut cluster), 2);
    assert_eq!(cluster.ask(two, 2, join("")).error_code, ErrorCode(0));
    assert_eq!(heartbeat(&mut cluster, one, "m", 1), 16);
    let listed = |cluster: &mut Direct, at| {
        let groups = cluster.ask(at, 0, ListGroupsRequest::default()).groups;
        groups.into_iter().map(|group| group.group_id).collect::<Vec<_>>()
    };
    assert_eq!((listed(&mut cluster, one), listed(&mut cluster, two)), (vec![], vec!["g".to_owned()]));
}

#[test]
fn what_does_not_fit_the_group_is_refused() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    pair(&mut cluster);
    let at = cluster.connect(1);
    let foreign = JoinGroupProtocol { name: "sticky".to_owned(), ..Default::default() };
    for (request, code) in [
        (JoinGroupRequest { session_timeout_ms: 5_999, ..join("") }, 26),
        (JoinGroupRequest { protocol_type: "connect".to_owned(), ..join("") }, 23),
        (JoinGroupRequest { protocols: vec![foreign], ..join("") }, 23),
        (JoinGroupRequest { group_id: String::new(), ..join("") }, 24),
        (join("stranger"), 25),
    ] {
        let reaction = cluster.send(at, 2, &request);
        assert_eq!(read::<JoinGroupRequest>(&reaction, 2).error_code, ErrorCode(code));
    }
}

#[test]
fn kip_848_the_broker_assigns_and_nobody_gets_what_another_still_holds() {
    let mut cluster = Direct::new(Release::V4_4, |_| {});
    let at = cluster.connect(1);
    let id = cluster.ask(at, 12, metadata_of("t")).topics[0].topic_id;
    let mut beat = |member: &str, epoch, owned: Option<&[i32]>| {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "g".to_owned(),
            member_id: member.to_owned(),
            member_epoch: epoch,
            subscribed_topic_names: Some(vec!["t".to_owned()]),
            topic_partitions: owned
                .map(|owned| vec![TopicPartitions { topic_id: id, partitions: owned.to_vec() }]),
            ..Default::default()
        };
        let answer = cluster.ask(at, 1, request);
        let all =
            |it: TargetAssignment| it.topic_partitions.into_iter().flat_map(|it| it.partitions).collect();
        (answer.error_code.0, answer.member_epoch, answer.assignment.map(all))
    };
    let nothing = || Some(Vec::<i32>::new());
    assert_eq!(beat("a", 0, Some(&[])), (0, 1, Some(vec![0, 1])));
    assert_eq!(beat("a", 1, Some(&[0, 1])), (0, 1, None));
    assert_eq!(beat("b", 0, Some(&[])), (0, 2, nothing()));
    // The first one is to give partition 1 up, and has it until it says otherwise.
    assert_eq!(beat("a", 1, None), (0, 1, Some(vec![0])));
    assert_eq!(beat("b", 2, Some(&[])), (0, 2, None));
    assert_eq!(beat("a", 1, Some(&[0])), (0, 2, Some(vec![0])));
    assert_eq!(beat("b", 2, Some(&[])), (0, 2, Some(vec![1])));
    assert_eq!(beat("b", 1, None).0, 110);
    assert_eq!(beat("c", 5, None).0, 25);
    assert_eq!(beat("b", -1, None), (0, -1, None));
    assert_eq!(beat("a", 2, None), (0, 3, Some(vec![0, 1])));
}
