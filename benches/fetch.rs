//! Consuming, end to end: records per second and the client's CPU per record, from an endless topic
//! that `downspout broker` serves in a process of its own.
//!
//! `cargo bench --features cli --bench fetch [-- SECONDS]`. Each line is one topic: how many partitions, the
//! size of a record's value, the codec. "CPU" is this process's own, the kernel's receive included.
//! The same topics are read by other clients in `benches/peers`.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use downspout::client::{Cluster, Item, StartOffset};

/// Partitions, size of a value in bytes, records in a batch, codec, format by release.
const TOPICS: [(i32, usize, usize, &str, &str); 10] = [
    (1, 100, 1000, "none", "4.4"),
    (4, 100, 1000, "none", "4.4"),
    (1, 1024, 1000, "none", "4.4"),
    (4, 1024, 1000, "none", "4.4"),
    (1, 100, 1000, "gzip", "4.4"),
    (1, 100, 1000, "snappy", "4.4"),
    (1, 100, 1000, "lz4", "4.4"),
    (1, 100, 1000, "zstd", "4.4"),
    (1, 100, 1000, "none", "0.10.0"),
    (1, 100, 1000, "none", "0.8.2"),
];

struct Broker {
    process: Child,
    address: String,
}

impl Broker {
    fn start((partitions, size, records, codec, release): (i32, usize, usize, &str, &str)) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_downspout"))
            .args(["broker", "--listen", "127.0.0.1:0", "--release", release])
            .args(["--endless", &format!("bench:{partitions}"), "--codec", codec])
            .args(["--record-size", &size.to_string(), "--batch-records", &records.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().find(|word| word.contains(':')).unwrap();
        let address = address.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
        Broker { process, address }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// CPU time of this process, user and system.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<i64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // Without the state letter: user time is the 11th, system time the 12th, in hundredths of a second.
    let ticks = fields.get(10).zip(fields.get(11)).map_or(0, |(user, system)| user + system);
    Duration::from_millis(u64::try_from(ticks).unwrap_or(0) * 10)
}

/// Records read, and bytes of keys and values.
async fn consume(address: &str, time: Duration) -> (u64, u64, Duration, Duration) {
    let cluster = Cluster::connect([address]).await.unwrap();
    let mut stream = cluster.streams().topic("bench").start(StartOffset::At(0)).await.unwrap();
    let (mut records, mut bytes) = (0, 0);
    let mut began = None;
    let mut cpu = Duration::ZERO;
    let warm_up = Instant::now() + Duration::from_millis(300);
    loop {
        let Some((_, Item::Batch(batch))) = stream.next().await.unwrap() else { continue };
        if began.is_none() && Instant::now() >= warm_up {
            (records, bytes, cpu, began) = (0, 0, cpu_time(), Some(Instant::now()));
        }
        for record in batch.records() {
            let record = record.unwrap();
            records += 1;
            bytes += record.value().map_or(0, <[u8]>::len) as u64;
        }
        if let Some(began) = began
            && began.elapsed() >= time
        {
            return (records, bytes, began.elapsed(), cpu_time() - cpu);
        }
    }
}

fn main() {
    let seconds = std::env::args().find_map(|word| word.parse::<u64>().ok()).unwrap_or(3);
    let only: Option<usize> = std::env::var("TOPIC").ok().and_then(|at| at.parse().ok());
    println!("| topic | M records/s | MiB/s of values | CPU ns per record |\n|---|---|---|---|");
    for (at, topic) in TOPICS.into_iter().enumerate().filter(|(at, _)| only.is_none_or(|only| only == *at)) {
        let broker = Broker::start(topic);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (records, bytes, time, cpu) =
            runtime.block_on(consume(&broker.address, Duration::from_secs(seconds)));
        let (partitions, size, _, codec, release) = topic;
        let seconds = time.as_secs_f64();
        println!(
            "| {at}: {partitions} × {size} B, {codec}, Kafka {release} | {:.2} | {:.0} | {:.0} |",
            records as f64 / seconds / 1e6,
            bytes as f64 / seconds / f64::from(1 << 20),
            cpu.as_nanos() as f64 / records as f64,
        );
    }
}
