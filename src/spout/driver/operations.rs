//! What runs beside the driver's task.

use std::sync::Arc;
use std::time::Duration;

use super::Driver;
use super::Env;
use super::assign::{Resolved, Seen};
use super::commits::Committed;
use crate::client::{EndOffset, Fetch, Item, Recovered, StartOffset, TopicPartition};
use crate::error::{Error, ErrorKind, Result};
use crate::records::Batch;
use crate::spout::dead_letter::Letter;
use crate::spout::lot::AssignmentId;

/// An operation that is done.
pub(super) enum Done {
    Seen(Result<Seen>),
    Resolved(Vec<(TopicPartition, Result<Resolved>)>),
    Committed(Committed),
    /// Partitions that were let go of, with their last positions.
    LetGo(Committed, Vec<TopicPartition>),
    Refetched {
        partition: TopicPartition,
        assignment: AssignmentId,
        offsets: Vec<i64>,
        result: Result<Refetched>,
    },
    DeadLetter {
        partition: TopicPartition,
        assignment: AssignmentId,
        offset: i64,
        result: Result<()>,
    },
}

/// Records that were fetched again.
#[derive(Debug, Default)]
pub(super) struct Refetched {
    found: Vec<(i64, Batch)>,
    /// Not in the log any more.
    missing: Vec<i64>,
    /// Where the log starts, if some lay below it.
    pruned_below: Option<i64>,
}

/// Bytes of records that are fetched again at a time.
const BYTES: usize = 4 << 20;

/// Fetches records again that are due, those that lie together in one go.
pub(super) async fn refetch(
    env: Arc<Env>,
    partition: TopicPartition,
    assignment: AssignmentId,
    offsets: Vec<i64>,
) -> Done {
    // Looking into what may be gone takes most of it.
    let limit = Duration::from_secs(90);
    let fetched = tokio::time::timeout(limit, fetch_again(&env, &partition, &offsets)).await;
    let result = fetched.unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout(limit))));
    Done::Refetched { partition, assignment, offsets, result }
}

async fn fetch_again(env: &Env, partition: &TopicPartition, offsets: &[i64]) -> Result<Refetched> {
    /// Farther apart than this they are fetched one by one.
    const NEAR: i64 = 10_000;
    /// Without a record for so long, it is looked into.
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut result = Refetched::default();
    let mut bytes = 0;
    let mut left = offsets;
    while let (Some(&first), true) = (left.first(), bytes < BYTES) {
        let count = left.iter().zip(left.iter().skip(1)).take_while(|(a, b)| **b - **a <= NEAR).count() + 1;
        let (run, rest) = left.split_at(count);
        left = rest;
        let last = run.last().copied().unwrap_or(first);
        let mut stream = env
            .cluster
            .partition(&partition.topic, partition.partition)
            .stream(StartOffset::At(first))
            .options(super::start::retry_options(&env.settings))
            .until(EndOffset::At(last.saturating_add(1)))
            .await?;
        let mut wanted = run.iter().copied().peekable();
        while let (Some(&next), true) = (wanted.peek(), bytes < BYTES) {
            let Ok(item) = tokio::time::timeout(PATIENCE, stream.next()).await else {
                // What was found does not wait for that.
                if result.found.is_empty() && is_gone(env, partition, next, last).await? {
                    result.missing.extend(wanted.by_ref());
                }
                return Ok(result);
            };
            match item? {
                Some(Item::Batch(batch)) => {
                    let index = batch.index();
                    for position in index.positions {
                        let Some(offset) = batch.record_at(position).map(|record| record.offset()) else {
                            continue;
                        };
                        while let Some(missing) = wanted.next_if(|want| *want < offset) {
                            result.missing.push(missing);
                        }
                        if wanted.next_if_eq(&offset).is_some() {
                            let only = batch.only(position);
                            bytes += only.size();
                            result.found.push((offset, only));
                        }
                    }
                    while let Some(missing) = wanted.next_if(|want| *want < batch.next_offset()) {
                        result.missing.push(missing);
                    }
                }
                Some(Item::Recovered(Recovered::OutOfRange { resumed_at, .. })) => {
                    result.pruned_below = Some(resumed_at);
                    while wanted.next_if(|want| *want < resumed_at).is_some() {}
                }
                Some(_) => {}
                // All up to the last one was read.
                None => result.missing.extend(wanted.by_ref()),
            }
        }
    }
    Ok(result)
}

/// Whether the log has no record any more from that offset to `last`, although it reaches beyond: then
/// nothing behind them says so either (compaction took the last ones of the log). A leader that answers
/// with nothing at all below its end has nothing there, if it does so for a minute: one whose tiered storage is slow
/// answers with nothing too (KAFKA-15776).
async fn is_gone(env: &Env, partition: &TopicPartition, offset: i64, last: i64) -> Result<bool> {
    const TRIES: u32 = 6;
    const BETWEEN: Duration = Duration::from_secs(10);
    let TopicPartition { topic, partition } = partition;
    for number in 0..TRIES {
        if number > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let leader = env.cluster.leader(topic, *partition).await?;
        let fetch = Fetch::new(&**topic, *partition, offset);
        let fetched = env.cluster.consumer(leader.id)?.fetch(fetch).await?;
        let is_empty = fetched.partitions().iter().all(|found| {
            let end = found.last_stable_offset().or(found.high_watermark());
            found.error().is_none() && found.record_set().is_empty() && end.is_some_and(|end| last < end)
        });
        if !is_empty {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends a record to the dead-letter topic.
pub(super) async fn dead_letter(
    env: Arc<Env>,
    partition: TopicPartition,
    assignment: AssignmentId,
    letter: Letter,
) -> Done {
    let offset = letter.offset;
    let result = match &env.dead_letters {
        Some(writer) => writer.write(&letter).await,
        None => Err(Error::new(ErrorKind::Config("there is no dead-letter topic".to_owned()))),
    };
    Done::DeadLetter { partition, assignment, offset, result }
}

impl Driver {
    pub(super) fn take_done(&mut self, done: Done) {
        let now = self.now();
        match done {
            Done::Seen(seen) => self.take_seen(seen),
            Done::Resolved(resolved) => self.take_resolved(resolved),
            Done::Committed(committed) => self.take_committed(committed),
            Done::LetGo(committed, partitions) => {
                self.letting_go.retain(|partition| !partitions.contains(partition));
                self.held_changed = true;
                self.take_committed(committed);
            }
            Done::Refetched { partition, assignment, offsets, result } => {
                let Some(part) = self.parts.get_mut(&partition) else { return };
                if part.manager.place.assignment != assignment {
                    return;
                }
                match result {
                    Ok(Refetched { found, missing, pruned_below }) => {
                        part.manager.on_refetched(found, &missing, now);
                        if let Some(start) = pruned_below {
                            part.manager.prune_below(start);
                        }
                        // What was not come to is fetched next time.
                        part.manager.on_refetch_failed(&offsets, now, 0);
                    }
                    Err(why) if matches!(why.kind(), ErrorKind::Corrupt(_)) => {
                        part.manager.on_refetch_failed(&offsets, now, 0);
                        part.manager.stop(why.to_string());
                    }
                    Err(why) => {
                        tracing::warn!(topic = %partition.topic, partition = partition.partition, error = %why, "records to be retried could not be fetched again; it is tried again");
                        part.manager.on_refetch_failed(&offsets, now, 1_000);
                    }
                }
                self.settle(&partition);
            }
            Done::DeadLetter { partition, assignment, offset, result } => {
                if let Some(part) = self.parts.get_mut(&partition)
                    && part.manager.place.assignment == assignment
                {
                    part.manager.on_dead_letter(offset, result, now);
                    self.settle(&partition);
                }
            }
        }
    }
}
