//! Which release a broker is that does not answer ApiVersions; as a plain state machine.
//!
//! 0.8 closes the connection on a key it does not know, 0.9 never answers it and keeps the
//! connection open (KAFKA-3088). A newer broker that is starting, frozen, overloaded or being
//! stopped does the same for a while. So a verdict needs all of this:
//!
//! 1. ApiVersions failed twice, in the same way, on two connections, the second of which had
//!    answered Metadata 0 just before: behind an address shared by several brokers it is one and the
//!    same that answers the old request and not the new one;
//! 2. silence counts only if ListGroups 0 is answered meanwhile on a third connection: a frozen
//!    broker answers that no sooner than ApiVersions;
//! 3. a close counts only if the same connection answered an older request just before;
//! 4. no earlier ApiVersions was answered late: those connections stay open until the verdict;
//! 5. no broker of this cluster answered ApiVersions lately ([`super::memory`]).
//!
//! No probe changes anything on the broker: Metadata 0 for all topics, ListOffsets 0, OffsetFetch 0
//! and OffsetCommit 2 of no partition, ListGroups 0. (FindCoordinator would create the offsets topic
//! of a 0.8.2 broker.)

use std::time::Duration;

use super::versions::LegacyRelease;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// On a fresh connection send ApiVersions. Those sent before stay open.
    AskVersions(Duration),
    /// On a fresh connection send Metadata 0.
    AskMetadata(Duration),
    /// On the connection that answered Metadata 0 send ApiVersions.
    AskVersionsThere(Duration),
    /// On a fresh connection send ListOffsets 0 of no partition, which all old brokers answer; then
    /// the probe.
    Probe(Probe, Duration),
    /// Send nothing; wait for an answer to any ApiVersions.
    Wait(Duration),
    /// It is settled.
    Done(Outcome),
}

/// A request of which it is known which releases answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// 0.9 on.
    ListGroups0,
    /// 0.8.1 on.
    OffsetFetch0,
    /// 0.8.1, which does not look at the version, and 0.9 on; 0.8.2 closes.
    OffsetCommit2,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// An answer to ApiVersions, this one or an earlier one.
    Versions,
    /// An answer to Metadata 0, or to the probe.
    Answer,
    /// The connection was closed (`Wait`: that of the last ApiVersions).
    Closed,
    /// Nothing in the time given.
    Silence,
    /// ListOffsets 0 was not answered, so that the probe says nothing.
    Dead,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The broker tells its versions.
    Modern,
    /// The broker is of this release.
    Legacy(LegacyRelease),
    /// Nothing is answered at all: starting, frozen, overloaded.
    Unresponsive,
    /// Connections are closed whatever is asked: stopping, or no Kafka.
    Closes,
    /// Signs that do not agree; ask again later.
    Undecided,
}

/// How long each step may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The first ApiVersions.
    pub(super) first: Duration,
    /// The second ApiVersions.
    pub(super) second: Duration,
    /// A probe.
    pub(super) probe: Duration,
    /// How long ApiVersions must stay unanswered after the last probe was answered.
    pub(super) grace: Duration,
    /// All together, for a broker that answers nothing.
    pub(super) total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            first: Duration::from_millis(1500),
            second: Duration::from_millis(1000),
            probe: Duration::from_millis(2000),
            grace: Duration::from_millis(500),
            total: Duration::from_millis(10_000),
        }
    }
}

/// The state machine. [`Ladder::step`] says what to do, [`Ladder::heard`] takes what came of it.
#[derive(Debug)]
pub(super) struct Ladder {
    state: State,
    patience: Patience,
    may_be_legacy: bool,
    waited: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    Metadata {
        first: Failed,
    },
    Second {
        first: Failed,
    },
    /// Both ApiVersions met silence; the second is still open.
    Stalling(Stalling),
    /// Both ApiVersions were closed on.
    Closing(Probe),
    /// Nothing is answered; an answer may still come.
    LastWait,
    Done(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    Closed,
    Silence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stalling {
    Groups,
    Grace,
}

impl Ladder {
    /// `may_be_legacy`: whether a verdict is allowed at all.
    pub(super) fn new(may_be_legacy: bool, patience: Patience) -> Self {
        Ladder { state: State::First, patience, may_be_legacy, waited: Duration::ZERO }
    }

    /// What to do next.
    pub(super) fn step(&self) -> Step {
        let Patience { first, second, probe, grace, .. } = self.patience;
        match self.state {
            State::First => Step::AskVersions(first),
            State::Metadata { .. } => Step::AskMetadata(probe),
            State::Second { .. } => Step::AskVersionsThere(second),
            State::Stalling(Stalling::Groups) => Step::Probe(Probe::ListGroups0, probe),
            State::Stalling(Stalling::Grace) => Step::Wait(grace),
            State::Closing(next) => Step::Probe(next, probe),
            State::LastWait => Step::Wait(self.patience.total.saturating_sub(self.waited)),
            State::Done(outcome) => Step::Done(outcome),
        }
    }

    /// What came of the step.
    pub(super) fn heard(&mut self, heard: Heard) {
        if heard == Heard::Silence {
            self.waited += match self.step() {
                Step::AskVersions(time)
                | Step::AskMetadata(time)
                | Step::AskVersionsThere(time)
                | Step::Probe(_, time)
                | Step::Wait(time) => time,
                Step::Done(_) => Duration::ZERO,
            };
        }
        self.state = match (self.state, heard) {
            (State::Done(outcome), _) => State::Done(outcome),
            (_, Heard::Versions) => State::Done(Outcome::Modern),
            (state, heard) => self.after(state, heard),
        };
    }

    fn after(&self, state: State, heard: Heard) -> State {
        use Heard::{Answer, Closed, Silence};
        match (state, heard) {
            // A broker that was seen to know ApiVersions cannot be an old one.
            (State::First, Closed) if !self.may_be_legacy => State::Done(Outcome::Closes),
            (State::First, _) if !self.may_be_legacy => State::LastWait,
            (State::First, Closed) => State::Metadata { first: Failed::Closed },
            (State::First, _) => State::Metadata { first: Failed::Silence },

            (State::Metadata { first }, Answer) => State::Second { first },
            (State::Metadata { .. }, Closed) => State::Done(Outcome::Closes),
            (State::Metadata { .. }, _) => State::LastWait,

            (State::Second { first: Failed::Closed }, Closed) => State::Closing(Probe::ListGroups0),
            (State::Second { first: Failed::Silence }, Silence) => State::Stalling(Stalling::Groups),

            (State::Stalling(Stalling::Groups), Answer) => State::Stalling(Stalling::Grace),
            (State::Stalling(Stalling::Grace), Silence) => legacy(LegacyRelease::V0_9),

            // Vendors' 0.9 with the fix of KAFKA-3088 closes.
            (State::Closing(Probe::ListGroups0), Answer) => legacy(LegacyRelease::V0_9),
            (State::Closing(Probe::ListGroups0), Closed) => State::Closing(Probe::OffsetFetch0),
            (State::Closing(Probe::OffsetFetch0), Closed) => legacy(LegacyRelease::V0_8_0),
            (State::Closing(Probe::OffsetFetch0), Answer) => State::Closing(Probe::OffsetCommit2),
            (State::Closing(Probe::OffsetCommit2), Closed) => legacy(LegacyRelease::V0_8_2),
            (State::Closing(Probe::OffsetCommit2), Answer) => legacy(LegacyRelease::V0_8_1),

            (State::LastWait, Closed) => State::Done(Outcome::Closes),
            (State::LastWait, _) => State::Done(Outcome::Unresponsive),
            _ => State::Done(Outcome::Undecided),
        }
    }
}

fn legacy(release: LegacyRelease) -> State {
    State::Done(Outcome::Legacy(release))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a broker of a release reacts, and for how long it has been frozen or up.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        V0_8_0,
        V0_8_1,
        V0_8_2,
        V0_9,
        V0_9Fixed,
        Modern,
    }

    /// From when on (ms of ladder time) the broker is in which condition.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Condition {
        Up,
        /// Takes connections, answers nothing; what was asked is answered when it is up again.
        Frozen,
        /// Closes every connection.
        Stopping,
    }

    /// A broker, or a balancer with brokers of one release behind it that may be up or not.
    struct Model {
        kind: Kind,
        /// The conditions over time.
        phases: Vec<(u64, Condition)>,
        /// The conditions that connections meet, by turns; they override the phases.
        by_turns: Vec<Condition>,
        connections: usize,
        now: u64,
        /// ApiVersions that were sent: when, and over which connection.
        asked: Vec<(u64, usize)>,
    }

    impl Model {
        fn of(kind: Kind) -> Self {
            Model {
                kind,
                phases: Vec::new(),
                by_turns: Vec::new(),
                connections: 0,
                now: 0,
                asked: Vec::new(),
            }
        }

        fn condition(&self, at: u64, connection: usize) -> Condition {
            match self.by_turns.get(connection % self.by_turns.len().max(1)) {
                Some(condition) => *condition,
                None => {
                    self.phases.iter().rev().find(|(from, _)| *from <= at).map_or(Condition::Up, |(_, c)| *c)
                }
            }
        }

        fn versions_reply(&self) -> Heard {
            match self.kind {
                Kind::Modern => Heard::Versions,
                Kind::V0_9 => Heard::Silence,
                _ => Heard::Closed,
            }
        }

        fn probe_reply(&self, probe: Probe) -> Heard {
            let answered = match (self.kind, probe) {
                (Kind::V0_9 | Kind::V0_9Fixed, _) => true,
                // 4.x has dropped some; older ones answer all.
                (Kind::Modern, _) => true,
                (Kind::V0_8_1, Probe::OffsetFetch0 | Probe::OffsetCommit2) => true,
                (Kind::V0_8_2, Probe::OffsetFetch0) => true,
                _ => false,
            };
            if answered { Heard::Answer } else { Heard::Closed }
        }

        /// Lets time pass until `reply` comes over the connection or the patience ends. A modern
        /// broker that wakes up answers the ApiVersions it was asked before.
        fn wait(&mut self, patience: Duration, connection: usize, reply: Heard, dead: Heard) -> Heard {
            let (start, end) = (self.now, self.now + patience.as_millis() as u64);
            while self.now < end {
                let late_answer = self.asked.iter().any(|(at, over)| {
                    self.condition(*at, *over) != Condition::Stopping
                        && self.condition(self.now, *over) == Condition::Up
                });
                if self.kind == Kind::Modern && late_answer {
                    return Heard::Versions;
                }
                if self.condition(start, connection) == Condition::Stopping {
                    return dead;
                }
                match self.condition(self.now, connection) {
                    Condition::Up if reply != Heard::Silence => return reply,
                    Condition::Stopping => return dead,
                    _ => {}
                }
                self.now += 50;
            }
            Heard::Silence
        }

        fn run(mut self, may_be_legacy: bool) -> (Outcome, u64) {
            let mut ladder = Ladder::new(may_be_legacy, Patience::default());
            let mut over = 0;
            for _ in 0..12 {
                let step = ladder.step();
                if matches!(step, Step::AskVersions(_) | Step::AskMetadata(_) | Step::Probe(..)) {
                    over = self.connections;
                    self.connections += 1;
                }
                let versions = self.versions_reply();
                let heard = match step {
                    Step::Done(outcome) => return (outcome, self.now),
                    Step::AskVersions(patience) | Step::AskVersionsThere(patience) => {
                        self.asked.push((self.now, over));
                        self.wait(patience, over, versions, Heard::Closed)
                    }
                    Step::AskMetadata(patience) => self.wait(patience, over, Heard::Answer, Heard::Closed),
                    Step::Probe(probe, patience) => {
                        let reply = self.probe_reply(probe);
                        self.wait(patience, over, reply, Heard::Dead)
                    }
                    Step::Wait(patience) => self.wait(patience, over, Heard::Silence, Heard::Closed),
                };
                ladder.heard(heard);
            }
            panic!("the ladder does not end");
        }

        fn with_phases(self, phases: &[(u64, Condition)]) -> Self {
            Model { phases: phases.to_vec(), ..self }
        }
    }

    #[test]
    fn each_release_is_told_within_seconds() {
        let table = [
            (Kind::V0_8_0, Outcome::Legacy(LegacyRelease::V0_8_0), 0),
            (Kind::V0_8_1, Outcome::Legacy(LegacyRelease::V0_8_1), 0),
            (Kind::V0_8_2, Outcome::Legacy(LegacyRelease::V0_8_2), 0),
            (Kind::V0_9, Outcome::Legacy(LegacyRelease::V0_9), 3000),
            (Kind::V0_9Fixed, Outcome::Legacy(LegacyRelease::V0_9), 0),
            (Kind::Modern, Outcome::Modern, 0),
        ];
        for (kind, outcome, time) in table {
            assert_eq!(Model::of(kind).run(true), (outcome, time), "{kind:?}");
        }
    }

    #[test]
    fn b1_case_46_a_frozen_or_starting_broker_is_never_taken_for_an_old_one() {
        // Every pattern of up, frozen and stopping in slices of half a second, over the 3 s that the
        // ladder can take for a verdict and a bit beyond.
        let conditions = [Condition::Up, Condition::Frozen, Condition::Stopping];
        let slices = 8;
        for pattern in 0..conditions.len().pow(slices) {
            let phases: Vec<_> = (0..slices)
                .map(|i| {
                    (u64::from(i) * 500, conditions[pattern / conditions.len().pow(i) % conditions.len()])
                })
                .collect();
            let (outcome, _) = Model::of(Kind::Modern).with_phases(&phases).run(true);
            assert!(!matches!(outcome, Outcome::Legacy(_)), "{outcome:?} with {phases:?}");
        }
    }

    #[test]
    fn a_balancer_with_dead_brokers_behind_it_is_never_taken_for_an_old_one() {
        let conditions = [Condition::Up, Condition::Frozen, Condition::Stopping];
        for connections in 1..=7 {
            for pattern in 0..conditions.len().pow(connections) {
                let by_turns: Vec<_> = (0..connections)
                    .map(|i| conditions[pattern / conditions.len().pow(i) % conditions.len()])
                    .collect();
                let model = Model { by_turns: by_turns.clone(), ..Model::of(Kind::Modern) };
                let (outcome, _) = model.run(true);
                assert!(!matches!(outcome, Outcome::Legacy(_)), "{outcome:?} with {by_turns:?}");
            }
        }
    }

    #[test]
    fn an_old_broker_that_freezes_meanwhile_is_at_worst_undecided() {
        for kind in [Kind::V0_8_0, Kind::V0_8_1, Kind::V0_8_2, Kind::V0_9, Kind::V0_9Fixed] {
            let (right, _) = Model::of(kind).run(true);
            for from in 0..10 {
                for to in from..12 {
                    let phases = [(from * 500, Condition::Frozen), (to * 500, Condition::Up)];
                    let (outcome, _) = Model::of(kind).with_phases(&phases).run(true);
                    let wrong = matches!(outcome, Outcome::Legacy(_) | Outcome::Modern) && outcome != right;
                    assert!(!wrong, "{kind:?} taken for {outcome:?} with {phases:?}");
                }
            }
        }
    }

    #[test]
    fn a_broker_that_wakes_up_within_the_patience_is_modern() {
        let phases = [(0, Condition::Frozen), (7000, Condition::Up)];
        let (outcome, time) = Model::of(Kind::Modern).with_phases(&phases).run(true);
        assert_eq!((outcome, time), (Outcome::Modern, 7000));
    }

    #[test]
    fn a_broker_that_answers_nothing_is_unresponsive_after_the_total() {
        for may_be_legacy in [true, false] {
            for kind in [Kind::Modern, Kind::V0_9, Kind::V0_8_2] {
                let (outcome, time) =
                    Model::of(kind).with_phases(&[(0, Condition::Frozen)]).run(may_be_legacy);
                assert_eq!((outcome, time), (Outcome::Unresponsive, 10_000), "{kind:?}");
            }
        }
    }

    #[test]
    fn no_verdict_for_a_cluster_that_answered_lately() {
        for kind in [Kind::V0_8_0, Kind::V0_8_2, Kind::V0_9, Kind::V0_9Fixed] {
            let (outcome, _) = Model::of(kind).run(false);
            assert!(matches!(outcome, Outcome::Unresponsive | Outcome::Closes), "{kind:?}: {outcome:?}");
        }
    }

    #[test]
    fn a_port_that_closes_on_everything_is_no_old_broker() {
        let (outcome, _) = Model::of(Kind::V0_8_0).with_phases(&[(0, Condition::Stopping)]).run(true);
        assert_eq!(outcome, Outcome::Closes);
    }

    #[test]
    fn signs_that_do_not_agree_give_no_verdict() {
        let table: &[&[Heard]] = &[
            &[Heard::Silence, Heard::Answer, Heard::Closed],
            &[Heard::Closed, Heard::Answer, Heard::Silence],
            &[Heard::Silence, Heard::Answer, Heard::Silence, Heard::Closed],
            &[Heard::Closed, Heard::Answer, Heard::Closed, Heard::Dead],
            &[Heard::Silence, Heard::Answer, Heard::Silence, Heard::Silence],
            &[Heard::Silence, Heard::Answer, Heard::Silence, Heard::Answer, Heard::Closed],
            &[Heard::Closed, Heard::Answer, Heard::Closed, Heard::Silence],
            &[Heard::Closed, Heard::Answer, Heard::Closed, Heard::Closed, Heard::Silence],
        ];
        for signs in table {
            let mut ladder = Ladder::new(true, Patience::default());
            signs.iter().for_each(|heard| ladder.heard(*heard));
            assert_eq!(ladder.step(), Step::Done(Outcome::Undecided), "{signs:?}");
        }
    }
}
