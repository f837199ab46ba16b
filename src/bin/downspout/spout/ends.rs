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
