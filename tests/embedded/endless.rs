//! Topics without an end, for measuring clients.

use super::*;

fn endless(release: Release, set: &Bytes) -> EmbeddedBroker {
    EmbeddedBroker::builder().release(release).endless_topic("t", 2, set).unwrap().start().unwrap()
}

fn offsets(set: &[u8]) -> Vec<i64> {
    let set = downspout::records::RecordSet::new(Bytes::copy_from_slice(set));
    set.entries().map(|entry| entry.unwrap().offset()).collect()
}

#[test]
fn the_same_entries_come_for_ever_at_the_offsets_asked_for() {
    let broker = endless(Release::V2_4, &hex(F12));
    let mut client = Client::to(&broker);
    for first in [0, 2, 1_000_000] {
        let answer = client.ask(11, fetch(&[(0, first), (1, 7)], 200));
        assert_eq!(offsets(records(&answer, 0)), [first, first + 2]);
        assert_eq!(offsets(records(&answer, 1)), [7, 9]);
        assert_eq!(records(&answer, 0)[8..77], hex(F12)[8..]);
    }
    let answer = client.ask(11, fetch(&[(0, 5)], 10));
    assert_eq!(offsets(records(&answer, 0)), [5]);
}

#[test]
fn messages_of_old_formats_get_their_offsets_too() {
    let broker = endless(Release::V0_8_2, &hex(F01));
    let answer = Client::to(&broker).ask(0, fetch(&[(0, 40)], 100));
    assert_eq!(offsets(records(&answer, 0)), [40, 41, 42]);
}

#[test]
fn it_is_found_by_id_and_its_ends_are_known() {
    let broker = endless(Release::V4_4, &hex(F12));
    let mut client = Client::to(&broker);
    let mut request = fetch(&[(1, 3)], 100);
    request.topics[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
    assert_eq!(offsets(records(&client.ask(18, request), 0)), [3]);
    let ends = broker.with(|cluster| cluster.offsets("t", 1)).unwrap();
    assert_eq!((ends.start, ends.end), (0, 1 << 60));
}

#[test]
fn every_version_of_fetch_gets_them() {
    for version in 0..=18 {
        let broker = endless(if version < 4 { Release::V0_11_0 } else { Release::V4_4 }, &hex(F12));
        let mut client = Client::to(&broker);
        let mut request = fetch(&[(0, 3), (1, 9)], 100);
        if version >= 13 {
            request.topics[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
        }
        let answer = client.ask(version, request);
        assert_eq!(
            (offsets(records(&answer, 0)), offsets(records(&answer, 1))),
            (vec![3], vec![9]),
            "{version}"
        );
    }
}

#[test]
fn partitions_may_come_in_turns_and_only_the_first_exceeds_the_limits() {
    let broker = endless(Release::V2_4, &hex(F12));
    let mut client = Client::to(&broker);
    for offset in [0, 2, 4] {
        for order in [[0, 1], [1, 0]] {
            let asked = order.map(|partition| (partition, offset + i64::from(partition)));
            let answer = client.ask(11, FetchRequest { max_bytes: 160, ..fetch(&asked, 80) });
            for (index, (_, first)) in asked.iter().enumerate() {
                assert_eq!(offsets(records(&answer, index)), [*first]);
            }
            let answer = client.ask(11, FetchRequest { max_bytes: 10, ..fetch(&asked, 80) });
            assert_eq!((records(&answer, 0).len(), records(&answer, 1).len()), (77, 0));
        }
    }
}

#[test]
fn kip_227_no_session_is_opened_over_them() {
    let broker = endless(Release::V2_4, &hex(F12));
    let mut client = Client::to(&broker);
    let session =
        |session_id, session_epoch| FetchRequest { session_id, session_epoch, ..fetch(&[(0, 0)], 80) };
    let opened = client.ask(11, session(0, 0));
    assert_eq!((opened.session_id, records(&opened, 0).len()), (0, 77));
    assert_eq!(client.ask(11, session(5, 1)).error_code, ErrorCode(70));
}
