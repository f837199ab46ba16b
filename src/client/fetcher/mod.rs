//! The fetch engine: one task per cluster that keeps the streams' buffers filled.
//!
//! It owns what is known of each partition ([`partition`]), the lanes of each broker ([`lanes`]) and
//! the byte [`budget`]. A fetch's answer is looked through by its headers alone, the next request
//! leaves, and the bytes go to the reader, who checks and inflates them ([`inbox`]). Everything that
//! takes time is an operation beside the task; nothing in it waits.
//!
//! - [`engine`]: the loop: commands, operations that are done, timers
//! - [`settle`]: what a partition does next
//! - [`fetches`]: what goes into the next request of a broker
//! - [`answers`]: what an answer means for each partition
//! - [`asks`]: questions to leaders about ends of logs and epochs

mod answers;
mod asks;
pub(crate) mod budget;
mod engine;
mod fetches;
pub(crate) mod inbox;
mod lanes;
mod partition;
mod request;
mod session;
mod settle;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

pub use budget::MemoryUse;
use budget::{Budget, Key};
use inbox::{Inbox, Slot};
use partition::Partition;

use super::cluster::Shared;
use super::stream::{EndOffset, StartOffset, StreamOptions};

/// A handle to the engine; it ends when the last one is gone.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    commands: mpsc::UnboundedSender<Command>,
    pub(crate) budget: Budget,
    keys: Arc<AtomicU64>,
}

/// What readers tell the engine.
#[derive(Debug)]
enum Command {
    Add(Box<Partition>),
    /// A topic whose later partitions are to be read too, from their start.
    Grow(Growing),
    /// Something about that partition has changed: sought, resumed, asked again after an error.
    Look(Key),
    /// The reader is gone.
    Remove(Vec<Key>),
}

/// A topic that is read whole.
#[derive(Debug)]
struct Growing {
    topic: Arc<str>,
    /// Partitions known so far.
    known: i32,
    inbox: std::sync::Weak<Inbox>,
    options: Arc<StreamOptions>,
}

impl Fetcher {
    /// Starts the engine. Must be called inside a tokio runtime.
    pub(crate) fn start(shared: Arc<Shared>, budget: usize) -> Self {
        let (commands, queue) = mpsc::unbounded_channel();
        let budget = Budget::new(budget);
        let keys = Arc::new(AtomicU64::new(1));
        tokio::spawn(engine::Engine::new(shared, budget.clone(), Arc::clone(&keys), queue).run());
        Fetcher { commands, budget, keys }
    }

    /// Begins to fetch a partition.
    pub(crate) fn add(
        &self,
        inbox: &Arc<Inbox>,
        (topic, partition): (&Arc<str>, i32),
        options: &Arc<StreamOptions>,
        start: StartOffset,
        end: EndOffset,
    ) -> Arc<Slot> {
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let slot = Slot::new(key, Arc::clone(topic), partition, Arc::clone(inbox));
        inbox.adopt(&slot);
        let added = Partition::new(Arc::clone(&slot), Arc::clone(options), start, end);
        self.tell(Command::Add(Box::new(added)));
        slot
    }

    /// Reads partitions of the topic that are added later too.
    pub(crate) fn grow(
        &self,
        inbox: &Arc<Inbox>,
        topic: &Arc<str>,
        known: i32,
        options: &Arc<StreamOptions>,
    ) {
        self.tell(Command::Grow(Growing {
            topic: Arc::clone(topic),
            known,
            inbox: Arc::downgrade(inbox),
            options: Arc::clone(options),
        }));
    }

    /// Makes the engine look at a slot again.
    pub(crate) fn look(&self, key: Key) {
        self.tell(Command::Look(key));
    }

    /// The reader of these is gone.
    pub(crate) fn remove(&self, keys: Vec<Key>) {
        self.tell(Command::Remove(keys));
    }

    fn tell(&self, command: Command) {
        // The engine outlives its handles, unless the runtime is going down.
        let _ = self.commands.send(command);
    }

    /// Until the runtime that ran the engine is gone.
    pub(crate) async fn gone(&self) {
        self.commands.closed().await;
    }

    /// Whether the runtime that ran the engine is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.commands.is_closed()
    }
}
