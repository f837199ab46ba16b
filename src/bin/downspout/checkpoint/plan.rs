//! What a change would come to, in words.

use downspout::checkpoint::{Checkpoint, Extras};
use downspout::client::{Cluster, OffsetSpec, TopicPartition};

use super::show::done;
use crate::exit::Failure;

/// A change of one partition.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) partition: TopicPartition,
    /// What is there.
    pub(super) from: Option<Checkpoint>,
    /// What shall be there; `None` for no checkpoint.
    pub(super) to: Option<Checkpoint>,
    pub(super) log: Bounds,
}

/// Where a log starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Where the logs of these partitions start and end.
pub(super) async fn bounds(cluster: &Cluster, partitions: &[TopicPartition]) -> Result<Vec<Bounds>, Failure> {
    let mut offsets = Vec::new();
    for spec in [OffsetSpec::Earliest, OffsetSpec::Latest] {
        offsets.push(listed(cluster, partitions, spec).await?);
    }
    let missing =
        |partition: &TopicPartition| Failure::usage(format_args!("{partition}: its log is not known"));
    let (Some(ends), Some(starts)) = (offsets.pop(), offsets.pop()) else { return Ok(Vec::new()) };
    let both = partitions.iter().zip(starts.into_iter().zip(ends));
    let bounds = both.map(|(partition, bounds)| match bounds {
        (Some(start), Some(end)) => Ok(Bounds { start, end }),
        _ => Err(missing(partition)),
    });
    bounds.collect()
}

/// The offset of each partition that is meant; `None` if there is none.
pub(super) async fn listed(
    cluster: &Cluster,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> Result<Vec<Option<i64>>, Failure> {
    let wanted: Vec<_> = partitions.iter().map(|one| (&*one.topic, one.partition, spec)).collect();
    let listed = cluster.list_offsets(&wanted).await?;
    let offsets = listed.into_iter().map(|listed| match listed.error {
        Some(why) => Err(Failure::from(why)),
        None => Ok(listed.offset),
    });
    offsets.collect()
}

impl Change {
    /// Refuses an offset that is not in the log.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Bounds { start, end } = self.log;
        match &self.to {
            Some(to) if !(start..=end).contains(&to.offset) => Err(Failure::usage(format_args!(
                "{}: {} is not in the log, which starts at {start} and ends at {end}",
                self.partition, to.offset
            ))),
            _ => Ok(()),
        }
    }

    /// Whether anything would be another way afterwards.
    pub(super) fn is_one(&self) -> bool {
        let kept = |checkpoint: &Option<Checkpoint>| {
            let known = |extras: &Extras| (extras.done.clone(), extras.unfinished.clone(), extras.deaths);
            checkpoint.as_ref().map(|it| (it.offset, it.extras.as_ref().map(known).unwrap_or_default()))
        };
        kept(&self.from) != kept(&self.to)
    }

    /// One line.
    pub(super) fn words(&self) -> String {
        let (partition, Bounds { start, end }) = (&self.partition, self.log);
        let log = format!("the log holds {}", range(start, end));
        match (&self.from, &self.to) {
            (None, None) => format!("{partition}: no checkpoint, and none to come"),
            (Some(from), None) => format!(
                "{partition}: {} is removed; where the spout starts then is up to its settings ({log})",
                from.offset
            ),
            (None, Some(to)) if to.offset > start => format!(
                "{partition}: no checkpoint -> {}: {} will not be read ({log})",
                to.offset,
                range(start, to.offset)
            ),
            (None, Some(to)) => format!("{partition}: no checkpoint -> {}: all is read ({log})", to.offset),
            (Some(from), Some(to)) => {
                let consequence = if to.offset < from.offset {
                    // What lies below the start cannot come again.
                    let again = range(to.offset.max(start), from.offset);
                    format!("{again} will be handed out again")
                } else if to.offset > from.offset {
                    format!("{} will be skipped", range(from.offset, to.offset))
                } else {
                    "the offset stays".to_owned()
                };
                let attempts =
                    |it: &Checkpoint| it.extras.as_ref().map_or(0, |extras| extras.unfinished.len());
                let forgotten = match (forgotten(from, to), attempts(from).saturating_sub(attempts(to))) {
                    (0, 0) => String::new(),
                    (0, 1) => "; the attempts and deaths of 1 record are forgotten".to_owned(),
                    (0, count) => format!("; the attempts and deaths of {count} records are forgotten"),
                    (count, _) => format!("; {count} that are done beyond it will be handed out again too"),
                };
                format!("{partition}: {} -> {}: {consequence}{forgotten} ({log})", from.offset, to.offset)
            }
        }
    }
}

/// Records that are known as done now and would not be afterwards, beyond both offsets.
fn forgotten(from: &Checkpoint, to: &Checkpoint) -> i64 {
    if to.extras.is_some() {
        return 0;
    }
    let Some(extras) = &from.extras else { return 0 };
    let mut left = extras.clone();
    left.done.retain_mut(|run| {
        run.start = run.start.max(to.offset);
        run.start < run.end
    });
    done(&left)
}

fn range(start: i64, end: i64) -> String {
    match end - start {
        ..=0 => "nothing".to_owned(),
        1 => format!("1 offset ({start})"),
        count => format!("{count} offsets ({start} to {})", end - 1),
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use downspout::checkpoint::Unfinished;

    use super::*;

    fn change(from: Option<i64>, to: Option<i64>) -> Change {
        Change {
            partition: TopicPartition::new("clicks", 0),
            from: from.map(Checkpoint::at),
            to: to.map(Checkpoint::at),
            log: Bounds { start: 10, end: 100 },
        }
    }

    #[test]
    fn a_plan_says_what_comes_again_and_what_is_skipped() {
        let log = " (the log holds 90 offsets (10 to 99))";
        for (from, to, words) in [
            (Some(50), Some(20), "50 -> 20: 30 offsets (20 to 49) will be handed out again"),
            (Some(50), Some(51), "50 -> 51: 1 offset (50) will be skipped"),
            (Some(50), Some(50), "50 -> 50: the offset stays"),
            (None, Some(10), "no checkpoint -> 10: all is read"),
            (None, Some(20), "no checkpoint -> 20: 10 offsets (10 to 19) will not be read"),
        ] {
            assert_eq!(change(from, to).words(), format!("clicks/0: {words}{log}"));
        }
        let removed = change(Some(50), None).words();
        assert!(removed.starts_with("clicks/0: 50 is removed"), "{removed}");
        let mut forgets = change(Some(50), Some(60));
        forgets.from.as_mut().unwrap().extras =
            Some(Extras { done: vec![55..65, 70..71], ..Extras::default() });
        assert!(forgets.words().contains("; 6 that are done beyond it"), "{}", forgets.words());
        // At the same offset too: a record that somebody died of gets another chance.
        let mut clears = change(Some(50), Some(50));
        assert!(!clears.is_one());
        let unfinished = vec![Unfinished { offset: 50, attempts: 0, deaths: 3 }];
        clears.from.as_mut().unwrap().extras = Some(Extras { unfinished, ..Extras::default() });
        assert!(
            clears.is_one()
                && clears.words().contains("the offset stays; the attempts and deaths of 1 record are")
        );
    }

    #[test]
    fn what_is_not_in_the_log_is_refused() {
        for (to, fits) in [(9, false), (10, true), (100, true), (101, false)] {
            assert_eq!(change(None, Some(to)).check().is_ok(), fits, "{to}");
        }
        assert!(change(Some(5), None).check().is_ok());
    }
}
