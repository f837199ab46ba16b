//! What is handed out next, and whether more is to be read.

use super::trial::{FEW, Step};
use super::{Effect, PartitionManager};
use crate::spout::keys::Holder;
use crate::spout::lot::{Grant, Lot};
use crate::spout::parked::{Millis, NEVER, Node, State};
use crate::spout::settings::Order;
use crate::spout::window::Standing;

/// With a retry limit, records over the parked budget are kept by their offset alone, up to so many
/// times the budget.
const BEYOND_BUDGET: usize = 10;

/// Records that are fetched again at a time.
const REFETCH: usize = 1_000;

impl PartitionManager {
    /// Hands out what may be handed out. `calm`: nothing is out in the whole spout, and somebody waits for
    /// a record.
    pub(in crate::spout) fn pump(&mut self, now: Millis, calm: bool) {
        if self.stopped.is_some() || self.draining {
            return;
        }
        if self.trial.is_alone() {
            self.pump_alone(now, calm);
            return;
        }
        if self.keys.is_some() {
            let next = self.window.peek();
            self.line_up(next.unwrap_or(i64::MAX));
        }
        self.retry_due(now);
        if self.retry.comes_first() && self.parked.is_stirring() {
            return;
        }
        loop {
            let room = self.settings.window.records.saturating_sub(self.in_window()).min(self.trial.room());
            let by_key = self.keys.is_some();
            if by_key {
                let next = self.window.peek();
                self.line_up(next.unwrap_or(i64::MAX));
            }
            let Some(grant) = self.window.grant(if by_key { room.min(1) } else { room }) else { break };
            if by_key && !self.admit(&grant) {
                continue;
            }
            self.grant(grant);
        }
    }

    fn grant(&mut self, grant: Grant) {
        self.trial.granted(&grant.lot, grant.from..grant.to);
        self.effects.push(Effect::Grant(grant));
    }

    /// Records below that offset that were tried in an earlier life stand in line for their keys, each
    /// before those that come after it.
    fn line_up(&mut self, until: i64) {
        while let Some((offset, key)) = self.unlined.pop_first() {
            if offset >= until {
                self.unlined.insert(offset, key);
                return;
            }
            let waiting = self.parked.get(offset).filter(|node| node.state() == State::Waiting(NEVER));
            let Some(lot) = waiting.map(|node| node.parent) else { continue };
            if self.admit_key(key.as_deref(), self.holder(lot, offset)) {
                self.parked.set(offset, State::Waiting(0));
            }
        }
    }

    /// Whether the record may run now, as far as its key goes.
    fn admit(&mut self, grant: &Grant) -> bool {
        let Grant { lot, from, .. } = grant;
        lot.record(*from).is_none_or(|record| self.admit_key(record.key(), lot.holder(*from)))
    }

    fn admit_key(&mut self, key: Option<&[u8]>, record: Holder) -> bool {
        let Order::ByKey { null_is_a_key } = self.settings.order else { return true };
        match &mut self.keys {
            Some(keys) if key.is_some() || null_is_a_key => keys.admit(key, record),
            _ => true,
        }
    }

    /// The record before it in the line of its key is done. False if it is gone itself.
    pub(super) fn hand_out_next(&mut self, next: Holder) -> bool {
        let offset = next.offset;
        if self.parked.get(offset).is_some_and(|node| node.parent == next.lot) {
            self.parked.set(offset, State::Waiting(0));
            return true;
        }
        let Some((lot, number)) = self.window.lot_of(offset) else { return false };
        if lot.id != next.lot || self.window.standing(offset, lot.id) != Standing::Open {
            return false;
        }
        match self.trial.is_alone() {
            // It waits for its turn.
            true => self.park(offset, Node::new(lot.id), lot.only(number), 0),
            false => self.grant(Grant { lot, from: number, to: number + 1 }),
        }
        true
    }

    /// Hands out the records whose time has come.
    fn retry_due(&mut self, now: Millis) {
        let mut refetch = Vec::new();
        for offset in self.due_in_order(now) {
            if self.parked.get(offset).is_none_or(|node| node.body().is_none()) {
                if refetch.len() < REFETCH {
                    self.parked.set(offset, State::Fetching);
                    refetch.push(offset);
                }
                continue;
            }
            self.hand_out_again(offset);
        }
        if !refetch.is_empty() {
            refetch.sort_unstable();
            self.effects.push(Effect::Refetch(refetch));
        }
    }

    fn due_in_order(&self, now: Millis) -> Vec<i64> {
        let mut due = self.parked.due(now, self.settings.window.records.max(REFETCH).min(self.trial.room()));
        if self.retry.comes_first() {
            due.sort_unstable();
        }
        due
    }

    /// Hands a record out that was tried before, or sends it where it goes instead.
    fn hand_out_again(&mut self, offset: i64) {
        let Some((mut node, body)) = self.parked.take(offset) else { return };
        let Some(body) = body else { return };
        if node.giving_up {
            let letter = self.letter(offset, &node, &body);
            self.parked.put(offset, node, State::GivingUp, Some(body));
            self.effects.extend(letter.map(|letter| Effect::DeadLetter(Box::new(letter))));
            return;
        }
        let lot = Lot::again(&self.place, body.clone(), node.parent, node.attempt());
        node.lot = Some(std::sync::Arc::clone(&lot));
        self.parked.put(offset, node, State::Out(lot.id), Some(body));
        self.retry.started(offset);
        self.grant(Grant { lot, from: 0, to: 1 });
    }

    /// Whether records of this partition run alone, and one of them may run now.
    pub(in crate::spout) fn has_its_turn(&mut self, now: Millis) -> bool {
        self.trial.is_alone()
            && self.stopped.is_none()
            && !self.draining
            && (self.trial.suspect().is_some()
                || self.parked.next_due().is_some_and(|due| due <= now)
                || self.window.peek().is_some())
    }

    /// Whether records of this partition run alone.
    pub(in crate::spout) fn is_alone(&self) -> bool {
        self.trial.is_alone() && self.stopped.is_none() && !self.draining
    }

    /// One record at a time, each written down before.
    fn pump_alone(&mut self, now: Millis, calm: bool) {
        self.line_up(i64::MAX);
        match self.trial.step() {
            Step::Wait => {}
            Step::Name => {
                // What goes to the dead-letter topic is in nobody's hands.
                for offset in self.parked.due(now, FEW) {
                    if self.parked.get(offset).is_some_and(|node| node.giving_up && node.body().is_some()) {
                        self.hand_out_again(offset);
                    }
                }
                let due = self.parked.due(now, 1).first().copied();
                if let Some(next) = due.or_else(|| self.window.peek()).filter(|_| calm) {
                    self.trial.name(next);
                    self.commit.changed();
                    self.effects.push(Effect::Commit);
                }
            }
            Step::HandOut(next) => {
                self.trial.unname();
                if let Some(node) = self.parked.get(next) {
                    match node.body().is_some() {
                        true => {
                            self.trial.hand_out(next);
                            self.hand_out_again(next);
                        }
                        false => {
                            self.parked.set(next, State::Fetching);
                            self.effects.push(Effect::Refetch(vec![next]));
                        }
                    }
                } else if self.window.peek() == Some(next)
                    && let Some(grant) = self.window.grant(1)
                    && (self.keys.is_none() || self.admit(&grant))
                {
                    self.trial.hand_out(next);
                    self.grant(grant);
                }
            }
        }
    }

    /// Records that count against the window: taken in, and not safely done; what waits for its retry
    /// has a budget of its own.
    pub(in crate::spout) fn in_window(&self) -> usize {
        self.window.uncommitted().saturating_sub(self.parked.waiting())
    }

    /// Whether more is to be read.
    pub(in crate::spout) fn wants_more(&mut self) -> bool {
        self.stopped.is_none()
            && !self.draining
            && !self.window.has_ungranted()
            && self.in_window() < self.settings.window.records
            && self.trial.room() > 0
            && self.window.bytes() < self.settings.window.bytes
            && !self.parked_is_full()
    }

    fn parked_is_full(&self) -> bool {
        let limit = match self.settings.retry_limit {
            Some(_) => self.settings.parked.records.saturating_mul(BEYOND_BUDGET),
            None => self.settings.parked.records,
        };
        self.parked.waiting() >= limit.max(1)
    }

    /// Why nothing more is read, if that is out of the ordinary.
    pub(in crate::spout) fn pressure(&self) -> Option<String> {
        let at = self.window.commit_point();
        let used = self.in_window();
        let Self { settings, window, parked, .. } = self;
        if self.parked_is_full() {
            return Some(format!(
                "{} records wait for their retry, which is all that may; the lowest record not done is {at}",
                parked.waiting()
            ));
        }
        if used * 10 >= settings.window.records * 9 && window.commit_point() < window.intake() {
            return Some(format!(
                "the window is full ({used} of {} records); the record that blocks it is {at}",
                settings.window.records
            ));
        }
        if window.bytes() / 9 * 10 >= settings.window.bytes {
            return Some(format!(
                "the window is full ({} of {} bytes); the record that blocks it is {at}",
                window.bytes(),
                settings.window.bytes
            ));
        }
        None
    }

    /// The one record that blocks a window full of finished ones goes the way of `on_exhausted`.
    pub(in crate::spout) fn relieve(&mut self, now: Millis) {
        let used = self.in_window();
        let limit = self.settings.window.records;
        if !self.settings.give_up_under_pressure || self.stopped.is_some() || used * 10 < limit * 9 {
            return;
        }
        let unfinished = self.window.unfinished().saturating_sub(self.parked.waiting());
        if unfinished * 50 > used {
            return;
        }
        let offset = self.window.commit_point();
        if self.parked.get(offset).is_some_and(|node| node.giving_up) {
            return;
        }
        let (mut node, body) = match self.parked.take(offset) {
            Some(taken) => taken,
            None => {
                let Some((lot, number)) = self.window.lot_of(offset) else { return };
                (Node::new(lot.id), lot.only(number))
            }
        };
        node.reason = format!("it blocks a window that is full of finished records; {}", node.reason);
        self.give_up(offset, node, body, now);
    }
}
