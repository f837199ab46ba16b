//! `downspout spout` in several processes that share its partitions, while some of them are killed, frozen for longer
//! than their sessions, stopped and started: each record is processed, and no position goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use downspout::client::Cluster;
use downspout::records::NewRecord;
use downspout::zookeeper::{Session, ZooKeeper as _};

use crate::clusters::start;
use crate::harness::{Driver, Kafka, Options, Process, Release, Result, wait_for};
use crate::stage::Turn;

const PARTITIONS: i32 = 12;
const ID: &str = "shared";
/// The shortest there can be.
const SESSION: Duration = Duration::from_secs(4);

/// It notes each record before it says that it is done.
const HANDLER: &str = r#"while read -r line; do
  case "$line" in *'"id":"'*) ;; *) continue ;; esac
  id=${line#*\"id\":\"}; id=${id%%\"*}
  echo "$id" >> "$NOTES"; echo "ack $id"
done"#;

/// The processes, each with notes of its own.
struct Crew {
    zookeeper: String,
    dir: PathBuf,
    members: Vec<Process>,
    started: usize,
}

impl Crew {
    fn add(&mut self) -> Result<()> {
        self.started += 1;
        let name = format!("member-{}", self.started);
        let mut command = Command::new(env!("CARGO_BIN_EXE_downspout"));
        command.args([
            "spout",
            "--zookeeper",
            &self.zookeeper,
            "--root",
            "/spouts",
            "--topic",
            "numbers",
            "--id",
            ID,
        ]);
        command.args(["--members", "--commit-interval", "300ms", "--name", &name]);
        command.args(["-X", &format!("zookeeper.session.timeout.ms={}", SESSION.as_millis())]);
        command.args(["--concurrency", "8", "--exec", HANDLER]);
        command
            .env("NOTES", self.dir.join(format!("{name}.notes")))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.members.push(Process::started(&name, &mut command, &self.dir.join(format!("{name}.log")))?);
        Ok(())
    }

    /// One of them, by chance.
    fn any(&self, chance: u64) -> usize {
        chance as usize % self.members.len()
    }
}

/// Partition and offset of each record that was processed.
fn processed(dir: &Path) -> BTreeMap<(i32, i64), usize> {
    let mut times = BTreeMap::new();
    for file in fs::read_dir(dir)
        .unwrap()
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|it| it == "notes"))
    {
        for id in fs::read_to_string(file.path()).unwrap_or_default().lines() {
            let mut parts = id.split('/').skip(1).map(str::parse::<i64>);
            if let (Some(Ok(partition)), Some(Ok(offset))) = (parts.next(), parts.next()) {
                *times.entry((partition as i32, offset)).or_insert(0) += 1;
            }
        }
    }
    times
}

/// The positions as they were seen last.
type Kept = Mutex<BTreeMap<i32, i64>>;

/// Looks at all positions until told to stop; what went back is an error.
fn watch(servers: &str, over: &AtomicBool, kept: &Kept) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let session = Session::connect(servers).await.map_err(|e| e.to_string())?;
        while !over.load(Ordering::Relaxed) {
            for partition in 0..PARTITIONS {
                let path = format!("/spouts/{ID}/numbers/partition_{partition}");
                let Some(node) = session.get(&path).await.map_err(|e| e.to_string())? else { continue };
                let document: serde_json::Value =
                    serde_json::from_slice(&node.data).map_err(|e| format!("{path}: {e}"))?;
                let offset = document["offset"].as_i64().ok_or_else(|| format!("{path}: {document}"))?;
                if let Some(before) =
                    kept.lock().unwrap().insert(partition, offset).filter(|before| *before > offset)
                {
                    return Err(format!("{path} went back from {before} to {offset}"));
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        session.close().await;
        Ok(())
    })
}

fn produce(kafka: &Kafka, over: &AtomicBool) -> Result<Vec<i64>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let brokers = kafka.bootstrap();
    runtime.block_on(async {
        let cluster = Cluster::connect(brokers.split(',')).await.map_err(|e| e.to_string())?;
        let mut ends = vec![0; PARTITIONS as usize];
        while !over.load(Ordering::Relaxed) {
            for partition in 0..PARTITIONS {
                let records: Vec<NewRecord<'_>> = (0..10).map(|_| NewRecord::value(b"x")).collect();
                cluster.produce("numbers", partition, &records).await.map_err(|e| e.to_string())?;
                ends[partition as usize] += 10;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(ends)
    })
}

fn members(name: &str, time: Duration, seed: u64) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let Some(zookeeper) = kafka.zookeeper_connect() else {
        return Err(format!("{release} has no ZooKeeper"));
    };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "numbers", PARTITIONS as usize, &[])?;
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (over, kept) = (Arc::new(AtomicBool::new(false)), Arc::new(Kept::default()));
    let watcher = {
        let (over, kept, servers) = (Arc::clone(&over), Arc::clone(&kept), zookeeper.clone());
        thread::spawn(move || watch(&servers, &over, &kept))
    };
    let mut crew = Crew { zookeeper, dir: dir.path().to_owned(), members: Vec::new(), started: 0 };
    for _ in 0..3 {
        crew.add()?;
    }
    let stop = AtomicBool::new(false);
    let (mut kills, mut freezes, mut stops) = (0, 0, 0);
    let ends = thread::scope(|scope| {
        let producing = scope.spawn(|| produce(&kafka, &stop));
        let began = Instant::now();
        let (mut chance, mut step) = (seed, 0);
        let outcome: Result<()> = (|| {
            while began.elapsed() < time {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let drawn = chance >> 33;
                thread::sleep(Duration::from_millis(3_000 + drawn % 3_000));
                let one = crew.any(drawn / 3);
                step += 1;
                match step % 3 {
                    0 => {
                        crew.members.remove(one).kill();
                        crew.add()?;
                        kills += 1;
                    }
                    1 => {
                        crew.members[one].freeze()?;
                        thread::sleep(SESSION + Duration::from_secs(3));
                        crew.members[one].resume()?;
                        freezes += 1;
                    }
                    _ => {
                        let mut leaves = crew.members.remove(one);
                        crew.add()?;
                        leaves.signal("TERM")?;
                        let status = leaves.wait_exit(Duration::from_secs(40))?;
                        if status.code() != Some(143) {
                            return Err(format!(
                                "a member that was told to leave ended with {status}: {}",
                                leaves.log_tail()
                            ));
                        }
                        stops += 1;
                    }
                }
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        let ends = producing.join().map_err(|_| "producing broke off".to_owned())??;
        outcome.map(|()| ends)
    })?;
    let all: BTreeSet<(i32, i64)> = (0..)
        .zip(&ends)
        .flat_map(|(partition, end)| (0..*end).map(move |offset| (partition, offset)))
        .collect();
    let missing = || {
        let processed = processed(dir.path());
        all.iter().filter(|record| !processed.contains_key(record)).count()
    };
    let logs = |crew: &Crew| crew.members.iter().map(Process::log_tail).collect::<Vec<_>>().join("\n---\n");
    wait_for("all records", Duration::from_secs(90), || Ok((missing() == 0).then_some(())))
        .map_err(|why| format!("{why}: {} of {} are missing\n{}", missing(), all.len(), logs(&crew)))?;
    // What a member did that had lost its partition meanwhile comes again at its owner.
    wait_for("the last positions", Duration::from_secs(30), || {
        Ok(kept.lock().unwrap().values().eq(&ends).then_some(()))
    })?;
    for member in &mut crew.members {
        member.signal("TERM")?;
    }
    for member in &mut crew.members {
        let status = member.wait_exit(Duration::from_secs(40))?;
        if status.code() != Some(143) {
            return Err(format!("a member ended with {status}: {}", member.log_tail()));
        }
    }
    over.store(true, Ordering::Relaxed);
    watcher.join().map_err(|_| "watching broke off".to_owned())??;
    let times = processed(dir.path());
    let repeats: usize = times.values().map(|times| times - 1).sum();
    println!(
        "{release}: {} records, {kills} members killed, {freezes} frozen for longer than their session, {stops} stopped: {repeats} came again",
        all.len()
    );
    Ok(())
}

#[test]
fn members_killed_frozen_and_stopped_process_all_and_no_position_goes_back() {
    members("2.8.2", Duration::from_secs(40), 1).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn members_of_an_old_cluster_likewise_and_for_longer() {
    members("0.8.2.2", Duration::from_secs(180), 2).unwrap();
}
