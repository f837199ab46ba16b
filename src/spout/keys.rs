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
    holders: BTreeMap<Holder, Key>,
}

/// A record that holds, or waits for, the lock on its key. Its offset alone would not do: what was
/// truncated, and answered late, had the offset of another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holder {
    pub(super) assignment: AssignmentId,
    /// The lot that it first came in.
    pub(super) lot: u64,
    pub(super) offset: i64,
}

#[derive(Debug, Default)]
struct Line {
    /// In order.
    waiting: VecDeque<Holder>,
}

impl KeyLocks {
    /// Whether the record may run now; otherwise it waits in line.
    pub(super) fn admit(&mut self, key: Option<&[u8]>, record: Holder) -> bool {
        let key: Key = key.map(Into::into);
        if let Some(line) = self.lines.get_mut(&key) {
            line.waiting.push_back(record);
            return false;
        }
        self.lines.insert(key.clone(), Line::default());
        self.holders.insert(record, key);
        true
    }

    /// A record that may have held a lock runs no more. Gives the one that runs next.
    pub(super) fn release(&mut self, record: Holder) -> Option<Holder> {
        let key = self.holders.remove(&record)?;
        let line = self.lines.get_mut(&key)?;
        match line.waiting.pop_front() {
            Some(next) => {
                self.holders.insert(next, key);
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
            line.waiting.retain(|record| record.offset < from);
        }
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_of_a_record_that_was_truncated_frees_no_other_one_of_its_offset() {
        let record = |lot, offset| Holder { assignment: 1, lot, offset };
        let mut keys = KeyLocks::default();
        assert!(keys.admit(Some(b"k"), record(0, 3)));
        assert_eq!(keys.release(record(0, 3)), None);
        assert!(keys.admit(Some(b"k"), record(5, 3)));
        assert_eq!(keys.release(record(0, 3)), None);
        assert!(!keys.admit(Some(b"k"), record(5, 4)), "the other one still runs");
        assert_eq!(keys.release(record(5, 3)), Some(record(5, 4)));
    }
}
