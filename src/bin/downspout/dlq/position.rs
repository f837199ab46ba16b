//! What of a dead-letter topic was sent back already, in any checkpoint store.
//!
//! A checkpoint says "everything below is done", and, as its extras, which records beyond are: so a record
//! that a filter left out stays to be sent, whatever was sent behind it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use downspout::checkpoint::{Access, Checkpoint, CheckpointStore, Checkpoints, Extras, Offer, Owner};
use downspout::client::TopicPartition;

use crate::exit::{Exit, Failure};

/// The records of a partition that are done with.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Done {
    /// Everything below is.
    pub(super) next: i64,
    /// So are these: in order, apart from each other and from `next`.
    pub(super) runs: Vec<Range<i64>>,
}

impl Done {
    pub(super) fn contains(&self, offset: i64) -> bool {
        let after = self.runs.partition_point(|run| run.start <= offset);
        offset < self.next || after > 0 && self.runs[after - 1].contains(&offset)
    }

    /// Adds these offsets.
    pub(super) fn add(&mut self, mut run: Range<i64>) {
        if run.is_empty() {
            return;
        }
        let from = self.runs.partition_point(|known| known.end < run.start);
        let to = self.runs.partition_point(|known| known.start <= run.end);
        for known in self.runs.drain(from..to) {
            run = run.start.min(known.start)..run.end.max(known.end);
        }
        self.runs.insert(from, run);
        if self.runs.first().is_some_and(|first| first.start <= self.next) {
            self.next = self.next.max(self.runs.remove(0).end);
        }
    }
}

/// Positions in a store, kept up to date.
pub(super) struct Positions {
    store: Box<dyn Checkpoints>,
    topic: String,
    topic_id: Option<downspout::wire::Uuid>,
    serial: u64,
    pub(super) done: BTreeMap<i32, Done>,
}

impl Positions {
    /// Reads what the store has; to `keep` it is another matter than to look.
    pub(super) async fn open(
        store: &dyn CheckpointStore,
        id: &str,
        topic: &str,
        topic_id: Option<downspout::wire::Uuid>,
        partitions: impl IntoIterator<Item = i32>,
        keep: bool,
    ) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{}-{}", std::process::id(), now.as_nanos());
        let owner = Owner { instance: id.to_owned(), name: id.to_owned(), run };
        let access = if keep { Access::Own(owner) } else { Access::Read };
        let store = store.open(id, access).await?;
        if keep && !store.keeps_extras() {
            return Err(Failure::usage(format_args!(
                "{} keeps offsets alone, and cannot tell which records were sent back: use another store",
                store.describe()
            )));
        }
        let places: Vec<_> =
            partitions.into_iter().map(|partition| TopicPartition::new(topic, partition)).collect();
        let mut done = BTreeMap::new();
        let mut serial = 0;
        for (place, loaded) in places.iter().zip(store.load(&places).await) {
            let loaded = loaded?;
            if let Some(why) = loaded.discarded {
                return Err(Failure::new(
                    Exit::Stopped,
                    format_args!("{place}: {}: what was sent back cannot be told: {why}", store.describe()),
                ));
            }
            let Some(checkpoint) = loaded.checkpoint else { continue };
            let extras = checkpoint.extras.unwrap_or_default();
            if extras.topic_id.zip(topic_id).is_some_and(|(then, now)| then != now) {
                return Err(Failure::new(
                    Exit::Stopped,
                    format_args!(
                        "{place}: the topic was created anew since it was sent back from: begin anew with another --id"
                    ),
                ));
            }
            serial = serial.max(extras.serial);
            done.insert(place.partition, Done { next: checkpoint.offset, runs: extras.done });
        }
        Ok(Positions { store, topic: topic.to_owned(), topic_id, serial, done })
    }

    pub(super) fn describe(&self) -> String {
        self.store.describe()
    }

    /// Where each partition is to be read from.
    pub(super) fn next(&self) -> BTreeMap<i32, i64> {
        self.done.iter().map(|(partition, done)| (*partition, done.next)).collect()
    }

    /// Keeps it all.
    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.serial += 1;
        let offers = self.done.iter().map(|(partition, done)| {
            let extras = Extras {
                serial: self.serial,
                topic_id: self.topic_id,
                done: done.runs.clone(),
                clean: true,
                ..Extras::default()
            };
            let mut checkpoint = Checkpoint::at(done.next);
            checkpoint.extras = Some(extras);
            let partition = TopicPartition::new(self.topic.as_str(), *partition);
            Offer { partition, epoch: 1, checkpoint, reset: false }
        });
        let offers: Vec<_> = offers.collect();
        for (offer, stored) in offers.iter().zip(self.store.commit(&offers).await) {
            let stored = stored?;
            let last = offer.checkpoint.extras.as_ref().and_then(|extras| extras.done.last());
            if last.is_some_and(|run| run.end > stored.done_until) {
                return Err(Failure::new(
                    Exit::Partly,
                    format_args!(
                        "{}: {} has no room for all that was sent back: use a file store",
                        offer.partition,
                        self.store.describe()
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(super) async fn close(self) {
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn runs_join_what_they_touch_and_the_lowest_moves_the_offset() {
        let mut done = Done { next: 10, runs: Vec::new() };
        for (add, next, runs) in [
            (15..16, 10, vec![15..16]),
            (17..18, 10, vec![15..16, 17..18]),
            (16..17, 10, vec![15..18]),
            (11..12, 10, vec![11..12, 15..18]),
            (10..11, 12, vec![15..18]),
            (5..7, 12, vec![15..18]),
            (13..20, 12, vec![13..20]),
            (12..12, 12, vec![13..20]),
            (12..13, 20, vec![]),
        ] {
            done.add(add.clone());
            assert_eq!(done, Done { next, runs }, "{add:?}");
        }
    }

    #[test]
    fn what_was_added_is_contained_and_nothing_else() {
        let mut done = Done { next: 3, runs: Vec::new() };
        let mut model: std::collections::BTreeSet<i64> = (0..3).collect();
        let mut seed = 7_i64;
        for _ in 0..200 {
            seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
            let from = seed % 60;
            done.add(from..from + seed % 4);
            model.extend(from..from + seed % 4);
            for offset in 0..70 {
                assert_eq!(done.contains(offset), model.contains(&offset), "{offset} of {done:?}");
            }
            assert!(done.runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            assert!(done.runs.first().is_none_or(|first| first.start > done.next));
        }
    }
}
