use std::time::Duration;

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
        let seconds =
            (self.first.as_secs_f64() * self.multiplier.powi(power)).min(self.longest.as_secs_f64());
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
