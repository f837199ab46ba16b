//! Fetch sessions (KIP-227), corner case 62.

use super::direct::{Direct, summary};
use super::*;
use downspout::testing::ConnectionId;

fn session(id: i32, epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
    let mut request = FetchRequest { session_id: id, session_epoch: epoch, ..fetch(partitions, 1_000) };
    if partitions.is_empty() {
        request.topics.clear();
    }
    request
}

fn opened(cluster: &mut Direct, at: ConnectionId) -> i32 {
    let answer = cluster.ask(at, 11, session(0, 0, &[(0, 0), (1, 0)]));
    assert_eq!(summary(&answer).len(), 2, "a full fetch answers for everything");
    assert_ne!(answer.session_id, 0);
    answer.session_id
}

#[test]
fn kip_227_an_incremental_answer_holds_only_what_is_new() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let id = opened(&mut cluster, at);
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 1, &[]))), []);
    cluster.append(1);
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 2, &[]))), [(1, 0, 77, 2)]);
    // The session still wants offset 0, until it is told.
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 3, &[]))), [(1, 0, 77, 2)]);
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 4, &[(1, 2)]))), []);
    // The start of a log is news as well.
    cluster.core.delete_before("t", 1, 1).unwrap();
    assert_eq!(summary(&cluster.ask(at, 11, session(id, 5, &[]))), [(1, 0, 0, 2)]);
}

#[test]
fn kip_227_a_partition_comes_until_it_is_forgotten_and_its_turn_goes_to_the_end() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let id = opened(&mut cluster, at);
    cluster.append(0);
    cluster.append(1);
    let both = |answer: FetchResponse| summary(&answer).iter().map(|row| (row.0, row.2)).collect::<Vec<_>>();
    let narrow = |epoch| FetchRequest { max_bytes: 80, ..session(id, epoch, &[]) };
    assert_eq!(both(cluster.ask(at, 11, narrow(1))), [(0, 77), (1, 0)]);
    for (epoch, partition) in [(2, 1), (3, 0), (4, 1), (5, 0)] {
        assert_eq!(both(cluster.ask(at, 11, narrow(epoch))), [(partition, 77)]);
    }
    let forgotten = ForgottenTopic { topic: "t".to_owned(), partitions: vec![0], ..Default::default() };
    let request = FetchRequest { forgotten_topics_data: vec![forgotten], ..session(id, 6, &[]) };
    assert_eq!(both(cluster.ask(at, 11, request)), [(1, 77)]);
    assert_eq!(both(cluster.ask(at, 11, session(id, 7, &[]))), [(1, 77)]);
}

#[test]
fn kip_227_wrong_ids_and_epochs_are_refused_and_the_session_lives_on() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let id = opened(&mut cluster, at);
    assert_eq!(cluster.ask(at, 11, session(id ^ 1, 1, &[])).error_code, ErrorCode(70));
    assert_eq!(cluster.ask(at, 11, session(id, 2, &[])).error_code, ErrorCode(71));
    assert_eq!(cluster.ask(at, 11, session(id, 1, &[])).error_code, ErrorCode(0));
    assert_eq!(cluster.ask(at, 11, session(id, 1, &[])).error_code, ErrorCode(71));
    assert_eq!(cluster.ask(at, 11, session(id, 2, &[])).error_code, ErrorCode(0));
}

#[test]
fn kip_227_epoch_0_opens_another_session_and_minus_1_none() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let at = cluster.connect(1);
    let first = opened(&mut cluster, at);
    let second = cluster.ask(at, 11, session(first, 0, &[(0, 0)])).session_id;
    assert!(second != 0 && second != first);
    assert_eq!(cluster.core.fetch_sessions(1), 1);
    assert_eq!(cluster.ask(at, 11, session(second, -1, &[(0, 0)])).session_id, 0);
    assert_eq!(cluster.core.fetch_sessions(1), 0);
    assert_eq!(cluster.ask(at, 11, session(0, -1, &[(0, 0)])).session_id, 0);
}

#[test]
fn kip_227_a_full_cache_opens_nothing_until_a_session_is_two_minutes_old() {
    let mut cluster = Direct::new(Release::V2_4, |settings| settings.fetch_session_slots = 1);
    let at = cluster.connect(1);
    let first = opened(&mut cluster, at);
    let answer = cluster.ask(at, 11, session(0, 0, &[(0, 0)]));
    assert_eq!((answer.session_id, summary(&answer).len()), (0, 1));
    cluster.pass(121_000);
    assert_ne!(cluster.ask(at, 11, session(0, 0, &[(0, 0)])).session_id, 0);
    assert_eq!(cluster.ask(at, 11, session(first, 1, &[])).error_code, ErrorCode(70));
}

#[test]
fn kip_227_a_restarted_broker_knows_no_session_and_brokers_number_theirs_apart() {
    let mut cluster = Direct::new(Release::V2_4, |settings| settings.brokers = 2);
    let (one, two) = (cluster.connect(1), cluster.connect(2));
    let id = opened(&mut cluster, one);
    assert_ne!(opened(&mut cluster, two), id);
    cluster.core.stop_broker(1);
    cluster.core.start_broker(1);
    let one = cluster.connect(1);
    assert_eq!(cluster.ask(one, 11, session(id, 1, &[])).error_code, ErrorCode(70));
}

#[test]
fn kip_516_a_session_speaks_of_names_or_of_ids() {
    let mut cluster = Direct::new(Release::V4_4, |_| {});
    let at = cluster.connect(1);
    let id = opened(&mut cluster, at);
    assert_eq!(cluster.ask(at, 13, session(id, 1, &[])).error_code, ErrorCode(106));
    let request = cluster.by_id(session(0, 0, &[(0, 0)]));
    let id = cluster.ask(at, 13, request).session_id;
    assert_eq!(cluster.ask(at, 13, session(id, 1, &[])).error_code, ErrorCode(0));
    assert_eq!(cluster.ask(at, 12, session(id, 2, &[])).error_code, ErrorCode(106));
}

#[test]
fn kip_516_an_id_in_a_session_is_unknown_changed_or_deleted() {
    let mut cluster = Direct::new(Release::V4_4, |_| {});
    let at = cluster.connect(1);
    let code = |answer: FetchResponse| summary(&answer)[0].1;
    let mut unknown = cluster.by_id(session(0, 0, &[(0, 0)]));
    unknown.topics[0].topic_id = downspout::wire::Uuid([9; 16]);
    assert_eq!(code(cluster.ask(at, 13, unknown)), 100);
    let request = cluster.by_id(session(0, 0, &[(0, 0)]));
    let id = cluster.ask(at, 13, request.clone()).session_id;
    cluster.core.create_topic("t", 2);
    assert_eq!(code(cluster.ask(at, 13, session(id, 1, &[]))), 103);
    cluster.core.delete_topic("t");
    assert_eq!(code(cluster.ask(at, 13, session(id, 2, &[]))), 3);
    // Whoever names the old id now meets nobody who remembers it.
    assert_eq!(code(cluster.ask(at, 13, request)), 100);
}

#[test]
fn kip_227_an_error_comes_again_and_so_does_the_partition_after_it() {
    let mut cluster = Direct::new(Release::V2_4, |settings| settings.brokers = 2);
    let at = cluster.connect(1);
    let id = opened(&mut cluster, at);
    cluster.core.inject(Fault::error(ErrorCode(5)).at_partition("t", 0).times(2));
    let codes = |answer: FetchResponse| summary(&answer).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>();
    assert_eq!(codes(cluster.ask(at, 11, session(id, 1, &[]))), [(0, 5)]);
    assert_eq!(codes(cluster.ask(at, 11, session(id, 2, &[]))), [(0, 5)]);
    assert_eq!(codes(cluster.ask(at, 11, session(id, 3, &[]))), [(0, 0)]);
    assert_eq!(codes(cluster.ask(at, 11, session(id, 4, &[]))), []);
}

#[test]
fn kip_227_a_session_that_went_on_meanwhile_fails_the_fetch_that_waits() {
    let mut cluster = Direct::new(Release::V2_4, |_| {});
    let (at, other) = (cluster.connect(1), cluster.connect(1));
    let id = opened(&mut cluster, at);
    let long = FetchRequest { max_wait_ms: 500, ..session(id, 1, &[]) };
    cluster.send(at, 11, &long);
    assert!(cluster.waits(at));
    assert_eq!(cluster.ask(other, 11, session(id, 2, &[])).error_code, ErrorCode(0));
    assert_eq!(cluster.resume::<FetchRequest>(at, 11).error_code, ErrorCode(71));
}

#[test]
fn a_session_over_a_thousand_partitions_answers_in_no_time() {
    let mut cluster = Direct::new(Release::V4_4, |settings| settings.brokers = 3);
    cluster.core.create_topic("t", 1_000);
    let at = cluster.connect(1);
    let all: Vec<(i32, i64)> = (0..1_000).map(|partition| (partition, 0)).collect();
    let request = cluster.by_id(session(0, 0, &all));
    let start = Instant::now();
    let answer = cluster.ask(at, 13, request);
    assert_eq!(summary(&answer).len(), 1_000);
    for epoch in 1..=20 {
        cluster.append(epoch * 7);
        assert_eq!(
            summary(&cluster.ask(at, 13, session(answer.session_id, epoch, &[]))).len(),
            epoch as usize
        );
    }
    // A debug build on a busy machine takes some 30 ms.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
