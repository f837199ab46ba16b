//! The story, from the first record to the table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use downspout::checkpoint::{FileCheckpoints, Problem};
use downspout::client::Cluster;
use downspout::records::NewRecord;
use downspout::spout::{Brokers, Delivery, Spout, SpoutHandle};
use downspout::testing::{EmbeddedBroker, Release};
use downspout::{Error, ErrorKind};
use indicatif::HumanCount;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::stage::Stage;
use super::tally::Tally;
use crate::exit::{Exit, Failure};

const TOPIC: &str = "orders";
const BROKERS: i32 = 3;
const PARTITIONS: i32 = 6;
/// Writing takes so long.
const WRITING: Duration = Duration::from_secs(4);
/// A handler takes so long for a record.
const WORK: Duration = Duration::from_millis(1);
/// Records that are worked on at the same time.
const AT_A_TIME: usize = 16;
/// All must be done so long after the last one was written.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn tell(release: Release, records: u32) -> Result<Exit, Failure> {
    let broker = EmbeddedBroker::builder().release(release).brokers(BROKERS).topic(TOPIC, PARTITIONS).start();
    let broker = broker.map_err(|why| failed(format_args!("the brokers cannot be started: {why}")))?;
    let folder = Folder::new()?;
    let story = Story { broker, folder, records, tally: Arc::default(), stage: Stage::new(records.into()) };
    let exit = story.tell(release).await;
    story.stage.end();
    exit
}

struct Story {
    broker: EmbeddedBroker,
    folder: Folder,
    records: u32,
    tally: Arc<Tally>,
    stage: Stage,
}

impl Story {
    async fn tell(&self, release: Release) -> Result<Exit, Failure> {
        self.stage.write(&format!(
            "Three brokers of Kafka {release} are up inside this process. {} orders are written to them, and a spout\n\
             hands each to a handler, which fails every 40th at first. What is done is kept in files.\n\n",
            HumanCount(self.records.into())
        ))?;
        let cluster = Cluster::connect(self.broker.addrs()).await.map_err(failed)?;
        // Dropped with this: nothing goes on when it ends early.
        let mut writer = JoinSet::new();
        writer.spawn(write(cluster, self.records, Arc::clone(&self.tally)));

        let mut first = self.begin().await?;
        self.until_done(0.3, &mut first, &mut writer).await?;
        for partition in 0..PARTITIONS / 2 {
            let leader =
                Some(partition % BROKERS + 2).map(|leader| if leader > BROKERS { 1 } else { leader });
            self.broker.with(|core| core.set_leader(TOPIC, partition, leader)).map_err(failed)?;
        }
        self.stage.tell("leaders move: half of the partitions are led by another broker from here on")?;

        self.until_done(0.6, &mut first, &mut writer).await?;
        first.crash().await;
        let (in_hand, done) = (self.tally.crashed(), self.tally.count_done());
        self.stage.tell(&format!(
            "crash: the spout is gone without a word. {} orders were done, {in_hand} in hand, and up to \
             half a second of it is in no checkpoint",
            HumanCount(done)
        ))?;
        let mut second = self.begin().await?;
        self.stage.tell(&format!("a new spout goes on from the files in {}", self.folder.0.display()))?;

        self.until_done(1.0, &mut second, &mut writer).await?;
        let report = second.close().await?;
        let counts = self.tally.counts();
        let kept: i64 = report.committed.iter().map(|(_, offset)| offset).sum();
        self.stage.tell(&format!(
            "closed: the positions kept say that {} are done",
            HumanCount(kept.unsigned_abs())
        ))?;
        self.stage.write(&format!("\n{}", counts.table()))?;
        Ok(counts.exit())
    }

    /// Starts a spout that goes on where the files say.
    async fn begin(&self) -> Result<Life, Failure> {
        let spout = loop {
            let started = Spout::builder(Brokers::bootstrap(self.broker.addrs()))
                .topic(TOPIC)
                .id("demo")
                .checkpoints(FileCheckpoints::new(&self.folder.0))
                .commit_interval(Duration::from_millis(500))
                .build()
                .await;
            match started {
                // The one that crashed has to let go of its lock: a process that is killed does so by dying.
                Err(why) if is_locked(&why) => sleep(Duration::from_millis(10)).await,
                started => break started.map_err(failed)?,
            }
        };
        let handle = spout.handle();
        Ok(Life { handle, work: tokio::spawn(work(spout, Arc::clone(&self.tally))) })
    }

    /// Waits until this share of the records is done, or nothing more can be hoped for.
    async fn until_done(
        &self,
        share: f64,
        life: &mut Life,
        writer: &mut JoinSet<Result<(), Error>>,
    ) -> Result<(), Failure> {
        let goal = (f64::from(self.records) * share) as u64;
        let deadline = Instant::now() + WRITING + PATIENCE;
        while self.tally.count_done() < goal && Instant::now() < deadline {
            if let Some(written) = writer.try_join_next() {
                written.map_err(failed)?.map_err(failed)?;
            }
            if life.work.is_finished() {
                let Life { work, .. } = life;
                work.await.map_err(failed)?.map_err(failed)?;
            }
            sleep(Duration::from_millis(5)).await;
            self.stage.done(self.tally.count_done());
        }
        Ok(())
    }
}

/// A spout and its handlers.
struct Life {
    handle: SpoutHandle,
    work: JoinHandle<Result<(), Error>>,
}

impl Life {
    /// All of it is dropped where it stands.
    async fn crash(self) {
        self.work.abort();
        // It says that it was aborted.
        let _ = self.work.await;
    }

    async fn close(self) -> Result<downspout::spout::CloseReport, Failure> {
        let report = self.handle.close_within(Duration::from_secs(20)).await.map_err(failed)?;
        // There is nothing more for it.
        timeout(PATIENCE, self.work).await.map_err(failed)?.map_err(failed)?.map_err(failed)?;
        Ok(report)
    }
}

/// Works on what a spout hands out, several records at a time.
async fn work(mut spout: Spout, tally: Arc<Tally>) -> Result<(), Error> {
    let mut handlers = JoinSet::new();
    while let Some(delivery) = spout.next().await? {
        while handlers.len() >= AT_A_TIME {
            handlers.join_next().await;
        }
        let number = number(&delivery);
        tally.delivered(number);
        handlers.spawn(handle(delivery, number, Arc::clone(&tally)));
    }
    while handlers.join_next().await.is_some() {}
    Ok(())
}

/// Every 40th order fails at first, every 400th twice.
async fn handle(delivery: Delivery, number: u32, tally: Arc<Tally>) {
    sleep(WORK).await;
    if number.is_multiple_of(40) && delivery.attempt() == 1
        || number.is_multiple_of(400) && delivery.attempt() == 2
    {
        tally.failed();
        delivery.fail("the cash register is jammed");
    } else {
        tally.done(number);
        delivery.ack();
    }
}

/// The number that stands in an order.
fn number(delivery: &Delivery) -> u32 {
    let text = delivery.value().and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.strip_prefix("order ")?.parse().ok()).unwrap_or(u32::MAX)
}

/// Writes all orders, a few at a time.
async fn write(cluster: Cluster, records: u32, tally: Arc<Tally>) -> Result<(), Error> {
    const TURNS: u32 = 100;
    let mut ticks = interval(WRITING / TURNS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut partitions = (0..PARTITIONS).cycle();
    for turn in 0..TURNS {
        ticks.tick().await;
        let of = |turn: u32| (u64::from(records) * u64::from(turn) / u64::from(TURNS)) as u32;
        let values: Vec<String> = (of(turn)..of(turn + 1)).map(|number| format!("order {number}")).collect();
        for values in values.chunks(values.len().div_ceil(PARTITIONS as usize).max(1)) {
            let set: Vec<NewRecord<'_>> =
                values.iter().map(|value| NewRecord::value(value.as_bytes())).collect();
            cluster.produce(TOPIC, partitions.next().unwrap_or(0), &set).await?;
            tally.produced(set.len() as u64);
        }
    }
    Ok(())
}

fn is_locked(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::Checkpoint(Problem::Locked { .. }))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Found, error)
}

/// A folder of its own, gone in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("downspout-demo-{}", std::process::id()));
        // Of an earlier process of that number, which was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).map_err(|why| failed(format_args!("{}: {why}", path.display())))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
