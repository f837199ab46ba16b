//! Leaders, followers, epochs, and brokers that are down, frozen or out of date.

use super::direct::{Direct, summary};
use super::*;
use downspout::testing::ConnectionId;

fn three(release: Release) -> Direct {
    Direct::new(release, |settings| {
        settings.brokers = 3;
        settings.racks = ["a", "b", "c"].map(str::to_owned).to_vec();
    })
}

fn code(cluster: &mut Direct, at: ConnectionId, version: i16, epoch: i32) -> i16 {
    let mut request = fetch(&[(0, 0)], 1_000);
    request.topics[0].partitions[0].current_leader_epoch = epoch;
    summary(&cluster.ask(at, version, request))[0].1
}

fn from_rack(rack: &str, offset: i64) -> FetchRequest {
    FetchRequest { rack_id: rack.to_owned(), ..fetch(&[(0, offset)], 1_000) }
}

#[test]
fn kip_392_a_follower_serves_who_knows_of_followers_and_nobody_else() {
    let mut cluster = three(Release::V2_4);
    let follower = cluster.connect(2);
    assert_eq!(code(&mut cluster, follower, 10, -1), 6);
    assert_eq!(code(&mut cluster, follower, 11, -1), 0);
    let mut alone = Direct::new(Release::V2_4, |settings| {
        settings.brokers = 3;
        settings.replication_factor = 1;
    });
    let stranger = alone.connect(2);
    assert_eq!(code(&mut alone, stranger, 11, -1), 6);
}

#[test]
fn kip_392_the_leader_sends_a_client_to_the_follower_in_its_rack() {
    let mut cluster = three(Release::V2_4);
    cluster.append(0);
    let at = cluster.connect(1);
    let preferred = |answer: &FetchResponse| answer.responses[0].partitions[0].preferred_read_replica;
    for (rack, version, expected, bytes) in [
        ("b", 11, 2, 0),
        ("c", 11, 3, 0),
        ("a", 11, -1, 77),
        ("z", 11, -1, 77),
        ("", 11, -1, 77),
        ("b", 10, -1, 77),
    ] {
        let answer = cluster.ask(at, version, from_rack(rack, 0));
        assert_eq!((preferred(&answer), summary(&answer)[0].2), (expected, bytes), "{rack} {version}");
    }
    // Not to one that is behind, nor to one that is down.
    cluster.core.hold_follower("t", 0, 2, Some(1)).unwrap();
    assert_eq!(preferred(&cluster.ask(at, 11, from_rack("b", 2))), -1);
    assert_eq!(preferred(&cluster.ask(at, 11, from_rack("b", 1))), 2);
    cluster.core.stop_broker(2);
    assert_eq!(preferred(&cluster.ask(at, 11, from_rack("b", 0))), -1);
    // A client may wait for bytes, but not for this.
    let patient = FetchRequest { max_wait_ms: 9_000, min_bytes: 1_000, ..from_rack("c", 0) };
    assert_eq!(preferred(&cluster.ask(at, 11, patient)), 3);
}

#[test]
fn kip_392_a_follower_shows_what_it_has_and_beyond_that_is_out_of_range() {
    let mut cluster = three(Release::V2_4);
    cluster.append(0);
    cluster.append(0);
    cluster.core.hold_follower("t", 0, 2, Some(2)).unwrap();
    let at = cluster.connect(2);
    assert_eq!(summary(&cluster.ask(at, 11, fetch(&[(0, 0)], 1_000))), [(0, 0, 77, 2)]);
    assert_eq!(summary(&cluster.ask(at, 11, fetch(&[(0, 2)], 1_000))), [(0, 0, 0, 2)]);
    assert_eq!(summary(&cluster.ask(at, 11, fetch(&[(0, 3)], 1_000))), [(0, 1, 0, -1)]);
    cluster.core.hold_follower("t", 0, 2, None).unwrap();
    assert_eq!(summary(&cluster.ask(at, 11, fetch(&[(0, 3)], 1_000))), [(0, 0, 77, 4)]);
}

#[test]
fn corner_case_58_the_ends_of_a_log_are_told_by_its_leader_alone() {
    let mut cluster = three(Release::V2_4);
    for (node, expected) in [(1, 0), (2, 6)] {
        let at = cluster.connect(node);
        let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition] };
        let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        assert_eq!(cluster.ask(at, 5, request).topics[0].partitions[0].error_code, ErrorCode(expected));
    }
}

#[test]
fn kip_320_every_replica_checks_the_epoch_before_it_says_who_leads() {
    let mut cluster = three(Release::V2_4);
    cluster.core.set_leader("t", 0, Some(2)).unwrap();
    let (old, new) = (cluster.connect(1), cluster.connect(2));
    for at in [old, new] {
        for (epoch, expected) in [(0, 74), (1, 0), (2, 75)] {
            assert_eq!(code(&mut cluster, at, 11, epoch), expected);
        }
    }
    assert_eq!(code(&mut cluster, old, 10, 1), 6);
}

fn epoch_end(cluster: &mut Direct, version: i16, epoch: i32) -> (i32, i64) {
    let at = cluster.connect(1);
    let asked = OffsetForLeaderPartition { leader_epoch: epoch, ..Default::default() };
    let topic = OffsetForLeaderTopic { topic: "t".to_owned(), partitions: vec![asked] };
    let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
    let answer = cluster.ask(at, version, request).topics[0].partitions[0].clone();
    (answer.leader_epoch, answer.end_offset)
}

#[test]
fn kip_320_the_history_of_epochs_shows_where_a_truncated_log_parts() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    cluster.append(0); // 0 and 1 in epoch 0
    cluster.core.set_leader("t", 0, Some(1)).unwrap();
    cluster.append(0); // 2 and 3 in epoch 1
    assert_eq!(epoch_end(&mut cluster, 3, 0), (0, 2));
    assert_eq!(epoch_end(&mut cluster, 3, 1), (1, 4));
    cluster.core.truncate("t", 0, 2).unwrap(); // epoch 2 begins at 2
    // Epoch 1 is gone: what was read of it parts at the end of epoch 0.
    assert_eq!(epoch_end(&mut cluster, 3, 1), (0, 2));
    assert_eq!(epoch_end(&mut cluster, 3, 2), (2, 2));
    cluster.append(0);
    assert_eq!(epoch_end(&mut cluster, 3, 2), (2, 4));
    assert_eq!(epoch_end(&mut cluster, 3, 3), (-1, -1));
    // What retention took away ends where the log begins.
    cluster.core.delete_before("t", 0, 4).unwrap();
    assert_eq!(epoch_end(&mut cluster, 3, 0), (0, 4));
}

#[test]
fn kip_320_before_2_0_nothing_was_known_of_epochs_before_the_first() {
    for (release, version, expected) in [(Release::V1_1, 0, (-1, -1)), (Release::V2_0, 1, (0, 4))] {
        let mut cluster = Direct::new(release, |_| {});
        cluster.append(0);
        cluster.core.set_leader("t", 0, Some(1)).unwrap();
        cluster.append(0);
        cluster.core.delete_before("t", 0, 4).unwrap();
        let (epoch, end) = epoch_end(&mut cluster, version, 0);
        // Version 0 of the answer does not name the epoch.
        assert_eq!((if version == 0 { expected.0 } else { epoch }, end), expected, "{release}");
    }
}

#[test]
fn o4_metadata_can_show_an_epoch_that_goes_backwards() {
    let mut cluster = three(Release::V2_4);
    cluster.core.set_leader("t", 0, Some(2)).unwrap();
    let at = cluster.connect(1);
    let shown =
        |cluster: &mut Direct| cluster.ask(at, 9, metadata_of("t")).topics[0].partitions[0].leader_epoch;
    assert_eq!(shown(&mut cluster), 1);
    cluster.core.show_epoch("t", 0, Some(0)).unwrap();
    assert_eq!(shown(&mut cluster), 0);
    assert_eq!(code(&mut cluster, at, 11, 0), 74);
    cluster.core.show_epoch("t", 0, None).unwrap();
    assert_eq!(shown(&mut cluster), 1);
}

#[test]
fn o2_a_broker_with_outdated_metadata_names_the_old_leader() {
    let mut cluster = three(Release::V2_4);
    let (one, two) = (cluster.connect(1), cluster.connect(2));
    cluster.core.hold_metadata(1, true);
    cluster.core.set_leader("t", 0, Some(2)).unwrap();
    let leader =
        |cluster: &mut Direct, at| cluster.ask(at, 9, metadata_of("t")).topics[0].partitions[0].leader_id;
    assert_eq!((leader(&mut cluster, one), leader(&mut cluster, two)), (1, 2));
    cluster.core.hold_metadata(1, false);
    assert_eq!(leader(&mut cluster, one), 2);
}

#[test]
fn kafka_9261_a_leader_can_be_missing_from_the_list_of_brokers() {
    let mut cluster = three(Release::V2_4);
    cluster.core.hide_broker(1, true);
    let at = cluster.connect(2);
    let answer = cluster.ask(at, 9, metadata_of("t"));
    assert_eq!(answer.topics[0].partitions[0].leader_id, 1);
    assert_eq!(answer.brokers.iter().map(|broker| broker.node_id).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(answer.brokers[0].rack.as_deref(), Some("b"));
}

#[test]
fn a_frozen_broker_takes_requests_and_answers_them_once_it_thaws() {
    let mut cluster = three(Release::V2_4);
    let (before, after) = (cluster.connect(1), cluster.connect(1));
    cluster.send(before, 11, &FetchRequest { max_wait_ms: 500, ..fetch(&[(0, 0)], 1_000) });
    cluster.core.freeze_broker(1, true);
    cluster.send(after, 9, &metadata_of("t"));
    cluster.pass(60_000);
    cluster.append(0);
    assert!(cluster.waits(before) && cluster.waits(after));
    // Whoever leads meanwhile is another question.
    cluster.core.set_leader("t", 0, Some(2)).unwrap();
    cluster.core.freeze_broker(1, false);
    assert_eq!(summary(&cluster.resume::<FetchRequest>(before, 11))[0].2, 77);
    assert_eq!(cluster.resume::<MetadataRequest>(after, 9).topics[0].partitions[0].leader_id, 2);
}

#[test]
fn partitions_are_added_behind_those_that_are_there() {
    let mut cluster = three(Release::V2_4);
    cluster.append(0);
    cluster.core.add_partitions("t", 5).unwrap();
    let at = cluster.connect(1);
    let answer = cluster.ask(at, 9, metadata_of("t"));
    let leaders: Vec<i32> = answer.topics[0].partitions.iter().map(|it| it.leader_id).collect();
    assert_eq!(leaders, [1, 2, 3, 1, 2]);
    assert_eq!(cluster.core.offsets("t", 0).unwrap().end, 2);
    assert!(cluster.core.add_partitions("unknown", 5).is_err());
}

#[test]
fn kip_1102_metadata_13_can_ask_for_a_rebootstrap() {
    let mut cluster = three(Release::V4_4);
    cluster.core.inject(Fault::error(ErrorCode(129)).on(ApiKey::METADATA).at_top());
    let at = cluster.connect(1);
    assert_eq!(cluster.ask(at, 13, metadata_of("t")).error_code, ErrorCode(129));
}
