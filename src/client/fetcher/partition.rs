//! One partition, as the fetcher sees it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::asks::Question;
use super::budget::Key;
use super::inbox::{Delivery, Slot};
use crate::client::recovery::{Position, Recovery, Step};
use crate::client::stream::{EndOffset, Item, Recovered, StartOffset, StreamOptions};
use crate::error::Error;
use crate::wire::Uuid;

/// One partition, as the fetcher sees it.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) slot: Arc<Slot>,
    pub(super) options: Arc<StreamOptions>,
    pub(super) phase: Phase,
    /// Answers to what was asked under an earlier one are void.
    pub(super) generation: u64,
    /// The id of the topic that the position belongs to, where topics have ids.
    pub(super) topic_id: Option<Uuid>,
    /// Where to start, until that is known as an offset.
    pub(super) start: Option<StartOffset>,
    /// Where to end.
    pub(super) end: End,
    /// Next offset to fetch.
    pub(super) position: Position,
    pub(super) recovery: Recovery,
    pub(super) leader: Option<Leader>,
    /// A follower to read from instead (KIP-392), until then.
    pub(super) follower: Option<(i32, Instant)>,
    /// No follower is read from until then: one has refused.
    pub(super) leader_only: Option<Instant>,
    /// The leader has changed since the position was last known to be in its log.
    pub(super) unproven: bool,
    /// The topic was made anew: its ends are to be asked for.
    pub(super) recreated: Option<Uuid>,
    /// A fetch was refused as out of range: what to ask the leader.
    pub(super) doubt: Option<Doubt>,
    /// The offset from which a damaged set is fetched once more.
    pub(super) second_try: Option<i64>,
    /// The limit of one answer, as raised for a record that did not fit (Fetch 0–2).
    pub(super) raised: Option<i32>,
    /// More is there than was fetched.
    pub(super) lagging: bool,
    /// The last answer held nothing of it although more is there: it goes first next time.
    pub(super) passed_over: bool,
    pub(super) high_watermark: Option<i64>,
    /// Failures in a row.
    pub(super) failures: u32,
    /// Since when nothing could be read, and whether that was reported.
    pub(super) stalled: Option<(Instant, bool)>,
    /// Since when the topic, or the partition, is missing, and whether that was reported.
    pub(super) missing: Option<(Instant, bool)>,
    /// The open transaction that it stands before: first offset, since when, reported.
    pub(super) held_back: Option<(i64, Instant, bool)>,
}

/// A question that a refused position leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    Epoch(i32),
    Bounds,
}

/// A partition's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) broker: i32,
    pub(super) epoch: Option<i32>,
}

/// Where a partition's stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Never,
    /// Where the log ends, still to be asked for.
    Unknown,
    At(i64),
}

impl End {
    /// The offset, where it is known.
    pub(super) fn offset(self) -> Option<i64> {
        match self {
            End::At(offset) => Some(offset),
            End::Never | End::Unknown => None,
        }
    }
}

impl From<EndOffset> for End {
    fn from(end: EndOffset) -> Self {
        match end {
            EndOffset::Never => End::Never,
            EndOffset::Latest => End::Unknown,
            EndOffset::At(offset) => End::At(offset),
        }
    }
}

/// What a partition waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// To be settled.
    New,
    /// For the answer to a question at its leader.
    Asking,
    /// In line at that broker.
    Ready(i32),
    /// For the answer to a fetch at that broker, on that lane.
    Flying(i32, usize),
    /// Until what is buffered has been read.
    Full,
    /// For that timer.
    Waiting(u64),
    /// For metadata that name a leader.
    NoLeader,
    /// For its reader to go on: paused, halted by an error, or looking at damage.
    Reader,
    /// For nothing more.
    Ended,
}

/// How long no follower is read from after one has refused. The leader would name it again at once.
pub(super) const FOLLOWERS_REST: Duration = Duration::from_secs(10);

impl Partition {
    pub(super) fn new(
        slot: Arc<Slot>,
        options: Arc<StreamOptions>,
        start: StartOffset,
        end: EndOffset,
    ) -> Self {
        Partition {
            generation: slot.generation(),
            slot,
            options,
            phase: Phase::New,
            topic_id: None,
            start: Some(start),
            end: end.into(),
            position: Position { offset: -1, epoch: None },
            recovery: Recovery::default(),
            leader: None,
            follower: None,
            leader_only: None,
            unproven: false,
            recreated: None,
            doubt: None,
            second_try: None,
            raised: None,
            lagging: true,
            passed_over: false,
            high_watermark: None,
            failures: 0,
            stalled: None,
            missing: None,
            held_back: None,
        }
    }

    pub(super) fn key(&self) -> Key {
        self.slot.key
    }

    pub(super) fn topic(&self) -> &Arc<str> {
        &self.slot.topic
    }

    pub(super) fn number(&self) -> i32 {
        self.slot.partition
    }

    /// Hands something to the reader. One that has turned elsewhere does not take it, and the
    /// partition waits to be told where.
    pub(super) fn push(&mut self, delivery: Delivery) {
        if !self.slot.push(self.generation, delivery) {
            self.phase = Phase::Reader;
        }
    }

    pub(super) fn report(&mut self, event: Recovered) {
        tracing::info!(topic = %self.topic(), partition = self.number(), %event, "recovered");
        self.push(Delivery::Item(Box::new(Item::Recovered(event))));
    }

    /// Hands an error to the reader, and waits for it to ask again.
    pub(super) fn fail(&mut self, why: Error) {
        let why = self.place(why);
        tracing::warn!(error = %why, "stream stopped");
        self.phase = Phase::Reader;
        self.push(Delivery::Failed(why));
    }

    /// The error, with this partition and position.
    pub(super) fn place(&self, why: Error) -> Error {
        let why = why.with_topic(&**self.topic()).with_partition(self.number());
        if self.position.offset >= 0 { why.with_offset(self.position.offset) } else { why }
    }

    /// The broker to fetch from.
    pub(super) fn source(&self, now: Instant) -> Option<i32> {
        match self.follower {
            Some((follower, until)) if now < until => Some(follower),
            _ => self.leader.map(|leader| leader.broker),
        }
    }

    /// Goes back from a follower to the leader, for a while; whether it was at one.
    pub(super) fn leave_follower(&mut self, now: Instant) -> bool {
        let left = self.follower.take().is_some();
        if left {
            self.leader_only = Some(now + FOLLOWERS_REST);
        }
        left
    }

    /// Something could not be read; says so in band once that has lasted.
    pub(super) fn failed(&mut self, now: Instant, why: &Error) {
        self.failures = self.failures.saturating_add(1);
        let (since, reported) = *self.stalled.get_or_insert((now, false));
        let lasted: Duration = now - since;
        if !reported && lasted >= self.options.report_stall_after {
            self.stalled = Some((since, true));
            let (position, why) = (self.position.offset, self.place(why.clone()));
            self.report(Recovered::Stalled { position, since: lasted, why });
        }
    }

    /// The broker has accepted the position.
    pub(super) fn accepted(&mut self) {
        self.recovery.accepted();
        self.failures = 0;
        self.stalled = None;
    }

    /// Starts there: a position from before may not be in this log any more.
    pub(super) fn begin(&mut self, position: Position) {
        self.start = None;
        self.position = position;
        self.unproven = true;
        self.slot.set_position(position.offset);
    }

    /// What has to be asked before it is read on.
    pub(super) fn in_doubt(&mut self) -> Option<Question> {
        match self.doubt {
            Some(Doubt::Epoch(epoch)) => Some(Question::EpochEnd(epoch)),
            Some(Doubt::Bounds) => Some(Question::Bounds),
            None if std::mem::take(&mut self.unproven) => {
                match self.recovery.leader_changed(&self.position, true) {
                    Some(Step::EpochEnd(epoch)) => Some(Question::EpochEnd(epoch)),
                    _ => None,
                }
            }
            None => None,
        }
    }

    /// Goes on at another offset.
    pub(super) fn jump(&mut self, offset: i64) {
        self.position = Position { offset, epoch: None };
        self.lagging = true;
        self.passed_over = false;
        self.raised = None;
        self.held_back = None;
        self.doubt = None;
    }
}
