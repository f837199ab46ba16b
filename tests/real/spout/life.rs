//! The other side of a child: it starts it, kills it, reads its notes, and asks the store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use downspout::checkpoint::Access;
use downspout::client::{Cluster, TopicPartition};
use downspout::records::NewRecord;
use tokio::runtime::Runtime;

use crate::harness::{Kafka, Result, wait_for};

use super::Plan;
use super::child::PLAN;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster as the tests write to it, and the threads for that.
pub struct Own {
    pub runtime: Runtime,
    pub cluster: Cluster,
}

impl Own {
    pub fn of(kafka: &Kafka) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let cluster = Cluster::builder(kafka.bootstrap().split(','));
        let cluster = runtime.block_on(cluster.connect()).map_err(|e| e.to_string())?;
        Ok(Own { runtime, cluster })
    }

    /// Writes 0, 1, 2, … to the partitions in turn, as text; gives where each ends.
    pub fn write(&self, topic: &str, partitions: i32, count: i64) -> Result<Vec<i64>> {
        const SET: i64 = 2_000;
        let mut ends = Vec::new();
        for partition in 0..i64::from(partitions) {
            let numbers: Vec<String> =
                (partition..count).step_by(partitions as usize).map(|number| number.to_string()).collect();
            for set in numbers.chunks(SET as usize) {
                let records: Vec<_> = set.iter().map(|number| NewRecord::value(number.as_bytes())).collect();
                let sent = self.cluster.produce(topic, partition as i32, &records);
                self.runtime.block_on(sent).map_err(|e| e.to_string())?;
            }
            ends.push(numbers.len() as i64);
        }
        Ok(ends)
    }

    /// What the store has: of each partition the position, and the runs beyond it.
    pub fn kept(&self, plan: &Plan, partitions: i32) -> Result<Vec<(i64, Vec<Range<i64>>)>> {
        let store = plan.checkpoints(&self.cluster);
        let places: Vec<_> =
            (0..partitions).map(|partition| TopicPartition::new(plan.topic.as_str(), partition)).collect();
        let loaded = self.runtime.block_on(async {
            let store = store.open(&plan.id, Access::Read).await.map_err(|e| e.to_string())?;
            let loaded = store.load(&places).await;
            store.close().await;
            Ok::<_, String>(loaded)
        })?;
        let mut kept = Vec::new();
        for loaded in loaded {
            let loaded = loaded.map_err(|e| e.to_string())?;
            if let Some(why) = loaded.discarded {
                return Err(format!("the store's own extras cannot be read: {why}"));
            }
            let checkpoint = loaded.checkpoint;
            kept.push(
                checkpoint.map_or((0, Vec::new()), |it| (it.offset, it.extras.unwrap_or_default().done)),
            );
        }
        Ok(kept)
    }
}

/// A child at work. Dropping it ends it.
pub struct Life(Child);

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// What it said.
    pub words: String,
}

impl Life {
    pub fn begin(plan: &Plan) -> Result<Self> {
        let child = Command::new(std::env::current_exe().map_err(|e| e.to_string())?)
            .args(["--exact", "spout::child::the_process_that_other_tests_start_and_kill", "--nocapture"])
            .env(PLAN, plan.to_json().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Ok(Life(child.map_err(|e| e.to_string())?))
    }

    /// SIGKILL, as soon as there are so many notes.
    pub fn kill_at(mut self, plan: &Plan, notes: u64) -> Result<()> {
        let written = self.wait_for_notes(plan, notes);
        self.0.kill().map_err(|e| e.to_string())?;
        let end = self.end()?;
        written.map_err(|why| format!("{why}; the child: {end:?}"))?;
        match end.signal {
            Some(9) => Ok(()),
            _ => Err(format!("it ended by itself: {end:?}")),
        }
    }

    pub fn wait_for_notes(&mut self, plan: &Plan, count: u64) -> Result<()> {
        let what = format!("{count} notes of {}", plan.id);
        wait_for(&what, PATIENCE, || match self.0.try_wait().map_err(|e| e.to_string())? {
            Some(status) => Err(format!("it ended: {status}")),
            None => Ok((Notes::count(plan) >= count).then_some(())),
        })
    }

    /// Until it leaves by itself.
    pub fn end(mut self) -> Result<End> {
        let began = Instant::now();
        while self.0.try_wait().map_err(|e| e.to_string())?.is_none() {
            if began.elapsed() > 3 * PATIENCE {
                return Err("the child does not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.0.wait().map_err(|e| e.to_string())?;
        let mut words = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            let _ = std::io::Read::read_to_string(&mut out, &mut words);
        }
        Ok(End { code: status.code(), signal: status.signal(), words })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the children of a plan have processed, as they noted it: how often each record.
#[derive(Default)]
pub struct Notes {
    pub times: BTreeMap<(i32, i64), u64>,
    pub values: BTreeMap<(i32, i64), String>,
}

impl Notes {
    pub fn count(plan: &Plan) -> u64 {
        // Lines are of no fixed length: counted only when there can be news.
        std::fs::read(plan.notes())
            .map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    pub fn of(plan: &Plan) -> Result<Self> {
        let mut notes = Notes::default();
        let text = std::fs::read_to_string(plan.notes()).map_err(|e| e.to_string())?;
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().ok_or_else(|| format!("a cut note: {line:?}"));
            let partition = word()?.parse::<i32>().map_err(|e| e.to_string())?;
            let offset = word()?.parse::<i64>().map_err(|e| e.to_string())?;
            let value = word()?.to_owned();
            *notes.times.entry((partition, offset)).or_default() += 1;
            notes.values.insert((partition, offset), value);
        }
        Ok(notes)
    }

    /// More than once each, all together.
    pub fn repeats(&self) -> u64 {
        self.times.values().map(|times| times - 1).sum()
    }

    /// A checkpoint is honest: what it calls done was processed. Gives how many were processed that it does not
    /// call done: those come again.
    pub fn compare(&self, kept: &[(i64, Vec<Range<i64>>)]) -> Result<u64> {
        let mut covered = 0;
        for (partition, (offset, runs)) in (0..).zip(kept) {
            for done in (0..*offset).chain(runs.iter().cloned().flatten()) {
                if !self.times.contains_key(&(partition, done)) {
                    return Err(format!(
                        "the store calls {partition}/{done} done, which was never processed: {offset}, {runs:?}"
                    ));
                }
                covered += 1;
            }
        }
        Ok(self.times.len() as u64 - covered)
    }

    /// Each number of `count` was processed.
    pub fn all(&self, partitions: i32, count: i64) -> Result<()> {
        for number in 0..count {
            let at = ((number % i64::from(partitions)) as i32, number / i64::from(partitions));
            match self.values.get(&at) {
                Some(value) if *value == number.to_string() => {}
                found => return Err(format!("{number}, at {at:?}, was not processed: {found:?}")),
            }
        }
        Ok(())
    }
}
