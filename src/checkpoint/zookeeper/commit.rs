//! Writing positions.

use std::time::Duration;

use super::claims::{self, Held};
use super::denied;
use super::find::{at, busy};
use super::opened::Opened;
use super::token;
use crate::checkpoint::document::{self, Document};
use crate::checkpoint::{Checkpoint, Extras, Offer, Problem, Stored, problem, problem_at};
use crate::client::TopicPartition;
use crate::error::{Error, Result};
use crate::zookeeper::{Created, Mode, Node, Written};

/// A node takes 1 MB unless ZooKeeper is told otherwise, and is written every few seconds.
const ROOM: usize = 64 << 10;
/// Writes of its own, without an answer, that a commit finds before it gives up.
const ATTEMPTS: usize = 8;

impl Opened {
    /// How long there has been no answer, if that is too long to count on a claim.
    pub(super) fn lapsed(&self) -> Option<Duration> {
        let (silence, timeout) = (self.session.silence(), self.session.timeout());
        (silence.saturating_mul(3) >= timeout.saturating_mul(2) && !timeout.is_zero()).then_some(silence)
    }

    pub(super) async fn commit_one(&self, offer: &Offer, silent: Option<Duration>) -> Result<Stored> {
        let partition = &offer.partition;
        self.check(partition, silent).await?;
        for _ in 0..ATTEMPTS {
            let Some(held) = self.claims().get(partition) else {
                // Released meanwhile.
                return Err(at(partition, unclaimed(&self.place)));
            };
            let Document { text, done_until } = self.document(offer, &held);
            let text = text.into_bytes();
            match held.version {
                None => self.make(partition, &held, &text).await?,
                Some(version) => {
                    if self.write(partition, &held, text, version, offer.checkpoint.offset).await? {
                        return Ok(Stored { done_until });
                    }
                }
            }
        }
        Err(at(partition, busy(&self.place)))
    }

    /// Knows the partition's document, and that it is still as it was left.
    async fn check(&self, partition: &TopicPartition, silent: Option<Duration>) -> Result<()> {
        let known = self.claims().get(partition);
        let Some(held) = known else {
            return match self.owner() {
                // What is there may be another owner's by now.
                Some(_) => Err(at(partition, unclaimed(&self.place))),
                None => self.load_one(partition).await.map(drop),
            };
        };
        if !held.is_doubtful {
            return Ok(());
        }
        let node = match (self.session.get(&held.path).await, silent) {
            (Ok(node), _) => node,
            (Err(why), None) => return Err(at(partition, why)),
            (Err(why), Some(silent_for)) => {
                tracing::debug!(error = %why, %partition, "a claim could not be checked");
                let timeout = self.session.timeout();
                return Err(problem_at(partition, Problem::Lapsed { silent_for, timeout }));
            }
        };
        match (&node, held.version) {
            (None, None) => self.claims().checked(partition),
            _ => self.recognize(partition, &held, node.as_ref())?,
        }
        Ok(())
    }

    /// What is there is this owner's, or it is an error.
    fn recognize(&self, partition: &TopicPartition, held: &Held, node: Option<&Node>) -> Result<()> {
        match node.and_then(|node| held.recognize(node)) {
            Some(version) => {
                let document = node.and_then(|node| document::read(&node.data, partition).ok()?.checkpoint);
                self.claims().is_at(partition, version, document.map(|checkpoint| checkpoint.offset));
                Ok(())
            }
            None => Err(problem_at(partition, claims::foreign(partition, held, node, self.owner()))),
        }
    }

    /// Makes the node, with a claim in it: two that make it at once can tell whose it is.
    async fn make(&self, partition: &TopicPartition, held: &Held, document: &[u8]) -> Result<()> {
        let claim = token::claimed(document, &self.token);
        self.claims().sending(partition, &claim);
        let created = self.session.create(&held.path, claim, Mode::Persistent).await;
        match created.map_err(|why| at(partition, why))? {
            Created::Made => self.claims().is_at(partition, 0, None),
            Created::Denied => return Err(at(partition, denied(&held.path))),
            Created::Exists => {
                let node = self.node(partition, &held.path).await?;
                let held = self.claims().get(partition).unwrap_or_else(|| held.clone());
                self.recognize(partition, &held, node.as_ref())?;
            }
        }
        Ok(())
    }

    /// Writes to the version that is known. False if that was not the version, but one of this owner's.
    async fn write(
        &self,
        partition: &TopicPartition,
        held: &Held,
        text: Vec<u8>,
        version: i32,
        offset: i64,
    ) -> Result<bool> {
        self.claims().sending(partition, &text);
        let written = self.session.set(&held.path, text, version).await;
        let node = match written.map_err(|why| at(partition, why))? {
            Written::Stored { version } => {
                self.claims().is_at(partition, version, Some(offset));
                return Ok(true);
            }
            Written::Denied => return Err(at(partition, denied(&held.path))),
            Written::Missing => None,
            Written::Conflict(Some(node)) => Some(node),
            Written::Conflict(None) => self.node(partition, &held.path).await?,
        };
        let held = self.claims().get(partition).unwrap_or_else(|| held.clone());
        self.recognize(partition, &held, node.as_ref())?;
        Ok(false)
    }

    fn document(&self, offer: &Offer, held: &Held) -> Document {
        let mut checkpoint = offer.checkpoint.clone();
        if held.is_storms {
            checkpoint.extras = None;
        } else if checkpoint.extras.is_none() && self.owner().is_none() {
            // Set by hand: that it is not storm-kafka's stays to be seen.
            checkpoint.extras = Some(Extras { clean: true, ..Extras::default() });
        }
        let Checkpoint { offset, .. } = checkpoint;
        let document = document::write(&offer.partition, &checkpoint, ROOM);
        Document { done_until: document.done_until.max(offset), ..document }
    }
}

fn unclaimed(place: &str) -> Error {
    let why = std::io::Error::other("the partition was not claimed: it has to be read first");
    problem(Problem::Io { place: place.to_owned(), why: why.into() })
}
