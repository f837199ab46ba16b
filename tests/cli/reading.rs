//! `metadata`, `offsets` and `consume` against the embedded broker, of every era.

use downspout::records::{Codec, Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Fault, Release};
use serde_json::json;

use crate::{Run, downspout};

const ERAS: [Release; 6] =
    [Release::V0_8_0, Release::V0_9_0, Release::V0_10_2, Release::V0_11_0, Release::V2_8, Release::V4_4];

/// A cluster with the records 0…n of a topic in each partition, as its release writes them.
fn cluster(release: Release, partitions: i32, records: usize) -> EmbeddedBroker {
    let broker = EmbeddedBroker::builder().release(release).topic("clicks", partitions).start().unwrap();
    for partition in 0..partitions {
        append(&broker, release, partition, 0..records);
    }
    broker
}

fn append(broker: &EmbeddedBroker, release: Release, partition: i32, numbers: std::ops::Range<usize>) {
    let magic = [Magic::V0, Magic::V1, Magic::V2][release.magic() as usize];
    let mut writer = RecordSetWriter::new(magic).codec(Codec::Gzip);
    for i in numbers {
        let (key, value) = (format!("k{i}"), format!("v{i}"));
        let record = NewRecord {
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            timestamp: Some(1000 + i as i64),
            ..NewRecord::default()
        };
        writer.push(record).unwrap();
    }
    broker.append("clicks", partition, &writer.finish().unwrap()).unwrap();
}

fn run(broker: &EmbeddedBroker, args: &[&str]) -> Run {
    let mut all = vec![args[0], "-b", broker.addr()];
    all.extend(&args[1..]);
    downspout(&all, b"")
}

#[track_caller]
fn assert_out(run: &Run, out: &str) {
    assert_eq!((run.code, run.err.as_str(), run.out.as_str()), (0, "", out));
}

#[test]
fn consume_reads_every_era_to_the_end() {
    for release in ERAS {
        let broker = cluster(release, 2, 3);
        let run = run(&broker, &["consume", "-t", "clicks", "-e", "-f", "%p:%o:%k=%s\\n"]);
        let mut lines: Vec<_> = run.out.lines().collect();
        lines.sort_unstable();
        let expected = ["0:0:k0=v0", "0:1:k1=v1", "0:2:k2=v2", "1:0:k0=v0", "1:1:k1=v1", "1:2:k2=v2"];
        assert_eq!((run.code, run.err.as_str(), lines), (0, "", expected.to_vec()), "{release}");
    }
}

#[test]
fn consume_begins_and_stops_where_it_is_told() {
    let broker = cluster(Release::V4_4, 1, 10);
    let values = |offset: &[&str]| {
        let mut args = vec!["consume", "-t", "clicks", "-e", "-D", " "];
        args.extend(offset);
        let run = run(&broker, &args);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{offset:?}");
        run.out
    };
    assert_eq!(values(&["-o", "beginning", "-c", "2"]), "v0 v1 ");
    assert_eq!(values(&["-o", "8"]), "v8 v9 ");
    assert_eq!(values(&["-o", "-3"]), "v7 v8 v9 ");
    assert_eq!(values(&["-o-1"]), "v9 ");
    assert_eq!(values(&["-o", "end"]), "");
    assert_eq!(values(&["-o", "s@1006"]), "v6 v7 v8 v9 ");
    assert_eq!(values(&["-o", "s@1002", "-o", "e@1004"]), "v2 v3 ");
    assert_eq!(values(&["-o", "s@5000"]), "");
    assert_eq!(values(&["-c", "0"]), "");
}

#[test]
fn the_shapes_of_a_record() {
    let broker = EmbeddedBroker::builder().topic("t", 1).start().unwrap();
    let mut writer = RecordSetWriter::new(Magic::V2);
    let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"1")), (b"n", None)];
    writer
        .push(NewRecord {
            key: Some(b"k"),
            timestamp: Some(7),
            headers: &headers,
            ..NewRecord::value(b"v\xff")
        })
        .unwrap();
    writer.push(NewRecord { timestamp: Some(8), ..NewRecord::default() }).unwrap();
    broker.append("t", 0, &writer.finish().unwrap()).unwrap();
    let shape = |args: &[&str]| {
        let mut all = vec!["consume", "-t", "t", "-e"];
        all.extend(args);
        run(&broker, &all)
    };
    let json = shape(&["--json"]).lines();
    assert_eq!(
        json[0],
        json!({"topic": "t", "partition": 0, "offset": 0, "timestamp": 7, "timestamp_type": "CreateTime", "key": "k",
            "value": {"base64": "dv8="}, "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": null}]})
    );
    let envelope = shape(&["-J", "--bytes", "hex"]).lines();
    assert_eq!(
        envelope[0],
        json!({"topic": "t", "partition": 0, "offset": 0, "tstype": "create", "ts": 7, "broker": 1,
            "headers": [{"hex": "68"}, {"hex": "31"}, {"hex": "6e"}, null], "key": {"hex": "6b"}, "payload": {"hex": "76ff"}})
    );
    assert_eq!(envelope[1].get("headers"), None);
    assert_eq!(envelope[1]["payload"], json!(null));
    assert_out(&shape(&["-f", "%t/%p@%o %T %K %S %h|", "-o", "1"]), "t/0@1 8 -1 -1 |");
    assert_out(&shape(&["-f", "%h\\n", "-c", "1"]), "h=1,n=NULL\n");
    assert_out(&shape(&["-K", ":", "-Z", "-o", "1"]), "NULL:NULL\n");
    assert_out(&shape(&["-K", "\\t", "-D", "\\x00", "-o", "1"]), "\t\0");
}

#[test]
fn a_topic_that_does_not_exist_is_an_error_with_near_names() {
    for release in [Release::V0_8_2, Release::V4_4] {
        let broker = cluster(release, 1, 1);
        for command in ["consume", "offsets", "metadata"] {
            let run = run(&broker, &[command, "-t", "clikcs"]);
            assert_eq!((run.code, run.out.as_str()), (3, ""), "{command}");
            assert_eq!(
                run.err,
                "downspout: topic clikcs: no such topic on this broker; did you mean clicks?\n"
            );
        }
        assert_eq!(
            run(&broker, &["metadata", "--json"]).lines()[0]["topics"].as_array().unwrap().len(),
            1,
            "not created"
        );
        let run = run(&broker, &["consume", "-t", "clicks", "-p", "7"]);
        assert_eq!(run.code, 3);
        assert_eq!(run.err, "downspout: clicks has no partition 7: it has 1, numbered from 0\n");
    }
}

#[test]
fn unreachable_brokers_exit_with_3() {
    for command in [&["metadata"][..], &["offsets", "-t", "t"], &["consume", "-t", "t"]] {
        let mut args = command.to_vec();
        // Port 1 of this machine: nobody listens there.
        args.extend(["-b", "127.0.0.1:1,127.0.0.1:2"]);
        let run = downspout(&args, b"");
        assert_eq!((run.code, run.out.as_str()), (3, ""));
        assert!(run.err.contains("127.0.0.1:1") && run.err.contains("127.0.0.1:2"), "{}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    }
}

#[test]
fn aborted_records_are_left_out_unless_asked_for() {
    let broker = EmbeddedBroker::builder().topic("t", 1).start().unwrap();
    for name in ["F23", "F21", "F12"] {
        broker.append("t", 0, &crate::hex(crate::vectors::vector(name)).into()).unwrap();
    }
    let out =
        |level: &str| run(&broker, &["consume", "-t", "t", "-e", "--isolation", level, "-f", "%o "]).out;
    assert_eq!(out("read_committed"), "3 4 ");
    assert_eq!(out("read_uncommitted"), "0 1 3 4 ");
}

#[test]
fn damage_stops_is_skipped_or_is_shown() {
    let broker = EmbeddedBroker::builder().topic("t", 1).start().unwrap();
    let set = crate::hex(crate::vectors::vector("F12"));
    for _ in 0..3 {
        broker.append("t", 0, &set.clone().into()).unwrap();
    }
    // One bit of the second batch, wherever it lies in the answer, counted from the end.
    let corrupt = || {
        broker.with(|core| core.clear_faults());
        let at = set.len() + 3;
        broker.inject(
            Fault::rewrite(move |frame| {
                let end = frame.windows(4).rposition(|window| window == b"\x0e\0\x02\x02").unwrap();
                let place = end.saturating_sub(at);
                frame[place] ^= 1;
            })
            .on(downspout::protocol::ApiKey::FETCH),
        );
    };
    let consume = |flag: &str, policy: &str| {
        corrupt();
        run(&broker, &["consume", "-t", "t", "-e", flag, policy, "-f", "%o "])
    };
    let stopped = consume("--corrupt", "stop");
    assert_eq!((stopped.code, stopped.out.as_str()), (1, "0 1 "), "{}", stopped.err);
    assert!(stopped.err.contains("offsets 2 to 3 cannot be read"), "{}", stopped.err);
    assert!(stopped.err.contains("--corrupt skip goes on after it"), "{}", stopped.err);
    for flag in ["--corrupt", "--on-corrupt"] {
        let skipped = consume(flag, "skip");
        assert_eq!((skipped.code, skipped.out.as_str()), (1, "0 1 4 5 "), "{}", skipped.err);
        assert!(
            skipped.err.starts_with("downspout: t/0: passed over damage: offsets 2 to 3"),
            "{}",
            skipped.err
        );
        assert_eq!(skipped.err.lines().count(), 1, "{}", skipped.err);
    }
    let raw = consume("--corrupt", "raw");
    assert_eq!((raw.code, raw.out.as_str(), raw.err.as_str()), (1, "0 1 2 4 5 ", ""));
}

#[test]
fn an_offset_that_is_not_in_the_log_stops_or_is_reset_as_told() {
    let broker = cluster(Release::V4_4, 1, 6);
    broker.with(|core| core.delete_before("clicks", 0, 2)).unwrap();
    // Each side of the log from 2 to 6: where reading goes on, and what that loses.
    let table = [
        ("1", "earliest", "v2 v3 v4 v5 ", "going on at 2 (1 lost, 0 repeated)"),
        ("1", "latest", "", "going on at 6 (5 lost, 0 repeated)"),
        ("1", "nearest", "v2 v3 v4 v5 ", "going on at 2 (1 lost, 0 repeated)"),
    ];
    for (offset, policy, out, event) in table {
        for args in [vec!["--reset", policy], vec!["-X", &format!("auto.offset.reset={policy}")]] {
            let mut all = vec!["consume", "-t", "clicks", "-e", "-q", "-D", " ", "-o", offset];
            all.extend(args);
            let run = run(&broker, &all);
            assert_eq!((run.code, run.out.as_str()), (1, out), "{policy}: {}", run.err);
            assert!(run.err.starts_with("downspout: clicks/0: ") && run.err.contains(event), "{}", run.err);
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        }
    }
    let stopped = run(&broker, &["consume", "-t", "clicks", "-e", "-o", "1"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (5, ""));
    assert!(stopped.err.contains("the log now starts at 2 (and ends at 6)"), "{}", stopped.err);
    assert!(stopped.err.contains("--reset earliest"), "{}", stopped.err);
    let above = |reset: &str, count: &str| {
        run(&broker, &["consume", "-t", "clicks", "-o", "9", "--reset", reset, "-c", count, "-D", " "])
    };
    let fail = above("fail", "1");
    assert_eq!((fail.code, fail.out.as_str()), (5, ""));
    assert!(fail.err.contains("the log ends at 6"), "{}", fail.err);
    let earliest = above("earliest", "4");
    assert_eq!((earliest.code, earliest.out.as_str()), (1, "v2 v3 v4 v5 "), "{}", earliest.err);
    assert!(earliest.err.contains("going on at 2 (0 lost, 7 repeated)"), "{}", earliest.err);
}

#[test]
fn what_happened_is_json_where_records_are() {
    let broker = cluster(Release::V4_4, 1, 6);
    broker.with(|core| core.delete_before("clicks", 0, 2)).unwrap();
    for shape in ["-J", "--json"] {
        let args = ["consume", "-t", "clicks", "-e", "-o", "1", "--reset", "earliest", shape];
        let run = run(&broker, &args);
        assert_eq!((run.code, run.lines().len()), (1, 4), "{}", run.err);
        let mut event: serde_json::Value = serde_json::from_str(&run.err).unwrap();
        let message = event.as_object_mut().unwrap().remove("message");
        assert!(message.unwrap().as_str().unwrap().contains("the log now starts at 2"));
        assert_eq!(
            event,
            json!({"event": "out_of_range", "topic": "clicks", "partition": 0, "offset": 1, "resumed_at": 2,
                "lost": 1, "repeated": 0})
        );
    }
}

#[test]
fn offsets_by_name_and_by_time() {
    let broker = cluster(Release::V4_4, 2, 5);
    assert_out(
        &run(&broker, &["offsets", "-t", "clicks"]),
        "clicks 0 earliest 0 latest 5\nclicks 1 earliest 0 latest 5\n",
    );
    let run = run(
        &broker,
        &["offsets", "-t", "clicks", "-p", "1", "--at", "1003", "--at", "max-timestamp", "--json"],
    );
    let lines = run.lines();
    assert_eq!((lines.len(), &lines[0]["offset"], &lines[0]["timestamp"]), (2, &json!(3), &json!(1003)));
    assert_eq!(lines[1]["at"], "max-timestamp");
    assert_eq!(lines[1]["offset"], 4);
}

#[test]
fn metadata_of_every_era() {
    for release in ERAS {
        let broker = cluster(release, 2, 1);
        let text = run(&broker, &["metadata", "-t", "clicks"]);
        assert_eq!((text.code, text.err.as_str()), (0, ""), "{release}");
        assert!(
            text.out.contains("topics: 1\n  clicks, partitions: 2\n    0: leader 1, replicas 1, in sync 1\n"),
            "{}",
            text.out
        );
        let json = run(&broker, &["metadata", "-J"]);
        assert_eq!(json.lines()[0]["topics"][0]["partitions"][1]["leader_id"], 1, "{release}");
    }
}
