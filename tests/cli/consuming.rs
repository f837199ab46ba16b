//! `consume` over several topics and partitions, merged and one after the other.

use std::collections::BTreeMap;

use downspout::protocol::{ApiKey, ErrorCode};
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Fault};

use crate::{Run, downspout};

/// Appends the records `numbers`, with times from 1000 on.
fn append(broker: &EmbeddedBroker, topic: &str, partition: i32, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let mut set = RecordSetWriter::new(Magic::V2);
        let value = number.to_string();
        let record = NewRecord { timestamp: Some(1000 + number), ..NewRecord::value(value.as_bytes()) };
        set.push(record).unwrap();
        broker.append(topic, partition, &set.finish().unwrap()).unwrap();
    }
}

/// Three brokers with topics of two partitions each, four records in each partition.
fn cluster(topics: &[&str]) -> EmbeddedBroker {
    let builder = EmbeddedBroker::builder().brokers(3);
    let builder = topics.iter().fold(builder, |builder, topic| builder.topic(topic, 2));
    let broker = builder.start().unwrap();
    for topic in topics {
        for partition in 0..2 {
            append(&broker, topic, partition, 0..4);
        }
    }
    broker
}

fn consume(broker: &EmbeddedBroker, args: &[&str]) -> Run {
    let mut all = vec!["consume", "-b", broker.addr(), "-f", "%t/%p %o\\n"];
    all.extend(args);
    downspout(&all, b"")
}

/// The offsets printed, in their order, by topic and partition.
#[track_caller]
fn by_partition(run: &Run) -> BTreeMap<String, Vec<i64>> {
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in run.out.lines() {
        let (from, offset) = line.split_once(' ').unwrap();
        found.entry(from.to_owned()).or_default().push(offset.parse().unwrap());
    }
    found
}

fn all_of(partitions: &[&str]) -> BTreeMap<String, Vec<i64>> {
    partitions.iter().map(|from| ((*from).to_owned(), vec![0, 1, 2, 3])).collect()
}

#[test]
fn several_topics_and_patterns_are_read_as_one_each_topic_once() {
    let broker = cluster(&["clicks-eu", "clicks-us", "orders", "__hidden"]);
    let clicks = ["clicks-eu/0", "clicks-eu/1", "clicks-us/0", "clicks-us/1"];
    let orders = ["orders/0", "orders/1"];
    let table: [(&[&str], Vec<&str>); 6] = [
        (&["-t", "orders", "-t", "clicks-us"], [&orders, &clicks[2..]].concat()),
        (&["-t", "^clicks-.*"], clicks.to_vec()),
        (&["-t", "^.*rs$", "-t", "orders"], orders.to_vec()),
        (&["-t", "^clicks", "-t", "^", "-p", "1"], vec![clicks[1], clicks[3], orders[1]]),
        (&["-t", "^__"], vec!["__hidden/0", "__hidden/1"]),
        (&["-t", "__hidden", "-p", "0"], vec!["__hidden/0"]),
    ];
    for (topics, expected) in table {
        for more in [&["-e"][..], &["-e", "--by-partition"]] {
            let run = consume(&broker, &[topics, more].concat());
            assert_eq!(by_partition(&run), all_of(&expected), "{topics:?} {more:?}");
        }
    }
}

#[test]
fn a_pattern_without_a_topic_is_an_error_with_near_names() {
    let broker = cluster(&["clicks-eu", "orders"]);
    let run = consume(&broker, &["-t", "^clikcs-.*", "-e"]);
    assert_eq!((run.code, run.out.as_str()), (3, ""));
    assert_eq!(
        run.err,
        "downspout: topics ^clikcs-.*: no such topic on this broker; did you mean clicks-eu?\n"
    );
}

#[test]
fn by_partition_is_one_after_the_other_to_the_ends_of_the_start() {
    let broker = cluster(&["a", "b"]);
    let out = |more: &[&str]| {
        let run = consume(&broker, &[&["-t", "b", "-t", "a", "-e", "--by-partition"], more].concat());
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        run.out
    };
    let lines = |from: &str, offsets: std::ops::Range<i64>| -> String {
        offsets.map(|offset| format!("{from} {offset}\n")).collect()
    };
    let all = |offsets: std::ops::Range<i64>| -> String {
        ["b/0", "b/1", "a/0", "a/1"].into_iter().map(|from| lines(from, offsets.clone())).collect()
    };
    assert_eq!(out(&[]), all(0..4));
    assert_eq!(out(&["-o", "-1"]), all(3..4));
    assert_eq!(out(&["-o", "s@1002"]), all(2..4));
    assert_eq!(out(&["-o", "end"]), "");
    assert_eq!(out(&["-c", "5"]), lines("b/0", 0..4) + &lines("b/1", 0..1));
}

#[test]
fn reading_to_the_end_leaves_out_what_came_after_the_start() {
    for more in [&["-e"][..], &["-e", "--by-partition"]] {
        let broker = cluster(&["a"]);
        // Nothing is handed out until the log has grown, which is after its end was asked for.
        broker.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::FETCH));
        let run = std::thread::scope(|scope| {
            let run = scope.spawn(|| consume(&broker, &[&["-t", "a"], more].concat()));
            while broker.request_count(ApiKey::FETCH) == 0 {
                std::thread::yield_now();
            }
            append(&broker, "a", 0, 4..6);
            append(&broker, "a", 1, 4..6);
            broker.with(|core| core.clear_faults());
            run.join().unwrap()
        });
        assert_eq!(by_partition(&run), all_of(&["a/0", "a/1"]), "{more:?}");
    }
}

#[test]
fn a_time_to_stop_at_ends_each_partition_where_it_comes() {
    let broker = cluster(&["a"]);
    append(&broker, "a", 1, 4..9);
    let expected: BTreeMap<String, Vec<i64>> =
        [("a/0".to_owned(), vec![2, 3]), ("a/1".to_owned(), vec![2, 3, 4, 5])].into();
    let run = consume(&broker, &["-t", "a", "-e", "-o", "s@1002", "-o", "e@1006"]);
    assert_eq!(by_partition(&run), expected);
    // Without -e partition 0 is waited for until it has a record of that time.
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| consume(&broker, &["-t", "a", "-o", "s@1002", "-o", "e@1006"]));
        let asked = broker.request_count(ApiKey::FETCH);
        while broker.request_count(ApiKey::FETCH) < asked + 4 {
            std::thread::yield_now();
        }
        append(&broker, "a", 0, 7..9);
        run.join().unwrap()
    });
    assert_eq!(by_partition(&run), expected);
}

#[test]
fn reading_to_the_end_goes_on_under_a_small_budget_and_with_a_rack() {
    let broker = cluster(&["a", "b"]);
    let run = consume(&broker, &["-t", "^[ab]$", "-e", "--memory", "1K", "--rack", "r1"]);
    assert_eq!(by_partition(&run), all_of(&["a/0", "a/1", "b/0", "b/1"]));
}

#[test]
fn the_envelope_names_the_broker_that_each_record_came_from() {
    let broker = cluster(&["a"]);
    broker.with(|core| core.set_leader("a", 0, Some(3))).unwrap();
    broker.with(|core| core.set_leader("a", 1, Some(2))).unwrap();
    let run = downspout(&["consume", "-b", broker.addr(), "-t", "a", "-e", "-J"], b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    for line in run.lines() {
        assert_eq!(line["broker"], if line["partition"] == 0 { 3 } else { 2 }, "{line}");
    }
    assert_eq!(run.lines().len(), 8);
}
