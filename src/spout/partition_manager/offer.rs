//! What is offered to the store, and what its answer means.

use super::PartitionManager;
use super::answers::millis;
use crate::checkpoint::{Extras, Problem, Stored};
use crate::error::{Error, ErrorKind};
use crate::spout::commit::Offered;
use crate::spout::parked::Millis;

/// The most runs of done records that are offered.
const MAX_RUNS: usize = 10_000;
/// The most unfinished records whose attempts are offered.
const MAX_UNFINISHED: usize = 1_000;

impl PartitionManager {
    /// One snapshot of the position and all that belongs to it, if the store does not have it yet.
    /// `clean`: it is the last one.
    pub(in crate::spout) fn offer(&mut self, clean: bool, now: Millis) -> Option<Offered> {
        let point = self.window.commit_point();
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
        let next = self.alone.as_ref().and_then(|alone| alone.next.or(alone.out)).filter(|_| !clean);
        let mut unfinished: Vec<_> =
            self.parked.iter().take(MAX_UNFINISHED).map(|(offset, node)| node.unfinished(offset)).collect();
        unfinished.extend(self.prior.values().take(MAX_UNFINISHED));
        if let Some(next) = next {
            match unfinished.iter_mut().find(|one| one.offset == next) {
                // It counts before it happens: a process that dies does not count.
                Some(one) => one.deaths += 1,
                None => {
                    unfinished.push(crate::checkpoint::Unfinished { offset: next, attempts: 0, deaths: 1 })
                }
            }
        }
        unfinished.retain(|one| one.attempts > 0 || one.deaths > 0);
        unfinished.sort_unstable_by_key(|one| one.offset);
        Extras {
            done,
            unfinished,
            deaths: if clean || self.has_got_on() { 0 } else { self.commit.deaths() },
            clean,
            leader_epoch: self.leader_epoch,
            intake: Some(self.window.intake()),
            ..Extras::default()
        }
    }

    /// Whether anything was done in this life.
    fn has_got_on(&self) -> bool {
        self.counters.acked + self.counters.ineligible > 0
    }

    /// The store has answered an offer. Only that very one counts.
    pub(in crate::spout) fn on_committed(&mut self, serial: u64, answer: Result<Stored, Error>, now: Millis) {
        match answer {
            Ok(stored) => {
                if self.commit.kept(serial, now) {
                    self.window.kept(stored.done_until);
                    if let Some(alone) = &mut self.alone {
                        alone.written |= alone.next.is_some();
                    }
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

    /// Whether handing out pauses because positions could not be kept for too long.
    pub(in crate::spout) fn is_uncommitted_for_long(&self, now: Millis) -> bool {
        self.commit
            .failing_for(now)
            .is_some_and(|time| time >= millis(self.settings.pause_after_commit_failure))
    }
}
