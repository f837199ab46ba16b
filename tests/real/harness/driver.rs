//! A JVM with one release's own classes (`java/Driver.java`): topics, producers, consumers and tools.

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdout;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::broker::Kafka;
use super::process::{Process, Result};

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(90);

/// A record to be produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Send {
    pub partition: i32,
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A record that a broker has taken, with what the producer was told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced {
    pub record: Send,
    /// The Scala producer tells none.
    pub offset: Option<i64>,
    pub timestamp: Option<i64>,
}

/// A record as the release's own consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub offset: i64,
    pub timestamp: Option<i64>,
    /// `CreateTime`, `LogAppendTime` or `NoTimestampType`, where there is one.
    pub timestamp_type: Option<String>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

pub struct Driver {
    process: Process,
    answers: mpsc::Receiver<String>,
}

impl Driver {
    pub fn start(kafka: &Kafka) -> Result<Self> {
        let classes = kafka.release().driver();
        let config = kafka.dir().join("zookeeper"); // has a log4j.properties, where one is of use
        let mut command = kafka.java().command("512m", &config);
        command.args(["Driver", kafka.release().name, &kafka.bootstrap()]);
        command.arg(kafka.zookeeper_connect().unwrap_or_else(|| "-".to_owned()));
        command.args([classes.topics[0], classes.producing[0], classes.reading[0]]);
        let name = format!("the driver of {}", kafka.release());
        static STARTED: AtomicUsize = AtomicUsize::new(0); // a cluster may have several, each with its log
        let log = format!("driver-{}.log", STARTED.fetch_add(1, Ordering::Relaxed));
        let mut process = Process::talking(&name, &mut command, &kafka.dir().join(log))?;
        let stdout = process.stdout.take().ok_or("no standard output")?;
        Ok(Self { process, answers: lines_of(stdout) })
    }

    /// A topic with a replica of each partition on each broker.
    pub fn create_topic(
        &mut self,
        kafka: &Kafka,
        topic: &str,
        partitions: usize,
        config: &[&str],
    ) -> Result<()> {
        let brokers: Vec<usize> = (0..kafka.brokers()).collect();
        self.create_topic_on(kafka, topic, partitions, &brokers, config)
    }

    /// A topic with a replica of each partition on the given brokers; they lead the partitions in turn.
    pub fn create_topic_on(
        &mut self,
        kafka: &Kafka,
        topic: &str,
        partitions: usize,
        brokers: &[usize],
        config: &[&str],
    ) -> Result<()> {
        let replicas = kafka.assignment(partitions, brokers);
        let mut words = vec!["create", topic, &replicas];
        words.extend(config);
        self.ask(&words)?;
        kafka.wait_topic(topic, partitions)
    }

    /// Gives a topic of [`create_topic`](Self::create_topic) more partitions, so that it has this many.
    pub fn grow_topic(&mut self, kafka: &Kafka, topic: &str, partitions: usize) -> Result<()> {
        let brokers: Vec<usize> = (0..kafka.brokers()).collect();
        self.ask(&["grow", topic, &kafka.assignment(partitions, &brokers)])?;
        kafka.wait_topic(topic, partitions)
    }

    /// Returns when no broker knows it any more, and it can be made anew.
    pub fn delete_topic(&mut self, kafka: &Kafka, topic: &str) -> Result<()> {
        self.ask(&["delete", topic])?;
        kafka.wait_no_topic(topic)
    }

    /// How many replicas of a partition are in sync, as the controller's own record has it: 0.8 brokers don't tell
    /// of the ones that came back (KAFKA-1367).
    pub fn in_sync(&mut self, topic: &str, partition: i32) -> Result<usize> {
        let ids = self.ask(&["in-sync", topic, &partition.to_string()])?.concat();
        Ok(ids.split(',').filter(|id| !id.is_empty()).count())
    }

    /// Sets a topic's configuration to exactly these.
    pub fn alter_topic(&mut self, topic: &str, config: &[&str]) -> Result<()> {
        let mut words = vec!["alter", topic];
        words.extend(config);
        self.ask(&words).map(drop)
    }

    pub fn delete_records(&mut self, topic: &str, partition: i32, before: i64) -> Result<()> {
        self.ask(&["delete-records", topic, &partition.to_string(), &before.to_string()]).map(drop)
    }

    pub fn producer(&mut self, name: &str, settings: &[&str]) -> Result<()> {
        let mut words = vec!["producer", name];
        words.extend(settings);
        self.ask(&words).map(drop)
    }

    /// Sends records and waits until the broker has them all.
    pub fn send(&mut self, producer: &str, topic: &str, records: &[Send]) -> Result<Vec<Produced>> {
        for record in records {
            let mut words = vec![
                "send".to_owned(),
                producer.to_owned(),
                topic.to_owned(),
                record.partition.to_string(),
                record.timestamp.map_or("-".to_owned(), |t| t.to_string()),
                text(record.key.as_deref()),
                text(record.value.as_deref()),
            ];
            for (key, value) in &record.headers {
                words.push(text(Some(key.as_bytes())));
                words.push(text(value.as_deref()));
            }
            self.tell(&words)?;
        }
        let lines = self.ask(&["flush", producer])?;
        if lines.len() != records.len() {
            return Err(format!("{} answers for {} records", lines.len(), records.len()));
        }
        let produced = records.iter().zip(&lines).map(|(record, line)| {
            let (offset, timestamp) = line.split_once('\t').ok_or_else(|| format!("odd answer {line:?}"))?;
            let (offset, timestamp) = (number(offset)?, number(timestamp)?);
            Ok(Produced { record: record.clone(), offset, timestamp })
        });
        produced.collect()
    }

    pub fn begin(&mut self, producer: &str) -> Result<()> {
        self.ask(&["begin", producer]).map(drop)
    }

    pub fn commit(&mut self, producer: &str) -> Result<()> {
        self.ask(&["commit", producer]).map(drop)
    }

    pub fn abort(&mut self, producer: &str) -> Result<()> {
        self.ask(&["abort", producer]).map(drop)
    }

    pub fn close(&mut self, producer: &str) -> Result<()> {
        self.ask(&["close", producer]).map(drop)
    }

    /// What the release's own consumer reads in `from..end`.
    pub fn read(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
        end: i64,
        committed: bool,
    ) -> Result<Vec<Seen>> {
        let isolation = if committed { "committed" } else { "uncommitted" };
        let lines = self.ask(&[
            "read",
            topic,
            &partition.to_string(),
            &from.to_string(),
            &end.to_string(),
            isolation,
        ])?;
        lines.iter().map(|line| seen(line)).collect()
    }

    /// Runs the main of one of the release's tools in this JVM, and gives the lines it printed.
    pub fn tool(&mut self, class: &str, args: &[&str]) -> Result<Vec<String>> {
        let mut words = vec!["tool", class];
        words.extend(args);
        self.ask(&words)
    }

    /// Writes a command.
    fn tell(&mut self, words: &[impl AsRef<str>]) -> Result<()> {
        let line = words.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("\t") + "\n";
        let stdin = self.process.stdin.as_mut().ok_or("no standard input")?;
        stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.flush())
            .map_err(|e| format!("driver: {e}\n{}", self.process.log_tail()))
    }

    /// Writes a command and reads its answer.
    fn ask(&mut self, words: &[impl AsRef<str>]) -> Result<Vec<String>> {
        self.tell(words)?;
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let what: String = words.join(" ").chars().take(200).collect();
        let fail =
            |process: &Process, why: &str| Err(format!("driver: {what}: {why}\n{}", process.log_tail()));
        let mut lines = Vec::new();
        loop {
            let line = match self.answers.recv_timeout(LIMIT) {
                Ok(line) => line,
                Err(e) => return fail(&self.process, &format!("no answer: {e}")),
            };
            match line.strip_prefix("error\t") {
                _ if line == "ok" => return Ok(lines),
                Some(trace) => {
                    let trace = BASE64.decode(trace).map_err(|e| e.to_string())?;
                    return fail(&self.process, &String::from_utf8_lossy(&trace));
                }
                None => lines.push(line),
            }
        }
    }
}

/// A reader that can be waited on with a time limit.
fn lines_of(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::with_capacity(1 << 20, stdout).lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn seen(line: &str) -> Result<Seen> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [offset, timestamp, kind, key, value, headers @ ..] = &fields[..] else {
        return Err(format!("odd answer {line:?}"));
    };
    let header = |pair: &[&str]| {
        let key = bytes(pair[0])?.ok_or("null header key")?;
        Ok((String::from_utf8(key).map_err(|e| e.to_string())?, bytes(pair[1])?))
    };
    Ok(Seen {
        offset: number(offset)?.ok_or("no offset")?,
        timestamp: number(timestamp)?,
        timestamp_type: (*kind != "-").then(|| (*kind).to_owned()),
        key: bytes(key)?,
        value: bytes(value)?,
        headers: headers.chunks_exact(2).map(header).collect::<Result<_>>()?,
    })
}

fn number(field: &str) -> Result<Option<i64>> {
    if field == "-" { Ok(None) } else { field.parse().map(Some).map_err(|e| format!("{field}: {e}")) }
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or("-".to_owned(), |bytes| BASE64.encode(bytes))
}

fn bytes(field: &str) -> Result<Option<Vec<u8>>> {
    if field == "-" { Ok(None) } else { BASE64.decode(field).map(Some).map_err(|e| e.to_string()) }
}
