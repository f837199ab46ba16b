//! Spouts in processes of their own, which are killed without a word, while leaders die: what was processed, what
//! came again, and whether each checkpoint told the truth.
//!
//! The child (`child`) notes a record in a file before it acknowledges it. A kill takes nothing of that away: what
//! `write` has taken is the system's. The other side (`life`) starts it, kills it, and compares notes with the store.

mod child;
mod command;
mod crashes;
mod life;
mod poisonous;
mod stuck;
mod twins;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use downspout::checkpoint::{CheckpointStore, FileCheckpoints, KafkaCheckpoints};
use downspout::client::Cluster;
use serde_json::{Value, json};

/// Where a spout keeps its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    File,
    Kafka,
}

/// What a child is to do.
#[derive(Clone, Debug)]
struct Plan {
    brokers: String,
    topic: String,
    id: String,
    store: Store,
    /// Notes, and a file store, lie here.
    dir: PathBuf,
    seed: u64,
    /// Of a thousand records so many fail, by chance.
    fail_per_mille: u64,
    /// Records handled between two pauses of a millisecond.
    pace: u64,
    window: usize,
    /// Without, nothing is kept beside the position.
    holes: bool,
    /// This record of partition 0 is never answered for.
    held: Option<i64>,
    /// At this record of partition 0 the process aborts.
    deadly: Option<i64>,
    /// Leave, in order, when each partition is done up to here.
    until: Option<Vec<i64>>,
}

impl Plan {
    fn new(brokers: String, topic: &str, id: &str, store: Store, dir: &Path) -> Self {
        Plan {
            brokers,
            topic: topic.to_owned(),
            id: id.to_owned(),
            store,
            dir: dir.to_owned(),
            seed: 1,
            fail_per_mille: 0,
            pace: 50,
            window: 10_000,
            holes: true,
            held: None,
            deadly: None,
            until: None,
        }
    }

    fn notes(&self) -> PathBuf {
        self.dir.join(format!("{}.notes", self.id))
    }

    fn checkpoints(&self, cluster: &Cluster) -> Arc<dyn CheckpointStore> {
        match self.store {
            Store::File => Arc::new(FileCheckpoints::new(self.dir.join("positions"))),
            Store::Kafka => Arc::new(KafkaCheckpoints::new(cluster.clone())),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "brokers": self.brokers, "topic": self.topic, "id": self.id,
            "store": format!("{:?}", self.store), "dir": self.dir, "seed": self.seed,
            "fail_per_mille": self.fail_per_mille, "pace": self.pace, "window": self.window,
            "holes": self.holes, "held": self.held, "deadly": self.deadly, "until": self.until,
        })
    }

    fn from_json(plan: &Value) -> Self {
        let text = |key: &str| plan[key].as_str().unwrap().to_owned();
        Plan {
            brokers: text("brokers"),
            topic: text("topic"),
            id: text("id"),
            store: if plan["store"] == "File" { Store::File } else { Store::Kafka },
            dir: text("dir").into(),
            seed: plan["seed"].as_u64().unwrap(),
            fail_per_mille: plan["fail_per_mille"].as_u64().unwrap(),
            pace: plan["pace"].as_u64().unwrap(),
            window: plan["window"].as_u64().unwrap() as usize,
            holes: plan["holes"].as_bool().unwrap(),
            held: plan["held"].as_i64(),
            deadly: plan["deadly"].as_i64(),
            until: plan["until"].as_array().map(|ends| ends.iter().map(|it| it.as_i64().unwrap()).collect()),
        }
    }
}

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX; the high bits are good enough.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
