//! What became of each record.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::HumanCount;

use crate::exit::Exit;

/// Counts what handlers see, by the number that each record has in it.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    pub(super) produced: u64,
    pub(super) delivered: u64,
    pub(super) failed: u64,
    /// Handed out after the crash, and before it too.
    pub(super) again: u64,
    /// Handed out, and not answered for.
    pub(super) in_hand: u64,
    seen: HashSet<u32>,
    seen_before_the_crash: HashSet<u32>,
    done: HashSet<u32>,
}

impl Tally {
    pub(super) fn produced(&self, count: u64) {
        self.lock().produced += count;
    }

    pub(super) fn delivered(&self, number: u32) {
        let mut counts = self.lock();
        counts.delivered += 1;
        counts.in_hand += 1;
        counts.seen.insert(number);
        // Once is enough: what fails comes again for another reason.
        if counts.seen_before_the_crash.remove(&number) {
            counts.again += 1;
        }
    }

    pub(super) fn failed(&self) {
        let mut counts = self.lock();
        counts.failed += 1;
        counts.in_hand -= 1;
    }

    pub(super) fn done(&self, number: u32) {
        let mut counts = self.lock();
        counts.in_hand -= 1;
        counts.done.insert(number);
    }

    /// What was in hand is answered for by nobody any more; gives how many.
    pub(super) fn crashed(&self) -> u64 {
        let mut counts = self.lock();
        counts.seen_before_the_crash = counts.seen.clone();
        std::mem::take(&mut counts.in_hand)
    }

    pub(super) fn count_done(&self) -> u64 {
        self.lock().done.len() as u64
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn lost(&self) -> u64 {
        self.produced.saturating_sub(self.done.len() as u64)
    }

    /// Whether all arrived.
    pub(super) fn exit(&self) -> Exit {
        if self.lost() == 0 { Exit::Ok } else { Exit::Found }
    }

    pub(super) fn table(&self) -> String {
        let rows = [
            ("produced", self.produced),
            ("delivered", self.delivered),
            ("failed and retried", self.failed),
            ("delivered again after the crash", self.again),
            ("lost", self.lost()),
        ];
        rows.map(|(what, count)| format!("{what:<32}{:>10}\n", HumanCount(count).to_string())).concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_produced_and_never_done_is_lost_and_is_the_exit_code() {
        let tally = Tally::default();
        tally.produced(3);
        (0..3).for_each(|number| tally.delivered(number));
        tally.done(0);
        tally.failed();
        assert_eq!(tally.crashed(), 1);
        tally.delivered(1);
        tally.delivered(2);
        tally.done(1);
        let counts = tally.counts();
        assert_eq!((counts.delivered, counts.failed, counts.again, counts.lost()), (5, 1, 2, 1));
        assert_eq!(counts.exit(), Exit::Found);
        assert!(
            counts.table().ends_with("\nlost                                     1\n"),
            "{}",
            counts.table()
        );
        tally.done(2);
        assert_eq!(tally.counts().exit(), Exit::Ok);
    }
}
