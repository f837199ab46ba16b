//! Where a spout's positions are kept between runs.
//!
//! A [`CheckpointStore`] is opened for one spout id; what comes out, [`Checkpoints`], reads and writes
//! whole sets of partitions. A [`Checkpoint`] is "the next offset to read", with extras that may be
//! dropped without breaking anything: what is done beyond that offset, and how often the rest was tried.

mod document;
mod extras;
mod file;
mod kafka;
mod known;
mod memory;
mod parallel_consumer;
mod problem;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "zookeeper")]
pub use self::zookeeper::{Layout, OldConsumerCheckpoints, ZooKeeperCheckpoints};
pub use file::FileCheckpoints;
pub use kafka::KafkaCheckpoints;
pub use memory::{CommitFate, MemoryCheckpoints};
pub use problem::Problem;

use crate::client::TopicPartition;
use crate::error::{Error, Result};
use crate::net::BoxFuture;
use crate::wire::Uuid;

/// A place that keeps checkpoints.
pub trait CheckpointStore: Send + Sync + fmt::Debug {
    /// What and where it is, as people would say it: `file store /var/lib/billing`.
    fn describe(&self) -> String;

    /// Opens what it keeps for one spout.
    ///
    /// With [`Access::Own`] it proves that it may write, and takes the lock where it has one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Checkpoint`](crate::ErrorKind::Checkpoint), or what a broker says.
    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>>;
}

impl<S: CheckpointStore + ?Sized> CheckpointStore for Arc<S> {
    fn describe(&self) -> String {
        (**self).describe()
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        (**self).open(id, access)
    }
}

/// What a store is opened for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// To look.
    Read,
    /// To run a spout.
    Own(Owner),
    /// To change positions by hand; refused while an owner is alive, as far as the store can tell,
    /// unless forced.
    Edit {
        /// Whatever the owner does.
        force: bool,
    },
}

/// Who keeps positions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// What stays the same over restarts (storm-kafka's `topology.id`).
    pub instance: String,
    /// A name for people (storm-kafka's `topology.name`).
    pub name: String,
    /// This very run: another one each time.
    pub run: String,
}

/// What a store keeps for one spout.
pub trait Checkpoints: Send + Sync + fmt::Debug {
    /// What and where it is.
    fn describe(&self) -> String;

    /// Whether extras are kept, as far as they fit.
    fn keeps_extras(&self) -> bool;

    /// Reads the checkpoints of these partitions, in this order.
    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>>;

    /// Writes what is offered, as a set; an outcome for each, in this order.
    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>>;

    /// The partitions that have a checkpoint.
    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>>;

    /// Removes checkpoints; one that is not there is no error.
    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>>;

    /// These partitions are somebody else's from now on: what is known of them is forgotten.
    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()>;

    /// Lets go of locks and connections. Nothing more is asked of it.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What was found of a partition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// `None` only if the store says for certain that there is none.
    pub checkpoint: Option<Checkpoint>,
    /// Why extras that were there are not used: foreign, cut, stale, or damaged.
    pub discarded: Option<String>,
}

/// A position.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The lowest offset that is not done: the next one to read.
    pub offset: i64,
    /// Who wrote it, where the store keeps that.
    pub owner: Option<Owner>,
    /// The leader at that time (storm-kafka's `broker`), host and port.
    pub broker: Option<(String, u16)>,
    /// What may be missing.
    pub extras: Option<Extras>,
}

/// What a checkpoint may hold beside the offset.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// Number of the offer, counted up by each owner.
    pub serial: u64,
    /// The topic's id, where it has one (2.8 on).
    pub topic_id: Option<Uuid>,
    /// Epoch of the leader that wrote the last record below the offset.
    pub leader_epoch: Option<i32>,
    /// The cluster's id (0.10.1 on).
    pub cluster_id: Option<String>,
    /// Done beyond the offset: runs in order, apart from each other, all above the offset.
    pub done: Vec<Range<i64>>,
    /// What was handed out and is not done, as far as it was tried more than once or died; in order.
    pub unfinished: Vec<Unfinished>,
    /// Unclean ends in a row, each with the records out that were handed out first. An owner that closes in
    /// order writes 0.
    pub deaths: u32,
    /// No record was out when this was written: an end without another word counts as no death.
    pub idle: bool,
    /// The owner closed in order.
    pub clean: bool,
    /// Where intake stood: what lies above was never handed out.
    pub intake: Option<i64>,
}

/// A record that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Its offset.
    pub offset: i64,
    /// Times that it was handed out and failed.
    pub attempts: u32,
    /// Times that the process died while it was handed out alone.
    pub deaths: u32,
}

/// A checkpoint to be kept: one immutable snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Under which assignment.
    pub epoch: u64,
    /// What to keep. A store may leave extras out.
    pub checkpoint: Checkpoint,
    /// An explicit, logged reset: the offset may be lower than what is kept.
    pub reset: bool,
}

/// What became of an offer that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Runs of done offsets are kept as far as they end here or below; the offset itself if none are.
    pub done_until: i64,
}

impl Checkpoint {
    /// That offset, and nothing else.
    pub fn at(offset: i64) -> Self {
        Checkpoint { offset, owner: None, broker: None, extras: None }
    }
}

impl Checkpoint {
    /// storm-kafka's document of this position (JSON, one line), with the extras as a last key. The
    /// file store keeps it like this; [`Loaded::from_document`] reads it.
    pub fn to_document(&self, partition: &TopicPartition) -> String {
        document::write(partition, self, extras::LONGEST).text
    }
}

impl Loaded {
    /// What a document of storm-kafka, or of this crate, says of a partition.
    ///
    /// # Errors
    ///
    /// [`Problem::Unreadable`] if it is none, or is about another partition.
    pub fn from_document(document: &[u8], partition: &TopicPartition) -> Result<Loaded> {
        document::read(document, partition)
            .map_err(|why| problem_at(partition, Problem::Unreadable { place: "document".to_owned(), why }))
    }
}

pub(crate) fn problem(problem: Problem) -> Error {
    Error::new(crate::error::ErrorKind::Checkpoint(problem))
}

/// With the partition that it is about.
fn problem_at(partition: &TopicPartition, why: Problem) -> Error {
    problem(why).with_topic(&*partition.topic).with_partition(partition.partition)
}

/// An id is one name, and no way to another place.
fn check_id(id: &str) -> Result<()> {
    if id.is_empty() || id.contains(['/', '\0']) || id == "." || id == ".." {
        return Err(Error::config(format!("{id:?} is no id: it names a place in the store, without '/'")));
    }
    Ok(())
}
