//! What an owner knows of a document that it may overwrite: has anybody else been at it?

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::document;
use super::{Loaded, Problem};
use crate::client::TopicPartition;

/// Documents as they were read or written last, by their owner.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<TopicPartition, State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    /// Hash of its bytes, and its offset.
    Kept(u64, i64),
}

impl Known {
    /// It was found like this.
    pub(super) fn found(&mut self, partition: &TopicPartition, document: Option<&[u8]>, loaded: &Loaded) {
        let state = match (document, &loaded.checkpoint) {
            (Some(document), Some(checkpoint)) => State::Kept(hash(document), checkpoint.offset),
            _ => State::Absent,
        };
        self.0.insert(partition.clone(), state);
    }

    /// It was written like this.
    pub(super) fn wrote(&mut self, partition: &TopicPartition, document: &str, offset: i64) {
        self.0.insert(partition.clone(), State::Kept(hash(document.as_bytes()), offset));
    }

    /// It was removed.
    pub(super) fn removed(&mut self, partition: &TopicPartition) {
        self.0.insert(partition.clone(), State::Absent);
    }

    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.0.remove(partition);
    }

    /// Whether what is there now is not what it should be. Of a partition that was never read or
    /// written, nothing is known that could have changed.
    pub(super) fn check(&self, partition: &TopicPartition, document: Option<&[u8]>) -> Result<(), Problem> {
        let found = || {
            let loaded = document.and_then(|document| document::read(document, partition).ok());
            loaded.and_then(|loaded| loaded.checkpoint).map(|checkpoint| checkpoint.offset)
        };
        match (self.0.get(partition), document) {
            (None, _) | (Some(State::Absent), None) => Ok(()),
            (Some(State::Kept(kept, _)), Some(document)) if *kept == hash(document) => Ok(()),
            (Some(State::Kept(_, expected)), _) => {
                Err(Problem::Changed { expected: Some(*expected), found: found() })
            }
            (Some(State::Absent), Some(_)) => Err(Problem::Changed { expected: None, found: found() }),
        }
    }
}

fn hash(document: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    document.hash(&mut hasher);
    hasher.finish()
}
