//! The calls of [`Cluster`] while brokers die: each finds its leader or coordinator again, and what it said is true
//! in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use downspout::Error;
use downspout::client::{Cluster, GroupOffset};
use downspout::records::NewRecord;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::harness::{Kafka, Result};

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
    pub fn start(runtime: &Runtime, kafka: &Kafka, topic: &str, partitions: i32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let bootstrap: Vec<String> = kafka.bootstrap().split(',').map(str::to_owned).collect();
        let (topic, shared) = (topic.to_owned(), Arc::clone(&stop));
        let task = runtime.spawn(async move {
            // A broker may wait so long for a follower that is frozen, and we for a leader that is.
            let builder = Cluster::builder(&bootstrap).request_timeout(Duration::from_secs(3));
            let cluster = builder.connect().await.map_err(|e| e.to_string())?;
            call(&cluster, &topic, partitions, &shared).await
        });
        Self { stop, task }
    }

    pub fn stop(self, runtime: &Runtime) -> Result<Called> {
        self.stop.store(true, Ordering::Relaxed);
        runtime.block_on(self.task).map_err(|e| e.to_string())?
    }
}

async fn call(cluster: &Cluster, topic: &str, partitions: i32, stop: &AtomicBool) -> Result<Called> {
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

        let found =
            cluster.fetch_offsets("callers", &[(topic, 0)]).await.map_err(|e| fail("fetch_offsets", e))?;
        let [found] = &found[..] else { return Err(format!("fetch_offsets: {found:?}")) };
        if found.offset != Some(position) {
            return Err(format!("committed {position}, and the group has {found:?}"));
        }
        done("fetch_offsets");
    }
    called.slowest = slowest;
    Ok(called)
}
