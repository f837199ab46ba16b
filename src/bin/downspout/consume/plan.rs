//! What is read: whole topics that are followed, or pieces of partitions whose ends are known.

use downspout::client::{Cluster, EndOffset, ListedOffset, OffsetSpec, StartOffset};

use super::ConsumeArgs;
use super::bound::Bound;
use super::topics::Topic;
use crate::exit::{Exit, Failure};

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// All partitions of a topic, those that are added later too, without an end.
    Whole { topic: String, start: StartOffset },
    /// One partition, with its records as far as they can be counted.
    Piece { topic: String, partition: i32, start: StartOffset, end: EndOffset, records: Option<u64> },
}

/// Works out what is to be read. Ends are looked up here, before anything is read, so that they are
/// those of the start; `count`: where records begin too, so that they can be counted.
pub(super) async fn parts(
    cluster: &Cluster,
    args: &ConsumeArgs,
    topics: &[Topic],
    count: bool,
) -> Result<Vec<Part>, Failure> {
    let start = match args.start() {
        Bound::Beginning | Bound::Until(_) => StartOffset::Earliest,
        Bound::End => StartOffset::Latest,
        Bound::Offset(offset) => StartOffset::At(offset),
        Bound::Last(count) => StartOffset::Tail(count.unsigned_abs()),
        Bound::Since(time) => StartOffset::Timestamp(time),
    };
    let until = args.until();
    let ends = args.exit_at_end || until.is_some();
    if args.partitions.is_empty() && !ends {
        let whole = |topic: &Topic| Part::Whole { topic: topic.name.clone(), start };
        return Ok(topics.iter().map(whole).collect());
    }
    let mut places = Vec::new();
    for topic in topics {
        places.extend(partitions(args, topic)?.into_iter().map(|partition| (topic.name.as_str(), partition)));
    }
    let mut looked_up = Vec::new();
    if ends {
        looked_up.push(OffsetSpec::Latest);
        looked_up.extend(until.map(OffsetSpec::Timestamp));
        looked_up.extend(match start {
            // Not the end of later, and so many before it.
            StartOffset::Tail(_) => Some(OffsetSpec::Earliest),
            StartOffset::Earliest if count => Some(OffsetSpec::Earliest),
            StartOffset::Timestamp(time) => Some(OffsetSpec::Timestamp(time)),
            _ => None,
        });
    }
    let mut listed = list(cluster, &places, &looked_up).await?.into_iter();
    let mut parts = Vec::new();
    for (topic, partition) in places {
        let mut next = || listed.next();
        let mut end = None;
        let mut first = None;
        let mut start = start;
        if ends {
            let latest = next().and_then(|latest| latest.offset).unwrap_or(0);
            end = Some(latest).filter(|_| args.exit_at_end);
            if until.is_some() {
                // Brokers before 0.10.1 know the times of segments only: their answer is no bound.
                let at = next().filter(|at| at.timestamp.is_some()).and_then(|at| at.offset);
                end = at.map(|at| end.map_or(at, |end| end.min(at))).or(end);
            }
            first = match start {
                StartOffset::Latest => Some(latest),
                StartOffset::At(offset) => Some(offset),
                StartOffset::Tail(records) => {
                    let earliest = next().and_then(|earliest| earliest.offset).unwrap_or(0);
                    let records = i64::try_from(records).unwrap_or(i64::MAX);
                    Some(latest.saturating_sub(records).max(earliest))
                }
                StartOffset::Timestamp(_) => next().map(|at| at.offset.unwrap_or(latest)),
                _ if count => next().and_then(|earliest| earliest.offset),
                _ => None,
            };
            if let Some(first) = first
                && start != StartOffset::Earliest
            {
                start = StartOffset::At(first);
            }
        }
        let records = end.zip(first).map(|(end, first)| u64::try_from(end - first).unwrap_or(0));
        let end = end.map_or(EndOffset::Never, EndOffset::At);
        parts.push(Part::Piece { topic: topic.to_owned(), partition, start, end, records });
    }
    Ok(parts)
}

/// The partitions of a topic that are wanted.
fn partitions(args: &ConsumeArgs, topic: &Topic) -> Result<Vec<i32>, Failure> {
    if args.partitions.is_empty() {
        return Ok((0..topic.partitions).collect());
    }
    let mut wanted = args.partitions.clone();
    wanted.sort_unstable();
    wanted.dedup();
    if let Some(missing) = wanted.iter().find(|partition| !(0..topic.partitions).contains(*partition)) {
        let Topic { name, partitions } = topic;
        let what = format_args!("{name} has no partition {missing}: it has {partitions}, numbered from 0");
        return Err(Failure::new(Exit::Unreachable, what));
    }
    Ok(wanted)
}

/// All of these of each partition, partition by partition.
async fn list(
    cluster: &Cluster,
    places: &[(&str, i32)],
    specs: &[OffsetSpec],
) -> Result<Vec<ListedOffset>, Failure> {
    let of = |&(topic, partition)| specs.iter().map(move |spec| (topic, partition, *spec));
    let wanted: Vec<_> = places.iter().flat_map(of).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut listed = cluster.list_offsets(&wanted).await?;
    match listed.iter_mut().find_map(|listed| listed.error.take()) {
        Some(why) => Err(why.into()),
        None => Ok(listed),
    }
}

/// How many records will come, where that is known.
pub(super) fn expected(args: &ConsumeArgs, parts: &[Part]) -> Option<u64> {
    let records = |part: &Part| match part {
        Part::Whole { .. } => None,
        Part::Piece { records, .. } => *records,
    };
    let all = parts.iter().map(records).sum::<Option<u64>>();
    match (all, args.count) {
        (Some(all), Some(count)) => Some(all.min(count)),
        (all, count) => all.or(count),
    }
}
