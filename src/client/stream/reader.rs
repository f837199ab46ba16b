//! The reader's half of a stream: checks and inflates what was fetched, one batch per step.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;

use super::options::{CorruptPolicy, StartOffset};
use super::{EndOffset, Item, Recovered, StreamOptions};
use crate::client::fetcher::Fetcher;
use crate::client::fetcher::budget::{Charge, charged};
use crate::client::fetcher::inbox::{Chunk, Delivery, Inbox, Slot, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::records::{Batch, Batches, Corruption};

/// Reads the partitions of one inbox; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) fetcher: Fetcher,
    options: Arc<StreamOptions>,
    /// What is being read, one batch at a time.
    current: Option<Current>,
    /// What was being read when its partition was paused.
    parked: Vec<Current>,
    /// The partition that was last told an error.
    halted: Option<Arc<Slot>>,
}

#[derive(Debug)]
struct Current {
    slot: Arc<Slot>,
    generation: u64,
    chunk: Box<Chunk>,
    batches: Batches,
}

impl Current {
    /// The next offset to hand out.
    fn position(&self) -> i64 {
        let from = self.chunk.options.from_offset;
        self.slot.position().map_or(from, |position| position.max(from))
    }
}

/// What a step gave.
#[allow(clippy::large_enum_variant, reason = "batches are the rule, and moved once")]
pub(super) enum Step {
    Item(Arc<Slot>, Item),
    Failed(Error),
    /// All partitions have come to their stated ends.
    Ended,
    /// Nothing is there at the moment.
    Nothing,
}

impl Reader {
    pub(crate) fn new(fetcher: Fetcher, inbox: Arc<Inbox>, options: Arc<StreamOptions>) -> Self {
        Reader { inbox, fetcher, options, current: None, parked: Vec::new(), halted: None }
    }

    /// Reads that partition too.
    pub(crate) fn add(&self, topic: &Arc<str>, partition: i32, start: StartOffset) -> Arc<Slot> {
        self.fetcher.add(&self.inbox, (topic, partition), &self.options, start, EndOffset::Never)
    }

    /// Reads that partition no more.
    pub(crate) fn remove(&mut self, slot: &Arc<Slot>) {
        slot.redirect(Target::End);
        self.inbox.release(slot);
        self.fetcher.remove(vec![slot.key]);
    }

    /// The next item; `None` at the stated end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<(Arc<Slot>, Item)>> {
        if let Some(slot) = self.halted.take()
            && slot.take_halted()
        {
            self.fetcher.look(slot.key);
        }
        loop {
            match self.step() {
                Step::Item(slot, item) => return Ok(Some((slot, item))),
                Step::Failed(why) => return Err(why),
                Step::Ended => return Ok(None),
                Step::Nothing if self.fetcher.is_gone() => return Err(Error::new(ErrorKind::Closed)),
                Step::Nothing => {
                    let (mut filled, mut gone) =
                        (pin!(self.inbox.filled.notified()), pin!(self.fetcher.gone()));
                    poll_fn(|context| match filled.as_mut().poll(context) {
                        Poll::Pending => gone.as_mut().poll(context),
                        ready @ Poll::Ready(()) => ready,
                    })
                    .await;
                }
            }
        }
    }

    /// The next item, if it is there.
    pub(super) fn step(&mut self) -> Step {
        loop {
            if let Some(at) = self.parked.iter().position(|parked| !parked.slot.is_paused())
                && self.current.is_none()
            {
                self.current = Some(self.parked.swap_remove(at));
            }
            if let Some(mut current) = self.current.take() {
                if current.slot.generation() != current.generation {
                    continue;
                }
                if current.slot.is_paused() {
                    self.parked.push(current);
                    continue;
                }
                match current.batches.next() {
                    // The log has grown since its end was found out.
                    Some(Ok(batch)) if current.chunk.is_behind_end(batch.base_offset()) => {}
                    // By what was read: the offset of what is damaged may be damaged too.
                    Some(Err(_)) if current.chunk.is_behind_end(current.position()) => {}
                    Some(Ok(batch)) => {
                        let slot = Arc::clone(&current.slot);
                        let next = batch.next_offset().max(current.chunk.options.from_offset);
                        if !slot.advance(current.generation, next) {
                            continue;
                        }
                        let batch = self.take(&slot, &current.chunk, batch);
                        self.current = Some(current);
                        return Step::Item(slot, Item::Batch(batch));
                    }
                    Some(Err(why)) => {
                        if let Some(step) = self.damaged(current, why) {
                            return step;
                        }
                    }
                    None => {
                        let next = current.chunk.next_offset.max(current.chunk.options.from_offset);
                        current.slot.advance(current.generation, next);
                    }
                }
                continue;
            }
            let Some(slot) = self.inbox.next_ready() else {
                // Counted by the slots as they come to their ends.
                self.parked.retain(|parked| parked.slot.generation() == parked.generation);
                let ended = self.inbox.open.load(Ordering::Acquire) == 0 && self.parked.is_empty();
                return if ended { Step::Ended } else { Step::Nothing };
            };
            match slot.pop() {
                Some((generation, Delivery::Chunk(chunk))) => {
                    chunk.charge.lend();
                    slot.set_broker(chunk.broker_id);
                    let batches = chunk.set.batches(chunk.options.clone());
                    self.current = Some(Current { slot, generation, chunk, batches });
                }
                Some((_, Delivery::Item(item))) => {
                    if let Item::Recovered(Recovered::OutOfRange { resumed_at, .. }) = &*item {
                        slot.set_position(*resumed_at);
                    }
                    if let Item::Recovered(Recovered::Truncated { diverged_at, .. }) = &*item {
                        slot.set_position(*diverged_at);
                    }
                    return Step::Item(slot, *item);
                }
                Some((_, Delivery::Failed(why))) => {
                    self.halted = Some(slot);
                    return Step::Failed(why);
                }
                Some((_, Delivery::End)) | None => {}
            }
        }
    }

    /// A batch goes to the caller.
    fn take(&self, slot: &Arc<Slot>, chunk: &Chunk, mut batch: Batch) -> Batch {
        if batch.inflated() > 0 {
            // Charged until the caller drops it, as the plain ones are with their frames.
            let charge = Charge::lent(&self.fetcher.budget, slot.key, batch.size());
            batch.replace_data(|data| charged(data, charge));
        }
        if let Some(end) = chunk.end {
            batch.end_before(end);
        }
        batch
    }

    /// Damage: fetched once more, elsewhere if possible; after that, the policy counts.
    fn damaged(&mut self, current: Current, why: Corruption) -> Option<Step> {
        let first = current.position();
        let Current { slot, generation, chunk, batches } = current;
        let again = !chunk.second_try || first > chunk.options.from_offset;
        if again && !why.is_our_limit() {
            tracing::info!(topic = %slot.topic, partition = slot.partition, offset = first, %why, "damaged; fetching it again");
            if slot.redirect_if(Some(generation), Target::Again(first)) {
                self.fetcher.look(slot.key);
            }
            return None;
        }
        let raw = || chunk.set.bytes().slice(why.entry_position.min(chunk.set.bytes().len())..);
        match (self.options.corrupt, why.next_offset) {
            (CorruptPolicy::Skip | CorruptPolicy::Raw, Some(next)) => {
                if !slot.advance(generation, next) {
                    return None;
                }
                let item = match self.options.corrupt {
                    CorruptPolicy::Raw => Item::Raw(entry_alone(raw()), why),
                    _ => Item::Recovered(Recovered::Corrupt(why)),
                };
                if chunk.damaged {
                    // The fetcher waits for word of where to go on.
                    if slot.redirect_if(Some(generation), Target::Seek(StartOffset::At(next))) {
                        self.fetcher.look(slot.key);
                    }
                } else {
                    self.current = Some(Current { slot: Arc::clone(&slot), generation, chunk, batches });
                }
                Some(Step::Item(slot, item))
            }
            _ => {
                // The stream stays before the damage; asking again fetches it again.
                let error = Error::new(ErrorKind::Corrupt(why))
                    .with_offset(first)
                    .with_topic(&*slot.topic)
                    .with_partition(slot.partition)
                    .with_broker(&chunk.broker);
                if !slot.redirect_if(Some(generation), Target::Again(first)) {
                    return None;
                }
                slot.halt();
                self.halted = Some(slot);
                Some(Step::Failed(error))
            }
        }
    }
}

/// The first entry of `bytes`, if its size is sound; else all of them.
fn entry_alone(bytes: Bytes) -> Bytes {
    let size = bytes.get(8..12).and_then(|size| Some(i32::from_be_bytes(*size.first_chunk()?)));
    match size.and_then(|size| usize::try_from(size).ok()) {
        Some(size) if 12 + size <= bytes.len() => bytes.slice(..12 + size),
        _ => bytes,
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.current = None;
        self.parked.clear();
        self.fetcher.remove(self.inbox.close().iter().map(|slot| slot.key).collect());
    }
}
