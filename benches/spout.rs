//! The spout, end to end: records per second acked one by one, beside the bare stream, from an endless
//! topic that `downspout broker` serves in a process of its own; then what a record allocates, and what
//! commits and assignments leave behind.
//!
//! `cargo bench --features cli --bench spout [-- SECONDS]`. 100-byte values, one partition, a window of
//! 100,000 records, positions in memory. "CPU" is this process's own, the kernel's receive included.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use downspout::checkpoint::MemoryCheckpoints;
use downspout::client::{Cluster, Item, StartOffset};
use downspout::spout::{Brokers, Delivery, Order, Spout};
use tokio::sync::mpsc;

struct Broker {
    process: Child,
    address: String,
}

impl Broker {
    fn start(topic: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_downspout"))
            .args(["broker", "--listen", "127.0.0.1:0", "--release", "4.4"])
            .args(topic)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().find(|word| word.contains(':')).unwrap();
        let address = address.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
        Broker { process, address }
    }

    fn endless() -> Self {
        Self::start(&[
            "--endless",
            "bench:1",
            "--codec",
            "none",
            "--record-size",
            "100",
            "--batch-records",
            "1000",
        ])
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

/// Counts records for a time, after a time of warming up.
struct Meter {
    warm: Instant,
    time: Duration,
    records: u64,
    began: Option<(Instant, Duration)>,
}

impl Meter {
    fn new(time: Duration) -> Self {
        Meter { warm: Instant::now() + Duration::from_millis(300), time, records: 0, began: None }
    }

    /// Whether to go on. The clock is looked at every thousand records.
    fn add(&mut self, records: u64) -> bool {
        let before = self.records / 1000;
        self.records += records;
        if self.records / 1000 == before {
            return true;
        }
        match self.began {
            None if Instant::now() >= self.warm => {
                (self.records, self.began) = (0, Some((Instant::now(), cpu_time())));
                true
            }
            None => true,
            Some((began, _)) => began.elapsed() < self.time,
        }
    }

    fn show(&self, what: &str) {
        let (began, cpu) = self.began.unwrap();
        let rate = self.records as f64 / began.elapsed().as_secs_f64() / 1e6;
        let cpu = (cpu_time() - cpu).as_nanos() as f64 / self.records as f64;
        println!("| {what} | {rate:.2} | {cpu:.0} |");
    }
}

async fn stream(address: &str, time: Duration) -> Meter {
    let cluster = Cluster::connect([address]).await.unwrap();
    let mut stream = cluster.streams().topic("bench").start(StartOffset::At(0)).await.unwrap();
    let mut meter = Meter::new(time);
    let mut bytes = 0;
    loop {
        let Some((_, Item::Batch(batch))) = stream.next().await.unwrap() else { continue };
        let mut records = 0;
        for record in batch.records() {
            bytes += record.unwrap().value().map_or(0, <[u8]>::len);
            records += 1;
        }
        if !meter.add(records) {
            assert!(bytes > 0);
            return meter;
        }
    }
}

async fn spout(address: &str, order: Order) -> Spout {
    Spout::builder(Brokers::bootstrap([address]))
        .topic("bench")
        .id("bench")
        .checkpoints(MemoryCheckpoints::new())
        .window(100_000, 64 << 20)
        .order(order)
        .build()
        .await
        .unwrap()
}

fn look_at(delivery: &Delivery) -> usize {
    delivery.value().map_or(0, <[u8]>::len)
}

async fn one_by_one(address: &str, time: Duration, order: Order) -> Meter {
    let mut spout = spout(address, order).await;
    let mut meter = Meter::new(time);
    loop {
        let delivery = spout.next().await.unwrap().unwrap();
        assert!(look_at(&delivery) > 0);
        delivery.ack();
        if !meter.add(1) {
            spout.close().await.unwrap();
            return meter;
        }
    }
}

/// Two tasks ack, one by one, what a third hands them.
async fn from_two_tasks(address: &str, time: Duration) -> Meter {
    let mut spout = spout(address, Order::Any).await;
    let mut ackers = Vec::new();
    for _ in 0..2 {
        let (send, mut receive) = mpsc::channel::<Vec<Delivery>>(64);
        tokio::spawn(async move {
            while let Some(deliveries) = receive.recv().await {
                for delivery in deliveries {
                    assert!(look_at(&delivery) > 0);
                    delivery.ack();
                }
            }
        });
        ackers.push(send);
    }
    let mut meter = Meter::new(time);
    let mut turn = 0;
    loop {
        let mut chunk = Vec::with_capacity(500);
        while chunk.len() < 500 {
            chunk.push(spout.next().await.unwrap().unwrap());
        }
        ackers[turn % 2].send(chunk).await.unwrap();
        turn += 1;
        if !meter.add(500) {
            drop(ackers);
            spout.close().await.unwrap();
            return meter;
        }
    }
}

async fn in_batches(address: &str, time: Duration) -> Meter {
    let mut spout = spout(address, Order::Any).await;
    let mut meter = Meter::new(time);
    let mut bytes = 0;
    loop {
        let batch = spout.next_batch(10_000).await.unwrap().unwrap();
        bytes += batch.records().map(|record| record.value().map_or(0, <[u8]>::len)).sum::<usize>();
        let records = batch.len() as u64;
        batch.ack_all();
        if !meter.add(records) {
            assert!(bytes > 0);
            spout.close().await.unwrap();
            return meter;
        }
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() {
    let seconds = std::env::args().find_map(|word| word.parse::<u64>().ok()).unwrap_or(3);
    let time = Duration::from_secs(seconds);
    let broker = Broker::endless();
    let address = broker.address.as_str();
    let run = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("| 100 B, one partition | M records/s | CPU ns per record |\n|---|---|---|");
    run().block_on(stream(address, time)).show("bare stream");
    run().block_on(one_by_one(address, time, Order::Any)).show("spout, ack one by one");
    run().block_on(from_two_tasks(address, time)).show("spout, ack one by one from two tasks");
    run().block_on(in_batches(address, time)).show("spout, batches, ack_all");
    let by_key = Order::ByKey { null_is_a_key: false };
    run()
        .block_on(one_by_one(address, time, by_key))
        .show("spout, in order by key (no keys), ack one by one");

    // Allocations, on one thread, so that all of them are counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut spout = runtime.block_on(spout(address, Order::Any));
    let mut read = |count: u64| {
        runtime.block_on(async {
            for _ in 0..count {
                spout.next().await.unwrap().unwrap().ack();
            }
        });
    };
    read(200_000);
    let counted = allocation_counter::measure(|| read(1_000_000));
    println!("\n{:.4} allocations per record (of one million)", counted.count_total as f64 / 1e6);

    // Commits: what they leave behind.
    let handle = spout.handle();
    let commits = |count: u64| {
        runtime.block_on(async {
            for _ in 0..count {
                handle.commit_now().await.unwrap();
            }
        });
    };
    // Until the window is full, memory grows.
    runtime.block_on(tokio::time::sleep(Duration::from_secs(1)));
    commits(1_000);
    let before = resident();
    let began = Instant::now();
    commits(100_000);
    println!(
        "100,000 commits in {:.1?}: resident {before} KiB before, {} KiB after",
        began.elapsed(),
        resident()
    );
    runtime.block_on(spout.close()).unwrap();
}
