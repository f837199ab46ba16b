//! Which record of a key may run: of each key one after another. A plain state machine.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::lot::AssignmentId;

/// A key; null and empty are two.
type Key = Option<Box<[u8]>>;

/// Locks on the keys of one partition. One that is held outlives the assignment under which it was
/// taken: the record may still be running somewhere.
#[derive(Debug, Default)]
pub(super) struct KeyLocks {
    lines: HashMap<Key, Line>,
    holders: BTreeMap<(AssignmentId, i64), Key>,
}

#[derive(Debug, Default)]
struct Line {
    /// Offsets that wait, in order.
    waiting: VecDeque<i64>,
}

impl KeyLocks {
    /// Whether the record may run now; otherwise it waits in line.
    pub(super) fn admit(&mut self, key: Option<&[u8]>, assignment: AssignmentId, offset: i64) -> bool {
        let key: Key = key.map(Into::into);
        if let Some(line) = self.lines.get_mut(&key) {
            line.waiting.push_back(offset);
            return false;
        }
        self.lines.insert(key.clone(), Line::default());
        self.holders.insert((assignment, offset), key);
        true
    }

    /// A record that may have held a lock runs no more. Gives the one that runs next, under the
    /// assignment `now`.
    pub(super) fn release(
        &mut self,
        assignment: AssignmentId,
        offset: i64,
        now: AssignmentId,
    ) -> Option<i64> {
        let key = self.holders.remove(&(assignment, offset))?;
        let line = self.lines.get_mut(&key)?;
        match line.waiting.pop_front() {
            Some(next) => {
                self.holders.insert((now, next), key);
                Some(next)
            }
            None => {
                self.lines.remove(&key);
                None
            }
        }
    }

    /// Forgets those that wait from that offset on: they come in again.
    pub(super) fn forget_waiting(&mut self, from: i64) {
        for line in self.lines.values_mut() {
            line.waiting.retain(|offset| *offset < from);
        }
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}
