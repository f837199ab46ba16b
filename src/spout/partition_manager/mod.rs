//! One partition: what was taken in, handed out, failed and done, and where its commit point stands.
//! A plain state machine: it is told what happened and what time it is, and says what is to be done.

mod answers;
mod hand_out;
mod offer;
mod trial;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::commit::Commit;
use super::counters::Counters;
use super::dead_letter::{Breaker, Letter};
use super::keys::{Holder, KeyLocks};
use super::lot::{Grant, Lot, Place};
use super::metrics::PartitionMetrics;
use super::parked::{Millis, Node, Parked, State};
use super::retry::Retry;
use super::settings::{OnExhausted, OnPoison, Order, SpoutSettings};
use super::window::{Offsets, Standing, Window};
use crate::checkpoint::{Extras, Unfinished};
use crate::client::{OutOfRange, Recovered, StartOffset};
use crate::error::{Error, Result};
use crate::records::Batch;
use trial::{Step, Trial, Verdict};

/// What is to be done for a partition.
#[derive(Debug)]
pub(super) enum Effect {
    /// Hand these out.
    Grant(Grant),
    /// Read on from there; what was read beyond is void.
    Seek(i64),
    /// Fetch these again, in order.
    Refetch(Vec<i64>),
    /// Send this to the dead-letter topic.
    DeadLetter(Box<Letter>),
    /// Commit without waiting for the interval.
    Commit,
    /// The partition has stopped: read no more of it.
    Stop,
}

/// A partition under one assignment.
pub(super) struct PartitionManager {
    pub(super) place: Arc<Place>,
    settings: Arc<SpoutSettings>,
    window: Window,
    parked: Parked,
    keys: Option<KeyLocks>,
    retry: Retry,
    /// Done beyond the position that was loaded, as far as intake has not passed it.
    restored: Vec<Range<i64>>,
    /// Records below were handed out before, in an earlier life or before a rewind, as far as is known.
    known_until: i64,
    /// What is known of records from before, until they come in.
    prior: BTreeMap<i64, Unfinished>,
    /// Records that were tried in an earlier life and do not stand in line for their keys yet.
    unlined: BTreeMap<i64, Option<Box<[u8]>>>,
    trial: Trial,
    /// What the last offer said of it.
    verdict: Option<Verdict>,
    breaker: Option<Breaker>,
    /// The latest epoch of a leader that wrote anything read: a position is proven with a later one too.
    leader_epoch: Option<i32>,
    /// Likewise, of the life that told of `restored`: what a later leader wrote was not there then.
    restored_epoch: Option<i32>,
    pub(super) commit: Commit,
    pub(super) counters: Counters,
    stopped: Option<String>,
    /// Nothing new is handed out: the spout closes, or is losing the partition.
    draining: bool,
    effects: Vec<Effect>,
}

/// What a partition begins with.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    /// Next offset to read.
    pub(super) offset: i64,
    /// What was kept beside it and fits the log.
    pub(super) extras: Extras,
    /// The store has a position.
    pub(super) stored: bool,
    /// That position, where it is another one: the log is not what it was.
    pub(super) fell_from: Option<i64>,
}

impl PartitionManager {
    pub(super) fn new(
        place: Arc<Place>,
        settings: &Arc<SpoutSettings>,
        start: Start,
        keys: Option<KeyLocks>,
        now: Millis,
    ) -> Self {
        let Start { offset, extras, stored, fell_from } = start;
        let trial = Trial::new(extras.deaths, settings.window.records);
        if trial.is_alone() {
            tracing::warn!(topic = %place.topic, partition = place.partition, offset, deaths = extras.deaths, "the process died again and again with records of this partition: its next ones run alone, one at a time");
        }
        let keys = match settings.order {
            Order::Any => None,
            Order::ByKey { .. } => Some(keys.unwrap_or_default()),
        };
        let breaker = match &settings.on_exhausted {
            Some(OnExhausted::DeadLetter(letters)) => Some(Breaker::new(letters.break_at)),
            _ => None,
        };
        PartitionManager {
            retry: Retry::new(&settings.retry, &place),
            settings: Arc::clone(settings),
            window: Window::new(offset),
            parked: Parked::default(),
            keys,
            prior: extras.unfinished.iter().map(|one| (one.offset, *one)).collect(),
            restored: extras.done,
            known_until: extras.intake.unwrap_or(offset),
            leader_epoch: extras.leader_epoch,
            restored_epoch: extras.leader_epoch,
            unlined: BTreeMap::new(),
            trial,
            verdict: None,
            breaker,
            commit: Commit::new(offset, stored.then(|| fell_from.unwrap_or(offset)), extras.serial, now),
            counters: Counters::default(),
            stopped: None,
            draining: false,
            effects: Vec::new(),
            place,
        }
    }

    // What happens.

    /// A batch has been read.
    pub(super) fn on_batch(&mut self, batch: Batch, now: Millis) {
        if self.stopped.is_some() || batch.next_offset() <= self.window.intake() {
            return;
        }
        let epoch = batch.header().map(|header| header.partition_leader_epoch).filter(|epoch| *epoch >= 0);
        self.leader_epoch = self.leader_epoch.max(epoch);
        let index = batch.index();
        let end = batch.next_offset();
        let damage = index.damage.first().cloned();
        let contiguous = index.contiguous;
        let mut positions = index.positions;
        // Up to where the batch could be read.
        let mut reached = end;
        if let Some(why) = &damage {
            match self.settings.on_poison {
                OnPoison::Skip => {
                    let lost: u64 = index
                        .damage
                        .iter()
                        .map(|why| why.next_offset.map_or(1, |next| next.abs_diff(why.first_offset)))
                        .sum();
                    self.counters.lost += lost;
                    tracing::warn!(topic = %self.place.topic, partition = self.place.partition, %why, "passed over damage");
                }
                OnPoison::Stop | OnPoison::GiveUp => {
                    let first = why.first_offset;
                    positions.retain(|at| batch.record_at(*at).is_some_and(|record| record.offset() < first));
                    reached = first;
                }
            }
        }
        self.counters.messages += positions.len() as u64;
        if !positions.is_empty() {
            let lot = Lot::new(&self.place, batch, positions);
            let offsets = Offsets::of(&lot, contiguous);
            if self.restored_epoch.zip(epoch).is_some_and(|(restored, epoch)| epoch > restored) {
                // All from here on is by later leaders: what was known lay above the end of their log.
                self.restored.clear();
                self.prior.clear();
            }
            let is_done = |offset| runs_hold(&self.restored, offset);
            let (first, last) = (offsets.first, lot.offset(lot.len() - 1));
            let restored = self.window.take_in(Arc::clone(&lot), offsets, reached, is_done);
            if first < self.known_until {
                let known = (0..lot.len()).filter(|number| lot.offset(*number) < self.known_until).count();
                self.counters.duplicates += (known as u64).saturating_sub(restored.into());
            }
            self.take_prior(first..=last, &lot, now);
        }
        self.window.pass_to(reached);
        let intake = self.window.intake();
        self.restored.retain(|run| run.end > intake);
        if let (Some(why), true) = (damage, reached < end) {
            self.stop(format!("offset {reached} cannot be read: {why}"));
        }
    }

    /// Reading has come so far, with nothing in between.
    pub(super) fn on_reached(&mut self, position: i64) {
        if self.stopped.is_none() && position > self.window.intake() {
            self.window.pass_to(position);
            self.restored.retain(|run| run.end > position);
        }
    }

    /// Something happened to the position.
    pub(super) fn on_recovered(&mut self, event: &Recovered) {
        match event {
            Recovered::OutOfRange { position, resumed_at, why: OutOfRange::BelowStart { .. } } => {
                self.counters.lost += event.lost();
                if resumed_at >= position {
                    self.prune_below(*resumed_at);
                } else {
                    self.reset(*resumed_at);
                }
            }
            Recovered::OutOfRange { resumed_at, .. } => {
                self.counters.lost += event.lost();
                self.reset(*resumed_at);
            }
            Recovered::Truncated { diverged_at, .. } => self.void_from(*diverged_at),
            Recovered::Corrupt(_) => self.counters.lost += event.lost(),
            _ => {}
        }
    }

    /// Records below are gone from the log.
    pub(super) fn prune_below(&mut self, offset: i64) {
        let gone = self.parked.drop_range(..offset);
        let mut voided = self.void_parked(gone);
        for (lot, open) in self.window.running() {
            let mut below = open.filter(|(_, at)| *at < offset).peekable();
            while let Some((number, _)) = below.next() {
                if below.peek().is_none() {
                    lot.cut_below(number + 1);
                }
                if self.keys.is_some() {
                    voided.push((lot.holder(number), Some((Arc::clone(lot), number))));
                }
            }
        }
        self.retry.clear_before(offset);
        self.prior = self.prior.split_off(&offset);
        self.unlined = self.unlined.split_off(&offset);
        self.trial.prune_below(offset);
        let pruned = self.window.prune_below(offset);
        self.release_never_out(voided);
        self.counters.lost += pruned as u64;
        self.restored.retain(|run| run.end > offset);
        if pruned > 0 {
            tracing::warn!(
                topic = %self.place.topic, partition = self.place.partition, offset, lost = pruned,
                "records that were not done are gone from the log, which starts at this offset now"
            );
        }
        self.commit.changed();
    }

    /// What lies from that offset on is another log's, or comes again.
    fn void_from(&mut self, offset: i64) {
        if let Some(keys) = &mut self.keys {
            keys.forget_waiting(offset);
        }
        let gone = self.parked.drop_range(offset..);
        let mut voided = self.void_parked(gone);
        if self.keys.is_some() {
            for (lot, open) in self.window.running() {
                let above = open.filter(|(_, at)| *at >= offset);
                voided.extend(above.map(|(number, _)| (lot.holder(number), Some((Arc::clone(lot), number)))));
            }
        }
        self.window.void_from(offset);
        self.known_until = self.known_until.min(offset);
        self.release_never_out(voided);
        self.prior.split_off(&offset);
        self.unlined.split_off(&offset);
        self.restored.retain_mut(|run| {
            run.end = run.end.min(offset);
            run.start < run.end
        });
        self.trial.void_from(offset);
        self.commit.fell_to(self.window.commit_point());
    }

    /// Records that were tried before are void.
    fn void_parked(&self, gone: Vec<(i64, Node)>) -> Vec<Voided> {
        let void = |(offset, node): (i64, Node)| {
            if let Some(lot) = &node.lot {
                lot.cut(0);
            }
            (self.holder(node.parent, offset), node.lot.map(|lot| (lot, 0)))
        };
        gone.into_iter().map(void).collect()
    }

    /// Of records that are void now, those that were not handed out will not be; the others hold their
    /// keys until they are answered.
    fn release_never_out(&mut self, voided: Vec<Voided>) {
        for (record, granted) in voided {
            if granted.is_none_or(|(lot, number)| lot.handed_at(number).is_none()) {
                self.free_key(record);
            }
        }
    }

    /// Another log: nothing of the old one counts any more.
    fn reset(&mut self, offset: i64) {
        tracing::warn!(topic = %self.place.topic, partition = self.place.partition, offset, "the position was reset");
        self.void_from(i64::MIN);
        self.window = Window::new(offset);
        self.leader_epoch = None;
        self.restored.clear();
        self.prior.clear();
        self.commit.fell_to(offset);
    }

    /// Acks have come.
    pub(super) fn on_acks(&mut self, lot: &Arc<Lot>) {
        if lot.is_again() || self.keys.is_some() {
            // One by one: each may let another one run.
            for number in lot.new_acks() {
                let offset = lot.offset(number);
                match self.window.standing(offset, lot.parent) {
                    Standing::Open | Standing::Aside => self.finish_acked(offset),
                    Standing::Done => self.free_key(lot.holder(number)),
                    Standing::Unknown => {
                        self.counters.stale += 1;
                        self.free_key(lot.holder(number));
                    }
                }
            }
            return;
        }
        let (news, asides) = self.window.sweep(lot);
        self.counters.acked += news as u64;
        if news > 0 {
            self.commit.changed();
            self.note(news, false);
        }
        for offset in asides {
            self.parked.remove(offset);
            self.retry.acked(offset);
        }
        if news > 0
            && let Some(out) = self.trial.out()
            && (lot.first..=lot.offset(lot.len() - 1)).contains(&out)
            && self.window.standing(out, lot.id) != Standing::Open
        {
            self.trial.answered(out);
        }
    }

    /// Why it stopped.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Stops for good: nothing more is handed out or read. What is out may still be answered.
    pub(super) fn stop(&mut self, why: String) {
        if self.stopped.is_some() {
            return;
        }
        let (topic, partition, at) = (&self.place.topic, self.place.partition, self.window.commit_point());
        tracing::error!(%topic, partition, offset = at, %why, "the partition stopped");
        self.stopped = Some(format!(
            "{why}. The lowest record not done is {at}. To go on there, restart the spout (or SpoutHandle::resume); to pass over records for good, set the position beyond them: `downspout checkpoint set --store STORE --id ID --topic {topic} --partition {partition} --offset NEXT`"
        ));
        self.place.closed.store(true, Ordering::SeqCst);
        self.effects.push(Effect::Stop);
        self.effects.push(Effect::Commit);
    }

    /// Hands nothing out any more. What is out may still be answered.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.place.closed.store(true, Ordering::SeqCst);
    }

    /// What is to be done.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What to read from there, so that a truncation since is found.
    pub(super) fn reads_from(&self, offset: i64) -> StartOffset {
        match self.leader_epoch {
            Some(leader_epoch) => StartOffset::InEpoch { offset, leader_epoch },
            None => StartOffset::At(offset),
        }
    }

    /// Where intake stands.
    pub(super) fn intake(&self) -> i64 {
        self.window.intake()
    }

    /// What a new manager goes on from, as if the spout had been started anew.
    pub(super) fn restart(&mut self) -> Start {
        let extras = self.extras(true);
        Start {
            offset: self.window.commit_point(),
            extras: Extras { serial: self.commit.serial(), ..extras },
            stored: self.commit.committed().is_some(),
            fell_from: self.commit.committed(),
        }
    }

    /// Counts a record as done that is not.
    pub(super) fn skip(&mut self, offset: i64) -> Result<()> {
        match self.parked.get(offset).is_some() || self.window.lot_of(offset).is_some() {
            true => {
                tracing::warn!(topic = %self.place.topic, partition = self.place.partition, offset, "skipped by hand: it counts as done");
                self.counters.ineligible += 1;
                self.finish(offset);
                Ok(())
            }
            false => Err(Error::config("this record is not under way: it is done, or was not read yet")
                .with_topic(&*self.place.topic)
                .with_partition(self.place.partition)
                .with_offset(offset)),
        }
    }

    /// The records that wait for their retry.
    pub(super) fn parked(&self) -> impl Iterator<Item = (i64, &Node)> {
        self.parked.iter().filter(|(_, node)| !matches!(node.state(), State::Out(_)))
    }

    /// When a retry is due.
    pub(super) fn next_due(&self) -> Option<Millis> {
        match self.trial.is_alone() && self.trial.step() == Step::Wait {
            true => None,
            false => self.parked.next_due(),
        }
    }

    /// How many records wait for their retry.
    pub(super) fn waiting(&self) -> usize {
        self.parked.waiting()
    }

    /// How many are on their way to the dead-letter topic.
    pub(super) fn giving_up(&self) -> usize {
        self.parked.iter().filter(|(_, node)| node.state() == State::GivingUp).count()
    }

    /// How many records were handed out and are not answered.
    pub(super) fn outstanding(&self) -> u64 {
        let running = self
            .window
            .running()
            .map(|(lot, open)| open.filter(|(number, _)| lot.handed_at(*number).is_some()).count() as u64);
        let again = self.parked.iter().filter(|(_, node)| {
            matches!(node.state(), State::Out(_))
                && node.lot.as_ref().is_some_and(|lot| lot.handed_at(0).is_some())
        });
        running.sum::<u64>() + again.count() as u64
    }

    /// Whether the window has room again once the store knows what is done.
    pub(super) fn a_commit_would_help(&self) -> bool {
        let used = self.in_window();
        let unfinished = self.window.unfinished().saturating_sub(self.parked.waiting());
        let is_full = used * 10 >= self.settings.window.records * 9 && unfinished * 2 <= used;
        (is_full || self.trial.wants_commit(self.answered())) && !self.commit.is_under_way()
    }

    /// What is measured, as far as it is known here.
    pub(super) fn metrics(&self, now: Millis) -> PartitionMetrics {
        let ms = Duration::from_millis;
        PartitionMetrics {
            latest_emitted: Some(self.window.intake()),
            latest_completed: Some(self.window.commit_point()),
            committed: self.commit.committed(),
            oldest_unfinished: self.counters.oldest.map(|(offset, age)| (offset, ms(age))),
            window_records: self.in_window(),
            window_bytes: self.window.bytes(),
            window_limit: self.settings.window.records,
            parked: self.parked.waiting(),
            parked_bytes: self.parked.bytes(),
            holes: self.window.runs(),
            commit_age: self.commit.age(now).map(ms),
            last_commit_error: self.commit.error().map(Error::to_string),
            paused: self.is_uncommitted_for_long(now).then(|| {
                let why = self.commit.error().map(Error::to_string).unwrap_or_default();
                format!("the position could not be kept for too long: {why}")
            }),
            stopped: self.stopped.clone(),
            ..self.counters.metrics()
        }
    }

    /// The locks on keys that are still held, for whoever gets the partition next: those of records that
    /// are out.
    pub(super) fn into_keys(mut self) -> Option<KeyLocks> {
        self.drain();
        let mut keys = self.keys.take()?;
        keys.forget_waiting(i64::MIN);
        let never_out = self.window.running().flat_map(|(lot, open)| {
            open.filter(|(number, _)| lot.handed_at(*number).is_none()).map(|(number, _)| lot.holder(number))
        });
        let is_out = |node: &Node| node.lot.as_ref().is_some_and(|lot| lot.handed_at(0).is_some());
        let parked = self.parked.iter().filter(|(_, node)| !is_out(node));
        let parked = parked.map(|(offset, node)| self.holder(node.parent, offset));
        for record in never_out.chain(parked) {
            keys.release(record);
        }
        (!keys.is_empty()).then_some(keys)
    }

    /// The lowest offset that is not done.
    pub(super) fn point(&self) -> i64 {
        self.window.commit_point()
    }

    /// Whether what is counted is what is there.
    #[cfg(test)]
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        self.window.check().and_then(|()| self.parked.check())
    }

    /// A delivery of an earlier assignment was answered: its key is free.
    pub(super) fn on_stale(&mut self, lot: &Lot, numbers: &[u32]) {
        self.counters.stale += numbers.len() as u64;
        for number in numbers.iter().copied() {
            self.free_key(lot.holder(number));
        }
    }
}

/// A record that is void, and what it was granted as.
type Voided = (Holder, Option<(Arc<Lot>, u32)>);

/// Whether one of these runs, which are in order, holds the offset.
fn runs_hold(runs: &[Range<i64>], offset: i64) -> bool {
    let at = runs.partition_point(|run| run.end <= offset);
    runs.get(at).is_some_and(|run| run.start <= offset)
}
