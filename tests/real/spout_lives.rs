//! A spout in a process of its own that is killed again and again, on clusters whose leaders are killed too: every
//! number is processed, nothing that a checkpoint calls done is not, and what comes again is what no checkpoint had.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use downspout::checkpoint::{Access, CheckpointStore, FileCheckpoints, KafkaCheckpoints};
use downspout::client::{Cluster, TopicPartition};
use downspout::records::NewRecord;
use downspout::spout::{Brokers, Spout};

use crate::harness::{Driver, Kafka, Options, Prepared, Process, Release, Result, wait_for};
use crate::stage::{Turn, left_out};

const TOPIC: &str = "numbers";
const PARTITIONS: i32 = 4;
const KILLS: usize = 10;
/// What the child is told.
const BROKERS: &str = "DOWNSPOUT_LIVES_BROKERS";
const DIR: &str = "DOWNSPOUT_LIVES_DIR";
const STORE: &str = "DOWNSPOUT_LIVES_STORE";

/// A record that was processed.
type Done = (i32, i64);

fn chance(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn store(kind: &str, brokers: &str, dir: &Path) -> Box<dyn CheckpointStore> {
    match kind {
        "file" => Box::new(FileCheckpoints::new(dir.join("checkpoints"))),
        _ => Box::new(KafkaCheckpoints::new(Cluster::connect(brokers.split(',')).await.unwrap())),
    }
}

/// Processes numbers until none has come for a while: writes down what it did, then acks; one in fifty fails.
fn child(brokers: &str) {
    let dir = std::env::var(DIR).unwrap();
    let mut log = OpenOptions::new().create(true).append(true).open(Path::new(&dir).join("log")).unwrap();
    runtime().block_on(async {
        let kind = std::env::var(STORE).unwrap();
        let builder = Spout::builder(Brokers::bootstrap(brokers.split(',')))
            .topic(TOPIC)
            .id("lives")
            .commit_interval(Duration::from_millis(200));
        let builder = match kind.as_str() {
            "file" => builder.checkpoints(FileCheckpoints::new(Path::new(&dir).join("checkpoints"))),
            _ => builder
                .checkpoints(KafkaCheckpoints::new(Cluster::connect(brokers.split(',')).await.unwrap())),
        };
        let mut spout = builder.build().await.unwrap();
        let mut done = 0u64;
        while let Ok(delivery) = tokio::time::timeout(Duration::from_secs(20), spout.next()).await {
            let delivery = delivery.unwrap().unwrap();
            if chance(50) == 0 {
                delivery.fail("by chance");
                continue;
            }
            let number = std::str::from_utf8(delivery.value().unwrap()).unwrap().to_owned();
            log.write_all(format!("{} {} {number}\n", delivery.partition(), delivery.offset()).as_bytes())
                .unwrap();
            delivery.ack();
            done += 1;
            if done.is_multiple_of(200) {
                tokio::time::sleep(Duration::from_millis(4)).await;
            }
        }
        let health = spout.handle().health();
        if !health.stopped.is_empty() || !health.paused.is_empty() {
            eprintln!("at the end of a life: {health:?}");
        }
        spout.close().await.unwrap();
    });
}

/// Another life, which its handle ends.
fn spawn(test: &str, brokers: &str, dir: &Path, kind: &str) -> Result<Process> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(exe);
    command.args(["--exact", test, "--include-ignored", "--nocapture"]);
    command.envs([(BROKERS, brokers), (STORE, kind)]).env(DIR, dir);
    Process::started("the spout", command.stdin(Stdio::null()).stdout(Stdio::null()), &dir.join("log"))
}

/// The lines of the log: partition and offset, and the number.
fn read_log(dir: &Path) -> Vec<(Done, u64)> {
    let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut next = || words.next()?.parse::<u64>().ok();
        Some(((next()? as i32, next()? as i64), next()?))
    };
    text.lines().filter_map(line).collect()
}

/// What was processed and is in no checkpoint; that a checkpoint tells of what was not is an error.
async fn uncovered(kind: &str, brokers: &str, dir: &Path, processed: &BTreeSet<Done>) -> Result<usize> {
    let opened =
        store(kind, brokers, dir).await.open("lives", Access::Read).await.map_err(|e| e.to_string())?;
    let partitions: Vec<TopicPartition> =
        (0..PARTITIONS).map(|number| TopicPartition::new(TOPIC, number)).collect();
    let loaded = opened.load(&partitions).await;
    opened.close().await;
    let mut covered = 0;
    for (partition, loaded) in (0..PARTITIONS).zip(loaded) {
        let Some(checkpoint) = loaded.map_err(|e| e.to_string())?.checkpoint else { continue };
        let runs = checkpoint.extras.map(|extras| extras.done).unwrap_or_default();
        for offset in (0..checkpoint.offset).chain(runs.into_iter().flatten()) {
            if !processed.contains(&(partition, offset)) {
                return Err(format!("the checkpoint of {partition} calls {offset} done, and it was not"));
            }
            covered += 1;
        }
    }
    Ok(processed.len() - covered)
}

fn lives(test: &str, name: &str, kind: &str, count: u64) {
    if let Ok(brokers) = std::env::var(BROKERS) {
        child(&brokers);
        return;
    }
    let _turn = Turn::take();
    let release = Release::named(name);
    let Ok(prepared) = Prepared::of(release).map_err(|why| left_out(release, &why)) else { return };
    let options =
        Options { brokers: 3, session_timeout: Duration::from_secs(2), heap: "96m", ..Options::default() }
            .set("offsets.topic.replication.factor", "3")
            .set("controller.socket.timeout.ms", "3000")
            .set("unclean.leader.election.enable", "false")
            .set("replica.high.watermark.checkpoint.interval.ms", "200");
    let mut kafka =
        Kafka::start(release, &prepared, options).unwrap_or_else(|why| panic!("{release}: {why}"));
    let summary = run(test, &mut kafka, kind, count).unwrap_or_else(|why| panic!("{release}: {why}"));
    println!("{release}, {kind}: {summary}");
}

fn run(test: &str, kafka: &mut Kafka, kind: &str, count: u64) -> Result<String> {
    let mut admin = Driver::start(kafka)?;
    admin.create_topic(kafka, TOPIC, PARTITIONS as usize, &[])?;
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = dir.path();
    let brokers: Vec<String> = (0..3).map(|broker| kafka.broker_address(broker).to_string()).collect();
    let brokers = brokers.join(",");
    let runtime = runtime();
    runtime.block_on(produce(&brokers, count)).map_err(|e| e.to_string())?;

    let began = Instant::now();
    let (mut allowed, mut leaders) = (0, 0);
    for life in 0..KILLS {
        let before = std::fs::metadata(dir.join("log")).map_or(0, |log| log.len());
        let mut child = spawn(test, &brokers, dir, kind)?;
        let grown = || std::fs::metadata(dir.join("log")).is_ok_and(|log| log.len() > before);
        let ended = wait_for("the spout's first record", Duration::from_secs(60), || {
            Ok(if grown() { Some(false) } else { child.exited()?.map(|_| true) })
        });
        let victim = (life % 4 == 2).then_some(life % 3);
        if let Some(broker) = victim {
            kafka.kill(broker)?;
            leaders += 1;
        }
        std::thread::sleep(Duration::from_millis(100 + chance(500)));
        child.kill();
        ended?;
        if let Some(broker) = victim {
            kafka.start_again(broker)?;
            wait_for("all replicas in sync", Duration::from_secs(60), || {
                let all =
                    (0..PARTITIONS).all(|number| admin.in_sync(TOPIC, number).is_ok_and(|count| count == 3));
                Ok(all.then_some(()))
            })?;
        }
        let processed: BTreeSet<Done> = read_log(dir).into_iter().map(|(done, _)| done).collect();
        allowed += runtime.block_on(uncovered(kind, &brokers, dir, &processed))?;
    }
    let status = spawn(test, &brokers, dir, kind)?.wait_exit(Duration::from_secs(600))?;
    if !status.success() {
        return Err(format!("the last life ended with {status}"));
    }
    let log = read_log(dir);
    let numbers: BTreeSet<u64> = log.iter().map(|(_, number)| *number).collect();
    if numbers.len() as u64 != count || numbers.last() != Some(&(count - 1)) {
        return Err(format!("{} of {count} numbers were processed", numbers.len()));
    }
    let repeats = log.len() - numbers.len();
    if repeats > allowed {
        return Err(format!("{repeats} repeats, and no more than {allowed} were in no checkpoint"));
    }
    let processed = log.iter().map(|(done, _)| *done).collect();
    if runtime.block_on(uncovered(kind, &brokers, dir, &processed))? > 0 {
        return Err("the last checkpoint does not hold all".to_owned());
    }
    Ok(format!(
        "{count} numbers, {KILLS} kills, {leaders} brokers killed, {repeats} repeats of {allowed} that may, {:.1?}",
        began.elapsed()
    ))
}

async fn produce(brokers: &str, count: u64) -> downspout::Result<()> {
    let cluster = Cluster::connect(brokers.split(',')).await?;
    let per_set = 1_000;
    for (turn, first) in (0..count).step_by(per_set).enumerate() {
        let values: Vec<String> =
            (first..count.min(first + per_set as u64)).map(|number| number.to_string()).collect();
        let records: Vec<NewRecord<'_>> =
            values.iter().map(|value| NewRecord::value(value.as_bytes())).collect();
        cluster.produce(TOPIC, turn as i32 % PARTITIONS, &records).await?;
    }
    cluster.close();
    Ok(())
}

macro_rules! lives {
    ($($test:ident $release:literal $store:literal $count:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() {
            lives(concat!("spout_lives::", stringify!($test)), $release, $store, $count);
        })*
    };
}

lives! {
    a_spout_killed_ten_times_on_0_8_2_loses_nothing "0.8.2.2" "file" 100_000;
    a_spout_killed_ten_times_on_4_4_loses_nothing "4.4.0" "file" 100_000;
    positions_in_kafka_4_4_and_ten_kills_lose_nothing "4.4.0" "kafka" 100_000;
    a_million_on_0_8_2 "0.8.2.2" "kafka" 1_000_000 #[ignore = "with tests/run --all"];
    a_million_on_0_10_2 "0.10.2.2" "file" 1_000_000 #[ignore = "with tests/run --all"];
    a_million_on_2_8 "2.8.2" "kafka" 1_000_000 #[ignore = "with tests/run --all"];
    a_million_on_4_4 "4.4.0" "file" 1_000_000 #[ignore = "with tests/run --all"];
}
