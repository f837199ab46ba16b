//! `downspout broker`: listens, serves the other commands, and ends on signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use downspout::protocol::{
    ErrorCode, MetadataRequest, MetadataRequestTopic, decode_response, encode_request,
};

use super::downspout;

/// A running broker; stopped when dropped.
struct Broker {
    child: Child,
    line: String,
    addresses: String,
}

impl Broker {
    fn start(args: &[&str]) -> Broker {
        let mut child = Command::new(env!("CARGO_BIN_EXE_downspout"))
            .args(["broker", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addresses = line.trim().rsplit(' ').next().unwrap().to_owned();
        Broker { child, line, addresses }
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_listens_and_ends_on_signals() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let broker = Broker::start(&["--release", "2.8", "--brokers", "2"]);
        assert!(broker.line.starts_with("Kafka 2.8.2 listens on 127.0.0.1:"), "{}", broker.line);
        assert_eq!(broker.addresses.split(',').count(), 2);
        assert_eq!(broker.end(signal), Some(code));
    }
}

/// What Metadata says of a topic that was never heard of, as a client that creates topics asks it.
fn asked_for(broker: &Broker, topic: &str) -> ErrorCode {
    let topic = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let mut stream = TcpStream::connect(&broker.addresses).unwrap();
    stream.write_all(&encode_request(&request, 0, 1, "test").unwrap()).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).unwrap();
    decode_response::<MetadataRequest>(&frame.into(), 0).unwrap().1.topics[0].error_code
}

#[test]
fn what_is_produced_to_a_topic_made_on_first_use_comes_back() {
    for (release, first) in [("0.8.2", 5), ("0.10.2", 5), ("4.4", 3)] {
        let broker = Broker::start(&["--release", release]);
        assert_eq!(asked_for(&broker, "new"), ErrorCode(first));
        assert_eq!(asked_for(&broker, "new"), ErrorCode(0));
        let at = broker.addresses.as_str();
        let run = downspout(&["produce", "-b", at, "-t", "new"], b"one\ntwo\n");
        assert_eq!(run.code, 0, "{release}: {}", run.err);
        let run = downspout(&["consume", "-b", at, "-t", "new", "-o", "beginning", "-e"], b"");
        assert_eq!((run.code, run.out.as_str()), (0, "one\ntwo\n"), "{release}: {}", run.err);
    }
}

#[test]
fn topics_are_there_from_the_start_and_no_others_are_made() {
    let broker = Broker::start(&["--topic", "clicks:3", "--no-auto-create"]);
    let run = downspout(&["consume", "-b", &broker.addresses, "-t", "clicks", "-p", "2", "-e"], b"");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    for _ in 0..2 {
        assert_eq!(asked_for(&broker, "other"), ErrorCode(3));
    }
}

#[test]
fn an_endless_topic_has_as_many_records_as_anybody_wants() {
    for args in [&["--release", "0.9"][..], &["--release", "4.4", "-z", "zstd", "--record-size", "7"]] {
        let broker = Broker::start(&[&["--endless", "flood:2"], args].concat());
        let run = downspout(
            &["consume", "-b", &broker.addresses, "-t", "flood", "-o", "beginning", "-c", "5000"],
            b"",
        );
        assert_eq!((run.code, run.out.lines().count()), (0, 5_000), "{}", run.err);
    }
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = downspout(&["broker", "--listen", &address], b"");
    assert_eq!(run.code, 3);
    assert!(run.err.contains(&format!("cannot listen on {address}")), "{}", run.err);
}
