//! What the store has of a partition, and what it was offered. A plain state machine.

use super::parked::Millis;
use crate::checkpoint::Extras;
use crate::error::Error;

/// The commits of a partition under one assignment.
#[derive(Debug)]
pub(super) struct Commit {
    /// What the store has, if it has answered.
    committed: Option<i64>,
    serial: u64,
    /// Something beside the position has changed since the last offer.
    changed: bool,
    /// The position may go down: it was reset.
    reset: bool,
    offered: Option<Offered>,
    last: Option<Millis>,
    error: Option<Error>,
    failing_since: Option<Millis>,
    next_try: Millis,
    /// The store has another owner: nothing more is offered.
    over: bool,
}

/// An offer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offered {
    pub(super) serial: u64,
    pub(super) offset: i64,
    pub(super) extras: Option<Extras>,
    pub(super) reset: bool,
}

impl Commit {
    pub(super) fn new(start: i64, stored: Option<i64>, serial: u64, now: Millis) -> Self {
        Commit {
            committed: stored,
            serial,
            // Taking over begins with writing what is there.
            changed: true,
            reset: stored.is_some_and(|stored| stored > start),
            offered: None,
            last: Some(now),
            error: None,
            failing_since: None,
            next_try: 0,
            over: false,
        }
    }

    /// What the store has.
    pub(super) fn committed(&self) -> Option<i64> {
        self.committed
    }

    /// Number of the last offer.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Something that an offer holds has changed.
    pub(super) fn changed(&mut self) {
        self.changed = true;
    }

    /// The position went down, or may have: the log is another one from there on.
    pub(super) fn fell_to(&mut self, point: i64) {
        self.changed = true;
        self.reset |= self.committed.is_some_and(|committed| committed > point)
            || self.offered.as_ref().is_some_and(|offered| offered.offset > point);
    }

    /// Whether the store is to be offered something.
    pub(super) fn is_due(&self, point: i64, clean: bool, now: Millis) -> bool {
        !self.over
            && self.offered.is_none()
            && (clean || self.changed || self.committed != Some(point))
            && (clean || now >= self.next_try)
    }

    pub(super) fn offer(&mut self, offset: i64, extras: Option<Extras>) -> Offered {
        self.serial += 1;
        self.changed = false;
        let (serial, reset) = (self.serial, std::mem::take(&mut self.reset));
        self.offered = Some(Offered { serial, offset, extras: None, reset });
        let extras = extras.map(|extras| Extras { serial, ..extras });
        Offered { serial, offset, extras, reset }
    }

    /// The store has kept it. False if another one is under way.
    pub(super) fn kept(&mut self, serial: u64, now: Millis) -> bool {
        let Some(offered) = self.offered.take_if(|offered| offered.serial == serial) else { return false };
        self.committed = Some(offered.offset);
        self.last = Some(now);
        self.error = None;
        self.failing_since = None;
        true
    }

    /// It has not, or nobody knows: the same is offered again.
    pub(super) fn failed(&mut self, serial: u64, why: Error, now: Millis) {
        let Some(offered) = self.offered.take_if(|offered| offered.serial == serial) else { return };
        self.changed = true;
        self.reset |= offered.reset;
        self.error = Some(why);
        let since = *self.failing_since.get_or_insert(now);
        // At once the first time, then a little slower each time, up to 10 s.
        self.next_try = now + now.saturating_sub(since).clamp(200, 10_000);
    }

    pub(super) fn give_up(&mut self) {
        self.over = true;
    }

    /// An offer that waits for its answer.
    pub(super) fn is_under_way(&self) -> bool {
        self.offered.is_some()
    }

    /// Since when the store has had no answer, if the last one was none.
    pub(super) fn failing_for(&self, now: Millis) -> Option<Millis> {
        self.failing_since.map(|since| now.saturating_sub(since))
    }

    /// Time since the last one was kept.
    pub(super) fn age(&self, now: Millis) -> Option<Millis> {
        self.last.map(|last| now.saturating_sub(last))
    }

    pub(super) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}
