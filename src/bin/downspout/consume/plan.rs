//! Where each partition begins and ends, found out before anything is fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use downspout::client::OffsetSpec;

use super::ConsumeArgs;
use super::bound::Bound;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};

/// What is to be read of a partition.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) partition: i32,
    /// The first offset wanted; while it is read, the one that comes next.
    pub(super) start: i64,
    /// Stop when this offset comes next, if ever.
    pub(super) stop: Option<i64>,
    /// Stop at the first record that is not older.
    pub(super) until: Option<i64>,
    /// Set by whoever shows the records, when enough of them were shown.
    pub(super) enough: Arc<AtomicBool>,
}

impl Part {
    /// Whether there is nothing (more) to read.
    pub(super) fn is_done(&self) -> bool {
        self.stop.is_some_and(|stop| self.start >= stop) || self.enough.load(Ordering::Relaxed)
    }
}

/// Looks up the bounds of every partition wanted.
pub(super) async fn parts(cluster: &mut Cluster, args: &ConsumeArgs) -> Result<Vec<Part>, Failure> {
    let topic = cluster.topic(&args.topic, args.wait_for_topic).await?;
    let known: Vec<i32> = topic.partitions.iter().map(|partition| partition.id).collect();
    let mut wanted = if args.partitions.is_empty() { known.clone() } else { args.partitions.clone() };
    wanted.sort_unstable();
    wanted.dedup();
    if let Some(missing) = wanted.iter().find(|partition| !known.contains(partition)) {
        let what =
            format!("{} has no partition {missing}: it has {}, numbered from 0", args.topic, known.len());
        return Err(Failure::new(Exit::Unreachable, what));
    }
    let mut parts = Vec::new();
    for partition in wanted {
        parts.push(part(cluster, args, partition).await?);
    }
    Ok(parts)
}

async fn part(cluster: &mut Cluster, args: &ConsumeArgs, partition: i32) -> Result<Part, Failure> {
    let topic = &args.topic;
    let mut part = Part { partition, start: 0, stop: None, until: None, enough: Arc::default() };
    let mut start = Bound::Beginning;
    for bound in &args.offsets {
        match bound {
            Bound::Until(time) => part.until = Some(*time),
            other => start = *other,
        }
    }
    let at = async |cluster: &mut Cluster, spec| cluster.list(topic, partition, spec).await;
    let end = async |cluster: &mut Cluster| {
        Ok::<_, Failure>(at(cluster, OffsetSpec::Latest).await?.offset.unwrap_or(0))
    };
    part.start = match start {
        Bound::Beginning => at(cluster, OffsetSpec::Earliest).await?.offset.unwrap_or(0),
        Bound::End => end(cluster).await?,
        Bound::Offset(offset) => offset,
        Bound::Last(count) => {
            let first = at(cluster, OffsetSpec::Earliest).await?.offset.unwrap_or(0);
            end(cluster).await?.saturating_sub(count).max(first)
        }
        Bound::Since(time) => match at(cluster, OffsetSpec::Timestamp(time)).await?.offset {
            Some(offset) => offset,
            None => end(cluster).await?,
        },
        Bound::Until(_) => 0,
    };
    if args.exit_at_end {
        part.stop = Some(end(cluster).await?);
    }
    if let Some(time) = part.until {
        // Brokers before 0.10.1 know the times of segments only: their answer is no bound.
        let listed = at(cluster, OffsetSpec::Timestamp(time)).await?;
        if listed.timestamp.is_some() {
            part.stop =
                listed.offset.map(|offset| part.stop.map_or(offset, |stop| stop.min(offset))).or(part.stop);
        }
    }
    Ok(part)
}
