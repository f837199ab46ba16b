use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// How long to wait before trying again: doubles with every failure, up to a limit, and never two
/// clients in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Default for Backoff {
    /// 50 ms to 1 s, as the Java client.
    fn default() -> Self {
        Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(1) }
    }
}

impl Backoff {
    /// The wait after that many failures in a row, with up to a fifth more or less by chance.
    pub fn after(&self, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doubled = self.first.saturating_mul(1u32.checked_shl(failures - 1).unwrap_or(u32::MAX));
        let wait = doubled.min(self.longest);
        let chance = chance() % 401;
        wait.mul_f64(0.8 + chance as f64 / 1000.0)
    }
}

thread_local! {
    static FIXED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes chance on this thread the same in each run: for simulations, on a runtime of one thread.
#[cfg(feature = "testing")]
pub(crate) fn fix_chance(seed: u64) {
    FIXED.set(Some(seed));
}

/// A number between 0 and 1, by chance.
pub(crate) fn share_by_chance() -> f64 {
    (chance() % (1 << 30)) as f64 / (1u64 << 30) as f64
}

fn chance() -> u64 {
    match FIXED.get() {
        Some(seed) => {
            FIXED.set(Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)));
            seed >> 33
        }
        // Every `RandomState` has keys of its own: chance enough, without a crate for it.
        None => RandomState::new().build_hasher().finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_limit_and_differ() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(0), Duration::ZERO);
        for (failures, millis) in
            [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1000), (31, 1000), (u32::MAX, 1000)]
        {
            for _ in 0..50 {
                let wait = backoff.after(failures).as_millis();
                assert!((millis * 8 / 10..=millis * 12 / 10).contains(&wait), "{failures}: {wait}");
            }
        }
        let waits: std::collections::HashSet<_> = (0..50).map(|_| backoff.after(6)).collect();
        assert!(waits.len() > 5);
    }
}
