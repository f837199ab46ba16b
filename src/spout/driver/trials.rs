//! Records that run alone: of the whole spout nothing else is out meanwhile.

use std::sync::atomic::Ordering;

use super::Driver;
use crate::client::TopicPartition;
use crate::spout::parked::Millis;

/// How long a turn waits for what is out elsewhere.
const PATIENCE: Millis = 60_000;

impl Driver {
    /// Chooses whose turn it is, and lets it go on.
    pub(super) fn see_to_trials(&mut self) {
        if self.trials.is_empty() {
            return;
        }
        let now = self.now();
        let parts = &mut self.parts;
        self.trials.retain(|partition| parts.get(partition).is_some_and(|part| part.manager.is_alone()));
        self.shared.trial.store(!self.trials.is_empty(), Ordering::SeqCst);
        let next = self
            .trials
            .iter()
            .find(|partition| parts.get_mut(*partition).is_some_and(|part| part.manager.has_its_turn(now)));
        let next = next.cloned();
        if next == self.turn_of {
            if let Some(partition) = next {
                self.settle(&partition);
            }
            return;
        }
        self.turn_of = next;
        self.turn_since = now;
        self.settle_all();
    }

    /// None: another partition's records run alone. Whether nothing is out, and somebody waits.
    pub(super) fn is_calm_for(&self, partition: &TopicPartition) -> Option<bool> {
        let Some(turn_of) = &self.turn_of else { return Some(false) };
        let is_alone = self.parts.get(partition).is_some_and(|part| part.manager.is_alone());
        if turn_of != partition || !is_alone {
            return None;
        }
        let waits = self.shared.waits.load(Ordering::SeqCst);
        // A record that somebody has forgotten is not waited for without end.
        let is_late = self.now() >= self.turn_since.saturating_add(PATIENCE);
        Some(waits && (is_late || self.parts.values().all(|part| part.manager.outstanding() == 0)))
    }
}
