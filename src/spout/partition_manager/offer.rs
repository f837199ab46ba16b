//! What is offered to the store, and what its answer means.

use super::PartitionManager;
use super::answers::millis;
use crate::checkpoint::{Extras, Problem, Stored, Unfinished};
use crate::error::{Error, ErrorKind};
use crate::spout::commit::Offered;
use crate::spout::counters::Counters;
use crate::spout::parked::{Millis, State};
use crate::spout::window::Standing;

/// The most runs of done records that are offered.
const MAX_RUNS: usize = 10_000;
/// The most unfinished records whose attempts are offered.
const MAX_UNFINISHED: usize = 1_000;

impl PartitionManager {
    /// One snapshot of the position and all that belongs to it, if the store does not have it yet.
    /// `clean`: it is the last one.
    pub(in crate::spout) fn offer(&mut self, clean: bool, now: Millis) -> Option<Offered> {
        let point = self.window.commit_point();
        self.look_at_trial(now);
        if self.verdict.is_some_and(|verdict| verdict != self.trial.verdict(clean)) {
            self.commit.changed();
        }
        if !self.commit.is_due(point, clean, now) {
            return None;
        }
        let extras = match self.settings.compat_storm {
            true => None,
            false => Some(self.extras(clean)),
        };
        Some(self.commit.offer(point, extras))
    }

    pub(super) fn extras(&mut self, clean: bool) -> Extras {
        let mut done = self.window.offer_runs(MAX_RUNS);
        // What was done before and has not come in again is done still.
        done.extend(
            self.restored
                .iter()
                .filter(|run| run.end > self.window.intake())
                .map(|run| run.start.max(self.window.intake())..run.end),
        );
        let suspect = self.trial.suspect().filter(|_| !clean);
        let mut unfinished: Vec<_> =
            self.parked.iter().take(MAX_UNFINISHED).map(|(offset, node)| node.unfinished(offset)).collect();
        unfinished.extend(self.prior.values().take(MAX_UNFINISHED));
        if let Some(suspect) = suspect {
            match unfinished.iter_mut().find(|one| one.offset == suspect) {
                // It counts before it happens: a process that dies does not count.
                Some(one) => one.deaths += 1,
                None => unfinished.push(Unfinished { offset: suspect, attempts: 0, deaths: 1 }),
            }
        }
        unfinished.retain(|one| one.attempts > 0 || one.deaths > 0);
        unfinished.sort_unstable_by_key(|one| one.offset);
        self.trial.offering(self.answered());
        let mut verdict = self.trial.verdict(clean);
        // A claim stands for what comes before the next offer.
        verdict.idle &= self.verdict.is_some();
        self.verdict = Some(verdict);
        Extras {
            done,
            unfinished,
            deaths: verdict.deaths,
            clean,
            idle: verdict.idle,
            leader_epoch: self.leader_epoch,
            intake: Some(self.window.intake()),
            ..Extras::default()
        }
    }

    /// Answers in this life.
    pub(super) fn answered(&self) -> u64 {
        let Counters { acked, failed, dropped, released, .. } = &self.counters;
        acked + failed + dropped + released
    }

    fn look_at_trial(&mut self, now: Millis) {
        let answered = self.answered();
        let Self { trial, window, parked, .. } = self;
        trial.look(answered, now, |lot, number| {
            let offset = lot.offset(number);
            match window.standing(offset, lot.parent) {
                Standing::Open => true,
                Standing::Aside => parked.get(offset).is_some_and(|node| node.state() == State::Out(lot.id)),
                Standing::Done | Standing::Unknown => false,
            }
        });
    }

    /// The store has answered an offer. Only that very one counts.
    pub(in crate::spout) fn on_committed(&mut self, serial: u64, answer: Result<Stored, Error>, now: Millis) {
        match answer {
            Ok(stored) => {
                if self.commit.kept(serial, now) {
                    self.window.kept(stored.done_until);
                    self.trial.kept();
                }
            }
            Err(why) => {
                let fatal = matches!(
                    why.kind(),
                    ErrorKind::Checkpoint(
                        Problem::Foreign { .. } | Problem::Changed { .. } | Problem::Locked { .. }
                    )
                );
                self.commit.failed(serial, why.clone(), now);
                if fatal {
                    self.commit.give_up();
                    self.stop(why.to_string());
                } else {
                    tracing::warn!(topic = %self.place.topic, partition = self.place.partition, error = %why, "the position could not be kept; it is offered again");
                }
            }
        }
    }

    /// Whether the store has another position, and did not refuse this one.
    pub(in crate::spout) fn has_news(&self) -> bool {
        self.commit.error().is_none() && self.commit.committed() != Some(self.window.commit_point())
    }

    /// Whether handing out pauses because positions could not be kept for too long.
    pub(in crate::spout) fn is_uncommitted_for_long(&self, now: Millis) -> bool {
        self.commit
            .failing_for(now)
            .is_some_and(|time| time >= millis(self.settings.pause_after_commit_failure))
    }
}
