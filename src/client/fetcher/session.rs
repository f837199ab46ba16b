//! Fetch sessions (KIP-227): the broker remembers what is fetched, and a request names what has
//! changed since the last one. Worth it where many partitions are quiet.

use std::collections::BTreeMap;

use super::budget::Key;

/// What a request says about one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) offset: i64,
    pub(crate) epoch: Option<i32>,
    pub(crate) max_bytes: i32,
}

/// A session, as its one client knows it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    id: i32,
    epoch: i32,
    /// What the broker has been told, and where the partition is to be named.
    partitions: BTreeMap<Key, (Asked, Named)>,
    /// A session is named by ids or by names, never by both (error 106).
    by_id: bool,
}

/// How a partition is named, for the day it leaves the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) topic: std::sync::Arc<str>,
    pub(crate) id: crate::wire::Uuid,
    pub(crate) partition: i32,
}

/// What a request of the session carries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    /// Partitions to name, out of those given.
    pub(crate) changed: Vec<Key>,
    pub(crate) forgotten: Vec<Named>,
}

impl Session {
    /// A request for `wanted`, all of them: full, or what has changed.
    pub(crate) fn turn(&mut self, wanted: &[(Key, Asked, Named)], by_id: bool) -> Turn {
        if self.id == 0 || self.epoch == 0 || by_id != self.by_id {
            // A session that is left is named with epoch 0, which closes it and opens another.
            let id = self.id;
            self.by_id = by_id;
            self.epoch = 0;
            self.partitions =
                wanted.iter().map(|(key, asked, named)| (*key, (*asked, named.clone()))).collect();
            let changed = wanted.iter().map(|(key, ..)| *key).collect();
            return Turn { id, epoch: 0, changed, forgotten: Vec::new() };
        }
        let mut gone = std::mem::take(&mut self.partitions);
        let mut changed = Vec::new();
        let mut forgotten = Vec::new();
        for (key, asked, named) in wanted {
            match gone.remove(key) {
                Some((known, old)) if old == *named => {
                    if known != *asked {
                        changed.push(*key);
                    }
                }
                Some((_, old)) => {
                    // The topic was made anew.
                    forgotten.push(old);
                    changed.push(*key);
                }
                None => changed.push(*key),
            }
            self.partitions.insert(*key, (*asked, named.clone()));
        }
        forgotten.extend(gone.into_values().map(|(_, named)| named));
        Turn { id: self.id, epoch: self.epoch, changed, forgotten }
    }

    /// Whether the broker keeps it, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        self.id != 0
    }

    /// The answer came, with this session id.
    pub(crate) fn answered(&mut self, id: i32) {
        if id == 0 || self.id != 0 && self.epoch != 0 && id != self.id {
            // The broker keeps none, or has closed it: full requests, and perhaps another one.
            *self = Session::default();
            return;
        }
        self.id = id;
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }

    /// The broker does not know the session (error 70).
    pub(crate) fn lost(&mut self) {
        *self = Session::default();
    }

    /// It may be out of step: errors 71 and 106, an answer that could not be read, a lost connection.
    pub(crate) fn out_of_step(&mut self) {
        self.epoch = 0;
        self.partitions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Uuid;

    fn wanted(list: &[(Key, i64)]) -> Vec<(Key, Asked, Named)> {
        let of = |&(key, offset): &(Key, i64)| {
            let named = Named { topic: "t".into(), id: Uuid([1; 16]), partition: key as i32 };
            (key, Asked { offset, epoch: None, max_bytes: 100 }, named)
        };
        list.iter().map(of).collect()
    }

    #[test]
    fn case_62_only_changes_are_named_and_what_leaves_is_forgotten() {
        let mut session = Session::default();
        let turn = session.turn(&wanted(&[(1, 10), (2, 20), (3, 30)]), false);
        assert_eq!((turn.id, turn.epoch, turn.changed), (0, 0, vec![1, 2, 3]));
        session.answered(77);
        let turn = session.turn(&wanted(&[(1, 10), (2, 25)]), false);
        assert_eq!((turn.id, turn.epoch, turn.changed), (77, 1, vec![2]));
        assert_eq!(turn.forgotten.iter().map(|named| named.partition).collect::<Vec<_>>(), [3]);
        session.answered(77);
        let turn = session.turn(&wanted(&[(1, 10), (2, 25), (3, 30)]), false);
        assert_eq!((turn.epoch, turn.changed, turn.forgotten.len()), (2, vec![3], 0));
    }

    #[test]
    fn case_62_a_broker_without_room_gets_full_requests() {
        let mut session = Session::default();
        for _ in 0..3 {
            let turn = session.turn(&wanted(&[(1, 10)]), true);
            assert_eq!((turn.id, turn.epoch, turn.changed), (0, 0, vec![1]));
            session.answered(0);
        }
    }

    #[test]
    fn errors_of_a_session_open_another_one() {
        let mut session = Session::default();
        session.turn(&wanted(&[(1, 10)]), false);
        session.answered(5);
        session.out_of_step();
        let turn = session.turn(&wanted(&[(1, 10)]), false);
        assert_eq!((turn.id, turn.epoch, turn.changed), (5, 0, vec![1]), "closes the old one");
        session.answered(6);
        assert_eq!(
            session.turn(&wanted(&[(1, 11)]), false),
            Turn { id: 6, epoch: 1, changed: vec![1], forgotten: vec![] }
        );
        session.lost();
        assert_eq!(session.turn(&wanted(&[(1, 11)]), false).id, 0);
    }

    #[test]
    fn names_and_ids_are_never_mixed_and_the_epoch_wraps() {
        let mut session = Session::default();
        session.turn(&wanted(&[(1, 10)]), false);
        session.answered(5);
        assert_eq!(session.turn(&wanted(&[(1, 10)]), true).epoch, 0);
        session.answered(6);
        session.epoch = i32::MAX;
        session.answered(6);
        assert_eq!(session.turn(&wanted(&[(1, 10)]), true).epoch, 1);
    }

    #[test]
    fn case_56_a_topic_made_anew_leaves_under_its_old_id() {
        let mut session = Session::default();
        session.turn(&wanted(&[(1, 10)]), true);
        session.answered(5);
        let mut anew = wanted(&[(1, 0)]);
        anew[0].2.id = Uuid([2; 16]);
        let turn = session.turn(&anew, true);
        assert_eq!((turn.changed, turn.forgotten[0].id), (vec![1], Uuid([1; 16])));
    }
}
