//! `dlq list` and `dlq redrive` against the embedded broker.

use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::{EmbeddedBroker, Fault, Release};
use serde_json::{Value, json};

use crate::{Run, downspout};

/// Dead letters of `clicks/1` (offsets 10, 11, 13) and of `orders/0` (offset 5), each with a header of
/// its own, and between them a record that is none.
fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::builder()
        .release(Release::LATEST)
        .topic("clicks", 2)
        .topic("orders", 1)
        .topic("dead", 1)
        .start()
        .unwrap();
    for (topic, partition, offset, reason, key) in [
        ("clicks", 1, 10, "too late", "a"),
        ("clicks", 1, 11, "no such user", "b"),
        ("", 0, 0, "", "stray"),
        ("orders", 0, 5, "too late", "c"),
        ("clicks", 1, 13, "too late", "d"),
    ] {
        let mut args = vec!["produce", "-b", broker.addr(), "-t", "dead", "-K", ":", "-H", "own=1"];
        let headers = [
            format!("downspout.topic={topic}"),
            format!("downspout.partition={partition}"),
            format!("downspout.offset={offset}"),
            "downspout.attempts=3".to_owned(),
            format!("downspout.reason={reason}"),
            "downspout.time=1700000000000".to_owned(),
        ];
        if !topic.is_empty() {
            args.extend(headers.iter().flat_map(|header| ["-H", header.as_str()]));
        }
        let run = downspout(&args, format!("{key}:value of {key}\n").as_bytes());
        assert_eq!((run.code, run.err.as_str()), (0, ""));
    }
    broker
}

fn dlq(broker: &EmbeddedBroker, args: &[&str]) -> Run {
    let mut all = vec!["dlq", args[0], "-b", broker.addr(), "-t", "dead"];
    all.extend(&args[1..]);
    downspout(&all, b"")
}

fn consumed(broker: &EmbeddedBroker, topic: &str) -> Vec<Value> {
    downspout(&["consume", "-b", broker.addr(), "-t", topic, "-e", "-J"], b"").lines()
}

fn keys(broker: &EmbeddedBroker, topic: &str) -> Vec<String> {
    consumed(broker, topic).iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
}

/// A store in a directory of its own.
fn store() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().join("positions").display());
    (dir, store)
}

#[test]
fn a_list_tells_where_each_record_came_from_and_why_it_is_there() {
    let broker = broker();
    let run = dlq(&broker, &["list", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("1 records of dead are no dead letters"), "{}", run.err);
    let lines = run.lines();
    assert_eq!(
        lines[0],
        json!({
            "topic": "dead", "partition": 0, "offset": 0,
            "source": {"topic": "clicks", "partition": 1, "offset": 10},
            "attempts": 3, "reason": "too late", "time": 1_700_000_000_000_i64, "value_dropped": null,
        })
    );
    let offsets = |args: &[&str]| -> Vec<i64> {
        let lines = dlq(&broker, args).lines();
        lines.iter().map(|line| line["source"]["offset"].as_i64().unwrap()).collect()
    };
    assert_eq!(offsets(&["list", "--json"]), [10, 11, 5, 13]);
    assert_eq!(offsets(&["list", "--json", "--source", "clicks"]), [10, 11, 13]);
    assert_eq!(offsets(&["list", "--json", "--reason", "late"]), [10, 5, 13]);
    assert_eq!(offsets(&["list", "--json", "--reason", "late", "--source", "clicks", "-c", "1"]), [10]);
    let text = dlq(&broker, &["list", "-c", "1"]).out;
    assert_eq!(text, "0/0\tfrom clicks/1/10\tattempts 3\tat 1700000000000\ttoo late\n");
}

#[test]
fn without_execute_only_the_plan_is_shown() {
    let broker = broker();
    let (_dir, store) = store();
    let before = broker.request_count(ApiKey::PRODUCE);
    let run = dlq(&broker, &["redrive", "--store", &store]);
    assert_eq!(run.code, 0, "{}", run.err);
    for line in [
        "would be sent: 3 records of clicks",
        "would be sent: 1 records of orders",
        "not sent: 1 records are no dead letters of downspout",
        "nothing was sent: --execute does it",
    ] {
        assert!(run.out.lines().any(|it| it == line), "{line}: {}", run.out);
    }
    assert_eq!(broker.request_count(ApiKey::PRODUCE), before);
}

#[test]
fn records_go_back_as_they_were_and_only_once() {
    let broker = broker();
    let (_dir, store) = store();
    let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("sent: 4 records; kept in "), "{}", run.out);
    let clicks = consumed(&broker, "clicks");
    let dead = consumed(&broker, "dead");
    assert_eq!(clicks.len(), 3);
    for (sent, was) in clicks.iter().zip([&dead[0], &dead[1], &dead[4]]) {
        assert_eq!(sent["partition"], 1);
        for part in ["key", "value", "timestamp"] {
            assert_eq!(sent[part], was[part]);
        }
        assert_eq!(sent["headers"], json!(["own", "1"]), "no provenance");
    }
    assert_eq!(keys(&broker, "orders"), ["c"]);
    for _ in 0..2 {
        let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.starts_with("sent: 0 records"), "{}", run.out);
    }
    assert_eq!((keys(&broker, "clicks").len(), keys(&broker, "orders").len()), (3, 1));
}

#[test]
fn what_a_filter_leaves_out_stays_to_be_sent() {
    let broker = broker();
    let (_dir, store) = store();
    let redrive = |args: &[&str]| {
        let mut all = vec!["redrive", "--store", &store, "--execute"];
        all.extend(args);
        let run = dlq(&broker, &all);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    assert!(redrive(&["--reason", "late"]).contains("not sent: 1 records were left out by a filter"));
    assert_eq!(keys(&broker, "clicks"), ["a", "d"]);
    assert!(redrive(&["--source", "clicks"]).contains("sent: 1 records"));
    assert_eq!(keys(&broker, "clicks"), ["a", "d", "b"]);
    assert!(redrive(&["--to", "orders"]).contains("sent: 0 records"));
    assert_eq!(keys(&broker, "orders"), ["c"]);
}

#[test]
fn another_topic_takes_them_by_partition_modulo_its_count() {
    let broker = broker();
    let (_dir, store) = store();
    let run =
        dlq(&broker, &["redrive", "--store", &store, "--to", "orders", "--source", "clicks", "--execute"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(keys(&broker, "orders"), ["a", "b", "d"]);
    let run = dlq(&broker, &["redrive", "--store", &store, "--to", "dead", "--execute"]);
    assert_eq!(run.code, 2, "{}", run.err);
}

#[test]
fn what_was_sent_before_a_failure_is_not_sent_again() {
    let broker = broker();
    let (_dir, store) = store();
    // clicks goes first, orders is refused.
    broker.inject(Fault::error(ErrorCode::INVALID_RECORD).on(ApiKey::PRODUCE).after(1).once());
    let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.out.contains("sent: 3 records") && run.err.contains("INVALID_RECORD"), "{run:?}");
    let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!((keys(&broker, "clicks").len(), keys(&broker, "orders").len()), (3, 1));
}

#[test]
fn one_record_that_is_too_large_stays_and_the_rest_goes() {
    let broker = broker();
    let (_dir, store) = store();
    // The three of clicks together, then the first of them alone.
    broker.inject(Fault::error(ErrorCode::MESSAGE_TOO_LARGE).on(ApiKey::PRODUCE).times(2));
    let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
    assert_eq!(run.code, 4, "{}", run.err);
    assert!(run.err.contains("the record from clicks/1/10 stays"), "{}", run.err);
    assert_eq!(keys(&broker, "clicks"), ["b", "d"]);
    let run = dlq(&broker, &["redrive", "--store", &store, "--execute"]);
    assert_eq!((run.code, keys(&broker, "clicks")), (0, ["b", "d", "a"].map(str::to_owned).to_vec()));
}

#[test]
fn wrong_usage_says_so() {
    let broker = broker();
    let run = dlq(&broker, &["redrive", "--store", "memory", "--execute"]);
    assert!(run.code == 2 && run.err.contains("forgets"), "{}", run.err);
    let run = dlq(&broker, &["redrive", "--execute"]);
    assert!(run.code == 2 && run.err.contains("--store"), "{}", run.err);
    let run = downspout(&["dlq", "list", "-b", broker.addr(), "-t", "deaf"], b"");
    assert!(run.code == 3 && run.err.contains("dead"), "{}", run.err);
}
