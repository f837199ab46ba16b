//! Long polls and throttling, to the millisecond.

use super::direct::{Direct, read, summary};
use super::*;
use downspout::testing::Reaction;

fn long(min_bytes: i32) -> FetchRequest {
    FetchRequest { max_wait_ms: 500, min_bytes, ..fetch(&[(0, 0), (1, 0)], 1_000) }
}

#[test]
fn a_long_poll_waits_for_min_bytes_over_all_partitions_or_for_its_time() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let until = Some(Duration::from_millis(500));
    assert_eq!(cluster.send(at, 11, &long(100)), Reaction::Wait { until });
    let changes = cluster.core.changes();
    cluster.append(0);
    assert_ne!(cluster.core.changes(), changes, "whoever waits is to look again");
    assert!(cluster.waits(at));
    cluster.append(1);
    assert_eq!(summary(&cluster.resume::<FetchRequest>(at, 11)), [(0, 0, 77, 2), (1, 0, 77, 2)]);
    // With 154 bytes there, 155 take the whole time.
    cluster.send(at, 11, &long(155));
    cluster.pass(499);
    assert!(cluster.waits(at));
    cluster.pass(1);
    assert_eq!(summary(&cluster.resume::<FetchRequest>(at, 11)).len(), 2);
}

#[test]
fn a_long_poll_ends_at_once_when_its_broker_no_longer_serves_it() {
    let mut cluster = Direct::new(Release::V2_1, |settings| settings.brokers = 2);
    let at = cluster.connect(1);
    cluster.send(at, 10, &FetchRequest { max_wait_ms: 500, ..fetch(&[(0, 0)], 1_000) });
    cluster.core.set_leader("t", 0, Some(2)).unwrap();
    assert_eq!(summary(&cluster.resume::<FetchRequest>(at, 10))[0].1, 6);
}

#[test]
fn kip_219_a_throttled_fetch_is_empty_and_mutes_the_connection_from_version_8_on() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    cluster.append(0);
    let at = cluster.connect(1);
    cluster.core.inject(Fault::throttle(Duration::from_millis(300)).on(ApiKey::FETCH).once());
    let answer = cluster.ask(at, 8, fetch(&[(0, 0)], 1_000));
    assert_eq!((answer.throttle_time_ms, summary(&answer).len()), (300, 0));
    let until = Some(Duration::from_millis(300));
    assert_eq!(cluster.send(at, 8, &fetch(&[(0, 0)], 1_000)), Reaction::Wait { until });
    cluster.pass(299);
    assert!(cluster.waits(at));
    cluster.pass(1);
    assert_eq!(summary(&cluster.resume::<FetchRequest>(at, 8)), [(0, 0, 77, 2)]);
}

#[test]
fn kip_219_before_that_the_answer_itself_is_late() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    cluster.core.inject(Fault::throttle(Duration::from_millis(300)).once());
    let until = Some(Duration::from_millis(300));
    assert_eq!(cluster.send(at, 7, &fetch(&[(0, 0)], 1_000)), Reaction::Wait { until });
    cluster.pass(300);
    assert_eq!(cluster.resume::<FetchRequest>(at, 7).throttle_time_ms, 300);
    let reaction = cluster.send(at, 7, &fetch(&[(0, 0)], 1_000));
    assert_eq!(read::<FetchRequest>(&reaction, 7).throttle_time_ms, 0);
}

#[test]
fn kip_219_a_throttled_session_goes_on() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let session = |session_id, session_epoch, topics| FetchRequest {
        session_id,
        session_epoch,
        topics,
        ..fetch(&[], 0)
    };
    let all = fetch(&[(0, 0)], 1_000).topics;
    let id = cluster.ask(at, 11, session(0, 0, all)).session_id;
    cluster.append(0);
    cluster.core.inject(Fault::throttle(Duration::from_millis(1)).once());
    let answer = cluster.ask(at, 11, session(id, 1, vec![]));
    assert_eq!((answer.session_id, answer.throttle_time_ms, summary(&answer).len()), (id, 1, 0));
    cluster.pass(1);
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 2, vec![]))), [(0, 0, 77, 2)]);
}
