//! Reading a dead-letter topic, from some offsets to where it ends now.

use std::collections::BTreeMap;

use downspout::client::{Cluster, EndOffset, Item, MergedStream, OffsetSpec, Recovered, StartOffset};
use downspout::spout::DeadLetter;

use crate::exit::{Exit, Failure};

/// Reads all partitions of a topic, each once from an offset of its own to its end.
pub(super) struct Letters {
    stream: Option<MergedStream>,
    /// What was read of a batch, last first.
    waiting: Vec<Found>,
    /// What each partition's log holds, from and to.
    pub(super) bounds: BTreeMap<i32, (i64, i64)>,
}

/// A record of the topic.
pub(super) struct Found {
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// `None` for a record that is no dead letter.
    pub(super) letter: Option<DeadLetter>,
}

impl Letters {
    /// From these offsets on, or from the start of the log where none is named, or a lower one.
    pub(super) async fn open(
        cluster: &Cluster,
        topic: &str,
        from: &BTreeMap<i32, i64>,
    ) -> Result<Self, Failure> {
        let partitions = cluster.partitions(topic).await?;
        let ends = [OffsetSpec::Earliest, OffsetSpec::Latest];
        let wanted: Vec<_> =
            partitions.iter().flat_map(|partition| ends.map(|spec| (topic, *partition, spec))).collect();
        let mut listed = cluster.list_offsets(&wanted).await?.into_iter();
        let mut bounds = BTreeMap::new();
        let mut streams = cluster.streams();
        let mut is_any = false;
        for partition in partitions {
            let mut next = || match listed.next() {
                Some(mut listed) => listed.error.take().map_or(Ok(listed.offset), Err),
                None => Ok(None),
            };
            let (Some(start), Some(end)) = (next()?, next()?) else { continue };
            bounds.insert(partition, (start, end));
            let at = from.get(&partition).copied().unwrap_or(start).max(start);
            if at < end {
                is_any = true;
                streams =
                    streams.partition_between(topic, partition, StartOffset::At(at), EndOffset::At(end));
            }
        }
        let stream = if is_any { Some(streams.await?) } else { None };
        Ok(Letters { stream, waiting: Vec::new(), bounds })
    }

    /// The next record, in the order of offsets within each partition; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Found>, Failure> {
        loop {
            if let Some(found) = self.waiting.pop() {
                return Ok(Some(found));
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            match stream.next().await? {
                Some((from, Item::Batch(batch))) => {
                    for record in batch.records() {
                        let record =
                            record.map_err(|why| Failure::new(Exit::Found, format!("{from}: {why}")))?;
                        let letter = DeadLetter::read(&record);
                        self.waiting.push(Found {
                            partition: from.partition,
                            offset: record.offset(),
                            letter,
                        });
                    }
                    self.waiting.reverse();
                }
                Some((
                    from,
                    Item::Recovered(event @ (Recovered::Stalled { .. } | Recovered::Vanished { .. })),
                )) => {
                    return Err(Failure::new(Exit::Unreachable, format_args!("{from}: {event}")));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}
