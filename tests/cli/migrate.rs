//! `checkpoint migrate`: positions from one store, or one cluster, to another.

use downspout::client::{Cluster, GroupOffset};
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Release};

use crate::{Run, downspout};

/// Partitions with ten records each, whose values are `from`, `from + 1` …, a second apart.
fn broker(cluster: &str, partitions: i32, from: i64) -> EmbeddedBroker {
    let broker = EmbeddedBroker::builder()
        .release(Release::LATEST)
        .settings(|settings| settings.cluster_id = cluster.to_owned())
        .topic("clicks", partitions)
        .start()
        .unwrap();
    for partition in 0..partitions {
        let mut writer = RecordSetWriter::new(Magic::V2);
        for n in from..from + 10 {
            let value = format!("record-{n}");
            let record =
                NewRecord { timestamp: Some(1_000_000 + 1000 * n), ..NewRecord::value(value.as_bytes()) };
            writer.push(record).unwrap();
        }
        broker.append("clicks", partition, &writer.finish().unwrap()).unwrap();
    }
    broker
}

fn commit(broker: &EmbeddedBroker, group: &str, offset: GroupOffset) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::connect([broker.addr()]).await.unwrap();
        for committed in cluster.commit_offsets(group, &[offset]).await.unwrap() {
            assert!(committed.error.is_none(), "{committed:?}");
        }
    });
}

fn committed(broker: &EmbeddedBroker, group: &str, partition: i32) -> Option<i64> {
    broker.with(|core| core.committed(group, "clicks", partition))
}

#[track_caller]
fn migrate(args: &[&str]) -> Run {
    let run = downspout(&[&["checkpoint", "migrate"], args].concat(), b"");
    assert_eq!(run.code, 0, "{}\n{}", run.out, run.err);
    run
}

const JAVA: &str = r#"{"topology":{"id":"t-1-1700000000","name":"t"},"offset":3,"partition":0,"broker":{"host":"h","port":9092},"topic":"clicks"}"#;

#[test]
fn within_one_log_offsets_stay_and_nothing_happens_without_execute_and_it_can_be_undone() {
    let broker = broker("one", 2, 0);
    let dir = tempfile::tempdir().unwrap();
    let documents = dir.path().join("store/billing");
    std::fs::create_dir_all(&documents).unwrap();
    std::fs::write(documents.join("partition_0"), JAVA).unwrap();
    let store = format!("file:{}", dir.path().join("store").display());
    commit(&broker, "new", GroupOffset::new("clicks", 0, 9));

    let args = ["--from", &store, "--from-id", "billing", "--to", "kafka:new", "-b", broker.addr()];
    let run = migrate(&args);
    assert!(
        run.out.contains("clicks/0\n  old 3: offset 3, time 1003000, key null, value \"record-3\"\n"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("  new 3: offset 3, time 1003000, key null, value \"record-3\"\n"),
        "{}",
        run.out
    );
    assert!(run.out.contains("clicks/0: 9 -> 3: 6 offsets (3 to 8) will be handed out again"), "{}", run.out);
    assert!(run.err.contains("nothing was changed: add --execute"), "{}", run.err);
    assert_eq!(committed(&broker, "new", 0), Some(9));

    let backup = dir.path().join("saved").display().to_string();
    let run = migrate(&[&args[..], &["--execute", "--backup", &backup]].concat());
    assert_eq!((committed(&broker, "new", 0), committed(&broker, "new", 1)), (Some(3), None));
    assert_eq!(
        std::fs::read_to_string(documents.join("partition_0")).unwrap(),
        JAVA,
        "it comes from there still"
    );
    let undo = run.err.split("to bring it back: ").nth(1).unwrap().trim();
    let undo = undo.replacen("downspout", env!("CARGO_BIN_EXE_downspout"), 1);
    let done = std::process::Command::new("sh").args(["-c", &undo]).current_dir(dir.path()).output().unwrap();
    assert!(done.status.success(), "{undo}: {}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(committed(&broker, "new", 0), Some(9));
}

#[test]
fn what_other_programs_left_in_kafka_comes_along_as_far_as_there_is_room() {
    let broker = broker("one", 2, 0);
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().display());
    // As storm-kafka-client commits.
    let storm = r#"{"topologyId":"top-1-1700000000","taskId":3,"threadName":"t"}"#;
    commit(&broker, "storm", GroupOffset::new("clicks", 0, 5).metadata(storm));
    let backup = |name: &str| dir.path().join(name).display().to_string();
    let to = ["--to", &store, "-b", broker.addr(), "--execute"];
    let args = ["--from", "kafka:storm", "--to-id", "a", "--backup", &backup("1")];
    migrate(&[&args[..], &to].concat());
    let document = std::fs::read_to_string(dir.path().join("a/clicks/partition_0")).unwrap();
    assert!(
        document.starts_with(r#"{"topology":{"id":"top-1-1700000000","name":""},"offset":5,"#),
        "{document}"
    );

    // And to where storm-kafka-client finds it: the offset, and nothing beside it.
    let plain = ["--from", &store, "--from-id", "a", "--to", "kafka:again", "--plain", "--execute"];
    migrate(&[&plain[..], &["-b", broker.addr(), "--backup", &backup("2")]].concat());
    assert_eq!(committed(&broker, "again", 0), Some(5));
    assert_eq!(broker.with(|core| core.committed_metadata("again", "clicks", 0)).unwrap_or_default(), "");
}

#[test]
fn in_another_cluster_it_is_the_time_of_the_next_record_less_a_margin() {
    // Record 5 of the old log is record 0 of the new one: its offsets are lower by 5.
    let (old, new) = (broker("old", 2, 0), broker("new", 2, 5));
    for (partition, offset) in [(0, 8), (1, 10)] {
        commit(&old, "a", GroupOffset::new("clicks", partition, offset));
    }
    let base = ["--from", "kafka:a", "--to", "kafka:a", "--from-brokers", old.addr(), "-b", new.addr()];
    let run = migrate(&[&base[..], &["--margin", "0"]].concat());
    assert!(
        run.out.contains(
            "  old 8: offset 8, time 1008000, key null, value \"record-8\"\n  new 3: offset 3, time 1008000"
        ),
        "{}",
        run.out
    );
    // At the end of its log, a position goes by the last record: that one may come again.
    assert!(
        run.out.contains("clicks/1\n  old 10: the end of the log\n  new 4: offset 4, time 1009000"),
        "{}",
        run.out
    );

    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("1").display().to_string();
    migrate(&[&base[..], &["--margin", "2", "--execute", "--backup", &backup]].concat());
    assert_eq!((committed(&new, "a", 0), committed(&new, "a", 1)), (Some(1), Some(2)));
    // The margin is 10 minutes unless said otherwise; here, that is everything.
    assert!(migrate(&base).out.contains("clicks/0: 1 -> 0: "));
    // Told that the offsets are the same, it believes it.
    let run = migrate(&[&base[..], &["--same-log"]].concat());
    assert!(run.out.contains("clicks/0: 1 -> 8: 7 offsets (1 to 7) will be skipped"), "{}", run.out);
    assert!(
        run.out
            .contains("value \"record-8\"\n  new 8: offset 8, time 1013000, key null, value \"record-13\""),
        "{}",
        run.out
    );
    // The same cluster by another way is the same log.
    commit(&old, "a", GroupOffset::new("clicks", 0, 7));
    let run =
        migrate(&["--from", "kafka:a", "--to", "kafka:b", "--from-brokers", old.addr(), "-b", old.addr()]);
    assert!(
        run.out.contains("old 7: offset 7, time 1007000, key null, value \"record-7\"\n  new 7: offset 7"),
        "{}",
        run.out
    );
}

#[test]
fn with_another_number_of_partitions_all_begin_at_the_earliest_time() {
    let (old, new) = (broker("old", 2, 0), broker("new", 3, 0));
    for (partition, offset) in [(0, 8), (1, 4)] {
        commit(&old, "a", GroupOffset::new("clicks", partition, offset));
    }
    let run = migrate(&[
        "--from",
        "kafka:a",
        "--to",
        "kafka:b",
        "--from-brokers",
        old.addr(),
        "-b",
        new.addr(),
        "--margin",
        "1",
    ]);
    for partition in 0..3 {
        assert!(run.out.contains(&format!("clicks/{partition}: no checkpoint -> 3: ")), "{}", run.out);
    }
}

#[test]
fn positions_below_the_start_begin_there_and_those_beyond_the_end_are_refused() {
    let broker = broker("one", 1, 0);
    commit(&broker, "a", GroupOffset::new("clicks", 0, 3));
    broker.with(|core| core.delete_before("clicks", 0, 5)).unwrap();
    let args = ["--from", "kafka:a", "--to", "kafka:b", "-b", broker.addr()];
    let run = migrate(&args);
    assert!(run.out.contains("2 offsets from 3 on are gone from the log, which starts at 5"), "{}", run.out);
    assert!(run.out.contains("no checkpoint -> 5"), "{}", run.out);
    commit(&broker, "a", GroupOffset::new("clicks", 0, 30));
    let run = downspout(&[&["checkpoint", "migrate"], &args[..]].concat(), b"");
    assert!(run.code == 2 && run.err.contains("30 is beyond the end of the log, 10"), "{}", run.err);
}

#[test]
fn wrong_usage_is_told() {
    let broker = broker("one", 1, 0);
    let b = broker.addr();
    let table: &[(&[&str], i32, &str)] = &[
        (&["--from", "kafka:a", "--to", "kafka:a", "-b", b], 2, "--from and --to are the same"),
        (&["--from", "zk://z/r", "--from-id", "a", "--to", "zk://z/r", "-b", b], 2, "?layout=by-topic"),
        (&["--from", "file:/x", "--to", "kafka:b", "-b", b], 2, "no id"),
        (&["--from", "memory", "--from-id", "a", "--to", "kafka:b", "-b", b], 2, "gone with the process"),
        (&["--from", "zk://zk1:x/r", "--from-id", "a", "--to", "kafka:b", "-b", b], 2, "zk1:x"),
        (&["--from", "kafka:a", "--to", "kafka:b", "--same-log", "-b", b], 2, "--from-brokers"),
        (&["--from", "kafka:a", "--to", "kafka:b", "-b", b], 3, "no position is kept there"),
    ];
    for (args, code, why) in table {
        let run = downspout(&[&["checkpoint", "migrate"], *args].concat(), b"");
        assert!(run.code == *code && run.err.contains(why), "{args:?}: {} {}", run.code, run.err);
    }
}
