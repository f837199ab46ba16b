//! `downspout dlq redrive`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use downspout::client::Cluster;
use downspout::protocol::ErrorCode;
use downspout::records::{NewHeader, NewRecord};
use downspout::spout::DeadLetter;
use downspout::{Error, ErrorKind};
use tokio::signal::unix::{SignalKind, signal};

use super::Chosen;
use super::letters::{Found, Letters};
use super::position::Positions;
use crate::exit::{Exit, Failure};
use crate::progress::say;
use crate::store::StoreName;

/// Send the records of a dead-letter topic back to where they came from
///
/// They go out as they were: key, value, headers and timestamp, without what was added about their
/// failure. Without --execute only the plan is shown. What was sent back is kept in the store, record by
/// record, and not sent a second time; a record that a filter leaves out stays to be sent. When this is
/// killed, the batch that it was at may be sent once more.
#[derive(Debug, Args)]
pub(super) struct RedriveArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// To this topic, instead of where each record came from
    #[arg(long, value_name = "TOPIC")]
    to: Option<String>,
    /// Where to keep what was sent back: file:DIR, or kafka or kafka:GROUP, which has room for a few
    /// hundred gaps
    #[arg(long, value_name = "STORE")]
    store: StoreName,
    /// The name under which it is kept [default: redrive-TOPIC]
    #[arg(long)]
    id: Option<String>,
    /// Do it
    #[arg(long)]
    execute: bool,
}

/// Records sent at once to one partition.
const BATCH_RECORDS: usize = 500;
/// And their bytes: far below what brokers take at least (`message.max.bytes`).
const BATCH_BYTES: usize = 256 << 10;

pub(super) async fn run(args: &RedriveArgs) -> Result<Exit, Failure> {
    let chosen = &args.chosen;
    if args.to.as_ref() == Some(&chosen.topic) {
        return Err(Failure::usage("--to: that is the dead-letter topic itself"));
    }
    if !args.store.is_durable() && args.execute {
        return Err(Failure::usage("--store: memory forgets what was sent back; use file:DIR or kafka"));
    }
    let cluster = chosen.connect.target()?.cluster().await?;
    let metadata = cluster.metadata(&[&chosen.topic]).await?;
    let topic_id = metadata.topic(&chosen.topic).and_then(|topic| topic.id);
    let partitions = cluster.partitions(&chosen.topic).await?;
    let id = args.id.clone().unwrap_or_else(|| format!("redrive-{}", chosen.topic));
    let store = args.store.store(&cluster);
    let positions = Positions::open(&*store, &id, &chosen.topic, topic_id, partitions, args.execute).await?;
    let letters = Letters::open(&cluster, &chosen.topic, &positions.next()).await?;
    let mut redrive = Redrive {
        args,
        cluster,
        positions,
        letters,
        seen: BTreeMap::new(),
        counts: BTreeMap::new(),
        batches: BTreeMap::new(),
        tally: Tally::default(),
    };
    let result = redrive.run().await;
    redrive.tell().map_err(Failure::output)?;
    redrive.positions.close().await;
    result
}

struct Redrive<'a> {
    args: &'a RedriveArgs,
    cluster: Cluster,
    positions: Positions,
    letters: Letters,
    /// The offset behind the last record that was looked at.
    seen: BTreeMap<i32, i64>,
    /// Partitions of the topics that records go to; the error of one that cannot be.
    counts: BTreeMap<String, Result<usize, Error>>,
    /// What is to be sent, by where to.
    batches: BTreeMap<(String, i32), Batch>,
    tally: Tally,
}

#[derive(Default)]
struct Batch {
    letters: Vec<(i32, i64, DeadLetter)>,
    bytes: usize,
}

/// What became of the records, to tell at the end.
#[derive(Default)]
struct Tally {
    /// By source, and where to.
    meant: BTreeMap<(String, String), u64>,
    sent: u64,
    sent_before: u64,
    left_out: u64,
    foreign: u64,
    without_value: u64,
    refused: u64,
}

impl Redrive<'_> {
    async fn run(&mut self) -> Result<Exit, Failure> {
        let failed = |why| Failure::new(Exit::Unreachable, format_args!("cannot wait for signals: {why}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let ended = loop {
            let found = tokio::select! {
                biased;
                _ = interrupt.recv() => break Exit::Interrupted,
                _ = terminate.recv() => break Exit::Terminated,
                found = self.letters.next() => found?,
            };
            match found {
                Some(found) => self.take(found).await?,
                None => break Exit::Ok,
            }
        };
        self.send_all().await?;
        let is_left = self.tally.without_value + self.tally.refused > 0;
        Ok(if ended == Exit::Ok && is_left { Exit::Partly } else { ended })
    }

    async fn take(&mut self, found: Found) -> Result<(), Failure> {
        let Found { partition, offset, letter } = found;
        let start = self.letters.bounds.get(&partition).map_or(0, |(start, _)| *start);
        let done = self.positions.done.entry(partition).or_default();
        // What is not in the log, or not any more, needs nothing.
        let looked_at = self.seen.get(&partition).copied().unwrap_or_else(|| {
            done.add(done.next..start);
            done.next
        });
        done.add(looked_at..offset);
        self.seen.insert(partition, offset + 1);
        if done.contains(offset) {
            self.tally.sent_before += 1;
            return Ok(());
        }
        let Some(letter) = letter else {
            // It never will be.
            done.add(offset..offset + 1);
            self.tally.foreign += 1;
            return Ok(());
        };
        if !self.args.chosen.is_meant(&letter) {
            self.tally.left_out += 1;
            return Ok(());
        }
        if letter.value_dropped.is_some() {
            self.tally.without_value += 1;
            return Ok(());
        }
        let target = self.args.to.clone().unwrap_or_else(|| letter.topic.clone());
        let to = match self.partition(&target, letter.partition).await {
            Ok(to) => to,
            Err(why)
                if matches!(
                    why.kind(),
                    ErrorKind::UnknownTopic { .. } | ErrorKind::UnknownPartition { .. }
                ) =>
            {
                self.refuse(&letter, &why.to_string());
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        *self.tally.meant.entry((letter.topic.clone(), target.clone())).or_default() += 1;
        if !self.args.execute {
            return Ok(());
        }
        let size = size(&letter);
        let batch = self.batches.entry((target, to)).or_default();
        let is_full = batch.letters.len() >= BATCH_RECORDS || batch.bytes + size > BATCH_BYTES;
        if is_full && !batch.letters.is_empty() {
            self.send_all().await?;
        }
        let target = self.args.to.clone().unwrap_or_else(|| letter.topic.clone());
        let batch = self.batches.entry((target, to)).or_default();
        batch.bytes += size;
        batch.letters.push((partition, offset, letter));
        Ok(())
    }

    /// Where a record of that partition goes.
    async fn partition(&mut self, target: &str, source: i32) -> Result<i32, Error> {
        if !self.counts.contains_key(target) {
            let count = self.cluster.partitions(target).await.map(|partitions| partitions.len());
            self.counts.insert(target.to_owned(), count);
        }
        let count = match self.counts.get(target) {
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(count)) => *count,
            None => 0,
        };
        let own = usize::try_from(source).ok().filter(|source| self.args.to.is_some() || *source < count);
        let to = own.and_then(|source| source.checked_rem(count)).and_then(|to| i32::try_from(to).ok());
        let gone = || Error::new(ErrorKind::UnknownPartition { partitions: count });
        to.ok_or_else(|| gone().with_topic(target).with_partition(source))
    }

    /// Sends what waits, and keeps what was sent.
    async fn send_all(&mut self) -> Result<(), Failure> {
        let mut failed = None;
        while failed.is_none()
            && let Some(((topic, partition), batch)) = self.batches.pop_first()
        {
            failed = self.send(&topic, partition, &batch.letters).await.err();
        }
        if self.args.execute {
            self.positions.commit().await?;
        }
        failed.map_or(Ok(()), |why| Err(why.into()))
    }

    async fn send(
        &mut self,
        topic: &str,
        partition: i32,
        letters: &[(i32, i64, DeadLetter)],
    ) -> Result<(), Error> {
        match produce(&self.cluster, topic, partition, letters).await {
            Ok(()) => {
                for (partition, offset, _) in letters {
                    self.positions.done.entry(*partition).or_default().add(*offset..*offset + 1);
                }
                self.tally.sent += letters.len() as u64;
                Ok(())
            }
            Err(why) if is_too_large(&why) && letters.len() > 1 => {
                // One of them is; which shows when each goes by itself.
                for letter in letters.chunks(1) {
                    Box::pin(self.send(topic, partition, letter)).await?;
                }
                Ok(())
            }
            Err(why) if is_too_large(&why) => {
                letters.iter().for_each(|(_, _, letter)| self.refuse(letter, &why.to_string()));
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    fn refuse(&mut self, letter: &DeadLetter, why: &str) {
        /// More lines would say no more.
        const LINES: u64 = 20;
        self.tally.refused += 1;
        if self.tally.refused > LINES {
            return;
        }
        let DeadLetter { topic, partition, offset, .. } = letter;
        say(&format!("the record from {topic}/{partition}/{offset} stays: {why}"));
    }

    /// What was done, or would be.
    fn tell(&self) -> io::Result<()> {
        let tally = &self.tally;
        let mut out = io::stdout().lock();
        for ((source, target), count) in &tally.meant {
            let verb = if self.args.execute { "to send" } else { "would be sent" };
            let place = if source == target { String::new() } else { format!(", to {target}") };
            writeln!(out, "{verb}: {count} records of {source}{place}")?;
        }
        if self.args.execute {
            writeln!(out, "sent: {} records; kept in {}", tally.sent, self.positions.describe())?;
        }
        for (count, what) in [
            (tally.sent_before, "were sent back before"),
            (tally.left_out, "were left out by a filter"),
            (tally.foreign, "are no dead letters of downspout"),
            (tally.without_value, "have lost their value, which was too large: read them from their source"),
            (tally.refused, "could not be sent"),
        ] {
            if count > 0 {
                writeln!(out, "not sent: {count} records {what}")?;
            }
        }
        if !self.args.execute {
            writeln!(out, "nothing was sent: --execute does it")?;
        }
        out.flush()
    }
}

/// Appends the records as they were.
async fn produce(
    cluster: &Cluster,
    topic: &str,
    partition: i32,
    letters: &[(i32, i64, DeadLetter)],
) -> Result<(), Error> {
    let headers: Vec<Vec<NewHeader<'_>>> = letters
        .iter()
        .map(|(_, _, letter)| {
            letter.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect()
        })
        .collect();
    let records: Vec<_> = letters
        .iter()
        .zip(&headers)
        .map(|((_, _, letter), headers)| NewRecord {
            offset: None,
            timestamp: letter.timestamp,
            key: letter.key.as_deref(),
            value: letter.value.as_deref(),
            headers,
        })
        .collect();
    cluster.produce(topic, partition, &records).await.map(drop)
}

fn size(letter: &DeadLetter) -> usize {
    let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let headers = letter.headers.iter().map(|(key, value)| key.len() + length(value) + 10);
    length(&letter.key) + length(&letter.value) + headers.sum::<usize>() + 40
}

fn is_too_large(why: &Error) -> bool {
    matches!(why.code(), Some(ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE))
}
