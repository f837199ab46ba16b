//! One run of a spout, from its start to its exit code.

use std::sync::Arc;
use std::time::Duration;

use downspout::client::Cluster;
use downspout::spout::{CloseReport, Health, Spout, SpoutHandle};
use downspout::{Error, ErrorKind};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::config::{Config, Loaded};
use super::ends::{Ends, Far};
use super::exec::{self, Counts, Phase, Shared, Suspects, Terms};
use super::log::Log;
use super::status::Status;
use super::voice::Voice;
use super::watch::Watch;
use super::{print, topics};
use crate::exit::{Exit, Failure};
use crate::signals::{self, Asked};
use crate::store::StoreName;
use crate::zookeeper;

/// Between two looks at what is done.
const LOOK: Duration = Duration::from_millis(100);
/// So long has the commit after the second signal.
const HASTE: Duration = Duration::from_millis(1_500);

pub(super) async fn run(loaded: &Loaded) -> Result<Exit, Failure> {
    let config = &loaded.config;
    if config.exec.is_none() && config.store.is_durable() && !config.ack_on_write {
        return Err(Failure::usage(format_args!(
            "records on standard output count as done once they are written, whatever becomes of them behind a \
             pipe, and {} keeps that: say --ack-on-write if this is wanted, or hand them to a command with --exec",
            config.store
        )));
    }
    let status = Status::new(!config.quiet && (config.exec.is_some() || !stdout_is_terminal()));
    let voice = Voice { bar: status.bar() };
    Log::install(config.log, &voice);
    let mut asked = signals::listen()?;
    let started = tokio::select! {
        started = start(loaded) => started?,
        exit = asked.first() => return Ok(exit),
    };
    let counts = Arc::new(Counts::default());
    let watch = match config.metrics {
        Some(address) => Some(Watch::start(address, started.spout.handle(), Arc::clone(&counts)).await?),
        None => None,
    };
    if let Some(watch) = &watch {
        voice.say(&format!("serving http://{}/metrics, /healthz and /readyz", watch.address));
    }
    let (phase, phases) = watch::channel(Phase::Open);
    let handle = started.spout.handle();
    let spout = Arc::new(Mutex::new(started.spout));
    let work = work(config, Arc::clone(&spout), counts, &voice, phases);
    let run = Run { config, spout, handle, phase, work, ends: started.ends, status, voice, asked };
    run.finish().await
}

struct Started {
    spout: Spout,
    ends: Option<Ends>,
}

async fn start(loaded: &Loaded) -> Result<Started, Failure> {
    let (config, target) = (&loaded.config, &loaded.target);
    let cluster: Cluster = target.cluster().await?;
    // Before anything is read, so that they are those of the start.
    let ends = match config.exit_at_end {
        true => Some(Ends::of(&cluster, &config.topics).await?),
        false => None,
    };
    let builder = match &config.store {
        StoreName::ZooKeeper(name) => {
            let session = zookeeper::session(name.servers(), target.properties.zookeeper_session).await?;
            let (store, members) = name.shared(session);
            let builder = Spout::builder(cluster).checkpoints(store);
            if config.members { builder.members(members) } else { builder }
        }
        store => {
            let store = store.store(&cluster);
            Spout::builder(cluster).checkpoints(store)
        }
    };
    let builder = builder.id(config.id()).settings(config.settings.clone());
    let spout = topics::tell(builder, &config.topics).build().await?;
    Ok(Started { spout, ends })
}

/// Starts what works on the records.
fn work(
    config: &Config,
    spout: Arc<Mutex<Spout>>,
    counts: Arc<Counts>,
    voice: &Voice,
    phase: watch::Receiver<Phase>,
) -> JoinHandle<Result<(), Failure>> {
    let Some(program) = config.exec.clone() else {
        return tokio::spawn(print::run(spout, tokio::io::stdout(), config.bytes, phase));
    };
    let terms = Terms {
        spout: config.id().to_owned(),
        concurrency: config.concurrency,
        timeout: config.exec_timeout,
        bytes: config.bytes,
    };
    let (suspects, voice) = (Suspects::default(), voice.clone());
    let shared = Arc::new(Shared { source: spout, terms, suspects, counts, voice, phase });
    tokio::spawn(exec::run(shared, program, config.workers))
}

fn stdout_is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdout())
}

struct Run<'a> {
    config: &'a Config,
    /// Dropped when it was closed, not when the work on it ends.
    spout: Arc<Mutex<Spout>>,
    handle: SpoutHandle,
    phase: watch::Sender<Phase>,
    work: JoinHandle<Result<(), Failure>>,
    ends: Option<Ends>,
    status: Status,
    voice: Voice,
    asked: Asked,
}

/// Why it ends.
enum Why {
    /// It was asked to, by a signal.
    Asked(Exit),
    /// Everything is done.
    AtEnd,
    /// Every partition stopped.
    AllStopped,
    /// The work ended by itself.
    Work(Result<(), Failure>),
    Failed(Failure),
}

impl Run<'_> {
    async fn finish(mut self) -> Result<Exit, Failure> {
        let why = self.until_it_ends().await;
        if let Why::Asked(_) = why {
            let records =
                self.handle.metrics().partitions.values().map(|it| it.window_records).sum::<usize>();
            self.voice.say(&format!(
                "closing: waiting at most {:?} for what is handed out, {records} records in the windows; a second \
                 signal ends it at once",
                self.config.settings.drain_timeout
            ));
        }
        let report = self.close().await;
        let health = self.handle.health();
        let (exit, work) = match why {
            Why::Work(work) => (Exit::Ok, work),
            Why::Asked(exit) => (exit, self.rest().await),
            Why::AtEnd | Why::AllStopped => (Exit::Ok, self.rest().await),
            Why::Failed(failure) => (Exit::Ok, self.rest().await.and(Err(failure))),
        };
        self.status.finish();
        work?;
        self.judge(exit, report, &health)
    }

    /// Until there is a reason to close.
    async fn until_it_ends(&mut self) -> Why {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                exit = self.asked.first() => return Why::Asked(exit),
                work = &mut self.work => return Why::Work(flat(work)),
                _ = looks.tick() => {}
            }
            let metrics = self.handle.metrics();
            self.status.show(&metrics);
            match self.ends.as_mut().map(|ends| ends.look(&metrics)) {
                None | Some(Far::On) => {}
                Some(Far::Done) => return Why::AtEnd,
                Some(Far::Never(failure)) => return Why::Failed(failure),
            }
            let mut partitions = metrics.partitions.values();
            if !metrics.partitions.is_empty() && partitions.all(|partition| partition.stopped.is_some()) {
                return Why::AllStopped;
            }
        }
    }

    /// Closes the spout; at a second signal with haste.
    async fn close(&mut self) -> Option<Result<CloseReport, Error>> {
        let _ = self.phase.send(Phase::Closing);
        let within = self.config.settings.drain_timeout;
        let report = tokio::select! {
            report = self.handle.close_within(within) => Some(report),
            _ = self.asked.second() => timeout(HASTE, self.handle.close_within(Duration::ZERO)).await.ok(),
        };
        // What is left is not waited for any more. It was counted before it is let go.
        match &report {
            Some(Ok(report)) if report.unfinished.is_empty() => {}
            _ => drop(self.phase.send(Phase::Over)),
        }
        if report.is_some() {
            // It sees that it was closed.
            let drained = async { while let Ok(Some(_)) = self.spout.lock().await.next().await {} };
            let _ = timeout(HASTE, drained).await;
        }
        report
    }

    /// What works on records has nothing to do any more, and ends.
    async fn rest(&mut self) -> Result<(), Failure> {
        tokio::select! {
            work = &mut self.work => return flat(work),
            _ = self.asked.second() => {}
        }
        let _ = self.phase.send(Phase::Over);
        // Commands have a second to end; a write that is stuck is left.
        timeout(HASTE, &mut self.work).await.map_or(Ok(()), flat)
    }

    /// Says what is left, and what the exit code is.
    fn judge(
        &self,
        exit: Exit,
        report: Option<Result<CloseReport, Error>>,
        health: &Health,
    ) -> Result<Exit, Failure> {
        let mut exit = exit;
        match report {
            Some(Ok(report)) => {
                for (place, count) in &report.unfinished {
                    self.voice.say(&format!(
                        "{place}: {count} records were not finished; they come again at the next start"
                    ));
                }
                for (place, count) in &report.parked {
                    self.voice.say(&format!(
                        "{place}: {count} records wait for their retry; they come again at the next start"
                    ));
                }
                for (place, why) in &report.failed {
                    self.voice.say(&format!("{place}: the position could not be kept: {why}"));
                }
                let at_end = self.ends.is_some() && exit == Exit::Ok;
                let parked = at_end && !report.parked.is_empty();
                if !report.unfinished.is_empty() || !report.failed.is_empty() || parked {
                    exit = Exit::Partly;
                }
                if report.failed.iter().any(|(_, why)| Exit::from(why) == Exit::Owner) {
                    exit = Exit::Owner;
                }
            }
            // It ended by itself, and has told why.
            Some(Err(why)) if matches!(why.kind(), ErrorKind::ClientClosed) => {}
            Some(Err(why)) => return Err(why.into()),
            None => {
                self.voice.say(
                    "the positions could not be kept in time; some records come again at the next start",
                );
                exit = Exit::Partly;
            }
        }
        for (place, why) in &health.stopped {
            self.voice.say(&format!("{place} stopped: {why}"));
        }
        Ok(if health.stopped.is_empty() || exit == Exit::Owner { exit } else { Exit::Stopped })
    }
}

/// Work that panicked has failed.
fn flat(work: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    work.unwrap_or_else(|why| Err(Failure::new(Exit::Found, why)))
}
