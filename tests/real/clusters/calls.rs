//! The calls of [`Cluster`] while brokers die: each finds its leader or coordinator again, and what it said is true
//! in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use downspout::Error;
use downspout::client::{Cluster, GroupOffset};
use downspout::records::NewRecord;
use tokio::task::JoinHandle;

use crate::harness::{Release, Result};

use super::reading::Reading;
use super::workload::Acknowledged;

/// A caller at work.
pub struct Calls {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Called>>,
}

pub struct Called {
    pub acknowledged: Vec<Acknowledged>,
    /// Positions that were committed, and read back.
    pub commits: i64,
    pub slowest: (Duration, String),
}

impl Calls {
    /// Begins to write consecutive numbers to the partitions of a topic in turn, to ask for the ends of its log, and
    /// to commit positions for a group, one call after the other.
    pub fn start(reading: &Reading, release: &Release, topic: &str, partitions: i32) -> Self {
        let forgetful = !release.since(&[0, 9]);
        let stop = Arc::new(AtomicBool::new(false));
        let (topic, shared, cluster) = (topic.to_owned(), Arc::clone(&stop), reading.cluster.clone());
        let task = reading
            .runtime
            .spawn(async move { call(&cluster, &topic, partitions, forgetful, &shared).await });
        Self { stop, task }
    }

    pub fn stop(self, reading: &Reading) -> Result<Called> {
        self.stop.store(true, Ordering::Relaxed);
        reading.runtime.block_on(self.task).map_err(|e| e.to_string())?
    }
}

impl Called {
    /// For a person to read.
    pub fn summary(&self) -> String {
        let (time, call) = &self.slowest;
        let produced = self.acknowledged.len();
        format!(
            "{produced} calls of produce, {} commits, the slowest call {call} in {time:.1?}",
            self.commits
        )
    }
}

async fn call(
    cluster: &Cluster,
    topic: &str,
    partitions: i32,
    forgetful: bool,
    stop: &AtomicBool,
) -> Result<Called> {
    let mut called =
        Called { acknowledged: Vec::new(), commits: 0, slowest: (Duration::ZERO, String::new()) };
    let mut slowest = (Duration::ZERO, String::new());
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let partition = i32::try_from(number % partitions.unsigned_abs() as u64).unwrap();
        let mut begun = Instant::now();
        let mut done = |what: &str| {
            slowest = std::mem::take(&mut slowest).max((begun.elapsed(), format!("{what} {number}")));
            begun = Instant::now();
        };
        let fail = |what: &str, e: Error| format!("{what}, number {number}: {e}");

        let value = number.to_string();
        let offset = cluster
            .produce(topic, partition, &[NewRecord::value(value.as_bytes())])
            .await
            .map_err(|e| fail("produce", e))?;
        called.acknowledged.push(Acknowledged { partition, offset, number });
        done("produce");

        let start =
            cluster.earliest_offset(topic, partition).await.map_err(|e| fail("earliest_offset", e))?;
        if start != 0 {
            return Err(format!("{topic} {partition} starts at {start}"));
        }
        done("earliest_offset");

        let position = called.commits + 1;
        let offsets = [GroupOffset::new(topic, 0, position)];
        let answers =
            cluster.commit_offsets("callers", &offsets).await.map_err(|e| fail("commit_offsets", e))?;
        if let Some(why) = answers.iter().find_map(|answer| answer.error.clone()) {
            return Err(fail("commit_offsets", why));
        }
        called.commits = position;
        done("commit_offsets");

        let asked = Instant::now();
        loop {
            let found = cluster.fetch_offsets("callers", &[(topic, 0)]).await;
            let found = found.map_err(|e| fail("fetch_offsets", e))?;
            let [found] = &found[..] else { return Err(format!("fetch_offsets: {found:?}")) };
            // A coordinator of 0.8.2 says "none" until it has begun to load what it is in charge of since now.
            if found.offset.is_none() && forgetful && asked.elapsed() < Duration::from_secs(20) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            if found.offset != Some(position) {
                return Err(format!("committed {position}, and the group has {found:?}"));
            }
            break;
        }
        done("fetch_offsets");
    }
    called.slowest = slowest;
    Ok(called)
}
