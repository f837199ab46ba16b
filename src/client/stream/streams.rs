use std::fmt;
use std::sync::{Arc, Weak};

use super::reader::Reader;
use super::{Item, StartOffset};
use crate::client::fetcher::Fetcher;
use crate::client::fetcher::inbox::{Inbox, Slot, Target};
use crate::error::{Error, Result};

/// A topic and the number of one of its partitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
}

impl TopicPartition {
    /// That partition of that topic.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }

    fn of(slot: &Slot) -> Self {
        TopicPartition { topic: Arc::clone(&slot.topic), partition: slot.partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// The records of one partition, in order, from wherever its leader is.
///
/// ```no_run
/// # async fn example() -> downspout::Result<()> {
/// use downspout::client::{Cluster, Item, StartOffset};
///
/// let cluster = Cluster::connect(["127.0.0.1:9092"]).await?;
/// let mut stream = cluster.partition("clicks", 0).stream(StartOffset::Earliest).await?;
/// while let Some(item) = stream.next().await? {
///     match item {
///         Item::Batch(batch) => {
///             for record in batch.records() {
///                 println!("{:?}", record?.value());
///             }
///         }
///         Item::Recovered(event) => println!("{event}"),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
///
/// Batches keep the buffer of their answer alive and count against the memory budget until they are
/// dropped; copy records out ([`Record::to_owned`](crate::records::Record::to_owned)) to keep them.
#[derive(Debug)]
pub struct PartitionStream {
    reader: Reader,
    slot: Arc<Slot>,
}

impl PartitionStream {
    pub(super) fn new(reader: Reader, slot: Arc<Slot>) -> Self {
        PartitionStream { reader, slot }
    }

    /// The next item; waits for one, and gives `None` only at the stated end.
    ///
    /// After an error the stream is where it was: the next call tries the same again. Errors that
    /// pass by themselves (a broker that is down, a leader that moves) are not shown; if they last,
    /// [`Recovered::Stalled`](super::Recovered::Stalled) says so. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Item>> {
        Ok(self.reader.next().await?.map(|(_, item)| item))
    }

    /// The next offset to be handed out; `None` until the start is known.
    pub fn position(&self) -> Option<i64> {
        self.slot.position()
    }

    /// Goes on somewhere else. What was fetched for the old position is dropped.
    pub fn seek(&mut self, to: StartOffset) -> Result<()> {
        seek(&self.reader.fetcher, &self.slot, to)
    }

    /// Hands nothing out, and fetches no more, until [`resume`](Self::resume). What is buffered
    /// stays.
    pub fn pause(&mut self) {
        self.slot.pause();
    }

    /// Goes on after [`pause`](Self::pause).
    pub fn resume(&mut self) {
        resume(&self.reader.fetcher, &self.slot);
    }

    /// A handle for pausing, resuming and seeking from elsewhere.
    pub fn control(&self) -> StreamControl {
        StreamControl::new(&self.reader)
    }

    /// The topic and partition.
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition::of(&self.slot)
    }
}

/// The records of several partitions, each in its own order, by turns.
#[derive(Debug)]
pub struct MergedStream {
    reader: Reader,
}

impl MergedStream {
    pub(super) fn new(reader: Reader) -> Self {
        MergedStream { reader }
    }

    /// The next item of any partition; waits for one, and gives `None` only when all have come to
    /// their stated ends.
    ///
    /// An error is about the one partition that it names; the others go on, and the next call tries
    /// that one again too. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<(TopicPartition, Item)>> {
        Ok(self.reader.next().await?.map(|(slot, item)| (TopicPartition::of(&slot), item)))
    }

    /// The partitions, those that were added to their topics since included.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.reader.inbox.slots().iter().map(|slot| TopicPartition::of(slot)).collect()
    }

    /// The next offset of a partition to be handed out; `None` until the start is known, and for
    /// partitions that are not read here.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.reader.inbox.slot(topic, partition)?.position()
    }

    /// The id of the broker that sent what was handed out last of a partition: its leader, or a
    /// follower (KIP-392). `None` before the first batch.
    pub fn broker(&self, topic: &str, partition: i32) -> Option<i32> {
        self.reader.inbox.slot(topic, partition)?.broker()
    }

    /// A handle for pausing, resuming and seeking, also from elsewhere.
    pub fn control(&self) -> StreamControl {
        StreamControl::new(&self.reader)
    }
}

/// Pauses, resumes, seeks and ends the partitions of a stream, from anywhere; cheap to clone.
///
/// Each call is one change of state that takes effect at once: nothing that was fetched before a seek
/// is handed out after it.
#[derive(Debug, Clone)]
pub struct StreamControl {
    inbox: Weak<Inbox>,
    fetcher: Fetcher,
}

impl StreamControl {
    fn new(reader: &Reader) -> Self {
        StreamControl { inbox: Arc::downgrade(&reader.inbox), fetcher: reader.fetcher.clone() }
    }

    fn slot(&self, topic: &str, partition: i32) -> Result<Arc<Slot>> {
        self.inbox.upgrade().and_then(|inbox| inbox.slot(topic, partition)).ok_or_else(|| {
            Error::config("the stream does not read this partition, or is gone")
                .with_topic(topic)
                .with_partition(partition)
        })
    }

    /// Hands nothing of the partition out, and fetches no more, until it is resumed. What is buffered
    /// stays.
    pub fn pause(&self, topic: &str, partition: i32) -> Result<()> {
        self.slot(topic, partition)?.pause();
        Ok(())
    }

    /// Goes on with a partition that was paused.
    pub fn resume(&self, topic: &str, partition: i32) -> Result<()> {
        resume(&self.fetcher, &self.slot(topic, partition)?);
        Ok(())
    }

    /// Goes on with a partition somewhere else.
    pub fn seek(&self, topic: &str, partition: i32, to: StartOffset) -> Result<()> {
        seek(&self.fetcher, &self.slot(topic, partition)?, to)
    }

    /// Ends a partition where it stands, as if its stated end were there: nothing more of it is handed
    /// out or fetched, unless it is sought.
    pub fn end(&self, topic: &str, partition: i32) -> Result<()> {
        let slot = self.slot(topic, partition)?;
        slot.redirect(Target::End);
        self.fetcher.look(slot.key);
        Ok(())
    }

    /// The next offset of a partition to be handed out; `None` until the start is known.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.slot(topic, partition).ok()?.position()
    }
}

fn seek(fetcher: &Fetcher, slot: &Arc<Slot>, to: StartOffset) -> Result<()> {
    check_start(to).map_err(|why| why.with_topic(&*slot.topic).with_partition(slot.partition))?;
    slot.redirect(Target::Seek(to));
    fetcher.look(slot.key);
    Ok(())
}

fn resume(fetcher: &Fetcher, slot: &Arc<Slot>) {
    slot.resume();
    fetcher.look(slot.key);
}

pub(super) fn check_start(start: StartOffset) -> Result<()> {
    match start {
        StartOffset::At(offset) | StartOffset::InEpoch { offset, .. } if offset < 0 => Err(Error::config(
            format!("{offset} is no offset: they count from 0; say Earliest or Latest instead"),
        )),
        StartOffset::Timestamp(time) if time < 0 => {
            Err(Error::config(format!("{time} is no time: it counts ms since 1970")))
        }
        _ => Ok(()),
    }
}
