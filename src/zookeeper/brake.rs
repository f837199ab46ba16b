//! Slows down a client that has no connection.
//!
//! A server that takes connections and closes them, as one without a quorum does, is tried again by the client at once,
//! and so on, a core's worth. The client cannot be told otherwise, but its thread can: each attempt has to wait for the
//! network a few times, and each such wait goes by here.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One wait in so much time, in the long run: a dozen a second, and no attempt does without one.
const STEP: Duration = Duration::from_millis(80);

/// And so many at once before that: what a first attempt, or one at each of three servers, has to wait for.
const AT_ONCE: u32 = 16;

#[derive(Default)]
pub(super) struct Brake {
    /// When all waits so far are paid for; none while the brake is off.
    paid: Mutex<Option<Instant>>,
}

impl Brake {
    /// Does nothing to a brake that is on already.
    pub(super) fn apply(&self) {
        self.set(|paid| {
            paid.get_or_insert_with(Instant::now);
        });
    }

    pub(super) fn release(&self) {
        self.set(|paid| *paid = None);
    }

    /// The thread is about to wait for something: before that it stands still for as long as it is ahead.
    pub(super) fn waits(&self) {
        thread::sleep(self.owes(Instant::now()));
    }

    fn owes(&self, now: Instant) -> Duration {
        let mut owed = Duration::ZERO;
        self.set(|paid| {
            if let Some(paid) = paid {
                *paid = (*paid).max(now) + STEP;
                owed = (*paid - now).saturating_sub(STEP * AT_ONCE);
            }
        });
        owed
    }

    fn set(&self, change: impl FnOnce(&mut Option<Instant>)) {
        change(&mut self.paid.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_waits_are_free_and_the_rest_take_their_time() {
        let (brake, start) = (Brake::default(), Instant::now());
        assert!((0..1000).all(|_| brake.owes(start).is_zero()), "it is off");
        brake.apply();
        let start = start + Duration::from_secs(1);
        assert!((0..AT_ONCE).all(|_| brake.owes(start).is_zero()));
        let mut now = start;
        for _ in 0..1000 {
            let owed = brake.owes(now);
            assert!(owed <= STEP, "{owed:?}");
            now += owed;
        }
        assert!(now - start > STEP * 990, "{:?}", now - start);
        now += STEP * AT_ONCE;
        assert!((0..AT_ONCE).all(|_| brake.owes(now).is_zero()), "after a rest");
        brake.release();
        assert!((0..1000).all(|_| brake.owes(now).is_zero()));
    }
}
