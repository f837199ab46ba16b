//! Between the fetcher and one reader: a queue per partition, and the order in which they are read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::budget::{Charge, Key};
use crate::client::stream::{Item, StartOffset};
use crate::error::Error;
use crate::records::{ReadOptions, RecordSet};

/// What the fetcher hands over.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// What one answer held of the partition.
    Chunk(Box<Chunk>),
    /// Something in band.
    Item(Box<Item>),
    /// The partition stops here until the reader asks again.
    Failed(Error),
    /// The stated end.
    End,
}

/// What one answer held of one partition.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) set: RecordSet,
    pub(crate) options: ReadOptions,
    /// Where reading goes on after it.
    pub(crate) next_offset: i64,
    pub(crate) charge: Arc<Charge>,
    /// Who sent it.
    pub(crate) broker: Arc<str>,
    /// The id of who sent it.
    pub(crate) broker_id: i32,
    /// The stated end of the partition's stream: what lies there or behind is not for the reader.
    pub(crate) end: Option<i64>,
    /// The offset asked for was asked a second time, because of damage.
    pub(crate) second_try: bool,
    /// It holds bytes that are no entry: the fetcher waits to be told where to go on.
    pub(crate) damaged: bool,
}

/// One reader's partitions, those first that have waited longest with something to read.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    ready: Mutex<VecDeque<Arc<Slot>>>,
    pub(crate) filled: Notify,
    /// Partitions that have not come to a stated end.
    pub(crate) open: AtomicU64,
    slots: Mutex<Slots>,
}

type Slots = BTreeMap<(Arc<str>, i32), Arc<Slot>>;

impl Inbox {
    pub(crate) fn next_ready(&self) -> Option<Arc<Slot>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Takes a partition in.
    pub(crate) fn adopt(&self, slot: &Arc<Slot>) {
        self.open.fetch_add(1, Ordering::AcqRel);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.insert((Arc::clone(&slot.topic), slot.partition), Arc::clone(slot));
    }

    /// All partitions.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// One partition.
    pub(crate) fn slot(&self, topic: &str, partition: i32) -> Option<Arc<Slot>> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(&(Arc::from(topic), partition)).cloned()
    }

    /// Lets go of one partition, which has come to its end.
    pub(crate) fn release(&self, slot: &Slot) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.remove(&(Arc::clone(&slot.topic), slot.partition));
    }

    /// Lets go of the partitions, which hold the inbox.
    pub(crate) fn close(&self) -> Vec<Arc<Slot>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        slots.into_values().collect()
    }

    fn list(&self, slot: Arc<Slot>) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(slot);
    }
}

/// A partition, as its reader and the fetcher share it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: Key,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    inbox: Arc<Inbox>,
    /// Raised by each seek and by each batch that turned out to be damaged: what was fetched before
    /// is void (librdkafka#3471).
    generation: AtomicU64,
    paused: AtomicBool,
    /// Next offset to hand out; −1 until it is known.
    position: AtomicI64,
    /// Id of the broker that sent what is being read; −1 until something is.
    broker: AtomicI32,
    /// Both ends of the log as the last answer told them; −1 until one did.
    ends: (AtomicI64, AtomicI64),
    fetches: Mutex<Fetches>,
    state: Mutex<State>,
}

/// How fetches of a partition went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetches {
    /// How many were answered.
    pub(crate) count: u64,
    total: Duration,
    /// The longest one.
    pub(crate) longest: Option<Duration>,
    /// On average.
    pub(crate) mean: Option<Duration>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Delivery>,
    /// In the inbox's list.
    listed: bool,
    /// The reader was told an error, or the end.
    halted: bool,
    ended: bool,
    target: Option<Target>,
}

/// Where the fetcher is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The reader asked for it.
    Seek(StartOffset),
    /// What came from this offset on was damaged: fetch it once more, elsewhere if possible.
    Again(i64),
    /// Nowhere: the reader wants no more of it.
    End,
}

impl Slot {
    pub(crate) fn new(key: Key, topic: Arc<str>, partition: i32, inbox: Arc<Inbox>) -> Arc<Self> {
        Arc::new(Slot {
            key,
            topic,
            partition,
            inbox,
            generation: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            position: AtomicI64::new(-1),
            broker: AtomicI32::new(-1),
            ends: (AtomicI64::new(-1), AtomicI64::new(-1)),
            fetches: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    pub(crate) fn position(&self) -> Option<i64> {
        Some(self.position.load(Ordering::Relaxed)).filter(|offset| *offset >= 0)
    }

    pub(crate) fn set_position(&self, offset: i64) {
        self.position.store(offset, Ordering::Relaxed);
    }

    pub(crate) fn broker(&self) -> Option<i32> {
        Some(self.broker.load(Ordering::Relaxed)).filter(|id| *id >= 0)
    }

    pub(crate) fn set_broker(&self, id: i32) {
        self.broker.store(id, Ordering::Relaxed);
    }

    /// Start of the log, and its end as far as may be read.
    pub(crate) fn ends(&self) -> (Option<i64>, Option<i64>) {
        let known = |end: &AtomicI64| Some(end.load(Ordering::Relaxed)).filter(|offset| *offset >= 0);
        (known(&self.ends.0), known(&self.ends.1))
    }

    /// How fetches went.
    pub(crate) fn fetches(&self) -> Fetches {
        *self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The fetcher's side.

    /// A fetch was answered.
    pub(crate) fn answered(&self, took: Duration, start: i64, end: i64) {
        if start >= 0 {
            self.ends.0.store(start, Ordering::Relaxed);
        }
        if end >= 0 {
            self.ends.1.store(end, Ordering::Relaxed);
        }
        let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        fetches.count += 1;
        fetches.total += took;
        fetches.longest = fetches.longest.max(Some(took));
        fetches.mean = Some(fetches.total / u32::try_from(fetches.count).unwrap_or(u32::MAX));
    }

    /// Hands something over; false, and nothing done, if the generation is over.
    pub(crate) fn push(self: &Arc<Self>, generation: u64, delivery: Delivery) -> bool {
        let mut state = self.state();
        if self.generation() != generation {
            return false;
        }
        state.queue.push_back(delivery);
        self.list(&mut state);
        true
    }

    /// The generation that now counts, and where to go on in it if that is news.
    pub(crate) fn take_target(&self) -> (u64, Option<Target>) {
        let mut state = self.state();
        (self.generation(), state.target.take())
    }

    /// Moves what is buffered out of frames that are kept for little else. Returns whether it did.
    pub(crate) fn compact(&self, copy: impl Fn(&mut Chunk) -> bool) -> bool {
        let mut state = self.state();
        let mut any = false;
        for delivery in &mut state.queue {
            if let Delivery::Chunk(chunk) = delivery {
                any |= copy(chunk);
            }
        }
        any
    }

    // The reader's side.

    fn list(self: &Arc<Self>, state: &mut State) {
        if !state.listed && !self.is_paused() && !state.queue.is_empty() {
            state.listed = true;
            self.inbox.list(Arc::clone(self));
            self.inbox.filled.notify_one();
        }
    }

    /// Takes the next thing; the partition goes to the end of the list if there is more.
    pub(crate) fn pop(self: &Arc<Self>) -> Option<(u64, Delivery)> {
        let mut state = self.state();
        state.listed = false;
        if self.is_paused() {
            return None;
        }
        let delivery = state.queue.pop_front();
        self.list(&mut state);
        match delivery {
            Some(Delivery::Failed(_)) => state.halted = true,
            Some(Delivery::End) if !std::mem::replace(&mut state.ended, true) => {
                self.inbox.open.fetch_sub(1, Ordering::AcqRel);
            }
            _ => {}
        }
        Some((self.generation(), delivery?))
    }

    /// Whether the reader was told an error since; it asks again with this.
    pub(crate) fn take_halted(&self) -> bool {
        std::mem::take(&mut self.state().halted)
    }

    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::Release);
    }

    pub(crate) fn resume(self: &Arc<Self>) {
        self.paused.store(false, Ordering::Release);
        self.list(&mut self.state());
        // A batch that was being read may be waiting too.
        self.inbox.filled.notify_one();
    }

    /// The reader has come to `offset`; false, and nothing done, if the generation is over: somebody
    /// has sought meanwhile, and what was read is void.
    pub(crate) fn advance(&self, generation: u64, offset: i64) -> bool {
        let _state = self.state();
        let counts = self.generation() == generation;
        if counts {
            self.set_position(offset);
        }
        counts
    }

    /// Voids what was fetched and makes the fetcher go on at `target`.
    pub(crate) fn redirect(&self, target: Target) {
        self.redirect_if(None, target);
    }

    /// Likewise, unless `generation` is over: a seek from elsewhere comes before what its reader finds.
    pub(crate) fn redirect_if(&self, generation: Option<u64>, target: Target) -> bool {
        let dropped = {
            let mut state = self.state();
            if generation.is_some_and(|generation| generation != self.generation()) {
                return false;
            }
            self.generation.fetch_add(1, Ordering::AcqRel);
            state.target = Some(target);
            state.halted = false;
            match target {
                Target::Again(offset) => self.set_position(offset),
                Target::Seek(start) => {
                    self.set_position(start.position().map_or(-1, |position| position.offset));
                }
                Target::End => {}
            }
            let ends = target == Target::End;
            match (std::mem::replace(&mut state.ended, ends), ends) {
                (true, false) => drop(self.inbox.open.fetch_add(1, Ordering::AcqRel)),
                (false, true) => drop(self.inbox.open.fetch_sub(1, Ordering::AcqRel)),
                _ => {}
            }
            if ends {
                // It may have been the last one that was waited for.
                self.inbox.filled.notify_one();
            }
            std::mem::take(&mut state.queue)
        };
        // Buffers go outside of the lock.
        drop(dropped);
        true
    }

    /// Stops at the reader's own error: it asks again by [`Slot::take_halted`].
    pub(crate) fn halt(&self) {
        self.state().halted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o13_a_seek_from_elsewhere_is_not_undone_by_what_the_reader_was_at() {
        let slot = Slot::new(1, "t".into(), 0, Arc::default());
        let generation = slot.generation();
        assert!(slot.advance(generation, 10));
        slot.redirect(Target::Seek(StartOffset::At(500)));
        // The reader had a batch of before the seek in its hands, or damage.
        assert!(!slot.advance(generation, 20));
        assert!(!slot.redirect_if(Some(generation), Target::Again(20)));
        assert_eq!(slot.position(), Some(500));
        assert_eq!(slot.take_target().1, Some(Target::Seek(StartOffset::At(500))));
        assert!(slot.redirect_if(Some(slot.generation()), Target::Again(600)));
    }
}
