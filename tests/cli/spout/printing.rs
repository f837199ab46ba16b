//! Without `--exec`: JSON lines on standard output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use super::{append, clicks, each_once, finished, kill, over, run, spout_with};
use crate::Run;

fn values(run: &Run) -> BTreeMap<i32, usize> {
    let mut found = BTreeMap::new();
    for line in run.lines() {
        *found.entry(line["value"].as_str().unwrap().parse().unwrap()).or_default() += 1;
    }
    found
}

#[test]
fn every_record_is_a_line_and_the_end_of_the_start_is_the_end() {
    let broker = clicks(3, 1_000);
    let run = run(&broker, &["-e"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(values(&run), each_once(1_000));
    let first = &run.lines()[0];
    let (partition, offset) = (&first["partition"], &first["offset"]);
    assert_eq!(first["id"], format!("clicks/{partition}/{offset}/1/1").as_str().replace("/1/1", "") + "/1/1");
    assert_eq!((&first["topic"], &first["attempt"]), (&"clicks".into(), &1.into()));
}

#[test]
fn what_was_written_is_not_written_again() {
    let broker = clicks(2, 100);
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().display());
    let more = ["-e", "--id", "print", "--store", &store, "--ack-on-write"];
    let first = run(&broker, &more);
    assert_eq!((first.code, first.err.as_str()), (0, ""));
    assert_eq!(values(&first), each_once(100));
    append(&broker, 0, 100..110);
    let second = run(&broker, &more);
    assert_eq!(values(&second), (100..110).map(|number| (number, 1)).collect());
    let third = run(&broker, &more);
    assert_eq!((third.code, third.out.as_str(), third.err.as_str()), (0, "", ""));
}

#[test]
fn a_reader_that_has_enough_ends_it_and_what_it_did_not_get_comes_again() {
    let broker = clicks(1, 0);
    for from in 0..200 {
        append(&broker, 0, from * 100..from * 100 + 100);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().display());
    let more = ["--id", "print", "--store", &store, "--ack-on-write"];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("\"value\":\"0\""), "{line}");
    drop(out);
    let run = finished(child);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let rest = super::run(&broker, &[&more[..], &["-e"]].concat());
    let first: i32 = *values(&rest).keys().next().unwrap();
    // A pipe and a page may have been on their way.
    assert!(first < 20_000 && values(&rest) == (first..20_000).map(|number| (number, 1)).collect());
}

#[test]
fn a_pattern_takes_topics_that_come_later() {
    let broker = clicks(1, 1);
    let args = ["-b", broker.addr(), "-t", "^cl.*", "--refresh-interval", "100ms"];
    let mut child = spout_with(&args).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    assert!(next().contains("\"topic\":\"clicks\""));
    broker.create_topic("clubs", 1);
    let set = {
        let mut set = downspout::records::RecordSetWriter::new(downspout::records::Magic::V2);
        set.push(downspout::records::NewRecord::value(b"x")).unwrap();
        set.finish().unwrap()
    };
    broker.append("clubs", 0, &set).unwrap();
    assert!(next().contains("\"topic\":\"clubs\""));
    kill(child.id(), "-TERM");
    let run = finished(child);
    assert_eq!(run.code, 143, "{}", run.err);
}

#[test]
fn a_topic_that_is_not_there_is_told() {
    let broker = clicks(1, 0);
    let run = finished(spout_with(&["-b", broker.addr(), "-t", "click"]).spawn().unwrap());
    assert_eq!((run.code, run.out.as_str()), (3, ""));
    assert!(run.err.contains("click") && run.err.contains("clicks"), "{}", run.err);
}
