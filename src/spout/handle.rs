use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::metrics::{Health, SpoutMetrics};
use crate::client::TopicPartition;
use crate::error::{Error, ErrorKind, Result};

/// Looks at a spout and steers it, from anywhere; cheap to clone.
#[derive(Debug, Clone)]
pub struct SpoutHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

/// What the spout, its handles and its driver share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) inactive: AtomicBool,
    /// Somebody waits for a record, and none is on its way.
    pub(super) waits: AtomicBool,
    /// Records run alone: the driver wants to hear when somebody waits.
    pub(super) trial: AtomicBool,
    /// Who waits for it to change.
    waker: Mutex<Option<Waker>>,
    /// As of the driver's last turn.
    snapshot: Mutex<Snapshot>,
}

impl Shared {
    /// Wakes this when there is news.
    pub(super) fn register(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Takes in how things are.
    pub(super) fn show(&self, metrics: SpoutMetrics, health: Health) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Snapshot { metrics, health };
    }

    pub(super) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Snapshot {
    metrics: SpoutMetrics,
    health: Health,
}

/// What handles ask of the driver.
#[derive(Debug)]
pub(super) enum Command {
    Commit(oneshot::Sender<Result<CommitReport>>),
    Parked(oneshot::Sender<Vec<ParkedRecord>>),
    Resume {
        partition: TopicPartition,
        reply: oneshot::Sender<Result<()>>,
    },
    Skip {
        partition: TopicPartition,
        offset: i64,
        reply: oneshot::Sender<Result<()>>,
    },
    Activity,
    /// Somebody waits for a record.
    Waits,
    Close {
        within: Duration,
        reply: oneshot::Sender<Result<CloseReport>>,
    },
}

/// A commit that was asked for.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CommitReport {
    /// Partitions, and the position that the store has now.
    pub committed: Vec<(TopicPartition, i64)>,
    /// Partitions whose position could not be kept, and why.
    pub failed: Vec<(TopicPartition, Error)>,
}

/// How a spout was left.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Partitions, and the position that the store has.
    pub committed: Vec<(TopicPartition, i64)>,
    /// Partitions whose position could not be kept, and why.
    pub failed: Vec<(TopicPartition, Error)>,
    /// Records that were handed out and not answered in time, by partition.
    pub unfinished: Vec<(TopicPartition, u64)>,
    /// Records that waited for their retry, by partition.
    pub parked: Vec<(TopicPartition, u64)>,
}

/// A record that waits for its retry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParkedRecord {
    /// Topic and partition.
    pub partition: TopicPartition,
    /// The record.
    pub offset: i64,
    /// How often it has failed.
    pub failures: u32,
    /// Why it failed last.
    pub reason: String,
    /// In how long it is due; zero if it is due and waits for room.
    pub due_in: Duration,
}

impl SpoutHandle {
    /// Commits now, and says what the store has then.
    pub async fn commit_now(&self) -> Result<CommitReport> {
        self.ask(Command::Commit).await?
    }

    /// Goes on handing out after [`deactivate`](Self::deactivate).
    pub fn activate(&self) {
        self.set_active(true);
    }

    /// Hands nothing out, and commits, until [`activate`](Self::activate). What was handed out may
    /// still be answered.
    pub fn deactivate(&self) {
        self.set_active(false);
    }

    fn set_active(&self, active: bool) {
        self.shared.inactive.store(!active, Ordering::Release);
        self.shared.wake();
        let _ = self.commands.send(Command::Activity);
    }

    /// What is measured, as of a moment ago. Does no I/O.
    pub fn metrics(&self) -> SpoutMetrics {
        self.snapshot().metrics
    }

    /// Whether it works, and what does not. Does no I/O.
    pub fn health(&self) -> Health {
        self.snapshot().health
    }

    fn snapshot(&self) -> Snapshot {
        self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The records that wait for their retry.
    pub async fn parked(&self) -> Result<Vec<ParkedRecord>> {
        self.ask(Command::Parked).await
    }

    /// Goes on with a partition that stopped, at its commit point.
    pub async fn resume(&self, topic: &str, partition: i32) -> Result<()> {
        let partition = TopicPartition::new(topic, partition);
        self.ask(|reply| Command::Resume { partition, reply }).await?
    }

    /// Counts a record as done that is not: one that blocks its partition.
    pub async fn skip(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let partition = TopicPartition::new(topic, partition);
        self.ask(|reply| Command::Skip { partition, offset, reply }).await?
    }

    /// Stops taking in, waits at most that long for what was handed out, commits, and says what stayed
    /// unfinished. [`Spout::next`](super::Spout::next) gives `None` then.
    pub async fn close_within(&self, within: Duration) -> Result<CloseReport> {
        self.ask(|reply| Command::Close { within, reply }).await?
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::ClientClosed);
        self.commands.send(command(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}
