use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::dead_letter::DeadLetters;
use super::retry::{Backoff, RetryManagerFactory};
use crate::client::{ResetPolicy, StartOffset, StreamOptions};
use crate::error::{Error, Result};

/// Settings of a spout; all have defaults. [`SpoutSettings::check`] tells whether they fit together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpoutSettings {
    /// Where a partition without a checkpoint starts; earliest by default, so that nothing is passed
    /// over (storm-kafka's `startOffsetTime`).
    #[doc(alias = "startOffsetTime")]
    pub start: StartOffset,
    /// A partition without a checkpoint is an error at the start; false by default.
    pub require_checkpoint: bool,
    /// A checkpoint that another instance left is set aside, and `start` counts; false by default.
    /// Needs a stable `instance_id`, or each restart would begin anew (STORM-1017).
    #[doc(alias = "ignoreZkOffsets")]
    #[doc(alias = "forceFromStart")]
    pub ignore_stored_offsets: bool,
    /// What stays the same over restarts of one deployment; random by default (storm-kafka's
    /// `topology.id`).
    pub instance_id: Option<String>,
    /// A name for people, kept beside the position (storm-kafka's `topology.name`); the id by default.
    pub name: Option<String>,
    /// How failed records come again; back-off from 100 ms, doubled up to 60 s, by default.
    pub retry: RetryMode,
    /// How often a record is tried again before `on_exhausted` decides: 3 is 1 + 3 attempts, as in
    /// storm-kafka. Without limit by default.
    #[doc(alias = "retryLimit")]
    pub retry_limit: Option<u32>,
    /// What becomes of a record that failed for the last time. Only together with `retry_limit`
    /// (a poisonous, or rejected, record goes this way too).
    pub on_exhausted: Option<OnExhausted>,
    /// The one record that blocks a window full of finished ones goes the way of `on_exhausted`; false
    /// by default.
    pub give_up_under_pressure: bool,
    /// Records taken in and not safely done, per partition; 10,000 or 64 MiB by default.
    #[doc(alias = "maxUncommittedOffsets")]
    pub window: Limits,
    /// Records that wait for their retry, per partition; 1,000 or 16 MiB by default.
    pub parked: Limits,
    /// Time between commits; 2 s by default.
    #[doc(alias = "stateUpdateIntervalMs")]
    pub commit_interval: Duration,
    /// How long a close waits for what was handed out; 20 s by default.
    pub drain_timeout: Duration,
    /// A record that was handed out so long ago has failed; none by default.
    #[doc(alias = "topology.message.timeout.secs")]
    pub ack_timeout: Option<Duration>,
    /// A record that was handed out so long ago is reported, once; 1 minute by default.
    pub report_unfinished_after: Duration,
    /// Which records may run at the same time; any by default.
    pub order: Order,
    /// What to do about a position above the end of the log that nothing proves, or below its start;
    /// by default the start of the log below it (counting what was lost), of a topic that was made anew
    /// (its id says so), and a stop of the partition above it.
    #[doc(alias = "useStartOffsetTimeIfOffsetOutOfRange")]
    pub reset: Option<ResetPolicy>,
    /// What to do about records that cannot be read: damaged ones, and those that a scheme refuses;
    /// stop the partition by default.
    pub on_poison: OnPoison,
    /// Number of this task among `total_tasks`, from 0; 0 by default.
    pub task_index: usize,
    /// How many tasks share the partitions; 1 by default.
    pub total_tasks: usize,
    /// How partitions of several topics are dealt to tasks; each topic by itself by default.
    pub assignment: AssignmentOrder,
    /// How often new partitions and topics are looked for; 1 minute by default.
    #[doc(alias = "refreshFreqSecs")]
    pub refresh_interval: Duration,
    /// Handing out pauses when positions could not be kept for so long; 5 minutes by default.
    pub pause_after_commit_failure: Duration,
    /// Checkpoints exactly as storm-kafka writes them: no extras, so a restart repeats all that is above
    /// the position; false by default.
    pub compat_storm: bool,
    /// How partitions are read.
    pub stream: StreamOptions,
}

/// Records and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many records.
    pub records: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// How failed records come again.
#[derive(Clone)]
#[non_exhaustive]
pub enum RetryMode {
    /// Each by itself, after a time that grows (storm-kafka 0.10 on).
    Backoff(Backoff),
    /// At once, the lowest offset first, and before any new record (storm-kafka 0.9.2 to 0.9.7).
    FailedSet,
    /// The partition goes back to the failed record, and all from there on comes again
    /// (storm-kafka-0.8-plus). Acks of what was handed out from there on count for nothing.
    Rewind,
    /// As your own code says; one manager is made for each partition.
    #[doc(alias = "failedMsgRetryManagerClass")]
    Custom(Arc<dyn RetryManagerFactory>),
}

impl Default for RetryMode {
    fn default() -> Self {
        RetryMode::Backoff(Backoff::default())
    }
}

impl fmt::Debug for RetryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryMode::Backoff(backoff) => f.debug_tuple("Backoff").field(backoff).finish(),
            RetryMode::FailedSet => f.write_str("FailedSet"),
            RetryMode::Rewind => f.write_str("Rewind"),
            RetryMode::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// What becomes of a record that failed for the last time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum OnExhausted {
    /// It counts as done, and is counted (`messageIneligibleForRetryCount`).
    Skip,
    /// It goes to a dead-letter topic, and counts as done when that has it.
    DeadLetter(DeadLetters),
    /// Its partition stops, and says so.
    Stop,
}

/// What to do about a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnPoison {
    /// Its partition stops, and says so.
    #[default]
    Stop,
    /// It counts as done, and is counted.
    Skip,
    /// It goes the way of `on_exhausted` at once. A batch whose bytes are damaged cannot: that stops the
    /// partition.
    GiveUp,
}

/// Which records may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Any.
    #[default]
    Any,
    /// Of each key (bytes, within its partition) one after another; others beside it. An empty key is a
    /// key like any other.
    ByKey {
        /// Whether records without a key (null) are one after another too; if not, they are in no order.
        null_is_a_key: bool,
    },
}

/// How partitions of several topics are dealt to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AssignmentOrder {
    /// Each topic begins at a task that a stable hash of its name picks: a new partition of one moves
    /// nothing of another.
    #[default]
    ByTopic,
    /// All partitions of all topics, sorted, in one line, as storm-kafka has them.
    Concatenated,
}

impl Default for SpoutSettings {
    fn default() -> Self {
        SpoutSettings {
            start: StartOffset::Earliest,
            require_checkpoint: false,
            ignore_stored_offsets: false,
            instance_id: None,
            name: None,
            retry: RetryMode::default(),
            retry_limit: None,
            on_exhausted: None,
            give_up_under_pressure: false,
            window: Limits { records: 10_000, bytes: 64 << 20 },
            parked: Limits { records: 1_000, bytes: 16 << 20 },
            commit_interval: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(20),
            ack_timeout: None,
            report_unfinished_after: Duration::from_secs(60),
            order: Order::Any,
            reset: None,
            on_poison: OnPoison::Stop,
            task_index: 0,
            total_tasks: 1,
            assignment: AssignmentOrder::ByTopic,
            refresh_interval: Duration::from_secs(60),
            pause_after_commit_failure: Duration::from_secs(300),
            compat_storm: false,
            stream: StreamOptions::default(),
        }
    }
}

impl SpoutSettings {
    /// Whether they fit together.
    ///
    /// # Errors
    ///
    /// The first thing that does not, and what to do about it.
    pub fn check(&self) -> Result<()> {
        let wrong = |why: &str| Err(Error::config(why));
        if self.total_tasks == 0 || self.task_index >= self.total_tasks {
            return Err(Error::config(format!(
                "task_index must be less than total_tasks: tasks are numbered from 0; they are {} and {}",
                self.task_index, self.total_tasks
            )));
        }
        if self.retry_limit == Some(0) {
            return wrong("retry_limit must be at least 1; leave it out to retry without limit");
        }
        if self.retry_limit.is_some() && self.on_exhausted.is_none() {
            return wrong("retry_limit needs on_exhausted: skip, dead-letter or stop");
        }
        if self.on_exhausted.is_none() {
            if self.give_up_under_pressure {
                return wrong("give_up_under_pressure needs on_exhausted: skip, dead-letter or stop");
            }
            if self.on_poison == OnPoison::GiveUp {
                return wrong("on_poison = give_up needs on_exhausted: skip, dead-letter or stop");
            }
        }
        if self.ignore_stored_offsets && self.instance_id.is_none() {
            return wrong(
                "ignore_stored_offsets needs an instance_id that stays the same over restarts, or each restart would begin anew (STORM-1017)",
            );
        }
        if self.window.records == 0 || self.window.bytes == 0 {
            return wrong("the window must hold at least 1 record and 1 byte");
        }
        if self.refresh_interval.is_zero() {
            return wrong("refresh_interval must be above 0: metadata would be asked for without end");
        }
        if self.commit_interval.is_zero() {
            return wrong("commit_interval must be above 0");
        }
        if self.ack_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return wrong("ack_timeout must be above 0; leave it out to wait without limit");
        }
        if matches!(self.retry, RetryMode::Rewind) && self.order != Order::Any {
            return wrong(
                "retry mode rewind repeats a partition in its order; it does not go with order by key",
            );
        }
        if let RetryMode::Backoff(backoff) = &self.retry {
            backoff.check()?;
        }
        Ok(())
    }
}
