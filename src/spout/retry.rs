use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::lot::Place;
use super::settings::RetryMode;
use crate::error::{Error, Result};

/// Times between the attempts of one record: `first`, then `multiplier` times as long each time, up to
/// `longest`, each shifted by chance by up to `jitter` of itself.
#[doc(alias = "ExponentialBackoffMsgRetryManager")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// After the first failure; 100 ms by default.
    #[doc(alias = "retryInitialDelayMs")]
    pub first: Duration,
    /// 2 by default.
    #[doc(alias = "retryDelayMultiplier")]
    pub multiplier: f64,
    /// 1 minute by default.
    #[doc(alias = "retryDelayMaxMs")]
    pub longest: Duration,
    /// Share of the delay, 0 to 1; 0.2 by default.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(100),
            multiplier: 2.0,
            longest: Duration::from_secs(60),
            jitter: 0.2,
        }
    }
}

impl Backoff {
    /// storm-kafka's own defaults: at once, for ever.
    pub const STORM: Backoff =
        Backoff { first: Duration::ZERO, multiplier: 1.0, longest: Duration::from_secs(60), jitter: 0.0 };

    pub(super) fn check(&self) -> Result<()> {
        if !(self.multiplier.is_finite() && self.multiplier >= 1.0) {
            return Err(Error::config("the multiplier of a back-off must be 1 or more"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(Error::config("the jitter of a back-off must lie between 0 and 1"));
        }
        Ok(())
    }

    /// After so many failures, with `chance` between 0 and 1.
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let power = i32::try_from(failures.max(1) - 1).unwrap_or(i32::MAX);
        // Far beyond the longest it is infinite, and held to the longest all the same.
        let seconds = match self.first {
            Duration::ZERO => 0.0,
            first => (first.as_secs_f64() * self.multiplier.powi(power)).min(self.longest.as_secs_f64()),
        };
        let shifted = seconds * (1.0 + self.jitter * (2.0 * chance - 1.0));
        Duration::from_secs_f64(shifted.clamp(0.0, self.longest.as_secs_f64()))
    }
}

/// A failure, as a [`RetryManager`] is asked about it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The record.
    pub offset: i64,
    /// How often it has failed by now.
    pub failures: u32,
    /// Why, as the handler said.
    pub reason: &'a str,
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Again, after that time.
    Again(Duration),
    /// No more: `on_exhausted` decides (skip, where nothing is set).
    GiveUp,
}

/// Decides when failed records come again, of one partition, in the manner of storm-kafka's
/// `FailedMsgRetryManager`. It runs in the spout's driver: it must not block.
#[doc(alias = "FailedMsgRetryManager")]
pub trait RetryManager: Send {
    /// A record failed. `retry_limit` was looked at before.
    fn failed(&mut self, failure: &Failure<'_>) -> Verdict;

    /// A record that had failed is handed out again.
    fn retry_started(&mut self, offset: i64) {
        let _ = offset;
    }

    /// A record that had failed is done.
    fn acked(&mut self, offset: i64) {
        let _ = offset;
    }

    /// Records below are gone from the log.
    fn clear_offsets_before(&mut self, offset: i64) {
        let _ = offset;
    }
}

/// Makes a [`RetryManager`] for each partition.
pub trait RetryManagerFactory: Send + Sync {
    /// One for that partition.
    fn make(&self, topic: &str, partition: i32) -> Box<dyn RetryManager>;
}

/// A partition's retry mode at work.
pub(super) enum Retry {
    Backoff(Backoff),
    FailedSet,
    Rewind,
    Custom(Box<dyn RetryManager>),
    /// The manager of the user's own could not be made.
    Broken(String),
}

/// What the retry mode says.
#[derive(Debug)]
pub(super) enum Decision {
    After(Duration),
    GiveUp,
    /// The user's own code failed.
    Broken(String),
}

impl Retry {
    pub(super) fn new(mode: &RetryMode, place: &Place) -> Self {
        match mode {
            RetryMode::Backoff(backoff) => Retry::Backoff(*backoff),
            RetryMode::FailedSet => Retry::FailedSet,
            RetryMode::Rewind => Retry::Rewind,
            RetryMode::Custom(factory) => match guarded(|| factory.make(&place.topic, place.partition)) {
                Ok(manager) => Retry::Custom(manager),
                Err(why) => Retry::Broken(why),
            },
        }
    }

    /// Whether a failure takes the whole partition back.
    pub(super) fn rewinds(&self) -> bool {
        matches!(self, Retry::Rewind)
    }

    /// Whether nothing new is handed out while a retry waits.
    pub(super) fn comes_first(&self) -> bool {
        matches!(self, Retry::FailedSet)
    }

    pub(super) fn failed(&mut self, place: &Place, offset: i64, failures: u32, reason: &str) -> Decision {
        match self {
            Retry::Backoff(backoff) => {
                Decision::After(backoff.delay(failures, crate::net::share_by_chance()))
            }
            Retry::FailedSet | Retry::Rewind => Decision::After(Duration::ZERO),
            Retry::Broken(why) => Decision::Broken(why.clone()),
            Retry::Custom(manager) => {
                let failure =
                    Failure { topic: &place.topic, partition: place.partition, offset, failures, reason };
                match guarded(|| manager.failed(&failure)) {
                    Ok(Verdict::Again(delay)) => Decision::After(delay),
                    Ok(Verdict::GiveUp) => Decision::GiveUp,
                    Err(why) => Decision::Broken(why),
                }
            }
        }
    }

    /// How long something waits that did not fail by itself: dropped, or not taken elsewhere.
    pub(super) fn dropped(&self, times: u32) -> Duration {
        let backoff = match self {
            Retry::Backoff(backoff) => *backoff,
            Retry::FailedSet | Retry::Rewind => return Duration::ZERO,
            _ => Backoff::default(),
        };
        backoff.delay(times, crate::net::share_by_chance())
    }

    pub(super) fn started(&mut self, offset: i64) {
        self.tell(|manager| manager.retry_started(offset));
    }

    pub(super) fn acked(&mut self, offset: i64) {
        self.tell(|manager| manager.acked(offset));
    }

    pub(super) fn clear_before(&mut self, offset: i64) {
        self.tell(|manager| manager.clear_offsets_before(offset));
    }

    fn tell(&mut self, call: impl FnOnce(&mut dyn RetryManager)) {
        if let Retry::Custom(manager) = self
            && let Err(why) = guarded(|| call(&mut **manager))
        {
            // The next failure stops the partition.
            *self = Retry::Broken(why);
        }
    }
}

/// Calls a user's code: a panic there is an error here.
fn guarded<T>(call: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("it panicked: {}", text.unwrap_or_else(|| "no text".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_exponential_backoff_grows_to_its_longest_and_never_overflows() {
        let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
        let ms = |failures| backoff.delay(failures, 0.5).as_millis();
        assert_eq!([ms(1), ms(2), ms(3), ms(10), ms(11)], [100, 200, 400, 51_200, 60_000]);
        // After 43 failures the JVM's shift overflowed and the retry came at once.
        for failures in [43, 64, 1_000, u32::MAX] {
            assert_eq!(ms(failures), 60_000);
        }
        assert_eq!(Backoff::STORM.delay(5, 0.9), Duration::ZERO);
    }

    #[test]
    fn jitter_shifts_by_its_share_and_never_beyond_the_longest() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(1, 0.0), Duration::from_millis(80));
        assert_eq!(backoff.delay(1, 1.0), Duration::from_millis(120));
        assert_eq!(backoff.delay(50, 1.0), Duration::from_secs(60));
    }
}
