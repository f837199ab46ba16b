//! Kafka's own console producer and consumer, of several releases.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use downspout::testing as embedded;

use super::harness::{Java, LeftOut, Libs, Release, Result};
use super::{broker, codecs, left_out, values};

const TOPIC: &str = "console";
const LINES: usize = 200;

macro_rules! releases {
    ($($test:ident $release:literal on $($broker:literal)+ $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { check($release, &[$($broker),+]); })*
    };
}

// Each on a broker of its own kind, and newer ones on the oldest and the newest that they can talk to.
releases! {
    console_of_0_8_0 "0.8.0" on "0.8.0" #[ignore = "with tests/run --all"];
    console_of_0_8_1_1 "0.8.1.1" on "0.8.1" #[ignore = "with tests/run --all"];
    console_of_0_8_2_2 "0.8.2.2" on "0.8.2" "3.9" #[ignore = "with tests/run --all"];
    console_of_0_9_0_1 "0.9.0.1" on "0.9" "3.9" #[ignore = "with tests/run --all"];
    console_of_0_10_0_1 "0.10.0.1" on "0.10.0" "3.9" #[ignore = "with tests/run --all"];
    console_of_0_10_2_2 "0.10.2.2" on "0.10.2" "3.9" #[ignore = "with tests/run --all"];
    console_of_0_11_0_3 "0.11.0.3" on "0.11" #[ignore = "with tests/run --all"];
    console_of_1_1_1 "1.1.1" on "1.1" #[ignore = "with tests/run --all"];
    console_of_2_4_1 "2.4.1" on "2.4" "4.4" #[ignore = "with tests/run --all"];
    console_of_2_8_2 "2.8.2" on "2.8" "0.11" "4.4" #[ignore = "with tests/run --all"];
    console_of_3_9_2 "3.9.2" on "3.9" "0.11" "4.4" #[ignore = "with tests/run --all"];
    console_of_4_4_0 "4.4.0" on "4.4" "2.1" #[ignore = "with tests/run --all"];
}

#[test]
fn console_of_3_9_2_in_one_codec() {
    with_tools("3.9.2", |tools| round_trip(tools, "4.4", &["lz4"]));
}

fn check(release: &'static str, brokers: &[&str]) {
    with_tools(release, |tools| {
        brokers.iter().try_for_each(|broker| {
            let known: embedded::Release = broker.parse().unwrap();
            let codecs = tools.codecs().iter().copied();
            let codecs = codecs.filter(|codec| *codec != "zstd" || known >= embedded::Release::V2_1);
            round_trip(tools, broker, &codecs.collect::<Vec<_>>())
        })
    });
}

/// The console tools of one release.
struct Tools {
    release: &'static Release,
    java: Java,
    dir: tempfile::TempDir,
}

fn with_tools(release: &'static str, work: impl FnOnce(&Tools) -> Result<()>) {
    let release = Release::named(release);
    match Tools::of(release) {
        Ok(tools) => work(&tools).unwrap_or_else(|why| panic!("{release}: {why}")),
        Err(why) => left_out(&format!("the console tools of {release}"), &why),
    }
}

impl Tools {
    fn of(release: &'static Release) -> std::result::Result<Tools, LeftOut> {
        let java = Java::new(Libs::of(release)?, release.jvm_flags(), &[])?;
        let dir = tempfile::tempdir().map_err(|error| LeftOut(error.to_string()))?;
        std::fs::write(dir.path().join("log4j.properties"), "log4j.rootLogger=OFF\n")
            .map_err(|error| LeftOut(error.to_string()))?;
        Ok(Tools { release, java, dir })
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What its console producer can be told: the first two only know gzip, and no name for it.
    fn codecs(&self) -> &'static [&'static str] {
        if self.release.since(&[0, 8, 2]) { self.release.codecs() } else { &["none"] }
    }

    fn produce(&self, address: &str, codec: &str, lines: &[String]) -> Result<()> {
        let main = match () {
            () if self.release.since(&[4]) => "org.apache.kafka.tools.ConsoleProducer",
            () if self.release.since(&[0, 8, 2]) => "kafka.tools.ConsoleProducer",
            () => "kafka.producer.ConsoleProducer",
        };
        let to = if self.release.since(&[2, 5]) { "--bootstrap-server" } else { "--broker-list" };
        let mut command = self.java.command("256m", self.dir());
        command.args([main, to, address, "--topic", TOPIC]);
        if self.release.since(&[0, 8, 2]) {
            command.args(["--compression-codec", codec]);
        }
        if !self.release.since(&[0, 9]) && self.release.since(&[0, 8, 2]) {
            command.arg("--new-producer");
        }
        // With acks = 0, the default of the old ones, they lose records now and then.
        command.args(["--request-required-acks", "1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("java: {error}"))?;
        let mut input = child.stdin.take().ok_or("no standard input")?;
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        input.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        drop(input);
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("console producer: {said}")) }
    }

    fn consume(&self, address: &str, count: usize, more: &[&str]) -> Result<Vec<String>> {
        let mut args = self.release.console_consumer_source(address, "");
        let count = count.to_string();
        args.extend(["--topic", TOPIC, "--from-beginning", "--max-messages", &count].map(str::to_owned));
        args.extend(more.iter().map(|&word| word.to_owned()));
        let main = self.release.console_consumer();
        let printed = self.java.run(self.dir(), main, &args, Duration::from_secs(60))?;
        let printed = String::from_utf8(printed).map_err(|error| error.to_string())?;
        // Old ones add how many they have seen, new ones that an option has a new name.
        let talk = |line: &str| line.starts_with("Consumed ") || line.starts_with("Option --");
        let lines = printed.lines().filter(|line| !talk(line));
        Ok(lines.map(str::to_owned).collect())
    }
}

fn round_trip(tools: &Tools, version: &str, wanted: &[&'static str]) -> Result<()> {
    let broker = broker(version.parse().unwrap());
    let mut written = Vec::new();
    for codec in wanted {
        let lines: Vec<String> = (0..LINES).map(|i| format!("{codec} {i} grün {}", "x".repeat(i))).collect();
        tools.produce(broker.addr(), codec, &lines)?;
        written.extend(lines);
        same(&format!("on {version}, {codec}, as we read it"), &written, &values(&broker, TOPIC))?;
    }
    if codecs(&broker, TOPIC) != wanted {
        return Err(format!("on {version}: {wanted:?} were wanted, {:?} came", codecs(&broker, TOPIC)));
    }
    // The consumers of 0.8 need a ZooKeeper.
    if tools.release.since(&[0, 9]) {
        let shown = tools.consume(broker.addr(), written.len(), &[])?;
        same(&format!("on {version}, as its consumer shows it"), &written, &shown)?;
    }
    // KIP-848: a group whose members the broker assigns.
    if tools.release.since(&[4]) && version.starts_with('4') {
        let protocol = ["--consumer-property", "group.protocol=consumer"];
        let shown = tools.consume(broker.addr(), written.len(), &protocol)?;
        same(&format!("on {version}, in a group of the consumer protocol"), &written, &shown)?;
    }
    Ok(())
}

fn same(what: &str, written: &[String], read: &[String]) -> Result<()> {
    let differs = written.iter().zip(read).position(|(written, read)| written != read);
    match differs {
        Some(at) => Err(format!("{what}: line {at} is {:?} instead of {:?}", read[at], written[at])),
        None if written.len() != read.len() => {
            Err(format!("{what}: {} lines of {}", read.len(), written.len()))
        }
        None => Ok(()),
    }
}
