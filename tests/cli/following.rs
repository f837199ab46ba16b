//! `consume` that goes on: following a topic, its leaders, and signals.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use downspout::protocol::ApiKey;
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Fault};

fn append(broker: &EmbeddedBroker, value: &str) {
    let mut writer = RecordSetWriter::new(Magic::V2);
    writer.push(NewRecord::value(value.as_bytes())).unwrap();
    broker.append("clicks", 0, &writer.finish().unwrap()).unwrap();
}

fn follow(broker: &EmbeddedBroker, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_downspout"))
        .args(["consume", "-b", broker.addr(), "-t", "clicks"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn next(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

fn end(mut child: Child, signal: &str) -> (i32, String) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    let code = child.wait().unwrap().code().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (code, err)
}

#[test]
fn it_follows_until_a_signal_comes() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let broker = EmbeddedBroker::builder().topic("clicks", 1).start().unwrap();
        append(&broker, "before");
        let (child, mut out) = follow(&broker, &[]);
        assert_eq!(next(&mut out), "before\n");
        append(&broker, "after");
        assert_eq!(next(&mut out), "after\n");
        assert_eq!(end(child, signal), (code, String::new()));
    }
}

#[test]
fn it_begins_at_the_end_and_stops_after_a_count() {
    let broker = EmbeddedBroker::builder().topic("clicks", 1).start().unwrap();
    append(&broker, "before");
    let (mut child, mut out) = follow(&broker, &["-o", "end", "-c", "1"]);
    while broker.request_count(ApiKey::FETCH) == 0 {
        std::thread::yield_now();
    }
    append(&broker, "after");
    assert_eq!(next(&mut out), "after\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_waits_for_a_topic_to_come() {
    let broker = EmbeddedBroker::builder().start().unwrap();
    let (mut child, mut out) = follow(&broker, &["--wait-for-topic", "-c", "1"]);
    while broker.request_count(ApiKey::METADATA) < 2 {
        std::thread::yield_now();
    }
    broker.create_topic("clicks", 1);
    append(&broker, "first");
    assert_eq!(next(&mut out), "first\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_goes_where_the_leader_goes() {
    let broker = EmbeddedBroker::builder().brokers(2).topic("clicks", 1).start().unwrap();
    let (child, mut out) = follow(&broker, &[]);
    for (i, leader) in [1, 2, 1, 2].into_iter().enumerate() {
        broker.with(|core| core.set_leader("clicks", 0, Some(leader))).unwrap();
        append(&broker, &i.to_string());
        assert_eq!(next(&mut out), format!("{i}\n"));
    }
    broker.inject(Fault::close().on(ApiKey::FETCH).once());
    append(&broker, "still");
    assert_eq!(next(&mut out), "still\n");
    assert_eq!(end(child, "-INT"), (130, String::new()));
}
