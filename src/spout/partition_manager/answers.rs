//! What becomes of a record that was answered for: done, again, or given up.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{Effect, PartitionManager};
use crate::error::Error;
use crate::records::Batch;
use crate::spout::dead_letter::Letter;
use crate::spout::keys::Holder;
use crate::spout::lot::{Lot, Word};
use crate::spout::parked::{Millis, NEVER, Node, State};
use crate::spout::retry::Decision;
use crate::spout::settings::{OnExhausted, OnPoison};
use crate::spout::window::Standing;

/// How much of a reason is kept.
const REASON: usize = 512;

impl PartitionManager {
    /// A word about a delivery has come.
    pub(in crate::spout) fn on_word(&mut self, lot: &Arc<Lot>, number: u32, word: Word, now: Millis) {
        let offset = lot.offset(number);
        let (node, body) = match self.window.standing(offset, lot.parent) {
            Standing::Open if !lot.is_again() => (Node::new(lot.id), None),
            Standing::Aside
                if self.parked.get(offset).is_some_and(|node| node.state() == State::Out(lot.id)) =>
            {
                match self.parked.take(offset) {
                    Some(taken) => taken,
                    None => return,
                }
            }
            standing => {
                self.counters.stale += 1;
                if matches!(standing, Standing::Done | Standing::Unknown) {
                    // It ran all this time, whatever became of it here.
                    self.free_key(lot.holder(number));
                }
                return;
            }
        };
        self.trial.answered(offset);
        let body = body.or_else(|| lot.only(number));
        self.take_word(offset, node, body, word, now);
    }

    fn take_word(&mut self, offset: i64, mut node: Node, body: Option<Batch>, word: Word, now: Millis) {
        match word {
            Word::Failed { reason, after } => {
                self.counters.failed += 1;
                node.failures = node.failures.saturating_add(1);
                node.drops = 0;
                node.reason = shortened(reason);
                if self.settings.retry_limit.is_some_and(|limit| node.failures > limit) {
                    self.give_up(offset, node, body, now);
                    return;
                }
                match (after, self.retry.failed(&self.place, offset, node.failures, &node.reason)) {
                    (_, Decision::Broken(why)) => {
                        self.park(offset, node, body, now);
                        self.stop(format!("the retry manager failed at offset {offset}: {why}"));
                    }
                    (None, Decision::GiveUp) => self.give_up(offset, node, body, now),
                    (None, Decision::After(delay)) => self.again(offset, node, body, millis(delay), now),
                    (Some(delay), _) => self.again(offset, node, body, millis(delay), now),
                }
            }
            Word::Dropped if self.draining => {
                // Closing, whoever drops it hands it back.
                self.counters.released += 1;
                self.again(offset, node, body, 0, now);
            }
            Word::Dropped => {
                self.counters.dropped += 1;
                node.drops = node.drops.saturating_add(1);
                let delay = self.retry.dropped(node.failures.saturating_add(node.drops));
                self.again(offset, node, body, millis(delay), now);
            }
            Word::Released => {
                self.counters.released += 1;
                self.again(offset, node, body, 0, now);
            }
            Word::Rejected { reason } => {
                self.counters.failed += 1;
                node.failures = node.failures.saturating_add(1);
                node.reason = shortened(reason);
                match self.settings.on_exhausted {
                    Some(_) => self.give_up(offset, node, body, now),
                    None => {
                        let delay = self.retry.dropped(node.failures);
                        self.again(offset, node, body, millis(delay), now);
                    }
                }
            }
            Word::Poison { reason } => {
                node.failures = node.failures.saturating_add(1);
                node.reason = shortened(reason);
                match self.settings.on_poison {
                    OnPoison::Skip => {
                        self.counters.ineligible += 1;
                        self.park(offset, node, None, now);
                        self.finish(offset);
                    }
                    OnPoison::GiveUp => self.give_up(offset, node, body, now),
                    OnPoison::Stop => {
                        let why = format!("the record at offset {offset} cannot be read: {}", node.reason);
                        self.park(offset, node, body, now);
                        self.stop(why);
                    }
                }
            }
        }
    }

    /// The record comes again.
    fn again(&mut self, offset: i64, node: Node, body: Option<Batch>, delay: u64, now: Millis) {
        if !self.retry.rewinds() {
            self.park(offset, node, body, now.saturating_add(delay));
            return;
        }
        // All from here on comes again; how often this one failed is kept.
        let unfinished = node.unfinished(offset);
        let known = self.known_until.max(self.window.intake());
        self.void_from(offset);
        self.known_until = known;
        self.prior.insert(offset, unfinished);
        self.effects.push(Effect::Seek(offset));
    }

    /// Puts the record aside until it is due.
    pub(super) fn park(&mut self, offset: i64, node: Node, body: Option<Batch>, due: Millis) {
        let room = self.settings.parked.bytes.saturating_sub(self.parked.bytes());
        let body = body.filter(|body| body.size() <= room);
        self.parked.put(offset, node, State::Waiting(due), body);
        self.window.put_aside(offset);
        self.commit.changed();
    }

    /// The record failed for the last time.
    pub(super) fn give_up(&mut self, offset: i64, mut node: Node, body: Option<Batch>, now: Millis) {
        match &self.settings.on_exhausted {
            Some(OnExhausted::Stop) | None => {
                let why =
                    format!("the record at offset {offset} failed {} times: {}", node.failures, node.reason);
                self.park(offset, node, body, now);
                self.stop(why);
            }
            Some(OnExhausted::Skip) => {
                self.counters.ineligible += 1;
                let (failures, reason) = (node.failures, node.reason.clone());
                tracing::warn!(topic = %self.place.topic, partition = self.place.partition, offset, failures, %reason, "given up: it counts as done");
                self.park(offset, node, None, now);
                self.finish(offset);
            }
            Some(OnExhausted::DeadLetter(_)) => {
                node.giving_up = true;
                let letter = body.as_ref().and_then(|body| self.letter(offset, &node, body));
                self.park(offset, node, body, now);
                // Without its bytes it is fetched again first, as soon as it is due.
                if let Some(letter) = letter {
                    self.parked.set(offset, State::GivingUp);
                    self.effects.push(Effect::DeadLetter(Box::new(letter)));
                }
            }
        }
    }

    pub(super) fn letter(&self, offset: i64, node: &Node, body: &Batch) -> Option<Letter> {
        Some(Letter {
            topic: Arc::clone(&self.place.topic),
            partition: self.place.partition,
            offset,
            attempts: node.failures,
            reason: node.reason.clone(),
            at_ms: crate::spout::wall_clock_ms(),
            record: body.records().next()?.ok()?.to_owned(),
        })
    }

    /// The dead-letter topic has answered.
    pub(in crate::spout) fn on_dead_letter(&mut self, offset: i64, written: Result<(), Error>, now: Millis) {
        if self.parked.get(offset).is_none_or(|node| node.state() != State::GivingUp) {
            return;
        }
        match written {
            Ok(()) => {
                self.counters.dead_letters += 1;
                self.counters.ineligible += 1;
                self.finish(offset);
                if self.breaker.as_mut().is_some_and(|breaker| breaker.note(true)) {
                    self.stop("most of its records went to the dead-letter topic lately".to_owned());
                }
            }
            Err(why) if matches!(why.retry(), crate::error::Retry::No | crate::error::Retry::Human) => {
                self.parked.set(offset, State::Waiting(now));
                self.stop(format!(
                    "the record at offset {offset} cannot be put on the dead-letter topic: {why}"
                ));
            }
            Err(why) => {
                tracing::warn!(topic = %self.place.topic, partition = self.place.partition, offset, %why, "the dead letter was not taken; it is sent again");
                let Some((mut node, body)) = self.parked.take(offset) else { return };
                node.drops = node.drops.saturating_add(1);
                let delay = millis(self.retry.dropped(node.drops));
                self.parked.put(offset, node, State::Waiting(now.saturating_add(delay)), body);
            }
        }
    }

    pub(super) fn finish_acked(&mut self, offset: i64) {
        self.counters.acked += 1;
        self.finish(offset);
        self.note(1, false);
    }

    /// A record is done.
    pub(in crate::spout) fn finish(&mut self, offset: i64) {
        let parked = self.parked.get(offset).map(|node| node.parent);
        let lot = parked.or_else(|| Some(self.window.lot_of(offset)?.0.id));
        if self.parked.remove(offset) {
            self.retry.acked(offset);
            self.commit.changed();
        }
        self.window.finish(offset);
        self.commit.changed();
        self.trial.answered(offset);
        if let Some(lot) = lot {
            self.free_key(self.holder(lot, offset));
        }
    }

    /// Records that were fetched again for their retry: those found, and those that are not in the log
    /// any more, which are done (STORM-2546).
    pub(in crate::spout) fn on_refetched(&mut self, found: Vec<(i64, Batch)>, missing: &[i64], now: Millis) {
        for (offset, body) in found {
            if self.is_fetching(offset)
                && let Some((node, _)) = self.parked.take(offset)
            {
                self.parked.put(offset, node, State::Waiting(now), Some(body));
            }
        }
        for offset in missing {
            if self.is_fetching(*offset) {
                tracing::info!(topic = %self.place.topic, partition = self.place.partition, offset, "a record to be retried is not in the log any more; it counts as done");
                self.finish(*offset);
            }
        }
    }

    /// Those of them that were not fetched again are due after that time.
    pub(in crate::spout) fn on_refetch_failed(&mut self, offsets: &[i64], now: Millis, delay: Millis) {
        for offset in offsets {
            if self.is_fetching(*offset) {
                self.parked.set(*offset, State::Waiting(now.saturating_add(delay)));
            }
        }
    }

    fn is_fetching(&self, offset: i64) -> bool {
        self.parked.get(offset).is_some_and(|node| node.state() == State::Fetching)
    }

    /// What was forgotten has failed; what is old is said.
    pub(in crate::spout) fn look_for_old(&mut self, now: Millis) {
        let mut expired: Vec<(Arc<Lot>, u32)> = Vec::new();
        let mut oldest: Option<(i64, u64)> = None;
        {
            let timeout = self.settings.ack_timeout.map(millis);
            // Whether those that were handed out later are to be looked at as well.
            let mut see = |lot: &Arc<Lot>, number: u32, offset: i64| {
                let Some(at) = lot.handed_at(number) else { return false };
                let age = now.saturating_sub(at);
                if timeout.is_some_and(|timeout| age >= timeout) {
                    expired.push((Arc::clone(lot), number));
                    return true;
                }
                if oldest.is_none_or(|(_, most)| age > most) {
                    oldest = Some((offset, age));
                }
                false
            };
            // In their order, unless some wait for others of their key.
            let by_key = self.keys.is_some();
            'window: for (lot, open) in self.window.running() {
                for (number, offset) in open {
                    if !see(lot, number, offset) && !by_key {
                        break 'window;
                    }
                }
            }
            for (offset, node) in self.parked.iter() {
                if let (State::Out(_), Some(lot)) = (node.state(), &node.lot) {
                    see(lot, 0, offset);
                }
            }
        }
        self.counters.oldest = oldest;
        for (lot, number) in expired {
            let reason = format!("not answered within {:?}", self.settings.ack_timeout.unwrap_or_default());
            self.on_word(&lot, number, Word::Failed { reason, after: None }, now);
        }
        if let Some((offset, age)) = oldest
            && age >= millis(self.settings.report_unfinished_after)
            && self.counters.reported_old != Some(offset)
        {
            self.counters.reported_old = Some(offset);
            tracing::warn!(topic = %self.place.topic, partition = self.place.partition, offset, age_ms = age, "a record was handed out long ago and is not answered");
        }
    }

    /// What is known of records from before counts as soon as they are in.
    pub(super) fn take_prior(&mut self, offsets: RangeInclusive<i64>, lot: &Arc<Lot>, now: Millis) {
        let known: Vec<_> = self.prior.range(offsets.clone()).map(|(_, one)| *one).collect();
        if known.is_empty() {
            return;
        }
        let (first, last) = offsets.into_inner();
        let mut rest = self.prior.split_off(&first);
        let mut above = match last.checked_add(1) {
            Some(next) => rest.split_off(&next),
            None => Default::default(),
        };
        self.prior.append(&mut above);
        let mut known = known.into_iter().peekable();
        for number in 0..lot.len() {
            let offset = lot.offset(number);
            while known.peek().is_some_and(|one| one.offset < offset) {
                known.next();
            }
            let Some(one) = known.next_if(|one| one.offset == offset) else { continue };
            if self.window.standing(offset, lot.id) != Standing::Open {
                continue;
            }
            let mut node = Node::new(lot.id);
            node.failures = one.attempts;
            node.deaths = one.deaths;
            let body = lot.only(number);
            // Without a policy that is a reason to stop the partition: that takes more to be believed.
            let proof = if self.settings.on_exhausted.is_some() { 1 } else { super::trial::ALONE };
            if one.deaths >= proof {
                node.reason = format!("the process died {} times while this record ran alone", one.deaths);
                self.give_up(offset, node, body, now);
            } else if self.keys.is_some() {
                let key = lot.record(number).and_then(|record| record.key()).map(Into::into);
                self.park(offset, node, body, NEVER);
                self.unlined.insert(offset, key);
            } else {
                self.park(offset, node, body, now);
            }
        }
    }

    /// Records were done, or given up: what the circuit breaker goes by.
    pub(super) fn note(&mut self, count: usize, dead: bool) {
        if let Some(breaker) = &mut self.breaker {
            for _ in 0..count.min(100) {
                breaker.note(dead);
            }
        }
    }

    /// The record runs no more: the next one of its key may.
    pub(super) fn free_key(&mut self, mut record: Holder) {
        while let Some(next) = self.keys.as_mut().and_then(|keys| keys.release(record)) {
            if self.hand_out_next(next) {
                return;
            }
            // It is gone meanwhile: the one after it is next.
            record = next;
        }
    }

    /// A record of this assignment, as locks on keys know it.
    pub(super) fn holder(&self, lot: u64, offset: i64) -> Holder {
        Holder { assignment: self.place.assignment, lot, offset }
    }
}

pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shortened(mut reason: String) -> String {
    if reason.len() > REASON {
        let mut end = REASON;
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        reason.push('…');
    }
    reason
}
