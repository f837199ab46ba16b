//! How far one partition is behind.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use downspout::checkpoint::Checkpoint;
use downspout::client::{Cluster, Fetch, TopicPartition};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// What is known of a partition; what is not is `None`.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The spout, where several are shown.
    pub(super) id: Option<String>,
    pub(super) partition: TopicPartition,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) start: Option<i64>,
    /// The last stable offset.
    pub(super) end: Option<i64>,
    pub(super) high_watermark: Option<i64>,
    /// Age of the next record.
    age: Option<Duration>,
    /// Why something is not known.
    pub(super) error: Option<String>,
}

impl Row {
    pub(super) fn new(partition: TopicPartition) -> Self {
        Row {
            id: None,
            partition,
            checkpoint: None,
            start: None,
            end: None,
            high_watermark: None,
            age: None,
            error: None,
        }
    }

    /// The offset, if it is known; else the row says why it is not.
    pub(super) fn known(&mut self, offset: downspout::Result<Option<i64>>) -> Option<i64> {
        offset.unwrap_or_else(|why| {
            self.error.get_or_insert_with(|| why.to_string());
            None
        })
    }

    fn committed(&self) -> Option<i64> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.offset)
    }

    /// The next offset that can be read: what lies below the start is gone.
    fn next(&self) -> Option<i64> {
        Some(self.committed()?.max(self.start?))
    }

    /// Offsets from there to the end; unknown if the position lies beyond the log.
    pub(super) fn lag(&self) -> Option<i64> {
        let next = self.next()?;
        (next <= self.high_watermark?).then_some((self.end? - next).max(0))
    }

    /// Offsets below the start that were not read.
    fn lost(&self) -> Option<i64> {
        Some((self.start? - self.committed()?).max(0))
    }

    /// Records done beyond the position, and in how many runs.
    fn done(&self) -> Option<(i64, usize)> {
        let done = &self.checkpoint.as_ref()?.extras.as_ref()?.done;
        Some((done.iter().map(|run| run.end - run.start).sum(), done.len()))
    }

    pub(super) fn line(&self) -> String {
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let age = self.age.map_or_else(|| "-".to_owned(), in_words);
        let id = self.id.as_ref().map_or_else(String::new, |id| format!("{id} "));
        let mut line = format!(
            "{id}{} {} committed {} end {} lag {} done {} age {age} start {} hw {}",
            self.partition.topic,
            self.partition.partition,
            number(self.committed()),
            number(self.end),
            number(self.lag()),
            number(self.done().map(|(done, _)| done)),
            number(self.start),
            number(self.high_watermark),
        );
        if let Some(lost @ 1..) = self.lost() {
            line.push_str(&format!(" lost {lost}"));
        }
        if self.next().zip(self.high_watermark).is_some_and(|(next, end)| next > end) {
            line.push_str(" beyond the end");
        }
        line.push('\n');
        line
    }

    pub(super) fn object(&self) -> Value {
        let mut object = json!({
            "topic": &*self.partition.topic,
            "partition": self.partition.partition,
            "start": self.start,
            "end": self.end,
            "high_watermark": self.high_watermark,
            "committed": self.committed(),
            "lag": self.lag(),
            "done": self.done().map(|(done, _)| done),
            "runs": self.done().map(|(_, runs)| runs),
            "lost": self.lost(),
            "age_ms": self.age.map(|age| age.as_millis() as u64),
            "error": self.error,
        });
        if let Some(id) = &self.id {
            object["id"] = json!(id);
        }
        object
    }
}

/// The sum, and how many are not in it.
pub(super) fn total(rows: &[Row]) -> String {
    let known: Vec<i64> = rows.iter().filter_map(Row::lag).collect();
    let sum: i64 = known.iter().fold(0, |sum, lag| sum.saturating_add(*lag));
    match rows.len() - known.len() {
        0 => format!("total lag {sum}\n"),
        unknown => format!("total lag {sum} and {unknown} not known\n"),
    }
}

/// Reads the next record of those that are behind, for its age.
pub(super) async fn ages(cluster: &Cluster, rows: &mut [Row]) {
    /// Requests under way.
    const AT_ONCE: usize = 16;
    let behind: Vec<usize> =
        (0..rows.len()).filter(|at| rows[*at].lag().is_some_and(|lag| lag > 0)).collect();
    for share in behind.chunks(AT_ONCE) {
        let mut reads = JoinSet::new();
        for &at in share {
            let (cluster, partition, next) = (cluster.clone(), rows[at].partition.clone(), rows[at].next());
            reads.spawn(async move { (at, time(&cluster, &partition, next).await) });
        }
        while let Some(read) = reads.join_next().await {
            if let Ok((at, time)) = read {
                rows[at].age = time.map(since);
            }
        }
    }
}

/// When the next record was written, in ms since 1970, where that is known.
async fn time(cluster: &Cluster, partition: &TopicPartition, next: Option<i64>) -> Option<i64> {
    let next = next?;
    let leader = cluster.leader(&partition.topic, partition.partition).await.ok()?;
    let fetch = Fetch::new(&*partition.topic, partition.partition, next).max_bytes(64 << 10);
    let fetched = cluster.consumer(leader.id).ok()?.fetch(fetch).await.ok()?;
    for batch in fetched.batches() {
        let batch = batch.ok()?;
        let first = batch.records().filter_map(Result::ok).find(|record| record.offset() >= next);
        if let Some(first) = first {
            return first.timestamp();
        }
    }
    None
}

fn since(time: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(u64::try_from(time).unwrap_or(0)))
}

fn in_words(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(committed: Option<i64>, start: i64, end: i64, high_watermark: i64) -> Row {
        Row {
            checkpoint: committed.map(Checkpoint::at),
            start: Some(start),
            end: Some(end),
            high_watermark: Some(high_watermark),
            ..Row::new(TopicPartition::new("clicks", 0))
        }
    }

    #[test]
    fn what_is_not_known_is_not_0() {
        assert_eq!(row(None, 0, 9, 9).lag(), None);
        assert_eq!(Row { end: None, ..row(Some(5), 0, 9, 9) }.lag(), None);
        assert_eq!(row(Some(10), 0, 9, 9).lag(), None, "beyond the end");
        let line = row(None, 0, 9, 9).line();
        assert_eq!(line, "clicks 0 committed - end 9 lag - done - age - start 0 hw 9\n");
        assert_eq!(total(&[row(None, 0, 9, 9), row(Some(5), 0, 9, 9)]), "total lag 4 and 1 not known\n");
    }

    #[test]
    fn lag_counts_what_can_still_be_read() {
        assert_eq!(row(Some(5), 0, 9, 12).lag(), Some(4));
        assert_eq!(row(Some(10), 0, 9, 12).lag(), Some(0), "between the stable end and the watermark");
        let behind = row(Some(2), 6, 9, 9);
        assert_eq!((behind.lag(), behind.lost()), (Some(3), Some(4)));
        assert!(behind.line().ends_with(" lost 4\n"));
    }

    #[test]
    fn ages_are_short() {
        for (seconds, words) in [(5, "5s"), (65, "1m05s"), (3720, "1h02m"), (90_000, "1d01h")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
