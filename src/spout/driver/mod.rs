//! The one task of a spout: it owns all partition managers, tells them what happens, and does what
//! they say. Whatever takes time runs beside it.
//!
//! - [`start`]: what a spout begins with
//! - [`part`]: a partition that is this task's
//! - [`assign`]: partitions that come and go
//! - [`operations`]: what runs beside the task
//! - [`commits`]: positions, to the store
//! - [`trials`]: records that run alone
//! - [`close`]: the end

mod assign;
mod close;
mod commits;
mod operations;
mod part;
mod start;
mod trials;

use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use close::Closing;
use operations::Done;
use part::Part;
pub(super) use start::start;

use super::assignment::Assignment;
use super::builder::TopicPattern;
use super::dead_letter::DeadLetterWriter;
use super::handle::{Command, CommitReport, ParkedRecord, Shared};
use super::keys::KeyLocks;
use super::lot::{AssignmentId, Grant, Lot, Mailbox, Message};
use super::membership::{Member, Share};
use super::metrics::{Health, SpoutMetrics};
use super::parked::{Millis, State};
use super::partition_manager::Effect;
use super::settings::SpoutSettings;
use super::spout::Handout;
use crate::checkpoint::{Checkpoints, Owner};
use crate::client::fetcher::inbox::{Slot, Target};
use crate::client::stream::Reader;
use crate::client::{Cluster, Item, OutOfRange, Recovered, TopicPartition};
use crate::error::{Error, ErrorKind, Result};

/// How often what is measured is looked at.
const SURVEY: Millis = 250;
/// After a sweep of acks, the next one is not begun before.
const SWEEP: Millis = 1;
/// Between commits that pressure asks for.
const HURRY: Millis = 50;

/// The driver; see the module.
pub(super) struct Driver {
    env: Arc<Env>,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    feed: Reader,
    handouts: mpsc::UnboundedSender<Handout>,
    commands: mpsc::UnboundedReceiver<Command>,
    operations: JoinSet<Done>,
    assignment: Assignment,
    /// What it is in its group, if partitions are shared.
    member: Option<Member>,
    /// Partitions that are gone from here, while their last position is on its way.
    letting_go: BTreeSet<TopicPartition>,
    held_changed: bool,
    /// Partitions that somebody else has taken since they were dealt to this member.
    fenced: BTreeSet<TopicPartition>,
    /// Why nothing is ours now.
    out_of_group: Option<String>,
    parts: BTreeMap<TopicPartition, Part>,
    /// Ours again, while they are still being let go.
    regained: BTreeSet<TopicPartition>,
    /// Locks on keys that outlive their assignment.
    keys: BTreeMap<TopicPartition, KeyLocks>,
    next_assignment: AssignmentId,
    /// When each partition wants to be looked at.
    due: BTreeSet<(Millis, TopicPartition)>,
    /// Partitions whose records run alone.
    trials: BTreeSet<TopicPartition>,
    /// The one of them that has its turn.
    turn_of: Option<TopicPartition>,
    /// Since when it is that one's.
    turn_since: Millis,
    began: Instant,
    last_sweep: Millis,
    next_commit: Millis,
    last_commit: Millis,
    committing: bool,
    /// A commit is wanted as soon as the one under way is done.
    commit_again: bool,
    next_survey: Millis,
    next_refresh: Millis,
    refreshing: bool,
    /// Who asked for a commit that has not begun.
    waiting_for_commit: Vec<oneshot::Sender<Result<CommitReport>>>,
    /// And for the one that is under way.
    waiting_for_answer: Vec<oneshot::Sender<Result<CommitReport>>>,
    closing: Option<Closing>,
}

/// What operations need.
pub(super) struct Env {
    pub(super) cluster: Cluster,
    pub(super) checkpoints: Arc<dyn Checkpoints>,
    pub(super) settings: Arc<SpoutSettings>,
    pub(super) owner: Owner,
    pub(super) topics: BTreeSet<String>,
    pub(super) patterns: Vec<TopicPattern>,
    pub(super) dead_letters: Option<DeadLetterWriter>,
}

/// What the driver sees to next.
enum Turn {
    Command(Option<Command>),
    Answers,
    Item(Result<Option<(Arc<Slot>, Item)>>),
    Done(std::result::Result<Done, tokio::task::JoinError>),
    Share(Share),
    Timer,
    /// The spout was dropped.
    Abandoned,
}

impl Driver {
    pub(super) async fn run(mut self) {
        while self.turn().await {}
        self.mailbox.close();
        for part in self.parts.values() {
            part.manager.place.closed.store(true, Ordering::Release);
        }
        self.operations.abort_all();
        self.publish();
        let Driver { shared, handouts, .. } = self;
        drop(handouts);
        shared.wake();
    }

    fn now(&self) -> Millis {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sees to one thing; false at the end.
    async fn turn(&mut self) -> bool {
        let turn = self.wait().await;
        self.mailbox.set_clock(self.now());
        match turn {
            Turn::Command(Some(command)) => self.obey(command),
            // A spout holds a handle: without one it is gone too.
            Turn::Command(None) | Turn::Abandoned => {
                if self.closing.is_none() {
                    return false;
                }
            }
            Turn::Answers => {}
            Turn::Item(Ok(Some((slot, item)))) => self.take_item(&slot, item),
            Turn::Item(Ok(None)) => {}
            Turn::Item(Err(why)) => {
                if !self.reading_failed(&why) {
                    let _ = self.handouts.send(Handout::Failed(why));
                    return false;
                }
            }
            Turn::Done(Ok(done)) => self.take_done(done),
            Turn::Done(Err(why)) => tracing::error!(%why, "an operation of the spout broke off"),
            Turn::Share(share) => self.take_share(share),
            Turn::Timer => self.ring(),
        }
        self.take_answers();
        self.see_to_trials();
        self.tell_what_is_held();
        self.go_on_closing()
    }

    async fn wait(&mut self) -> Turn {
        let wake_at = self.next_wake();
        let hold_off = self.last_sweep + SWEEP > self.now();
        self.mailbox.arm(!hold_off);
        if !hold_off && !self.mailbox.is_empty() {
            return Turn::Answers;
        }
        let closing = self.closing.is_some();
        let Driver { commands, mailbox, feed, operations, handouts, member, .. } = self;
        let reads = feed.inbox.open.load(Ordering::Acquire) > 0;
        let mut item = pin!(async {
            match reads {
                true => feed.next().await,
                false => pending().await,
            }
        });
        let mut share = pin!(async {
            match member {
                Some(member) if !closing => member.changed().await,
                _ => pending().await,
            }
        });
        let mut answers = pin!(mailbox.woken());
        let mut abandoned = pin!(handouts.closed());
        let mut timer = pin!(sleep_until(wake_at));
        poll_fn(|context| {
            if let Poll::Ready(command) = commands.poll_recv(context)
                && (command.is_some() || !closing)
            {
                return Poll::Ready(Turn::Command(command));
            }
            if !closing && abandoned.as_mut().poll(context).is_ready() {
                return Poll::Ready(Turn::Abandoned);
            }
            if answers.as_mut().poll(context).is_ready() {
                return Poll::Ready(Turn::Answers);
            }
            if let Poll::Ready(Some(done)) = operations.poll_join_next(context) {
                return Poll::Ready(Turn::Done(done));
            }
            if let Poll::Ready(share) = share.as_mut().poll(context) {
                return Poll::Ready(Turn::Share(share));
            }
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Turn::Timer);
            }
            item.as_mut().poll(context).map(Turn::Item)
        })
        .await
    }

    fn next_wake(&self) -> Instant {
        let mut at = self.next_commit.min(self.next_survey).min(self.next_refresh);
        if let Some((due, _)) = self.due.first() {
            at = at.min(*due);
        }
        if self.last_sweep + SWEEP > self.now() {
            at = at.min(self.last_sweep + SWEEP);
        }
        if let Some(closing) = &self.closing {
            at = at.min(closing.wakes_at());
        }
        // A timer counts whole milliseconds; one too early would turn in circles.
        self.began + Duration::from_millis(at.max(self.now()))
    }

    // What comes.

    fn obey(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Commit(reply) => {
                self.take_all_answers();
                self.waiting_for_commit.push(reply);
                self.commit(false);
            }
            Command::Parked(reply) => drop(reply.send(self.parked(now))),
            Command::Resume { partition, reply } => drop(reply.send(self.resume(&partition))),
            Command::Skip { partition, offset, reply } => {
                let done = match self.parts.get_mut(&partition) {
                    Some(part) => part.manager.skip(offset),
                    None => Err(not_ours(&partition)),
                };
                self.settle(&partition);
                let _ = reply.send(done);
            }
            Command::Waits => {}
            Command::Activity => {
                let active = !self.shared.inactive.load(Ordering::Acquire);
                if !active {
                    self.commit(false);
                }
                self.settle_all();
            }
            Command::Close { within, reply } => self.close(within, reply),
        }
    }

    fn parked(&self, now: Millis) -> Vec<ParkedRecord> {
        let mut all = Vec::new();
        for (partition, part) in &self.parts {
            all.extend(part.manager.parked().map(|(offset, node)| ParkedRecord {
                partition: partition.clone(),
                offset,
                failures: node.failures,
                reason: node.reason.clone(),
                due_in: match node.state() {
                    State::Waiting(due) => Duration::from_millis(due.saturating_sub(now)),
                    _ => Duration::ZERO,
                },
            }));
        }
        all
    }

    /// Takes in what deliveries have told.
    fn take_answers(&mut self) {
        if self.last_sweep + SWEEP <= self.now() || self.closing.is_some() {
            self.take_all_answers();
        }
    }

    fn take_all_answers(&mut self) {
        let now = self.now();
        let (dirty, messages) = self.mailbox.take();
        if dirty.is_empty() && messages.is_empty() {
            return;
        }
        self.last_sweep = now;
        let mut touched = BTreeSet::new();
        for lot in dirty {
            // Before its bits are looked at: later ones make it dirty again.
            lot.begin_sweep();
            let partition = place_of(&lot);
            match self.parts.get_mut(&partition) {
                Some(part) if part.manager.place.assignment == lot.place.assignment => {
                    part.manager.on_acks(&lot)
                }
                Some(part) => part.manager.on_stale(&lot, &lot.new_acks()),
                None => self.free_keys(&partition, &lot, &lot.new_acks()),
            }
            touched.insert(partition);
        }
        for Message { lot, number, word } in messages {
            let partition = place_of(&lot);
            match self.parts.get_mut(&partition) {
                Some(part) if part.manager.place.assignment == lot.place.assignment => {
                    part.manager.on_word(&lot, number, word, now);
                }
                Some(part) => part.manager.on_stale(&lot, &[number]),
                None => self.free_keys(&partition, &lot, &[number]),
            }
            touched.insert(partition);
        }
        for partition in touched {
            self.settle(&partition);
        }
    }

    /// A delivery of a partition that is not ours any more was answered.
    fn free_keys(&mut self, partition: &TopicPartition, lot: &Lot, numbers: &[u32]) {
        let Some(keys) = self.keys.get_mut(partition) else { return };
        for number in numbers {
            keys.release(lot.holder(*number));
        }
        if keys.is_empty() {
            self.keys.remove(partition);
        }
    }

    fn take_item(&mut self, slot: &Arc<Slot>, item: Item) {
        let partition = TopicPartition::new(Arc::clone(&slot.topic), slot.partition);
        let now = self.now();
        let Some(part) = self.parts.get_mut(&partition) else { return };
        match item {
            Item::Batch(batch) => part.manager.on_batch(batch, now),
            Item::Recovered(event) => {
                tracing::warn!(topic = %slot.topic, partition = slot.partition, %event, "recovered");
                if let Recovered::OutOfRange { why: OutOfRange::Recreated { new, .. }, .. } = &event {
                    part.topic_id = Some(*new);
                }
                part.manager.on_recovered(&event);
            }
            Item::Raw(_, why) => part.manager.stop(format!("damaged: {why}")),
        }
        self.settle(&partition);
    }

    /// A partition cannot be read. False if that is about the whole spout.
    fn reading_failed(&mut self, why: &Error) -> bool {
        let (Some(topic), Some(number)) = (why.topic(), why.partition()) else { return false };
        let partition = TopicPartition::new(topic, number);
        if let Some(part) = self.parts.get_mut(&partition) {
            part.manager.stop(why.to_string());
            self.settle(&partition);
        }
        true
    }

    fn ring(&mut self) {
        let now = self.now();
        while let Some((due, partition)) = self.due.first().cloned()
            && due <= now
        {
            self.due.pop_first();
            if let Some(part) = self.parts.get_mut(&partition) {
                part.due = None;
            }
            self.settle(&partition);
        }
        if now >= self.next_survey {
            self.next_survey = now + SURVEY;
            self.survey();
        }
        if now >= self.next_refresh {
            self.next_refresh = now + in_millis(self.env.settings.refresh_interval).max(1);
            if self.closing.is_none() {
                self.refresh();
            }
        }
        if now >= self.next_commit {
            self.commit(false);
        }
    }

    // What is done.

    fn is_active(&self) -> bool {
        self.closing.is_none() && !self.shared.inactive.load(Ordering::Acquire)
    }

    fn settle_all(&mut self) {
        let all: Vec<TopicPartition> = self.parts.keys().cloned().collect();
        for partition in all {
            self.settle(&partition);
        }
    }

    /// Lets a manager go on, and does what it says.
    fn settle(&mut self, partition: &TopicPartition) {
        let now = self.now();
        let active = self.is_active();
        let keeps_extras = self.env.checkpoints.keeps_extras() && !self.env.settings.compat_storm;
        let calm = self.is_calm_for(partition);
        let Some(part) = self.parts.get_mut(partition) else { return };
        let is_held = part.manager.is_uncommitted_for_long(now);
        if active && !is_held && calm.is_some() && part.slot.is_some() {
            part.manager.pump(now, calm == Some(true));
        }
        let mut commit = false;
        for effect in part.manager.take_effects() {
            match effect {
                Effect::Grant(grant) => hand_over(&self.shared, &self.handouts, grant),
                Effect::Seek(offset) => {
                    if let Some(slot) = &part.slot {
                        slot.redirect(Target::Seek(part.manager.reads_from(offset)));
                        self.feed.fetcher.look(slot.key);
                    }
                }
                Effect::Stop => {
                    if let Some(slot) = &part.slot {
                        slot.redirect(Target::End);
                        self.feed.fetcher.look(slot.key);
                    }
                }
                Effect::Commit => commit = true,
                Effect::Refetch(offsets) => {
                    let (env, assignment) = (Arc::clone(&self.env), part.manager.place.assignment);
                    self.operations.spawn(operations::refetch(env, partition.clone(), assignment, offsets));
                }
                Effect::DeadLetter(letter) => {
                    let (env, assignment) = (Arc::clone(&self.env), part.manager.place.assignment);
                    self.operations.spawn(operations::dead_letter(
                        env,
                        partition.clone(),
                        assignment,
                        *letter,
                    ));
                }
            }
        }
        let wants = active && !is_held && part.manager.wants_more();
        if let Some(slot) = &part.slot
            && wants != part.reading
        {
            part.reading = wants;
            match wants {
                true => {
                    slot.resume();
                    self.feed.fetcher.look(slot.key);
                }
                false => slot.pause(),
            }
        }
        if !wants && active && keeps_extras && part.manager.a_commit_would_help() {
            commit |= now >= self.last_commit + HURRY;
            self.next_commit = self.next_commit.min(self.last_commit + HURRY);
        }
        let may = active && !is_held && calm.is_some_and(|calm| calm || !part.manager.is_alone());
        let due = part.manager.next_due().filter(|_| may).map(|due| due.max(now + 1));
        if due != part.due {
            if let Some(before) = std::mem::replace(&mut part.due, due) {
                self.due.remove(&(before, partition.clone()));
            }
            if let Some(due) = due {
                self.due.insert((due, partition.clone()));
            }
        }
        if commit {
            self.commit(false);
        }
    }

    /// Looks at what no event tells: what is old, what is full, where reading has come to.
    fn survey(&mut self) {
        let now = self.now();
        let all: Vec<TopicPartition> = self.parts.keys().cloned().collect();
        for partition in all {
            let Some(part) = self.parts.get_mut(&partition) else { continue };
            part.reached();
            part.manager.look_for_old(now);
            part.manager.relieve(now);
            part.feel_pressure(now, &partition);
            self.settle(&partition);
        }
        self.let_go_of_lost();
        self.publish();
    }

    /// Shows how things are.
    fn publish(&self) {
        let now = self.now();
        let mut metrics = SpoutMetrics { active: self.is_active(), ..SpoutMetrics::default() };
        let mut health = Health { ready: self.is_active(), ..Health::default() };
        if self.closing.is_some() {
            health.why = Some("it is closing, or closed".to_owned());
        } else if !self.is_active() {
            health.why = Some("it is deactivated".to_owned());
        } else if let Some(why) = &self.out_of_group {
            health.ready = false;
            health.why = Some(why.clone());
        }
        for (partition, part) in &self.parts {
            let mut of = part.manager.metrics(now);
            if let Some(slot) = &part.slot {
                (of.earliest, of.latest) = slot.ends();
                let fetches = slot.fetches();
                of.fetches = fetches.count;
                of.fetch_latency_max = fetches.longest;
                of.fetch_latency_mean = fetches.mean;
            }
            of.paused = of.paused.or_else(|| part.pressure.as_ref().map(|pressure| pressure.why.clone()));
            if let Some(why) = &of.stopped {
                health.stopped.insert(partition.clone(), why.clone());
                health.ready = false;
                health.why.get_or_insert_with(|| format!("{partition} stopped: {why}"));
            } else if let Some(why) = &of.paused {
                health.paused.insert(partition.clone(), why.clone());
            }
            metrics.partitions.insert(partition.clone(), of);
        }
        self.shared.show(metrics, health);
    }
}

fn hand_over(shared: &Shared, handouts: &mpsc::UnboundedSender<Handout>, grant: Grant) {
    shared.waits.store(false, Ordering::SeqCst);
    // A spout that is gone is seen by itself.
    let _ = handouts.send(Handout::Grant(grant));
}

fn place_of(lot: &Lot) -> TopicPartition {
    TopicPartition::new(Arc::clone(&lot.place.topic), lot.place.partition)
}

fn not_ours(partition: &TopicPartition) -> Error {
    Error::new(ErrorKind::Config("the spout does not have this partition".to_owned()))
        .with_topic(&*partition.topic)
        .with_partition(partition.partition)
}

fn in_millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}
