//! The process with the spout: this very test binary, started again.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::exit;
use std::time::Duration;

use downspout::client::Cluster;
use downspout::spout::{
    Backoff, Delivery, Limits, OnExhausted, RetryMode, Spout, SpoutHandle, SpoutSettings,
};
use tokio::time::{Instant, sleep, timeout};

use super::{Chance, Plan};

pub const PLAN: &str = "DOWNSPOUT_TEST_SPOUT";

/// Exit codes of a child.
pub const FAILED: i32 = 101;
pub const STOPPED: i32 = 102;

/// Nothing, unless another test has started this process.
#[test]
fn the_process_that_other_tests_start_and_kill() {
    let Some(plan) = std::env::var_os(PLAN) else { return };
    let plan = Plan::from_json(&serde_json::from_slice(plan.as_encoded_bytes()).unwrap());
    // It ends with the process that started it, too.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        exit(FAILED);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    exit(runtime.block_on(run(&plan)));
}

fn settings(plan: &Plan) -> SpoutSettings {
    let mut settings = SpoutSettings::default();
    settings.window = Limits { records: plan.window, bytes: 256 << 20 };
    settings.commit_interval = Duration::from_millis(100);
    settings.instance_id = Some(plan.id.clone());
    settings.compat_storm = !plan.holes;
    settings.retry = RetryMode::Backoff(Backoff {
        first: Duration::from_millis(20),
        longest: Duration::from_secs(1),
        ..Backoff::default()
    });
    if plan.deadly.is_some() {
        settings.on_exhausted = Some(OnExhausted::Skip);
    }
    settings
}

async fn run(plan: &Plan) -> i32 {
    let cluster = Cluster::builder(plan.brokers.split(','))
        .request_timeout(Duration::from_secs(5))
        .metadata_max_age(Duration::from_secs(5));
    let cluster = match cluster.connect().await {
        Ok(cluster) => cluster,
        Err(why) => return failed(&why),
    };
    let spout = Spout::builder(cluster.clone())
        .topic(plan.topic.as_str())
        .id(plan.id.as_str())
        .settings(settings(plan))
        .checkpoints(plan.checkpoints(&cluster))
        .build()
        .await;
    let mut spout = match spout {
        Ok(spout) => spout,
        Err(why) => return failed(&why),
    };
    let mut work = Work {
        notes: OpenOptions::new().create(true).append(true).open(plan.notes()).unwrap(),
        chance: Chance(plan.seed),
        plan,
        handled: 0,
        held: Vec::new(),
    };
    let mut at_hand: Vec<Delivery> = Vec::new();
    let handle = spout.handle();
    let mut next_look = Instant::now();
    loop {
        if next_look <= Instant::now() {
            next_look = Instant::now() + Duration::from_millis(100);
            if let Some(why) = handle.health().stopped.values().next() {
                println!("{why}");
                return STOPPED;
            }
            if is_done(plan, &handle) {
                break;
            }
        }
        match timeout(Duration::from_millis(20), spout.next()).await {
            Ok(Ok(Some(delivery))) => at_hand.push(delivery),
            Ok(Ok(None)) => return failed(&"it was closed by itself"),
            Ok(Err(why)) => return failed(&why),
            Err(_) => while work.handle_one(&mut at_hand).await {},
        }
        // Far out of order: one of three hundred.
        if at_hand.len() >= 300 {
            work.handle_one(&mut at_hand).await;
        }
    }
    match spout.close().await {
        Ok(report) if report.failed.is_empty() => 0,
        Ok(report) => failed(&format!("{report:?}")),
        Err(why) => failed(&why),
    }
}

fn failed(why: &dyn std::fmt::Display) -> i32 {
    println!("{why}");
    FAILED
}

fn is_done(plan: &Plan, handle: &SpoutHandle) -> bool {
    let Some(until) = &plan.until else { return false };
    let metrics = handle.metrics();
    let done = |partition: i32| {
        let known = metrics.partitions.iter().find(|(at, _)| at.partition == partition);
        known.and_then(|(_, it)| it.latest_completed)
    };
    (0..).zip(until).all(|(partition, end)| done(partition).is_some_and(|done| done >= *end))
}

struct Work<'a> {
    plan: &'a Plan,
    notes: File,
    chance: Chance,
    handled: u64,
    held: Vec<Delivery>,
}

impl Work<'_> {
    /// Handles one of those at hand, by chance; false if there is none.
    async fn handle_one(&mut self, at_hand: &mut Vec<Delivery>) -> bool {
        if at_hand.is_empty() {
            return false;
        }
        let index = self.chance.below(at_hand.len() as u64) as usize;
        let delivery = at_hand.swap_remove(index);
        self.handled += 1;
        if self.handled.is_multiple_of(self.plan.pace) {
            sleep(Duration::from_millis(1)).await;
        }
        let (partition, offset) = (delivery.partition(), delivery.offset());
        if partition == 0 && self.plan.held == Some(offset) {
            self.held.push(delivery);
            return true;
        }
        if partition == 0 && self.plan.deadly == Some(offset) {
            // SIGABRT, and no destructor runs.
            std::process::abort();
        }
        if self.chance.below(1000) < self.plan.fail_per_mille {
            delivery.fail("by chance");
            return true;
        }
        // Before the ack, and in one write.
        let value = String::from_utf8_lossy(delivery.value().unwrap_or_default()).into_owned();
        self.notes.write_all(format!("{partition} {offset} {value}\n").as_bytes()).unwrap();
        delivery.ack();
        true
    }
}
