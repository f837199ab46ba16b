//! Fetch: sizes, waiting, isolation, leaders.

use super::*;

fn newest_version(release: Release) -> i16 {
    let apis = release.apis();
    apis.iter().find(|(key, _)| *key == ApiKey::FETCH).map_or(0, |(_, versions)| versions.max)
}

#[test]
fn every_release_returns_what_was_stored_byte_for_byte() {
    for release in Release::ALL.iter().copied() {
        let broker = broker(release);
        let set = hex(F01);
        broker
            .with(|cluster| cluster.reset_log("t", 0, 10).and_then(|()| cluster.store("t", 0, &set)))
            .unwrap();
        let version = newest_version(release);
        let mut client = Client::to(&broker);
        let mut request = fetch(&[(0, 10)], 1_000);
        if version >= 13 {
            request.topics[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
        }
        let answer = client.ask(version, request);
        assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(0), "{release}");
        assert_eq!(answer.responses[0].partitions[0].high_watermark, 12, "{release}");
        assert_eq!(records(&answer, 0), &set, "{release}");
    }
}

#[test]
fn appended_batches_get_the_next_offsets_and_the_leader_epoch() {
    let broker = broker(Release::V4_4);
    assert_eq!(broker.append("t", 0, &hex(F12)).unwrap(), 0);
    assert_eq!(broker.append("t", 0, &hex(F12)).unwrap(), 2);
    let answer = Client::to(&broker).ask(12, fetch(&[(0, 3)], 1_000));
    assert_eq!(records(&answer, 0)[..8], [0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(records(&answer, 0)[8..], hex(F12)[8..]);
    let mut broken = hex(F12).to_vec();
    broken[70] ^= 1;
    let refused = broker.append("t", 0, &broken.into()).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CORRUPT_MESSAGE));
}

#[test]
fn kip_74_the_partition_limit_cuts_anywhere_in_versions_0_to_2() {
    let broker = broker(Release::V0_10_0);
    broker.append("t", 0, &hex(F01)).unwrap();
    broker.append("t", 1, &hex(F01)).unwrap();
    for version in 0..=2 {
        let answer = Client::to(&broker).ask(version, fetch(&[(0, 0), (1, 0)], 40));
        assert_eq!((records(&answer, 0).len(), records(&answer, 1).len()), (40, 40));
        let answer = Client::to(&broker).ask(version, fetch(&[(0, 0)], 20));
        assert_eq!(
            records(&answer, 0),
            &hex(F01)[..20]
                .iter()
                .enumerate()
                .map(|(i, byte)| if i == 7 { 0 } else { *byte })
                .collect::<Vec<_>>()[..]
        );
    }
}

#[test]
fn kip_74_the_first_batch_is_whole_from_version_3_on_and_only_the_first() {
    let broker = broker(Release::V0_10_2);
    broker.append("t", 0, &hex(F01)).unwrap();
    broker.append("t", 1, &hex(F01)).unwrap();
    let mut client = Client::to(&broker);
    let sizes = |answer: &FetchResponse| (records(answer, 0).len(), records(answer, 1).len());
    assert_eq!(sizes(&client.ask(3, fetch(&[(0, 0), (1, 0)], 20))), (27, 0));
    assert_eq!(sizes(&client.ask(3, fetch(&[(1, 0), (0, 0)], 20))), (27, 0));
    assert_eq!(sizes(&client.ask(3, fetch(&[(0, 2), (1, 0)], 20))), (0, 27));
    assert_eq!(sizes(&client.ask(3, fetch(&[(0, 0), (1, 0)], 40))), (40, 40));
    let whole = FetchRequest { max_bytes: 60, ..fetch(&[(0, 0), (1, 0)], 100) };
    assert_eq!(sizes(&client.ask(3, whole)), (54, 0));
}

#[test]
fn an_offset_outside_the_log_is_out_of_range_and_the_end_is_not() {
    let broker = broker(Release::V2_1);
    broker.append("t", 0, &hex(F12)).unwrap();
    broker.with(|cluster| cluster.delete_before("t", 0, 1)).unwrap();
    let mut client = Client::to(&broker);
    for (offset, code, high_watermark) in [(0, 1, -1), (1, 0, 2), (2, 0, 2), (3, 1, -1)] {
        let answer = client.ask(5, fetch(&[(0, offset)], 100));
        let partition = &answer.responses[0].partitions[0];
        assert_eq!((partition.error_code, partition.high_watermark), (ErrorCode(code), high_watermark));
    }
}

#[test]
fn a_long_poll_ends_with_new_bytes_or_with_its_time() {
    let broker = broker(Release::V2_1);
    let mut client = Client::to(&broker);
    let wait = |max_wait_ms| FetchRequest { max_wait_ms, ..fetch(&[(0, 0)], 100) };
    let start = Instant::now();
    assert_eq!(records(&client.ask(4, wait(80)), 0).len(), 0);
    assert!(start.elapsed() >= Duration::from_millis(80));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| client.ask(4, wait(9_000)));
        std::thread::sleep(Duration::from_millis(50));
        broker.append("t", 0, &hex(F12)).unwrap();
        assert_eq!(records(&answer.join().unwrap(), 0).len(), 77);
    });
    assert!(start.elapsed() < Duration::from_secs(5));
    // An error does not wait.
    let start = Instant::now();
    let astray = FetchRequest { max_wait_ms: 9_000, ..fetch(&[(0, 99)], 100) };
    assert_eq!(client.ask(4, astray).responses[0].partitions[0].error_code, ErrorCode(1));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn kip_98_read_committed_stops_before_an_open_transaction_and_names_the_aborted_ones() {
    let broker = broker(Release::V2_1);
    let committed = || FetchRequest { isolation_level: 1, ..fetch(&[(0, 10)], 1_000) };
    let store = |set: &str| broker.with(|cluster| cluster.store("t", 0, &hex(set))).unwrap();
    broker.with(|cluster| cluster.reset_log("t", 0, 10)).unwrap();
    store(F23);
    let mut client = Client::to(&broker);
    let answer = client.ask(4, committed());
    let partition = &answer.responses[0].partitions[0];
    assert_eq!((partition.high_watermark, partition.last_stable_offset), (12, 10));
    assert_eq!(records(&answer, 0).len(), 0);
    assert_eq!(records(&client.ask(4, fetch(&[(0, 10)], 1_000)), 0).len(), 77);
    store(F21);
    let answer = client.ask(4, committed());
    let partition = &answer.responses[0].partitions[0];
    assert_eq!((partition.high_watermark, partition.last_stable_offset), (13, 13));
    assert_eq!(records(&answer, 0).len(), 77 + 78);
    let aborted = partition.aborted_transactions.as_ref().unwrap();
    assert_eq!((aborted.len(), aborted[0].producer_id, aborted[0].first_offset), (1, 7, 10));
}

#[test]
fn kip_951_who_asks_the_wrong_broker_is_told_the_leader() {
    let broker = EmbeddedBroker::builder()
        .release(Release::V3_9)
        .brokers(3)
        .settings(|settings| settings.replication_factor = 1)
        .topic("t", 1)
        .start()
        .unwrap();
    let mut stranger = Client::at(&broker.addrs()[2]);
    let answer = stranger.ask(11, fetch(&[(0, 0)], 100));
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(6));
    let mut request = fetch(&[(0, 0)], 100);
    request.topics[0].topic_id = stranger.ask(12, metadata_of("t")).topics[0].topic_id;
    request.topics[0].partitions[0].current_leader_epoch = 0;
    let hinted = |client: &mut Client, code| {
        let answer = client.ask(16, request.clone());
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode(code));
        let address = format!("{}:{}", answer.node_endpoints[0].host, answer.node_endpoints[0].port);
        (partition.current_leader.leader_id, partition.current_leader.leader_epoch, address)
    };
    assert_eq!(hinted(&mut stranger, 6), (1, 0, broker.addrs()[0].clone()));
    // The old leader of a partition that was reassigned knows the new one's epoch.
    broker.with(|cluster| cluster.set_leader("t", 0, Some(2))).unwrap();
    assert_eq!(hinted(&mut Client::to(&broker), 74), (2, 1, broker.addrs()[1].clone()));
}

#[test]
fn kip_320_a_leader_epoch_that_is_not_the_leaders_is_refused() {
    let broker = broker(Release::V2_4);
    broker.with(|cluster| cluster.truncate("t", 0, 0)).unwrap();
    for (epoch, code) in [(-1, 0), (0, 74), (1, 0), (2, 75)] {
        let mut request = fetch(&[(0, 0)], 100);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        let answer = Client::to(&broker).ask(11, request);
        assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode(code));
    }
}
