//! The two runs of a client: this program again, as a child.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::broker::Broker;
use crate::clients::Client;
use crate::meter::{Meter, Report, WARM_UP};
use crate::relay::Relay;
use crate::topics::Topic;

/// The run through the relay, which only counts, needs no more.
const COUNTING: Duration = Duration::from_secs(2);

/// What a client may take beyond its time before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the child finds the CA's certificate in.
const CA: &str = "PEERS_CA";

pub struct Measured {
    size: usize,
    report: Report,
    /// Bytes received per byte that was delivered.
    received: f64,
}

/// A run for the speed, and one through the relay.
pub fn both(
    client: Client,
    topic: &Topic,
    broker: &Broker,
    record_size: f64,
    time: Duration,
) -> Result<Measured> {
    let report = run(client, topic, broker.address, None, time, || {})?;
    let relay = Relay::start(broker.address)?;
    // Between the two lines of a client: what it keeps in its queues is there at both.
    let mut marks = Vec::new();
    let counted = run(client, topic, relay.address, None, COUNTING, || marks.push(relay.received()))?;
    let [warm, done] = marks[..] else { return Err("it did not report twice".into()) };
    let received = (done - warm) as f64 / (counted.records as f64 * record_size);
    Ok(Measured { size: topic.size, report, received })
}

/// One run in a process of its own; with TLS if there is the certificate (PEM) of a CA.
pub fn run(
    client: Client,
    topic: &Topic,
    address: SocketAddr,
    ca: Option<&str>,
    time: Duration,
    mut mark: impl FnMut(),
) -> Result<Report> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--client", client.title(), &topic.to_string(), &address.to_string()])
        .arg(time.as_secs().to_string())
        .envs(ca.map(|pem| (CA, pem)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = child.stdout.take().map(BufReader::new).ok_or("no output")?.lines();
    let mut report = None;
    for line in lines {
        let line = line?;
        report = Report::parse(&line);
        if report.is_some() || line == "warm" {
            mark();
        }
    }
    let status: ExitStatus = child.wait()?;
    match report {
        Some(report) if status.success() => Ok(report),
        _ => Err(format!("it ended with {status}").into()),
    }
}

/// The child's side: one client reads until its time is up.
pub fn child(client: &str, topic: &str, address: &str, seconds: &str) -> Result<()> {
    let (client, topic) = (Client::named(client)?, Topic::named(topic)?);
    let time = Duration::from_secs(seconds.parse()?);
    thread::spawn(move || {
        thread::sleep(WARM_UP + time + PATIENCE);
        eprintln!("{} is stuck", client.title());
        std::process::exit(2);
    });
    let ca = std::env::var(CA).ok();
    client.consume(topic, address, ca.as_deref(), Meter::new(topic, time))?;
    // Not all clients end their threads in time.
    std::process::exit(0)
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (report, mebibyte) = (&self.report, f64::from(1 << 20));
        let records = report.records as f64;
        let per_second = records / report.seconds;
        write!(
            f,
            "{:.2} | {:.0} | {:.0} | {:.0} | {:.2} |",
            per_second / 1e6,
            per_second * self.size as f64 / mebibyte,
            report.cpu_seconds * 1e9 / records,
            report.peak as f64 / mebibyte,
            self.received,
        )
    }
}
