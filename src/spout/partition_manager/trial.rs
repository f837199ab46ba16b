//! Whether the process dies of a record, as far as its ends tell. A plain state machine.
//!
//! An unclean end counts if a record was in somebody's hands, or may have been, and those handed out
//! first were not answered. After two such ends in a row few records are out at a time, and positions are
//! kept often: whatever kills the process then is among the first few the next time. After three these run
//! alone: nothing else is out in the whole spout, and the store knows of each before it is handed out.

use std::ops::Range;
use std::sync::Arc;

use crate::spout::lot::Lot;
use crate::spout::parked::Millis;

/// Unclean ends in a row after which few records are out at a time.
const CAREFUL: u32 = 2;
/// And after which these run alone.
pub(super) const ALONE: u32 = 3;
/// So many records are few.
pub(super) const FEW: usize = 64;
/// A process that lived that long, handing out, is in order.
const IN_ORDER: Millis = 60_000;

/// The trial of one partition, in one life.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Unclean ends in a row before this life.
    deaths: u32,
    /// Of the records handed out first, those that are not answered.
    firsts: Vec<(Arc<Lot>, u32)>,
    /// One of them was answered.
    answered: bool,
    /// How many were handed out in this life, each time that one was.
    granted: u64,
    /// About when that began.
    since: Option<Millis>,
    /// How many answers are in the last offer, and in the last one that was kept.
    offered: u64,
    kept: u64,
    /// Few records are out at a time until so many are answered.
    care: Option<u64>,
    alone: Option<Alone>,
}

/// Records run one at a time.
#[derive(Debug)]
struct Alone {
    /// So many.
    left: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// The store is to know of it first.
    Named(i64),
    /// It is in the offer that is under way, or was.
    Offered(i64),
    /// The store has it.
    Written(i64),
    Out(i64),
}

/// What a record that is to run alone may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Another one is out, or the store has not answered.
    Wait,
    /// Name the next one, and have it written.
    Name,
    /// Hand out this one.
    HandOut(i64),
}

/// What a checkpoint says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Unclean ends in a row before this life.
    pub(super) deaths: u32,
    /// No record was in anybody's hands: an end now does not count.
    pub(super) idle: bool,
}

impl Trial {
    pub(super) fn new(deaths: u32, window: usize) -> Self {
        Trial {
            deaths,
            care: (deaths >= CAREFUL).then_some(window as u64),
            alone: (deaths >= ALONE).then_some(Alone { left: FEW, state: State::Free }),
            ..Trial::default()
        }
    }

    /// Records that may be handed out before the store knows more, if they are to be few.
    pub(super) fn room(&self) -> usize {
        let Some(_) = self.care else { return usize::MAX };
        usize::try_from(self.granted.saturating_sub(self.kept))
            .map_or(0, |unknown| FEW.saturating_sub(unknown))
    }

    /// Whether the store should hear of these answers, so that there is room again.
    pub(super) fn wants_commit(&self, answered: u64) -> bool {
        self.care.is_some() && answered.saturating_sub(self.kept) >= FEW as u64 / 2
    }

    /// Whether records run alone.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// A record is on its way to be handed out.
    pub(super) fn granted(&mut self, lot: &Arc<Lot>, numbers: Range<u32>) {
        let room = FEW.saturating_sub(usize::try_from(self.granted).unwrap_or(FEW));
        self.granted += numbers.len() as u64;
        let firsts = numbers.take(room);
        self.firsts.extend(firsts.map(|number| (Arc::clone(lot), number)));
    }

    /// Looks at what became of those handed out first, and whether the process has lived long enough.
    /// `answered`: answers in this life.
    pub(super) fn look(&mut self, answered: u64, now: Millis, is_out: impl Fn(&Arc<Lot>, u32) -> bool) {
        if self.granted > 0 {
            self.since.get_or_insert(now);
        }
        let before = self.firsts.len();
        self.firsts.retain(|(lot, number)| is_out(lot, *number));
        self.answered |= self.firsts.len() < before;
        let is_over = self.since.is_some_and(|since| now >= since + IN_ORDER);
        if self.care.is_some_and(|care| answered >= care || is_over) && self.is_proven() {
            self.care = None;
        }
        if is_over && self.alone.as_ref().is_some_and(|alone| alone.state == State::Free) {
            self.alone = None;
        }
    }

    /// Those handed out first were answered.
    fn is_proven(&self) -> bool {
        self.answered && self.firsts.is_empty()
    }

    pub(super) fn verdict(&self, clean: bool) -> Verdict {
        let in_hands = self.answered || self.firsts.iter().any(|(lot, at)| lot.handed_at(*at).is_some());
        let is_over = self.is_proven() && self.care.is_none() && self.alone.is_none();
        Verdict { deaths: if clean || is_over { 0 } else { self.deaths }, idle: !clean && !in_hands }
    }

    // One at a time.

    pub(super) fn step(&self) -> Step {
        match self.alone.as_ref().map(|alone| alone.state) {
            None | Some(State::Named(_) | State::Offered(_) | State::Out(_)) => Step::Wait,
            Some(State::Free) => Step::Name,
            Some(State::Written(offset)) => Step::HandOut(offset),
        }
    }

    fn turn(&mut self, state: State) {
        if let Some(alone) = &mut self.alone {
            alone.state = state;
        }
    }

    pub(super) fn name(&mut self, offset: i64) {
        self.turn(State::Named(offset));
    }

    /// An offer is made, with so many answers in it and the record that was named.
    pub(super) fn offering(&mut self, answered: u64) {
        self.offered = answered;
        if let Some(State::Named(offset)) = self.alone.as_ref().map(|alone| alone.state) {
            self.turn(State::Offered(offset));
        }
    }

    /// The store has the last offer. What was named since is not in it.
    pub(super) fn kept(&mut self) {
        self.kept = self.offered;
        if let Some(State::Offered(offset)) = self.alone.as_ref().map(|alone| alone.state) {
            self.turn(State::Written(offset));
        }
    }

    pub(super) fn hand_out(&mut self, offset: i64) {
        self.turn(State::Out(offset));
    }

    /// The one that was named is not to be handed out, or not yet.
    pub(super) fn unname(&mut self) {
        self.turn(State::Free);
    }

    /// The record that an end now would be blamed on.
    pub(super) fn suspect(&self) -> Option<i64> {
        match self.alone.as_ref()?.state {
            State::Free => None,
            State::Named(offset) | State::Offered(offset) | State::Written(offset) | State::Out(offset) => {
                Some(offset)
            }
        }
    }

    /// The record that is out.
    pub(super) fn out(&self) -> Option<i64> {
        match self.alone.as_ref()?.state {
            State::Out(offset) => Some(offset),
            _ => None,
        }
    }

    /// It was answered.
    pub(super) fn answered(&mut self, offset: i64) {
        let Some(alone) = self.alone.as_mut().filter(|alone| alone.state == State::Out(offset)) else {
            return;
        };
        alone.state = State::Free;
        alone.left -= 1;
        if alone.left == 0 {
            self.alone = None;
        }
    }

    /// Records below that offset are gone.
    pub(super) fn prune_below(&mut self, offset: i64) {
        if self.suspect().is_some_and(|suspect| suspect < offset) {
            self.unname();
        }
    }

    /// Records from that offset on are void.
    pub(super) fn void_from(&mut self, offset: i64) {
        if self.suspect().is_some_and(|suspect| suspect >= offset) {
            self.unname();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spout::stage::lot_of;

    fn out(_: &Arc<Lot>, _: u32) -> bool {
        true
    }

    #[test]
    fn an_end_counts_only_if_a_record_was_in_hands() {
        let mut trial = Trial::new(1, 1_000);
        trial.look(0, 10, out);
        assert_eq!(trial.verdict(false), Verdict { deaths: 1, idle: true });
        let lot = lot_of(0, 3);
        trial.granted(&lot, 0..3);
        trial.look(0, 30, out);
        assert!(trial.verdict(false).idle, "it waits in a queue");
        assert!(lot.hand_out(0));
        assert_eq!(trial.verdict(false), Verdict { deaths: 1, idle: false });
        trial.look(1, 40, |_, number| number > 0);
        assert_eq!(trial.verdict(false).deaths, 1, "others of the first ones are not answered");
        trial.look(3, 50, |_, _| false);
        assert_eq!(trial.verdict(false), Verdict { deaths: 0, idle: false });
    }

    #[test]
    fn care_lasts_until_a_window_is_answered_or_a_minute_is_over() {
        let lot = lot_of(0, 100);
        for (answered, now, careful) in [(999, 50_000, true), (1_000, 50_000, false), (64, 60_020, false)] {
            let mut trial = Trial::new(2, 1_000);
            assert_eq!((trial.room(), trial.is_alone()), (FEW, false));
            trial.granted(&lot, 0..100);
            trial.look(0, 20, out);
            assert_eq!(trial.room(), 0);
            trial.look(answered.min(100), 40, |_, _| false);
            trial.offering(answered.min(100));
            trial.look(999, 45, |_, _| false);
            trial.kept();
            assert_eq!(trial.room() as u64, answered.min(100) - 36);
            trial.look(answered, now, |_, _| false);
            assert_eq!((trial.room() <= FEW, trial.verdict(false).deaths == 2), (careful, careful));
        }
    }

    #[test]
    fn the_first_few_run_alone_and_each_is_named_before() {
        let lot = lot_of(0, 100);
        let mut trial = Trial::new(3, 1_000);
        for offset in 0..FEW as i64 {
            assert_eq!(trial.step(), Step::Name);
            trial.name(offset);
            assert_eq!((trial.step(), trial.suspect()), (Step::Wait, Some(offset)));
            trial.kept();
            assert_eq!(trial.step(), Step::Wait, "an offer from before it was named");
            trial.offering(offset as u64);
            trial.kept();
            assert_eq!(trial.step(), Step::HandOut(offset));
            trial.granted(&lot, offset as u32..offset as u32 + 1);
            trial.hand_out(offset);
            assert_eq!((trial.step(), trial.out()), (Step::Wait, Some(offset)));
            trial.answered(offset);
        }
        assert!(!trial.is_alone() && trial.room() <= FEW);
        trial.look(64, 30, |_, _| false);
        assert_eq!(trial.verdict(false).deaths, 3, "the others of its window are to come");
    }
}
