use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::lot::{Lot, Word};
use crate::error::Error;
use crate::records::{Headers, Record};

/// A record that was handed out, to be answered for: [`ack`](Self::ack), [`fail`](Self::fail) or
/// [`release`](Self::release), from any thread or task, at any time.
///
/// Dropping it without a word makes the record come again, after a back-off, and is counted as dropped.
/// An answer that comes after the partition has gone elsewhere changes nothing.
#[must_use = "a delivery that is dropped without an answer comes again"]
pub struct Delivery {
    lot: Arc<Lot>,
    number: u32,
    answered: bool,
}

impl Delivery {
    pub(super) fn new(lot: Arc<Lot>, number: u32) -> Self {
        Delivery { lot, number, answered: false }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.lot.place.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.lot.place.partition
    }

    /// The record's offset.
    pub fn offset(&self) -> i64 {
        self.lot.offset(self.number)
    }

    /// How often it was handed out with this one, as far as that is known; 1 is the first time.
    pub fn attempt(&self) -> u32 {
        self.lot.attempt
    }

    /// Whether it had failed before.
    pub fn is_retry(&self) -> bool {
        self.lot.attempt > 1
    }

    /// The record.
    pub fn record(&self) -> Record<'_> {
        // The index found a record here.
        self.lot.record(self.number).unwrap_or_else(Record::empty)
    }

    /// Its key; null and empty are two things.
    pub fn key(&self) -> Option<&[u8]> {
        self.record().key()
    }

    /// Its value; null (a tombstone) and empty are two things.
    pub fn value(&self) -> Option<&[u8]> {
        self.record().value()
    }

    /// Its headers, in order.
    pub fn headers(&self) -> Headers<'_> {
        self.record().headers()
    }

    /// Its timestamp, in ms since 1970; `None` for magic 0, which has none.
    pub fn timestamp(&self) -> Option<i64> {
        self.record().timestamp()
    }

    /// A name for it that can travel.
    pub fn id(&self) -> DeliveryId {
        DeliveryId {
            topic: self.topic().to_owned(),
            partition: self.partition(),
            offset: self.offset(),
            epoch: self.lot.place.assignment,
            attempt: self.attempt(),
        }
    }

    /// It is done.
    pub fn ack(mut self) {
        self.answered = true;
        self.lot.ack(self.number);
    }

    /// It went wrong: it comes again as the retry mode has it, or goes the way of `on_exhausted`.
    pub fn fail(self, reason: impl fmt::Display) {
        self.answer(Word::Failed { reason: reason.to_string(), after: None });
    }

    /// Likewise, with the time after which it comes again.
    pub fn fail_after(self, reason: impl fmt::Display, after: Duration) {
        self.answer(Word::Failed { reason: reason.to_string(), after: Some(after) });
    }

    /// Again, at once, without counting as an attempt.
    pub fn release(self) {
        self.answer(Word::Released);
    }

    /// It is not to be tried again: it goes the way of `on_exhausted` at once, or fails if nothing is
    /// set there.
    pub fn reject(self, reason: impl fmt::Display) {
        self.answer(Word::Rejected { reason: reason.to_string() });
    }

    /// It cannot be read: `on_poison` decides.
    pub fn poison(self, reason: impl fmt::Display) {
        self.answer(Word::Poison { reason: reason.to_string() });
    }

    /// Where its record lies.
    pub(super) fn place_in_lot(&self) -> (&Arc<Lot>, u32) {
        (&self.lot, self.number)
    }

    fn answer(mut self, word: Word) {
        self.answered = true;
        self.lot.tell(self.number, word);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.answered {
            self.lot.tell(self.number, Word::Dropped);
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({})", self.id())
    }
}

/// Names a delivery: `topic/partition/offset/epoch/attempt`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The assignment under which it was handed out.
    pub epoch: u64,
    /// 1 is the first attempt.
    pub attempt: u32,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeliveryId { topic, partition, offset, epoch, attempt } = self;
        write!(f, "{topic}/{partition}/{offset}/{epoch}/{attempt}")
    }
}

impl FromStr for DeliveryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::config(format!("{text:?} is no delivery: topic/partition/offset/epoch/attempt"));
        let mut parts = text.rsplitn(5, '/');
        let mut next = || parts.next().ok_or_else(wrong);
        let attempt = next()?.parse().map_err(|_| wrong())?;
        let epoch = next()?.parse().map_err(|_| wrong())?;
        let offset = next()?.parse().map_err(|_| wrong())?;
        let partition = next()?.parse().map_err(|_| wrong())?;
        Ok(DeliveryId { topic: next()?.to_owned(), partition, offset, epoch, attempt })
    }
}

/// Records of one batch that were handed out together, each to be answered for.
///
/// What is not answered when this is dropped comes again, like a [`Delivery`].
#[must_use = "deliveries that are dropped without an answer come again"]
pub struct DeliveryBatch {
    lot: Arc<Lot>,
    numbers: std::ops::Range<u32>,
    /// A bit for each that was answered; empty while none was.
    answered: Vec<u64>,
}

impl DeliveryBatch {
    pub(super) fn new(lot: Arc<Lot>, numbers: std::ops::Range<u32>) -> Self {
        DeliveryBatch { lot, numbers, answered: Vec::new() }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.lot.place.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.lot.place.partition
    }

    /// How often these were handed out with this time; 1 is the first.
    pub fn attempt(&self) -> u32 {
        self.lot.attempt
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Never true of one that was handed out.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The record of that index.
    pub fn record(&self, index: usize) -> Option<Record<'_>> {
        self.lot.record(self.number(index)?)
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.numbers.clone().filter_map(|number| self.lot.record(number))
    }

    /// All that were not answered yet are done.
    pub fn ack_all(mut self) {
        if self.answered.is_empty() {
            self.lot.ack_range(self.numbers.start, self.numbers.end);
        } else {
            for index in 0..self.len() {
                self.ack(index);
            }
        }
        self.numbers.end = self.numbers.start;
    }

    /// The record of that index is done.
    pub fn ack(&mut self, index: usize) {
        if let Some(number) = self.take(index) {
            self.lot.ack(number);
        }
    }

    /// It went wrong.
    pub fn fail(&mut self, index: usize, reason: impl fmt::Display) {
        self.answer(index, Word::Failed { reason: reason.to_string(), after: None });
    }

    /// It went wrong, and comes again after that time.
    pub fn fail_after(&mut self, index: usize, reason: impl fmt::Display, after: Duration) {
        self.answer(index, Word::Failed { reason: reason.to_string(), after: Some(after) });
    }

    /// Again, at once, without counting as an attempt.
    pub fn release(&mut self, index: usize) {
        self.answer(index, Word::Released);
    }

    /// All that were not answered yet went wrong.
    pub fn fail_all(mut self, reason: impl fmt::Display) {
        let reason = reason.to_string();
        for index in 0..self.len() {
            self.answer(index, Word::Failed { reason: reason.clone(), after: None });
        }
    }

    /// The deliveries one by one.
    pub fn into_deliveries(mut self) -> impl Iterator<Item = Delivery> {
        let numbers = std::mem::replace(&mut self.numbers, 0..0);
        let (start, answered, lot) =
            (numbers.start, std::mem::take(&mut self.answered), Arc::clone(&self.lot));
        let is_open = move |number: &u32| {
            let index = (number - start) as usize;
            answered.get(index / 64).is_none_or(|word| word & 1 << (index % 64) == 0)
        };
        // All at once: one that is not taken out of here is dropped, and says so.
        let deliveries: Vec<_> =
            numbers.filter(is_open).map(|number| Delivery::new(Arc::clone(&lot), number)).collect();
        deliveries.into_iter()
    }

    fn number(&self, index: usize) -> Option<u32> {
        let number = self.numbers.start.checked_add(u32::try_from(index).ok()?)?;
        self.numbers.contains(&number).then_some(number)
    }

    /// The number of a record that was not answered yet, which it is with this.
    fn take(&mut self, index: usize) -> Option<u32> {
        let number = self.number(index)?;
        if self.answered.is_empty() {
            self.answered = vec![0; self.numbers.len().div_ceil(64)];
        }
        let word = self.answered.get_mut(index / 64)?;
        let bit = 1 << (index % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new.then_some(number)
    }

    fn answer(&mut self, index: usize, word: Word) {
        if let Some(number) = self.take(index) {
            self.lot.tell(number, word);
        }
    }
}

impl Drop for DeliveryBatch {
    fn drop(&mut self) {
        for index in 0..self.numbers.len() {
            self.answer(index, Word::Dropped);
        }
    }
}

impl fmt::Debug for DeliveryBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeliveryBatch({}/{}, {} records)", self.topic(), self.partition(), self.len())
    }
}
