use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::asks::{Answers, Ask, ask};
use super::budget::{Budget, Key, Reservation};
use super::inbox::{Slot, Target};
use super::lanes::BrokerLanes;
use super::partition::{Partition, Phase};
use super::request::Plan;
use super::{Command, Growing};
use crate::client::cluster::{Picture, Shared, TopicState};
use crate::client::stream::{EndOffset, Recovered, StartOffset};
use crate::error::{ErrorKind, Result};
use crate::net::{Backoff, Connection};
use crate::protocol::FetchResponse;

/// The engine; see the module.
pub(super) struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) budget: Budget,
    pub(super) partitions: BTreeMap<Key, Partition>,
    pub(super) brokers: BTreeMap<i32, BrokerLanes>,
    pub(super) picture: Arc<Picture>,
    /// Metadata that are newer than `picture` are wanted.
    pub(super) wants_refresh: bool,
    refreshing: bool,
    /// Questions that leave together.
    pub(super) asks: BTreeMap<i32, Vec<Ask>>,
    /// Brokers that may have something to do.
    pub(super) stirred: BTreeSet<i32>,
    pub(super) operations: JoinSet<Done>,
    timers: BTreeMap<(Instant, u64), Timer>,
    next_timer: u64,
    /// Number of the last operation of any lane: an answer to one of an earlier life of a lane is none of the new one's.
    pub(super) next_turn: u64,
    /// Fetches that are late, by broker and lane, with their turn.
    pub(super) late: BTreeMap<(i32, usize), u64>,
    growing: Vec<Growing>,
    keys: Arc<AtomicU64>,
    commands: mpsc::UnboundedReceiver<Command>,
}

/// What the engine's task has to see to next.
enum Turn {
    /// `None`: the last handle is gone.
    Command(Option<Command>),
    Done(std::result::Result<Done, JoinError>),
    Freed,
    Timer,
}

/// An operation that is done.
pub(super) enum Done {
    Refreshed(Result<Arc<Picture>>),
    Opened { broker: i32, lane: usize, turn: u64, connection: Result<Connection> },
    Fetched(Box<Fetched>),
    Told { broker: i32, answers: Answers },
}

/// A fetch that is done.
pub(super) struct Fetched {
    pub(super) broker: i32,
    pub(super) lane: usize,
    pub(super) turn: u64,
    pub(super) version: i16,
    pub(super) in_session: bool,
    pub(super) plan: Plan,
    pub(super) response: Result<FetchResponse>,
    /// How long it took.
    pub(super) took: Duration,
    pub(super) reserved: Reservation,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Timer {
    /// A partition tries again.
    Partition(Key),
    /// A broker is tried again.
    Broker(i32),
    /// A fetch has taken longer than it was told to: perhaps another broker leads by now.
    Overdue { broker: i32, lane: usize, turn: u64 },
    /// Metadata are old.
    Metadata(u64),
}

/// A timer that is set for later than this need not ring.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// When metadata are asked for again that could not be read when they were due.
const AGAIN: Duration = Duration::from_secs(10);
/// Waits of a partition between tries.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) };

impl Engine {
    pub(super) fn new(
        shared: Arc<Shared>,
        budget: Budget,
        keys: Arc<AtomicU64>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let picture = shared.picture();
        Engine {
            shared,
            budget,
            partitions: BTreeMap::new(),
            brokers: BTreeMap::new(),
            picture,
            wants_refresh: false,
            refreshing: false,
            asks: BTreeMap::new(),
            stirred: BTreeSet::new(),
            operations: JoinSet::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            next_turn: 0,
            late: BTreeMap::new(),
            growing: Vec::new(),
            keys,
            commands,
        }
    }

    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self) {
        self.watch_age();
        loop {
            self.act();
            match self.next_turn().await {
                Turn::Command(Some(command)) => self.obey(command),
                Turn::Command(None) => return,
                Turn::Done(done) => self.take_done(done),
                Turn::Freed => self.drained(),
                Turn::Timer => self.ring(),
            }
            // What else is there by now, so that brokers are looked at once for all of it.
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command);
            }
            while let Some(done) = self.operations.try_join_next() {
                self.take_done(done);
            }
        }
    }

    /// Waits for what comes first; of several things for the first in this order, so that a simulation
    /// runs the same twice.
    async fn next_turn(&mut self) -> Turn {
        let next_timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let budget = self.budget.clone();
        let mut freed = pin!(budget.freed());
        let mut timer = pin!(async move {
            match next_timer {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        });
        poll_fn(|cx| {
            if let Poll::Ready(command) = self.commands.poll_recv(cx) {
                return Poll::Ready(Turn::Command(command));
            }
            if let Poll::Ready(Some(done)) = self.operations.poll_join_next(cx) {
                return Poll::Ready(Turn::Done(done));
            }
            if freed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Turn::Freed);
            }
            timer.as_mut().poll(cx).map(|()| Turn::Timer)
        })
        .await
    }

    /// Starts what is to be started.
    fn act(&mut self) {
        if self.wants_refresh && !self.refreshing {
            self.wants_refresh = false;
            self.refreshing = true;
            let (shared, seen) = (Arc::clone(&self.shared), self.picture.serial);
            self.operations.spawn(async move { Done::Refreshed(shared.refresh(seen).await) });
        }
        for (broker, asks) in std::mem::take(&mut self.asks) {
            let shared = Arc::clone(&self.shared);
            self.operations
                .spawn(async move { Done::Told { broker, answers: ask(shared, broker, asks).await } });
        }
        while let Some(broker) = self.stirred.pop_first() {
            self.dispatch(broker);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(partition) => self.add(*partition),
            Command::Grow(growing) => self.growing.push(growing),
            Command::Look(key) => self.look(key),
            Command::Remove(keys) => keys.into_iter().for_each(|key| self.remove(key)),
        }
    }

    fn add(&mut self, partition: Partition) {
        let key = partition.key();
        let wanted = usize::try_from(partition.options.partition_bytes).unwrap_or(usize::MAX);
        self.budget.open_account(key, self.budget.share(wanted.saturating_mul(2)));
        self.shared.want_topic(partition.topic());
        if self.picture.topic(partition.topic()).is_none() {
            let picture = self.shared.picture();
            if picture.serial != self.picture.serial {
                self.look_at(picture);
            }
        }
        self.partitions.insert(key, partition);
        self.watch(key);
    }

    fn remove(&mut self, key: Key) {
        let Some(partition) = self.partitions.remove(&key) else { return };
        self.shared.forget_topic(partition.topic());
        self.budget.close_account(key);
        for lanes in self.brokers.values_mut() {
            lanes.forget(key);
        }
        self.growing.retain(|growing| growing.inbox.strong_count() > 0);
        if self.partitions.is_empty() {
            // With nothing to fetch, connections for it are not kept.
            self.brokers.clear();
        }
    }

    /// A reader has sought, resumed, or asks again.
    fn look(&mut self, key: Key) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let (generation, target) = partition.slot.take_target();
        let is_new = generation != partition.generation;
        partition.generation = generation;
        match target {
            Some(Target::Seek(start)) => {
                partition.jump(-1);
                partition.start = Some(start);
                partition.second_try = None;
                // A seek is a decision: the topic that is there now is meant.
                partition.topic_id = None;
                partition.recreated = None;
            }
            Some(Target::End) => {
                partition.phase = Phase::Ended;
                return;
            }
            Some(Target::Again(offset)) => {
                partition.jump(offset);
                partition.start = None;
                partition.second_try = Some(offset);
                self.read_elsewhere(key);
            }
            None => {}
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if is_new || partition.phase == Phase::Reader {
            partition.phase = Phase::New;
        }
        // Also takes the topic's id and its leader as they are by now.
        self.watch(key);
    }

    /// What is damaged on one replica may be whole on another, where consumers may read there
    /// (KIP-392).
    fn read_elsewhere(&mut self, key: Key) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let Some(leader) = partition.leader else { return };
        let Some(TopicState::Known(topic)) = self.picture.topic(partition.topic()) else { return };
        let Some(known) = usize::try_from(partition.number()).ok().and_then(|at| topic.partitions.get(at))
        else {
            return;
        };
        let reads_followers = self.brokers.get(&leader.broker).is_some_and(|lanes| lanes.reads_followers());
        let source = partition.source(Instant::now());
        if source != Some(leader.broker) {
            partition.follower = None;
        } else if reads_followers
            && let Some(&other) = known
                .replicas
                .iter()
                .find(|id| **id != leader.broker && self.picture.brokers.contains_key(*id))
        {
            partition.follower = Some((other, Instant::now() + Duration::from_secs(5)));
        }
    }

    /// Buffers were read.
    fn drained(&mut self) {
        for key in self.budget.take_drained() {
            if let Some(partition) = self.partitions.get_mut(&key)
                && partition.phase == Phase::Full
            {
                partition.phase = Phase::New;
                self.settle(key);
            }
        }
        // Those that lacked room are still in line.
        let waiting =
            self.brokers.iter().filter(|(_, lanes)| !lanes.hot.is_empty() || !lanes.quiet.is_empty());
        self.stirred.extend(waiting.map(|(id, _)| *id));
    }

    fn take_done(&mut self, done: std::result::Result<Done, JoinError>) {
        match done {
            Ok(Done::Refreshed(picture)) => self.refreshed(picture),
            Ok(Done::Opened { broker, lane, turn, connection }) => {
                self.opened(broker, lane, turn, connection)
            }
            Ok(Done::Fetched(fetched)) => self.fetched(*fetched),
            Ok(Done::Told { broker, answers }) => {
                for (ask, told) in answers {
                    self.told(broker, ask, told);
                }
            }
            Err(why) => tracing::error!(%why, "an operation of the fetcher broke off"),
        }
    }

    fn refreshed(&mut self, picture: Result<Arc<Picture>>) {
        self.refreshing = false;
        match picture {
            Ok(picture) => self.look_at(picture),
            Err(why) if matches!(why.kind(), ErrorKind::ClientClosed) => {
                for partition in self.partitions.values_mut().filter(|found| found.phase == Phase::NoLeader) {
                    partition.fail(why.clone());
                }
            }
            Err(why) => {
                let now = Instant::now();
                // Whoever waits for its age only would wait for ever.
                let again = self.shared.settings.metadata_max_age.min(AGAIN);
                self.set_timer(again, Timer::Metadata(self.picture.serial));
                for partition in self.partitions.values_mut().filter(|found| found.phase == Phase::NoLeader) {
                    partition.failed(now, &why);
                    self.wants_refresh = true;
                }
            }
        }
    }

    /// Takes in a newer picture of the cluster.
    pub(super) fn look_at(&mut self, picture: Arc<Picture>) {
        self.picture = picture;
        self.watch_age();
        self.grow();
        let keys: Vec<Key> = self.partitions.keys().copied().collect();
        for key in keys {
            self.watch(key);
        }
        self.give_up_overdue();
    }

    /// Reads partitions that a topic has more of than before.
    fn grow(&mut self) {
        for growing in &mut self.growing {
            let (Some(TopicState::Known(topic)), Some(inbox)) =
                (self.picture.topic(&growing.topic), growing.inbox.upgrade())
            else {
                continue;
            };
            let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
            if count <= growing.known {
                continue;
            }
            let added = std::mem::replace(&mut growing.known, count)..count;
            for number in added.clone() {
                let key = self.keys.fetch_add(1, Ordering::Relaxed);
                let slot = Slot::new(key, Arc::clone(&growing.topic), number, Arc::clone(&inbox));
                inbox.adopt(&slot);
                let mut partition = Partition::new(
                    slot,
                    Arc::clone(&growing.options),
                    StartOffset::Earliest,
                    EndOffset::Never,
                );
                if number == added.start {
                    partition.report(Recovered::PartitionsAdded { added: added.clone() });
                }
                let wanted = usize::try_from(partition.options.partition_bytes).unwrap_or(usize::MAX);
                self.budget.open_account(key, self.budget.share(wanted.saturating_mul(2)));
                self.shared.want_topic(partition.topic());
                self.partitions.insert(key, partition);
            }
        }
    }

    // Timers.

    /// Calls back after a while; gives the timer's number.
    pub(super) fn set_timer(&mut self, after: Duration, timer: Timer) -> u64 {
        self.next_timer += 1;
        self.timers.insert((Instant::now() + after.min(NEVER), self.next_timer), timer);
        self.next_timer
    }

    /// How long a partition or broker waits after so many failures; a little more or less by chance.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        BACKOFF.after(failures)
    }

    fn watch_age(&mut self) {
        let age = self.shared.settings.metadata_max_age;
        self.set_timer(age, Timer::Metadata(self.picture.serial));
    }

    fn ring(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            let number = entry.key().1;
            match entry.remove() {
                Timer::Partition(key) => {
                    if let Some(partition) = self.partitions.get_mut(&key)
                        && partition.phase == Phase::Waiting(number)
                    {
                        partition.phase = Phase::New;
                        self.settle(key);
                    }
                }
                Timer::Broker(broker) => {
                    self.stirred.insert(broker);
                }
                Timer::Overdue { broker, lane, turn } => self.overdue(broker, lane, turn),
                Timer::Metadata(serial) if serial != self.picture.serial => {}
                Timer::Metadata(_) if self.partitions.is_empty() => self.watch_age(),
                Timer::Metadata(_) => self.wants_refresh = true,
            }
        }
    }
}
