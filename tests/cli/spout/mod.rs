//! `downspout spout`, run as a user runs it, against the embedded broker.

mod closing;
mod commands;
mod printing;
mod settings;
mod watching;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::EmbeddedBroker;

use crate::Run;

/// Acks every record. sh writes each line at once.
pub(super) const ACKS: &str = "read hello; while read -r line; do ID; echo \"ack $id\"; done";

/// A script of sh; in it `ID` takes the id out of `$line`.
pub(super) fn script(text: &str) -> String {
    text.replace("ID;", "id=${line#*\\\"id\\\":\\\"}; id=${id%%\\\"*};")
}

/// `downspout spout` with these arguments, and with no variables of ours.
pub(super) fn spout_with(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downspout"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOWNSPOUT_")) {
        command.env_remove(name);
    }
    command.arg("spout").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a run that ends by itself gave. One that does not end fails the test.
pub(super) fn finished(child: Child) -> Run {
    let pid = child.id();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(output) = told.recv_timeout(Duration::from_secs(60)) else {
        kill(pid, "-KILL");
        panic!("it does not end");
    };
    let output = output.unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(super) fn kill(pid: u32, signal: &str) {
    Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
}

/// A topic `clicks` of so many partitions, with the numbers below `count` in it by turns.
pub(super) fn clicks(partitions: i32, count: i32) -> EmbeddedBroker {
    let broker = EmbeddedBroker::builder().topic("clicks", partitions).start().unwrap();
    for partition in 0..partitions {
        append(&broker, partition, (partition..count).step_by(partitions as usize));
    }
    broker
}

/// Appends these numbers as one batch.
pub(super) fn append(broker: &EmbeddedBroker, partition: i32, numbers: impl Iterator<Item = i32>) {
    let mut set = RecordSetWriter::new(Magic::V2);
    let mut any = false;
    for number in numbers {
        set.push(NewRecord::value(number.to_string().as_bytes())).unwrap();
        any = true;
    }
    if any {
        broker.append("clicks", partition, &set.finish().unwrap()).unwrap();
    }
}

/// Arguments for a spout over that topic.
pub(super) fn over<'a>(broker: &'a EmbeddedBroker, more: &[&'a str]) -> Vec<&'a str> {
    [&["-b", broker.addr(), "-t", "clicks"], more].concat()
}

pub(super) fn run(broker: &EmbeddedBroker, more: &[&str]) -> Run {
    finished(spout_with(&over(broker, more)).spawn().unwrap())
}

/// The numbers that a script wrote to a file, one a line, with how often.
pub(super) fn numbers(file: &Path) -> BTreeMap<i32, usize> {
    let mut found = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        *found.entry(line.parse().unwrap()).or_default() += 1;
    }
    found
}

pub(super) fn each_once(count: i32) -> BTreeMap<i32, usize> {
    (0..count).map(|number| (number, 1)).collect()
}

/// Waits for something to become true.
#[track_caller]
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a line on standard error that holds this; gives what came after it when the end is there.
pub(super) struct Said(BufReader<std::process::ChildStderr>);

impl Said {
    pub(super) fn of(child: &mut Child) -> Self {
        Said(BufReader::new(child.stderr.take().unwrap()))
    }

    #[track_caller]
    pub(super) fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.0.read_line(&mut all).unwrap() > 0, "{text:?} was not said: {all}");
            if all[before..].contains(text) {
                return all[before..].to_owned();
            }
        }
    }

    pub(super) fn rest(mut self) -> String {
        let mut all = String::new();
        std::io::Read::read_to_string(&mut self.0, &mut all).unwrap();
        all
    }
}
