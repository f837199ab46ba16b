//! The fetch lanes of one broker, and what goes on which.
//!
//! A broker works on one request per connection at a time, so a fetch that waits for records keeps
//! those behind it waiting. Partitions with records to fetch are *hot*, those without are *quiet*;
//! one long poll at most is under way per broker, with all the quiet ones, and the other lane stays
//! free for hot ones. With several hot ones both lanes carry half of them: one answer is on the wire
//! while the other is read.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Key;
use super::request::FIRST_BATCH_WHOLE;
use super::session::Session;
use crate::net::Connection;
use crate::protocol::ApiKey;

/// How long a second poll on quiet partitions may take while the first is under way: so long may a
/// hot partition have to wait that turns up meanwhile.
pub(super) const SHORT_POLL: Duration = Duration::from_millis(50);

/// Consumers may read from followers from this version of Fetch on (KIP-392).
const FIRST_WITH_RACKS: i16 = 11;

/// Lanes of one broker.
#[derive(Debug, Default)]
pub(super) struct BrokerLanes {
    pub(super) lanes: [Lane; 2],
    /// In the order of their turns; entries may be out of date.
    pub(super) hot: VecDeque<Key>,
    pub(super) quiet: BTreeSet<Key>,
    /// Failures in a row.
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
}

/// A connection for fetches.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) connection: Option<Connection>,
    pub(super) busy: Option<Busy>,
    pub(super) session: Session,
    /// Counts what was started on it, so that what was given up is told from what goes on.
    pub(super) turn: u64,
}

/// What a lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    Opening,
    Fetching(Poll),
}

/// The kinds of fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poll {
    /// For partitions with records: the answer comes at once.
    Hot,
    /// For partitions without: the answer comes when there are some, or after a while.
    Long,
    /// Likewise, but briefly, since a long one is under way.
    Short,
}

impl Lane {
    /// Whether the broker can limit a whole answer, not only each part of it (KIP-74).
    pub(super) fn caps_answers(&self) -> bool {
        let fetch =
            self.connection.as_ref().and_then(|connection| connection.versions()?.range(ApiKey::FETCH));
        fetch.is_some_and(|versions| versions.max >= FIRST_BATCH_WHOLE)
    }
}

impl BrokerLanes {
    fn is_polling(&self, poll: Poll) -> bool {
        self.lanes.iter().any(|lane| lane.busy == Some(Busy::Fetching(poll)))
    }

    /// What to do next and on which lane; and whether half of the hot ones are enough.
    pub(super) fn choose(&self) -> Option<(usize, Poll, bool)> {
        let idle: Vec<usize> = (0..2).filter(|lane| self.lanes[*lane].busy.is_none()).collect();
        // A lane that is connected already is better than one that is not.
        let lane = *idle.iter().find(|lane| self.lanes[**lane].connection.is_some()).or(idle.first())?;
        // While one lane is being opened, the other takes what there is.
        let opening = self.lanes.iter().any(|lane| lane.busy == Some(Busy::Opening));
        let long = self.is_polling(Poll::Long);
        if !self.quiet.is_empty() && !long && !self.is_polling(Poll::Short) && !opening {
            // The one with a session for them, if it is idle.
            let session = idle.iter().find(|lane| self.lanes[**lane].session.is_open());
            return Some((*session.unwrap_or(&lane), Poll::Long, false));
        }
        if !self.hot.is_empty() {
            if opening && self.lanes[lane].connection.is_none() {
                return None;
            }
            return Some((lane, Poll::Hot, idle.len() == 2 && self.quiet.is_empty()));
        }
        // A short one that is under way will be back soon: then one long poll has them all.
        (!self.quiet.is_empty() && long && !opening).then_some((lane, Poll::Short, false))
    }

    /// Whether the broker belongs to a release whose followers serve consumers (KIP-392).
    pub(super) fn reads_followers(&self) -> bool {
        let connections = self.lanes.iter().filter_map(|lane| lane.connection.as_ref());
        connections
            .filter_map(|connection| connection.versions()?.range(ApiKey::FETCH))
            .any(|versions| versions.max >= FIRST_WITH_RACKS)
    }

    pub(super) fn forget(&mut self, key: Key) {
        self.quiet.remove(&key);
        self.hot.retain(|known| *known != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(hot: &[Key], quiet: &[Key], busy: [Option<Busy>; 2]) -> BrokerLanes {
        let mut lanes = BrokerLanes {
            hot: hot.iter().copied().collect(),
            quiet: quiet.iter().copied().collect(),
            ..BrokerLanes::default()
        };
        lanes.lanes[0].busy = busy[0];
        lanes.lanes[1].busy = busy[1];
        lanes
    }

    const HOT: Option<Busy> = Some(Busy::Fetching(Poll::Hot));
    const LONG: Option<Busy> = Some(Busy::Fetching(Poll::Long));
    const SHORT: Option<Busy> = Some(Busy::Fetching(Poll::Short));

    #[test]
    fn a_long_poll_delays_no_hot_partition() {
        // One long poll at most, and never on both lanes.
        assert_eq!(lanes(&[], &[1], [None, None]).choose(), Some((0, Poll::Long, false)));
        assert_eq!(lanes(&[2], &[1], [None, None]).choose(), Some((0, Poll::Long, false)));
        assert_eq!(lanes(&[2], &[1], [LONG, None]).choose(), Some((1, Poll::Hot, false)));
        assert_eq!(lanes(&[], &[1], [LONG, None]).choose(), Some((1, Poll::Short, false)));
        assert_eq!(lanes(&[2], &[], [LONG, HOT]).choose(), None);
    }

    #[test]
    fn two_polls_become_one_again() {
        assert_eq!(lanes(&[], &[1], [None, SHORT]).choose(), None, "the short one is waited for");
        assert_eq!(lanes(&[], &[1, 2], [None, None]).choose(), Some((0, Poll::Long, false)));
    }

    #[test]
    fn quiet_partitions_have_their_turn_beside_hot_ones() {
        assert_eq!(lanes(&[2, 3], &[1], [HOT, None]).choose(), Some((1, Poll::Long, false)));
        assert_eq!(lanes(&[2, 3], &[], [None, None]).choose(), Some((0, Poll::Hot, true)));
        assert_eq!(lanes(&[3], &[], [HOT, None]).choose(), Some((1, Poll::Hot, false)));
    }
}
