//! ListOffsets, committed offsets, leader epochs.

use super::*;

fn list(timestamp: i64, max_num_offsets: i32) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition { timestamp, max_num_offsets, ..Default::default() };
    let topics = vec![ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition] }];
    ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }
}

/// Batches of two records, timestamps 1000 and 1001, at 0–1, 2–3 and 4–5, in two segments.
fn three_batches(release: Release) -> EmbeddedBroker {
    let broker = broker(release);
    for _ in 0..2 {
        broker.append("t", 0, &hex(F12)).unwrap();
    }
    broker.with(|cluster| cluster.roll("t", 0)).unwrap();
    broker.append("t", 0, &hex(F12)).unwrap();
    broker
}

#[test]
fn version_0_lists_segments_from_the_newest_and_the_end() {
    let broker = EmbeddedBroker::builder().release(Release::V0_8_2).topic("t", 1).start().unwrap();
    for _ in 0..3 {
        broker.with(|cluster| cluster.roll("t", 0)).unwrap();
        broker.append("t", 0, &hex(F01)).unwrap();
    }
    let mut client = Client::to(&broker);
    let mut ask = |timestamp, most| {
        let answer = client.ask(0, list(timestamp, most));
        answer.topics[0].partitions[0].old_style_offsets.clone()
    };
    assert_eq!(ask(-1, 1), [6]);
    assert_eq!(ask(-1, 2), [6, 4]);
    assert_eq!(ask(-1, 9), [6, 4, 2, 0]);
    assert_eq!(ask(-2, 9), [0]);
    assert_eq!(ask(i64::MAX, 9), [6, 4, 2, 0]);
    assert_eq!(ask(1, 9), [0; 0]);
}

#[test]
fn version_0_of_an_empty_log_is_its_end() {
    let broker = broker(Release::V0_8_0);
    for timestamp in [-1, -2] {
        let answer = Client::to(&broker).ask(0, list(timestamp, 5));
        assert_eq!(answer.topics[0].partitions[0].old_style_offsets, [0]);
    }
}

#[test]
fn kip_79_later_versions_know_exact_offsets() {
    let broker = three_batches(Release::V4_4);
    let mut client = Client::to(&broker);
    let mut ask = |version, timestamp| {
        let answer = client.ask(version, list(timestamp, 1));
        let partition = &answer.topics[0].partitions[0];
        (partition.error_code.0, partition.offset, partition.timestamp)
    };
    assert_eq!(ask(1, -1), (0, 6, -1));
    assert_eq!(ask(1, -2), (0, 0, -1));
    assert_eq!(ask(1, 1_000), (0, 0, 1_000));
    assert_eq!(ask(1, 1_001), (0, 1, 1_001));
    assert_eq!(ask(1, 1_002), (0, -1, -1));
    assert_eq!(ask(7, -3), (0, 1, 1_001));
    assert_eq!(ask(8, -4), (0, 0, -1));
    assert_eq!(ask(9, -5), (0, -1, -1));
    assert_eq!(ask(11, -6), (0, -1, -1));
    for (version, timestamp) in [(6, -3), (7, -4), (8, -5), (10, -6), (11, -7)] {
        assert_eq!(ask(version, timestamp), (35, -1, -1));
    }
}

#[test]
fn a_time_means_nothing_in_a_log_of_magic_0() {
    let broker = broker(Release::V1_1);
    broker.append("t", 0, &hex(F01)).unwrap();
    let answer = Client::to(&broker).ask(1, list(1_000, 1));
    assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT);
}

#[test]
fn a_partition_asked_about_twice_is_refused() {
    let broker = three_batches(Release::V2_4);
    let mut request = list(-1, 1);
    let again = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(again);
    let answer = Client::to(&broker).ask(1, request);
    assert!(answer.topics[0].partitions.iter().all(|it| it.error_code == ErrorCode::INVALID_REQUEST));
}

#[test]
fn kip_98_the_end_is_the_last_stable_offset_under_read_committed() {
    let broker = broker(Release::V2_4);
    broker
        .with(|cluster| cluster.reset_log("t", 0, 10).and_then(|()| cluster.store("t", 0, &hex(F23))))
        .unwrap();
    let request = |isolation_level| ListOffsetsRequest { isolation_level, ..list(-1, 1) };
    let mut client = Client::to(&broker);
    assert_eq!(client.ask(2, request(0)).topics[0].partitions[0].offset, 12);
    assert_eq!(client.ask(2, request(1)).topics[0].partitions[0].offset, 10);
}

fn commit(offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_metadata: Some("where".to_owned()),
        ..Default::default()
    };
    let topic =
        OffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    OffsetCommitRequest { group_id: "g".to_owned(), topics: vec![topic], ..Default::default() }
}

fn committed(client: &mut Client, version: i16) -> (ErrorCode, i64) {
    if version >= 8 {
        let topic = OffsetFetchRequestTopics {
            name: "t".to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: "g".to_owned(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let answer = client.ask(version, OffsetFetchRequest { groups: vec![group], ..Default::default() });
        let partition = &answer.groups[0].topics[0].partitions[0];
        return (partition.error_code, partition.committed_offset);
    }
    let topic = OffsetFetchRequestTopic { name: "t".to_owned(), partition_indexes: vec![0] };
    let request =
        OffsetFetchRequest { group_id: "g".to_owned(), topics: Some(vec![topic]), ..Default::default() };
    let answer = client.ask(version, request);
    let partition = &answer.topics[0].partitions[0];
    (partition.error_code, partition.committed_offset)
}

#[test]
fn no_committed_offset_is_an_error_in_version_0_only() {
    let broker = broker(Release::V2_4);
    let mut client = Client::to(&broker);
    assert_eq!(committed(&mut client, 0), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
    assert_eq!(committed(&mut client, 1), (ErrorCode::NONE, -1));
}

#[test]
fn version_0_of_commit_and_fetch_has_a_store_of_its_own() {
    let broker = broker(Release::V0_8_2);
    let mut client = Client::to(&broker);
    client.ask(0, commit(5));
    assert_eq!(committed(&mut client, 0), (ErrorCode::NONE, 5));
    assert_eq!(committed(&mut client, 1), (ErrorCode::NONE, -1));
    client.ask(1, commit(7));
    assert_eq!(committed(&mut client, 0), (ErrorCode::NONE, 5));
    assert_eq!(committed(&mut client, 1), (ErrorCode::NONE, 7));
}

#[test]
fn committed_offsets_come_back_in_every_version() {
    let broker = broker(Release::V4_1);
    let mut client = Client::to(&broker);
    for version in 2..=9 {
        let answer = client.ask(version, commit(version.into()));
        assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::NONE);
        for read in 1..=9 {
            assert_eq!(committed(&mut client, read), (ErrorCode::NONE, version.into()), "{version} {read}");
        }
    }
    assert_eq!(broker.with(|cluster| cluster.committed("g", "t", 0)), Some(9));
    let all = OffsetFetchRequest { group_id: "g".to_owned(), topics: None, ..Default::default() };
    assert_eq!(client.ask(5, all).topics[0].partitions[0].committed_offset, 9);
}

#[test]
fn a_commit_of_a_member_or_with_a_novel_attached_is_refused() {
    let broker = broker(Release::V2_4);
    let mut client = Client::to(&broker);
    let member = OffsetCommitRequest { generation_id_or_member_epoch: 3, ..commit(1) };
    let code = |answer: OffsetCommitResponse| answer.topics[0].partitions[0].error_code;
    assert_eq!(code(client.ask(2, member)), ErrorCode::UNKNOWN_MEMBER_ID);
    let mut long = commit(1);
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(4_097));
    assert_eq!(code(client.ask(2, long)), ErrorCode::OFFSET_METADATA_TOO_LARGE);
}

#[test]
fn the_coordinator_is_a_broker_that_is_up() {
    let broker = EmbeddedBroker::builder().release(Release::V4_4).brokers(2).start().unwrap();
    broker.with(|cluster| cluster.stop_broker(1));
    let mut client = Client::at(&broker.addrs()[1]);
    let answer = client.ask(3, FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() });
    assert_eq!((answer.node_id, format!("{}:{}", answer.host, answer.port)), (2, broker.addrs()[1].clone()));
    let coordinator_keys = vec!["g".to_owned(), "h".to_owned()];
    let answer = client.ask(4, FindCoordinatorRequest { coordinator_keys, ..Default::default() });
    assert_eq!(answer.coordinators.iter().map(|it| it.node_id).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn an_error_about_the_coordinator_has_correlation_id_0_on_0_8_2() {
    for (release, id) in [(Release::V0_8_2, 0), (Release::V0_10_0, 9)] {
        let broker = broker(release);
        broker.inject(Fault::error(ErrorCode(15)).on(ApiKey::FIND_COORDINATOR).once());
        let mut client = Client::to(&broker);
        for id in [id, 9] {
            let request = FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() };
            client.send(&encode_request(&request, 0, 9, "test").unwrap());
            let answer = decode_response::<FindCoordinatorRequest>(&client.receive().unwrap(), 0).unwrap();
            assert_eq!(answer.0, id, "{release}");
        }
    }
}

#[test]
fn list_groups_tells_0_9_from_what_came_before() {
    let request = encode_request(&ListGroupsRequest::default(), 0, 77, "test").unwrap();
    let newer = broker(Release::V0_9_0);
    assert_eq!(Client::to(&newer).ask(0, ListGroupsRequest::default()).groups.len(), 0);
    let older = broker(Release::V0_8_2);
    let mut client = Client::to(&older);
    client.send(&request);
    assert!(client.is_closed());
}

#[test]
fn kip_320_an_epoch_ends_where_the_log_was_cut() {
    let broker = three_batches(Release::V2_4);
    broker.with(|cluster| cluster.truncate("t", 0, 2)).unwrap();
    broker.append("t", 0, &hex(F12)).unwrap();
    let mut client = Client::to(&broker);
    let mut ask = |leader_epoch| {
        let partition = OffsetForLeaderPartition { leader_epoch, ..Default::default() };
        let topic = OffsetForLeaderTopic { topic: "t".to_owned(), partitions: vec![partition] };
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
        let answer = client.ask(3, request);
        (answer.topics[0].partitions[0].leader_epoch, answer.topics[0].partitions[0].end_offset)
    };
    assert_eq!(ask(0), (0, 2));
    assert_eq!(ask(1), (1, 4));
    assert_eq!(ask(2), (-1, -1));
}
