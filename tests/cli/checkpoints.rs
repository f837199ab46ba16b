//! `checkpoint` and `lag`, over the stores that outlive a process.

use std::path::Path;

use downspout::checkpoint::{Access, CheckpointStore, FileCheckpoints, Owner};
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Release};
use serde_json::{Value, json};

use crate::{Run, downspout};

/// Two partitions with the offsets 0 to 9, written at 1000, 1001 … ms.
fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::builder().release(Release::LATEST).topic("clicks", 2).start().unwrap();
    for partition in 0..2 {
        let mut writer = RecordSetWriter::new(Magic::V2);
        for n in 0..10 {
            let record = NewRecord { timestamp: Some(1000 + n), ..NewRecord::value(b"v") };
            writer.push(record).unwrap();
        }
        broker.append("clicks", partition, &writer.finish().unwrap()).unwrap();
    }
    broker
}

struct Bench {
    broker: EmbeddedBroker,
    dir: tempfile::TempDir,
    store: String,
    saved: u32,
}

impl Bench {
    fn file() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("file:{}", dir.path().join("with space").display());
        Bench { broker: broker(), dir, store, saved: 0 }
    }

    fn kafka() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Bench { broker: broker(), dir, store: "kafka".to_owned(), saved: 0 }
    }

    fn run(&self, args: &[&str]) -> Run {
        let mut all: Vec<&str> = args.to_vec();
        all.extend(["--store", &self.store, "--id", "billing", "-b", self.broker.addr()]);
        downspout(&all, b"")
    }

    /// Runs a change, with a backup of its own.
    fn change(&mut self, args: &[&str]) -> Run {
        self.saved += 1;
        let backup = self.dir.path().join(format!("saved-{}", self.saved));
        let mut all: Vec<&str> = args.to_vec();
        let backup = backup.to_str().unwrap().to_owned();
        all.extend(["--execute", "--backup", &backup]);
        self.run(&all)
    }

    #[track_caller]
    fn offsets(&self) -> Vec<(i64, i64)> {
        let run = self.run(&["checkpoint", "list", "--json"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let pair = |line: &Value| (line["partition"].as_i64().unwrap(), line["offset"].as_i64().unwrap());
        run.lines().iter().map(pair).collect()
    }
}

fn benches() -> [Bench; 2] {
    [Bench::file(), Bench::kafka()]
}

const SET: [&str; 6] = ["checkpoint", "set", "-t", "clicks", "-p", "0"];

fn set(offset: &str) -> Vec<&str> {
    [&SET[..], &["--offset", offset]].concat()
}

#[test]
fn nothing_is_changed_without_execute_and_the_plan_says_what_would_be() {
    for mut bench in benches() {
        let run = bench.run(&set("4"));
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(
            run.out,
            "clicks/0: no checkpoint -> 4: 4 offsets (0 to 3) will not be read (the log holds 10 offsets (0 to 9))\n"
        );
        assert!(run.err.contains("nothing was changed: add --execute"), "{}", run.err);
        assert_eq!(bench.offsets(), []);

        let run = bench.change(&set("4"));
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(bench.offsets(), [(0, 4)]);
        let run = bench.run(&set("7"));
        assert!(run.out.contains("4 -> 7: 3 offsets (4 to 6) will be skipped"), "{}", run.out);
        let run = bench.change(&set("2"));
        assert!(run.out.contains("4 -> 2: 2 offsets (2 to 3) will be handed out again"), "{}", run.out);
        assert_eq!(bench.offsets(), [(0, 2)]);
        let run = bench.change(&set("2"));
        assert_eq!((run.code, run.err.contains("nothing to change")), (0, true), "{}", run.err);
    }
}

#[test]
fn the_command_that_is_printed_undoes_it() {
    for mut bench in benches() {
        bench.change(&set("4"));
        let run = bench.change(&set("9"));
        let undo = run.err.split("to bring it back: ").nth(1).unwrap().trim();
        let undo = undo.replacen("downspout", env!("CARGO_BIN_EXE_downspout"), 1);
        let done = std::process::Command::new("sh")
            .args(["-c", &undo])
            .current_dir(bench.dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{undo}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(bench.offsets(), [(0, 4)]);
    }
}

#[test]
fn undoing_the_first_one_removes_it_where_the_store_can() {
    let mut bench = Bench::file();
    bench.change(&set("4"));
    let saved = bench.dir.path().join("saved-1").to_str().unwrap().to_owned();
    let run = bench.change(&["checkpoint", "import", &saved]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("4 is removed"), "{}", run.out);
    assert_eq!(bench.offsets(), []);
}

#[test]
fn an_offset_outside_the_log_is_refused() {
    for mut bench in benches() {
        let run = bench.change(&set("11"));
        assert_eq!(run.code, 2);
        assert!(run.err.contains("11 is not in the log, which starts at 0 and ends at 10"), "{}", run.err);
        assert_eq!(bench.change(&set("10")).code, 0);
        bench.broker.with(|core| core.delete_before("clicks", 0, 5)).unwrap();
        assert_eq!(bench.change(&set("4")).code, 2);
        assert_eq!(bench.offsets(), [(0, 10)]);
        let run = bench.change(&["checkpoint", "set", "-t", "clicks", "-p", "9", "--offset", "0"]);
        assert_ne!(run.code, 0);
    }
}

#[test]
fn while_an_owner_is_alive_it_is_refused_unless_forced() {
    let mut bench = Bench::file();
    assert_eq!(bench.change(&set("4")).code, 0);
    let store = FileCheckpoints::new(bench.store.strip_prefix("file:").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let owner = Owner { instance: "i".into(), name: "billing".into(), run: "9f3c".into() };
    let opened = runtime.block_on(store.open("billing", Access::Own(owner))).unwrap();
    let run = bench.change(&set("5"));
    assert_eq!(run.code, 6, "{}", run.err);
    assert!(run.err.contains("9f3c") && run.err.contains("--force"), "{}", run.err);
    assert_eq!(bench.offsets(), [(0, 4)]);
    let run = bench.change(&[&set("5")[..], &["--force"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(bench.offsets(), [(0, 5)]);
    runtime.block_on(opened.close());
    assert_eq!(bench.change(&set("6")).code, 0);
}

#[test]
fn reset_goes_to_the_start_the_end_or_a_time() {
    for mut bench in benches() {
        bench.broker.with(|core| core.delete_before("clicks", 1, 2)).unwrap();
        for (to, offsets) in [
            ("earliest", [(0, 0), (1, 2)]),
            ("latest", [(0, 10), (1, 10)]),
            ("1004", [(0, 4), (1, 4)]),
            ("5000", [(0, 10), (1, 10)]),
        ] {
            let run = bench.change(&["checkpoint", "reset", "-t", "clicks", "--to", to]);
            assert_eq!(run.code, 0, "{to}: {}", run.err);
            assert_eq!(bench.offsets(), offsets, "{to}");
        }
        // Without a topic: whatever has a position.
        let run = bench.change(&["checkpoint", "reset", "--to", "earliest"]);
        assert_eq!((run.code, bench.offsets()), (0, vec![(0, 0), (1, 2)]), "{}", run.err);
        bench.change(&["checkpoint", "reset", "-t", "clicks", "-p", "1", "--to", "latest"]);
        assert_eq!(bench.offsets(), [(0, 0), (1, 10)]);
    }
}

#[test]
fn positions_move_from_one_store_to_another() {
    let mut file = Bench::file();
    file.change(&set("4"));
    file.change(&["checkpoint", "set", "-t", "clicks", "-p", "1", "--offset", "8"]);
    let exported = file.run(&["checkpoint", "export"]);
    assert_eq!((exported.code, exported.out.lines().count()), (0, 2));
    let kafka = Bench::kafka();
    let args =
        ["checkpoint", "import", "-", "--execute", "--store", "kafka:other", "-b", kafka.broker.addr()];
    let backup = kafka.dir.path().join("saved").to_str().unwrap().to_owned();
    let run = downspout(&[&args[..], &["--backup", &backup]].concat(), exported.out.as_bytes());
    assert_eq!(run.code, 0, "{}", run.err);
    let at = |partition| kafka.broker.with(|core| core.committed("other", "clicks", partition));
    assert_eq!([at(0), at(1)], [Some(4), Some(8)]);
    for (text, why) in [("", "nothing in it"), ("{}\n", "line 1"), ("\n\nx", "line 3")] {
        let run = downspout(&args, text.as_bytes());
        assert_eq!((run.code, run.err.contains(why)), (2, true), "{}", run.err);
    }
    let twice = exported.out.repeat(2);
    assert!(downspout(&args, twice.as_bytes()).err.contains("stands there twice"));
}

#[test]
fn the_java_spouts_documents_are_read_where_they_lie() {
    let bench = Bench::file();
    let at = Path::new(bench.store.strip_prefix("file:").unwrap()).join("billing");
    std::fs::create_dir_all(&at).unwrap();
    let java = r#"{"topology":{"id":"t-1-1700000000","name":"t"},"offset":3,"partition":0,"broker":{"host":"h","port":9092},"topic":"clicks"}"#;
    std::fs::write(at.join("partition_0"), java).unwrap();
    assert_eq!(bench.offsets(), [(0, 3)]);
    let run = bench.run(&["checkpoint", "export"]);
    assert_eq!(run.out, format!("{java}\n"));
    let run = bench.run(&["checkpoint", "get", "-t", "clicks", "-p", "0"]);
    assert_eq!((run.code, run.out.lines().next()), (0, Some("clicks/0: offset 3")));
    assert!(run.out.contains("owner t, instance t-1-1700000000"), "{}", run.out);
}

#[test]
fn get_says_that_there_is_none_and_exits_with_1() {
    for bench in benches() {
        let run = bench.run(&["checkpoint", "get", "-t", "clicks", "-p", "0"]);
        assert_eq!((run.code, run.out.as_str()), (1, "clicks/0: no checkpoint\n"));
        let run = bench.run(&["checkpoint", "get", "-t", "clicks", "-p", "0", "--json"]);
        assert_eq!((run.code, &run.lines()[0]["offset"]), (1, &Value::Null));
    }
}

#[test]
fn a_store_in_files_is_looked_at_without_brokers() {
    let bench = Bench::file();
    let run = downspout(&["checkpoint", "list", "--store", &bench.store, "--id", "billing"], b"");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
}

#[test]
fn lag_tells_what_is_known_and_leaves_open_what_is_not() {
    for mut bench in benches() {
        bench.change(&set("4"));
        let run = bench.run(&["lag", "-t", "clicks"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let lines: Vec<&str> = run.out.lines().collect();
        assert!(lines[0].starts_with("clicks 0 committed 4 end 10 lag 6 done "), "{}", run.out);
        assert!(lines[0].contains("d") && lines[0].ends_with("start 0 hw 10"), "{}", run.out);
        assert_eq!(lines[1], "clicks 1 committed - end 10 lag - done - age - start 0 hw 10");
        assert_eq!(lines[2], "total lag 6 and 1 not known");

        let run = bench.run(&["lag", "--json"]);
        let [line] = &run.lines()[..] else { panic!("{}", run.out) };
        assert_eq!((&line["lag"], &line["start"], &line["end"]), (&json!(6), &json!(0), &json!(10)));
        assert!(line["age_ms"].as_u64().unwrap() > 1_700_000_000_000, "written in 1970: {line}");
        for (limit, code) in [("5", 1), ("6", 0)] {
            assert_eq!(bench.run(&["lag", "--max-lag", limit]).code, code, "{limit}");
        }
        assert_eq!(bench.run(&["lag", "-t", "clicks", "--max-lag", "1000"]).code, 1, "unknown is not 0");
        let typo = ["--store", "kafka", "--id", "clcks"];
        for (limit, code) in [(&["--max-lag", "1000"][..], 1), (&[], 3)] {
            let run = downspout(&[&["lag", "-b", bench.broker.addr()], &typo[..], limit].concat(), b"");
            assert_eq!(run.code, code, "nothing is not 0");
            assert!(run.err.contains("no checkpoint") && run.out.is_empty(), "{}{}", run.out, run.err);
        }
        assert_eq!(bench.run(&["lag", "--watch", "1", "--max-lag", "5"]).code, 1);

        bench.broker.with(|core| core.delete_before("clicks", 0, 6)).unwrap();
        let run = bench.run(&["lag"]);
        assert!(run.out.contains("lag 4 ") && run.out.ends_with(" lost 2\n"), "{}", run.out);
        bench.broker.with(|core| core.reset_log("clicks", 0, 0)).unwrap();
        let run = bench.run(&["lag"]);
        assert!(run.out.contains("lag - ") && run.out.ends_with(" beyond the end\n"), "{}", run.out);
    }
}

#[test]
fn wrong_usage_is_told() {
    let table: &[(&[&str], &str)] = &[
        (&["checkpoint", "list", "--store", "file:/x"], "--id"),
        (&["checkpoint", "list", "--store", "memory", "--id", "a"], "gone with the process"),
        (&["checkpoint", "list", "--store", "zk:/x", "--id", "a"], "file:DIR, kafka, kafka:GROUP"),
        (&["checkpoint", "list", "--store", "kafka", "--id", "a"], "no brokers"),
        (&["checkpoint", "list", "--store", "file:/x", "--id", "a/b"], "is no id"),
        (&["lag", "--store", "file:/x", "--id", "a"], "no brokers"),
        (&["checkpoint", "reset", "--store", "file:/x", "--id", "a", "--to", "now"], "expected earliest"),
        (&["checkpoint", "import", "--store", "file:/x", "--id", "a", "/no/such"], "cannot read /no/such"),
    ];
    for (args, why) in table {
        let run = downspout(args, b"");
        assert_eq!((run.code, run.err.contains(why)), (2, true), "{args:?}: {}", run.err);
    }
}
