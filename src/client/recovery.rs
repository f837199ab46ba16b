//! What is done about a position that the log does not hold: a plain state machine, without I/O or
//! clock. A stream and the spout drive it; a test can run a million of them.
//!
//! "Out of range" is three different things, and brokers use one code for all of them. The machine
//! asks until it knows which: another replica's view (a follower may lag), an old leader's view
//! (metadata may be stale), the leader epochs (KIP-320), and at last both ends of the log.

use std::fmt;
use std::sync::Arc;

use super::stream::Recovered;
use crate::wire::Uuid;

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Next offset to read.
    pub(crate) offset: i64,
    /// Epoch of the leader that wrote the last batch read, where it is known.
    pub(crate) epoch: Option<i32>,
}

/// Both ends of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// First offset.
    pub start: i64,
    /// Offset after the last record that consumers may see: the high watermark.
    pub end: i64,
}

/// Both ends, with the epochs of the leaders that wrote what stands there, where they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

impl Ends {
    fn log(&self) -> LogBounds {
        LogBounds { start: self.start.offset, end: self.end.offset }
    }

    fn at(&self, offset: i64) -> Position {
        [self.end, self.start]
            .into_iter()
            .find(|end| end.offset == offset)
            .unwrap_or(Position { offset, epoch: None })
    }
}

/// Why a position is not valid any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutOfRange {
    /// It lies below the start of the log: retention or DeleteRecords removed the records from it on.
    BelowStart {
        /// The log as it is.
        log: LogBounds,
    },
    /// It lies above the end of the log, and nothing proves why: the log was truncated, the topic was
    /// deleted and made again, or this is another cluster.
    AboveEnd {
        /// The log as it is.
        log: LogBounds,
    },
    /// It lies within the log, and the leader refuses it all the same, again and again. No policy goes on
    /// from here: nothing says that records are gone.
    Refused {
        /// The log as the leader tells it.
        log: LogBounds,
    },
    /// The topic was deleted and made again: its id is another one (2.8 on).
    Recreated {
        /// The id of the topic that was read so far.
        old: Uuid,
        /// The id of the topic that has the name now.
        new: Uuid,
        /// The new log.
        log: LogBounds,
    },
}

impl OutOfRange {
    /// The log as it is.
    pub fn log(&self) -> LogBounds {
        match *self {
            OutOfRange::BelowStart { log }
            | OutOfRange::AboveEnd { log }
            | OutOfRange::Refused { log }
            | OutOfRange::Recreated { log, .. } => log,
        }
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogBounds { start, end } = self.log();
        match self {
            OutOfRange::BelowStart { .. } => {
                write!(f, "the log now starts at {start} (and ends at {end}): what was before is gone")
            }
            OutOfRange::AboveEnd { .. } => write!(
                f,
                "the log ends at {end} (and starts at {start}): it was truncated, or the topic was made anew, or this is another cluster"
            ),
            OutOfRange::Refused { .. } => write!(
                f,
                "the log runs from {start} to {end}, yet its leader refuses to read there; look at that broker"
            ),
            OutOfRange::Recreated { old, new, .. } => write!(
                f,
                "the topic was deleted and made again (id {old} before, {new} now); its log runs from {start} to {end}"
            ),
        }
    }
}

/// Where to go on after a position turned out to be invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Nowhere: an error.
    Fail,
    /// At the start of the log.
    Earliest,
    /// At its end.
    Latest,
    /// At that offset; held to the bounds of the log.
    To(i64),
}

/// What a stream does about a position that the log does not hold.
///
/// A truncation that leader epochs prove is no such case: reading goes on where the logs part.
#[derive(Clone, Default)]
pub enum ResetPolicy {
    /// An error; the stream stays at its position.
    #[default]
    Fail,
    /// Go on at the start of the log.
    Earliest,
    /// Go on at its end.
    Latest,
    /// Go on at the end that is nearer: at the start when below it, at the end when above it, and at
    /// the start of a topic that was made anew.
    Nearest,
    /// Ask: partition (topic and number), position, and what is wrong with it.
    Ask(Arc<AskReset>),
}

/// Decides about an invalid position of a partition; see [`ResetPolicy::Ask`].
pub type AskReset = dyn Fn(&str, i32, i64, &OutOfRange) -> Reset + Send + Sync;

impl ResetPolicy {
    /// Asks `decide` (topic, partition, position, what is wrong).
    pub fn ask(decide: impl Fn(&str, i32, i64, &OutOfRange) -> Reset + Send + Sync + 'static) -> Self {
        ResetPolicy::Ask(Arc::new(decide))
    }

    fn decide(&self, topic: &str, partition: i32, offset: i64, why: &OutOfRange) -> Reset {
        match self {
            ResetPolicy::Fail => Reset::Fail,
            ResetPolicy::Earliest => Reset::Earliest,
            ResetPolicy::Latest => Reset::Latest,
            ResetPolicy::Nearest => match why {
                OutOfRange::AboveEnd { .. } => Reset::Latest,
                _ => Reset::Earliest,
            },
            ResetPolicy::Ask(decide) => decide(topic, partition, offset, why),
        }
    }
}

impl fmt::Debug for ResetPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetPolicy::Fail => "Fail",
            ResetPolicy::Earliest => "Earliest",
            ResetPolicy::Latest => "Latest",
            ResetPolicy::Nearest => "Nearest",
            ResetPolicy::Ask(_) => "Ask",
        })
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Fetch the same offset at the leader.
    AskLeader,
    /// Get newer metadata, then fetch the same offset again.
    Refresh,
    /// Ask the leader where this epoch ended; [`Recovery::epoch_end`] takes the answer.
    EpochEnd(i32),
    /// Ask the leader for both ends of its log; [`Recovery::bounds`] takes the answer.
    Bounds,
    /// The position is in range after all: wait a little, then fetch it again.
    Again,
    /// Go on there, and say so first.
    Resume(Position, Recovered),
    /// Go on there; nothing happened that anyone need know.
    Continue(i64),
    /// Fail; the position stays.
    Fail(OutOfRange),
}

/// The recovery of one partition.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    stage: Stage,
    /// Refusals of a position that lies within the bounds, in a row.
    contradictions: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is wrong.
    #[default]
    Calm,
    /// Metadata was refreshed, and the same offset asked again.
    Refreshed,
    /// The end of an epoch was asked for.
    Epochs,
    /// Both ends were asked for.
    Bounds,
}

/// Refusals of a position that the bounds allow, after which that is an error.
const CONTRADICTIONS: u32 = 10;

impl Recovery {
    /// The position was accepted.
    pub(crate) fn accepted(&mut self) {
        *self = Recovery::default();
    }

    /// Whether a refusal is being looked into.
    #[cfg(test)]
    fn is_calm(&self) -> bool {
        self.stage == Stage::Calm
    }

    /// The broker refused the position. `by_follower`: it does not lead the partition (KIP-392).
    /// `epochs`: the leader can tell where epochs ended.
    pub(crate) fn refused(&mut self, at: &Position, by_follower: bool, epochs: bool) -> Step {
        if by_follower {
            // A follower that lags, or starts later than its leader (KAFKA-8365).
            return Step::AskLeader;
        }
        match self.stage {
            Stage::Calm => {
                self.stage = Stage::Refreshed;
                Step::Refresh
            }
            _ => match at.epoch.filter(|_| epochs) {
                Some(epoch) => {
                    self.stage = Stage::Epochs;
                    Step::EpochEnd(epoch)
                }
                None => self.ask_bounds(),
            },
        }
    }

    fn ask_bounds(&mut self) -> Step {
        self.stage = Stage::Bounds;
        Step::Bounds
    }

    /// The leader has changed: its log may be shorter than what was read (KIP-320).
    pub(crate) fn leader_changed(&mut self, at: &Position, epochs: bool) -> Option<Step> {
        let epoch = at.epoch.filter(|_| epochs)?;
        if self.stage == Stage::Calm {
            self.stage = Stage::Epochs;
        }
        Some(Step::EpochEnd(epoch))
    }

    /// Where the epoch asked about, or the last one before it, ended in the leader's log; `None` if it
    /// cannot tell.
    pub(crate) fn epoch_end(&mut self, at: &Position, end: Option<Position>, refused: bool) -> Step {
        match end {
            Some(end) if end.offset < at.offset => {
                self.accepted();
                Step::Resume(end, Recovered::Truncated { position: at.offset, diverged_at: end.offset })
            }
            // The log is whole, so the position lies below its start; or the leader can't tell.
            _ if refused => self.ask_bounds(),
            _ => {
                self.accepted();
                Step::Continue(at.offset)
            }
        }
    }

    /// Both ends of the leader's log. `place` is the topic and partition, for a policy that asks.
    pub(crate) fn bounds(
        &mut self,
        at: &Position,
        ends: Ends,
        policy: &ResetPolicy,
        place: (&str, i32),
    ) -> Step {
        let log = ends.log();
        let why = if at.offset < log.start {
            OutOfRange::BelowStart { log }
        } else if at.offset > log.end {
            OutOfRange::AboveEnd { log }
        } else {
            // It may have been out of range a moment ago; or the answers contradict each other.
            self.contradictions += 1;
            self.stage = Stage::Refreshed;
            if self.contradictions < CONTRADICTIONS {
                return Step::Again;
            }
            self.accepted();
            return Step::Fail(OutOfRange::Refused { log });
        };
        self.accepted();
        decide(at, ends, why, policy, place)
    }

    /// The topic has another id: it is a new one.
    pub(crate) fn recreated(
        &mut self,
        at: &Position,
        ids: (Uuid, Uuid),
        ends: Ends,
        policy: &ResetPolicy,
        place: (&str, i32),
    ) -> Step {
        self.accepted();
        decide(at, ends, OutOfRange::Recreated { old: ids.0, new: ids.1, log: ends.log() }, policy, place)
    }
}

fn decide(
    at: &Position,
    ends: Ends,
    why: OutOfRange,
    policy: &ResetPolicy,
    (topic, partition): (&str, i32),
) -> Step {
    let log = ends.log();
    let to = match policy.decide(topic, partition, at.offset, &why) {
        Reset::Fail => return Step::Fail(why),
        Reset::Earliest => log.start,
        Reset::Latest => log.end,
        Reset::To(offset) => offset.clamp(log.start, log.end.max(log.start)),
    };
    Step::Resume(ends.at(to), Recovered::OutOfRange { position: at.offset, resumed_at: to, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (&str, i32) = ("t", 0);

    fn at(offset: i64, epoch: Option<i32>) -> Position {
        Position { offset, epoch }
    }

    fn log(start: i64, end: i64) -> LogBounds {
        LogBounds { start, end }
    }

    fn ends(start: i64, end: i64) -> Ends {
        Ends { start: at(start, Some(1)), end: at(end, Some(8)) }
    }

    #[test]
    fn o2_a_stale_leader_is_ruled_out_before_anything_else() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.refused(&at(5, Some(1)), false, true), Step::Refresh);
        recovery.accepted();
        assert_eq!(recovery.refused(&at(5, None), false, false), Step::Refresh, "each time anew");
    }

    #[test]
    fn o3_case_22_a_followers_refusal_only_leads_to_the_leader() {
        let mut recovery = Recovery::default();
        for _ in 0..3 {
            assert_eq!(recovery.refused(&at(5, Some(1)), true, true), Step::AskLeader);
            assert!(recovery.is_calm());
        }
    }

    #[test]
    fn o1_both_ends_are_asked_for_where_epochs_cannot_tell() {
        for (epoch, broker_can) in [(None, true), (Some(3), false)] {
            let mut recovery = Recovery::default();
            recovery.refused(&at(5, epoch), false, broker_can);
            assert_eq!(recovery.refused(&at(5, epoch), false, broker_can), Step::Bounds);
        }
    }

    #[test]
    fn kip_320_a_truncation_that_epochs_prove_goes_on_where_the_logs_part_whatever_the_policy() {
        let mut recovery = Recovery::default();
        let here = at(100, Some(3));
        recovery.refused(&here, false, true);
        assert_eq!(recovery.refused(&here, false, true), Step::EpochEnd(3));
        let event = Recovered::Truncated { position: 100, diverged_at: 60 };
        let parted = at(60, Some(2));
        assert_eq!(recovery.epoch_end(&here, Some(parted), true), Step::Resume(parted, event));
        assert!(recovery.is_calm());
        // Without a refusal, after a change of leaders: the same.
        assert_eq!(recovery.leader_changed(&here, true), Some(Step::EpochEnd(3)));
        assert_eq!(recovery.epoch_end(&here, Some(at(100, Some(3))), false), Step::Continue(100));
        assert_eq!(recovery.leader_changed(&at(100, None), true), None);
    }

    #[test]
    fn o1_o11_each_policy_at_each_end_and_what_it_costs() {
        let below = OutOfRange::BelowStart { log: log(50, 80) };
        let above = OutOfRange::AboveEnd { log: log(50, 80) };
        let asked = |to| {
            ResetPolicy::ask(move |topic, partition, _, _| {
                assert_eq!((topic, partition), PLACE);
                to
            })
        };
        // Policy, position, where to go on, records lost, offsets read again.
        let table = [
            (ResetPolicy::Fail, 10, None, 0, 0),
            (ResetPolicy::Fail, 99, None, 0, 0),
            (ResetPolicy::Earliest, 10, Some(50), 40, 0),
            (ResetPolicy::Earliest, 99, Some(50), 0, 49),
            (ResetPolicy::Latest, 10, Some(80), 70, 0),
            (ResetPolicy::Latest, 99, Some(80), 0, 19),
            (ResetPolicy::Nearest, 10, Some(50), 40, 0),
            (ResetPolicy::Nearest, 99, Some(80), 0, 19),
            (asked(Reset::Fail), 10, None, 0, 0),
            (asked(Reset::To(60)), 10, Some(60), 50, 0),
            (asked(Reset::To(7)), 10, Some(50), 40, 0),
            (asked(Reset::To(700)), 10, Some(80), 70, 0),
        ];
        for (policy, offset, resumed, lost, repeated) in table {
            let why = if offset < 50 { below } else { above };
            let step = Recovery::default().bounds(&at(offset, None), ends(50, 80), &policy, PLACE);
            match (resumed, step) {
                (None, Step::Fail(found)) => assert_eq!(found, why),
                (Some(resumed), Step::Resume(to, event)) => {
                    assert_eq!(to.offset, resumed, "{policy:?} {offset}");
                    assert_eq!((event.lost(), event.repeated()), (lost, repeated), "{policy:?} {offset}");
                }
                (_, step) => panic!("{policy:?} {offset}: {step:?}"),
            }
        }
    }

    #[test]
    fn both_ends_are_in_range_and_contradictions_end() {
        let mut recovery = Recovery::default();
        for offset in [50, 80] {
            let step = recovery.bounds(&at(offset, None), ends(50, 80), &ResetPolicy::Fail, PLACE);
            assert_eq!(step, Step::Again);
        }
        let mut turns = 0;
        let failed = loop {
            turns += 1;
            recovery.refused(&at(60, None), false, false);
            match recovery.bounds(&at(60, None), ends(50, 80), &ResetPolicy::Earliest, PLACE) {
                Step::Again => assert!(turns < 20),
                step => break step,
            }
        };
        assert_eq!(failed, Step::Fail(OutOfRange::Refused { log: log(50, 80) }), "whatever the policy");
    }

    #[test]
    fn case_56_a_new_id_is_a_new_topic() {
        let ids = (Uuid([1; 16]), Uuid([2; 16]));
        let fail =
            Recovery::default().recreated(&at(5, Some(9)), ids, ends(0, 80), &ResetPolicy::Fail, PLACE);
        assert!(matches!(fail, Step::Fail(OutOfRange::Recreated { .. })), "also where the offset exists");
        let near =
            Recovery::default().recreated(&at(5, Some(9)), ids, ends(0, 80), &ResetPolicy::Nearest, PLACE);
        assert!(matches!(
            near,
            Step::Resume(
                Position { offset: 0, epoch: Some(1) },
                Recovered::OutOfRange { position: 5, resumed_at: 0, .. }
            )
        ));
    }
}
