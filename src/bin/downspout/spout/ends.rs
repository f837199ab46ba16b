//! `--exit-at-end`: what the ends of partitions were at the start, and whether everything below is done.

use std::collections::BTreeMap;
use std::time::Duration;

use downspout::client::{Cluster, OffsetSpec, TopicPartition};
use downspout::spout::SpoutMetrics;
use tokio::time::Instant;

use super::topics;
use crate::consume::Wanted;
use crate::exit::{Exit, Failure};

/// Where partitions ended at the start.
#[derive(Debug)]
pub(super) struct Ends {
    ends: BTreeMap<TopicPartition, i64>,
    /// What was done when something was done last.
    seen: (i64, Instant),
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Far {
    On,
    /// Everything is done, but for partitions that stopped.
    Done,
    /// A partition does not reach its end any more.
    Never(Failure),
}

/// So long may a log be shorter than it was until reading to the end is given up.
const PATIENCE: Duration = Duration::from_secs(30);

impl Ends {
    pub(super) async fn of(cluster: &Cluster, wanted: &[Wanted]) -> Result<Ends, Failure> {
        let mut places = Vec::new();
        for topic in topics::find(cluster, wanted).await? {
            places.extend(
                cluster.partitions(&topic).await?.into_iter().map(|partition| (topic.clone(), partition)),
            );
        }
        let asked: Vec<_> = places
            .iter()
            .map(|(topic, partition)| (topic.as_str(), *partition, OffsetSpec::Latest))
            .collect();
        let mut ends = BTreeMap::new();
        for ((topic, partition), listed) in places.iter().zip(cluster.list_offsets(&asked).await?) {
            if let Some(why) = listed.error {
                return Err(why.into());
            }
            ends.insert(TopicPartition::new(topic.as_str(), *partition), listed.offset.unwrap_or(0));
        }
        Ok(Ends { ends, seen: (-1, Instant::now()) })
    }

    /// Looks at what is done by now.
    pub(super) fn look(&mut self, metrics: &SpoutMetrics) -> Far {
        if !metrics.active {
            // Nothing is known yet.
            return Far::On;
        }
        let (mut open, mut shorter) = (0, None);
        for (place, partition) in &metrics.partitions {
            let Some(end) = self.ends.get(place) else { continue };
            let done = partition.latest_completed.is_some_and(|done| done >= *end);
            if done || partition.stopped.is_some() {
                continue;
            }
            open += 1;
            if let Some(latest) = partition.latest.filter(|latest| latest < end) {
                shorter = Some((place, *end, latest));
            }
        }
        if open == 0 {
            return Far::Done;
        }
        let done: i64 = metrics.partitions.values().filter_map(|partition| partition.latest_completed).sum();
        if done != self.seen.0 || shorter.is_none() {
            self.seen = (done, Instant::now());
        }
        match shorter {
            Some((place, end, latest)) if self.seen.1.elapsed() > PATIENCE => Far::Never(Failure::new(
                Exit::Unreachable,
                format_args!(
                    "{place} ended at {end} when this began, and ends at {latest} now: it was cut, or made anew"
                ),
            )),
            _ => Far::On,
        }
    }
}

#[cfg(test)]
mod tests {
    use downspout::spout::PartitionMetrics;

    use super::*;

    /// Of each partition: what is done, where the log ends, whether it stopped.
    fn metrics(partitions: &[(Option<i64>, i64, bool)]) -> SpoutMetrics {
        let mut metrics = SpoutMetrics::default();
        metrics.active = true;
        for (number, (done, latest, stopped)) in (0..).zip(partitions) {
            let mut partition = PartitionMetrics::default();
            (partition.latest_completed, partition.latest) = (*done, Some(*latest));
            partition.stopped = stopped.then(|| "poison".to_owned());
            metrics.partitions.insert(TopicPartition::new("t", number), partition);
        }
        metrics
    }

    fn ends(ends: &[i64]) -> Ends {
        let ends = (0..).zip(ends).map(|(number, end)| (TopicPartition::new("t", number), *end)).collect();
        Ends { ends, seen: (-1, Instant::now()) }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_done_when_all_below_the_ends_is_but_for_what_stopped() {
        let mut ends = ends(&[5, 0, 7]);
        let mut is_done = |metrics: &SpoutMetrics| matches!(ends.look(metrics), Far::Done);
        assert!(!is_done(&SpoutMetrics::default()), "nothing is known yet");
        assert!(!is_done(&metrics(&[(Some(5), 9, false), (None, 0, false), (Some(9), 9, false)])));
        assert!(!is_done(&metrics(&[(Some(4), 9, false), (Some(0), 0, false), (Some(9), 9, false)])));
        assert!(is_done(&metrics(&[(Some(5), 9, false), (Some(0), 0, false), (Some(7), 9, false)])));
        assert!(is_done(&metrics(&[(Some(5), 9, false), (Some(0), 0, false), (Some(1), 9, true)])));
        // A task without partitions has nothing to do.
        assert!(is_done(&metrics(&[])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_was_cut_is_given_up_after_a_while_without_progress() {
        let mut ends = ends(&[5]);
        let cut = |done| metrics(&[(Some(done), 3, false)]);
        assert!(matches!(ends.look(&cut(1)), Far::On));
        tokio::time::sleep(PATIENCE).await;
        assert!(matches!(ends.look(&cut(3)), Far::On), "there was progress");
        // A new leader may show less for a moment.
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(matches!(ends.look(&metrics(&[(Some(3), 6, false)])), Far::On));
        assert!(matches!(ends.look(&cut(3)), Far::On));
        tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
        let Far::Never(failure) = ends.look(&cut(3)) else { panic!() };
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.message.unwrap().starts_with("t/0 ended at 5 when this began, and ends at 3 now"));
    }
}
