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
