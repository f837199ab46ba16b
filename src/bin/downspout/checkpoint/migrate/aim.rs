//! Which offset a position is in another log.

use std::collections::BTreeMap;
use std::sync::Arc;

use downspout::checkpoint::Checkpoint;
use downspout::client::{Cluster, OffsetSpec, TopicPartition};

use super::look::{self, Seen};
use crate::checkpoint::plan::{self, Bounds};
use crate::exit::Failure;

/// How positions are brought over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// The log is the same.
    ByOffset,
    /// To the first record that is not older than the next one to read, less a margin in seconds.
    ByTime { margin: u32 },
}

/// A position, and the log that it is of.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) partition: TopicPartition,
    pub(super) checkpoint: Checkpoint,
    /// The next record to read.
    pub(super) record: Option<Seen>,
    /// What somebody should know before it is done.
    pub(super) warning: Option<String>,
    /// To go by, in ms since 1970: the time of the next record, or else of the last one.
    time: Option<i64>,
    log: Bounds,
}

/// A position, a partition of the other log, and the time to go by.
type Timed<'a> = (&'a Source, i32, Option<i64>);

/// A position, and where it goes.
pub(super) type Aimed = (Source, (TopicPartition, i64));

/// Looks at the records that are next.
pub(super) async fn sources(
    cluster: &Cluster,
    found: Vec<(TopicPartition, Checkpoint)>,
) -> Result<Vec<Source>, Failure> {
    let partitions: Vec<TopicPartition> = found.iter().map(|(partition, _)| partition.clone()).collect();
    let logs = plan::bounds(cluster, &partitions).await?;
    let mut sources = Vec::new();
    for ((partition, checkpoint), log) in found.into_iter().zip(logs) {
        let Bounds { start, end } = log;
        let offset = checkpoint.offset;
        if offset > end {
            return Err(Failure::usage(format_args!(
                "{partition}: {offset} is beyond the end of the log, {end}: it is not this log's"
            )));
        }
        let warning = (offset < start).then(|| {
            format!(
                "{} offsets from {offset} on are gone from the log, which starts at {start}",
                start - offset
            )
        });
        let record = look::record(cluster, &partition, offset.max(start)).await?;
        let mut time = record.as_ref().and_then(|record| record.timestamp);
        if record.is_none() && end > start {
            let last = look::record(cluster, &partition, end - 1).await?;
            time = last.and_then(|last| last.timestamp);
        }
        sources.push(Source { partition, checkpoint, record, warning, time, log });
    }
    Ok(sources)
}

impl Aim {
    /// Where positions go.
    pub(super) async fn offsets(
        self,
        sources: &[Source],
        (source, target): (&Cluster, &Cluster),
    ) -> Result<Vec<Aimed>, Failure> {
        match self {
            Aim::ByOffset => Ok(sources
                .iter()
                .map(|source| {
                    let offset = source.checkpoint.offset.max(source.log.start);
                    (source.clone(), (source.partition.clone(), offset))
                })
                .collect()),
            Aim::ByTime { margin } => by_time(sources, i64::from(margin) * 1000, (source, target)).await,
        }
    }
}

async fn by_time(
    sources: &[Source],
    margin: i64,
    (source, target): (&Cluster, &Cluster),
) -> Result<Vec<Aimed>, Failure> {
    let mut topics: BTreeMap<Arc<str>, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        topics.entry(source.partition.topic.clone()).or_default().push(source);
    }
    let mut aimed = Vec::new();
    for (topic, sources) in topics {
        let numbers = target.partitions(&topic).await?;
        let is_each = source.partitions(&topic).await?.len() == numbers.len();
        for (source, number, time) in times(&sources, &numbers, is_each)? {
            let partition = TopicPartition::new(&*topic, number);
            let Some(time) = time else {
                let start = target.earliest_offset(&topic, number).await?;
                let warning =
                    Some("there is no record to go by: it begins at the start of the log".to_owned());
                aimed.push((Source { warning, ..source.clone() }, (partition, start)));
                continue;
            };
            let spec = OffsetSpec::Timestamp(time.saturating_sub(margin).max(0));
            let listed = plan::listed(target, std::slice::from_ref(&partition), spec).await?;
            let offset = match listed.first().copied().flatten() {
                Some(offset) => offset,
                None => target.latest_offset(&topic, number).await?,
            };
            aimed.push((source.clone(), (partition, offset)));
        }
    }
    Ok(aimed)
}

/// The times to go by for the partitions of a topic. Where there are as many as before (`is_each`), by their own; else
/// all by the earliest, as nobody knows where a record went.
fn times<'a>(sources: &[&'a Source], numbers: &[i32], is_each: bool) -> Result<Vec<Timed<'a>>, Failure> {
    let untimed = sources.iter().find(|source| source.time.is_none() && source.log.end > source.log.start);
    if let Some(source) = untimed {
        return Err(Failure::usage(format_args!(
            "{}: its records have no time to go by: set positions with `checkpoint set`, or say --same-log if both logs have the same offsets",
            source.partition
        )));
    }
    if is_each {
        return Ok(sources.iter().map(|source| (*source, source.partition.partition, source.time)).collect());
    }
    let earliest = sources.iter().min_by_key(|source| source.time);
    Ok(earliest.map_or_else(Vec::new, |source| {
        numbers.iter().map(|number| (*source, *number, source.time)).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: i32, time: Option<i64>, end: i64) -> Source {
        Source {
            partition: TopicPartition::new("clicks", number),
            checkpoint: Checkpoint::at(0),
            record: None,
            warning: None,
            time,
            log: Bounds { start: 0, end },
        }
    }

    #[test]
    fn each_partition_goes_by_its_own_time_and_all_by_the_earliest_where_there_are_more() {
        let (one, two) = (source(0, Some(50), 9), source(1, Some(40), 9));
        let times = |numbers: &[i32], is_each| {
            let times = times(&[&one, &two], numbers, is_each).unwrap();
            times.into_iter().map(|(_, number, time)| (number, time.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(times(&[0, 1], true), [(0, 50), (1, 40)]);
        assert_eq!(times(&[0, 1, 2], false), [(0, 40), (1, 40), (2, 40)]);
        assert_eq!(times(&[0], false), [(0, 40)]);
    }

    #[test]
    fn without_times_it_is_refused_unless_there_are_no_records() {
        assert!(times(&[&source(0, None, 9)], &[0], true).is_err());
        assert_eq!(times(&[&source(0, None, 0)], &[0], true).unwrap()[0].2, None);
        // Nothing to go by in one: all from the start.
        let (empty, other) = (source(0, None, 0), source(1, Some(4), 9));
        let times = times(&[&empty, &other], &[0, 1, 2], false).unwrap();
        assert!(times.iter().all(|(_, _, time)| time.is_none()));
    }
}
