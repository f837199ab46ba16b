//! A batch as it is handed out: its records by number, one bit for each that is acked, and the way
//! back to the driver.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::Holder;
use crate::records::{Batch, Record};

/// A tick of the mailbox's clock, in ms: 32 bits of them last for eight years.
const TICK: u64 = 64;

/// Names an assignment within a spout: another one each time that a partition comes.
pub(crate) type AssignmentId = u64;

/// A partition under one assignment, as its deliveries know it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) assignment: AssignmentId,
    /// Nothing more of it is handed out: lost, stopped or closed.
    pub(crate) closed: AtomicBool,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Lots made so far.
    lots: AtomicU64,
}

impl Place {
    pub(crate) fn new(
        topic: &Arc<str>,
        partition: i32,
        assignment: AssignmentId,
        mailbox: &Arc<Mailbox>,
    ) -> Arc<Self> {
        Arc::new(Place {
            topic: Arc::clone(topic),
            partition,
            assignment,
            closed: AtomicBool::new(false),
            mailbox: Arc::clone(mailbox),
            lots: AtomicU64::new(0),
        })
    }
}

/// Some records of a batch.
#[derive(Debug)]
pub(crate) struct Lot {
    pub(crate) place: Arc<Place>,
    /// Names it within its place.
    pub(crate) id: u64,
    /// The lot that its record first came in; its own id where all of a batch is meant.
    pub(crate) parent: u64,
    /// Offset of its first record.
    pub(crate) first: i64,
    pub(crate) batch: Batch,
    /// Attempt that a hand-out of these is; 1 is the first.
    pub(crate) attempt: u32,
    positions: Box<[u32]>,
    /// The tick after each was handed out, by the mailbox's clock; 0 if it was not.
    handed: Box<[AtomicU32]>,
    acked: Box<[AtomicU64]>,
    /// Acks that were looked at one by one.
    seen: Box<[AtomicU64]>,
    /// Acks have come since the driver looked.
    dirty: AtomicBool,
    /// From here on it is void: rewound, truncated.
    limit: AtomicU32,
    /// Below here it is void: gone from the log.
    floor: AtomicU32,
}

impl Lot {
    /// A batch that has come in.
    pub(crate) fn new(place: &Arc<Place>, batch: Batch, positions: Vec<u32>) -> Arc<Self> {
        Self::make(place, batch, positions, None, 1)
    }

    /// One record of the lot `parent` again.
    pub(crate) fn again(place: &Arc<Place>, record: Batch, parent: u64, attempt: u32) -> Arc<Self> {
        Self::make(place, record, vec![0], Some(parent), attempt)
    }

    fn make(
        place: &Arc<Place>,
        batch: Batch,
        positions: Vec<u32>,
        parent: Option<u64>,
        attempt: u32,
    ) -> Arc<Self> {
        let count = positions.len();
        let id = place.lots.fetch_add(1, Ordering::Relaxed);
        let first =
            positions.first().and_then(|at| batch.record_at(*at)).map_or(-1, |record| record.offset());
        Arc::new(Lot {
            place: Arc::clone(place),
            id,
            parent: parent.unwrap_or(id),
            first,
            batch,
            attempt,
            positions: positions.into_boxed_slice(),
            handed: (0..count).map(|_| AtomicU32::new(0)).collect(),
            acked: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            seen: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            dirty: AtomicBool::new(false),
            limit: AtomicU32::new(count as u32),
            floor: AtomicU32::new(0),
        })
    }

    /// Whether it is one record that was handed out before.
    pub(crate) fn is_again(&self) -> bool {
        self.parent != self.id
    }

    pub(crate) fn len(&self) -> u32 {
        self.positions.len() as u32
    }

    /// The record of that number.
    pub(crate) fn record(&self, number: u32) -> Option<Record<'_>> {
        self.batch.record_at(*self.positions.get(number as usize)?)
    }

    pub(crate) fn offset(&self, number: u32) -> i64 {
        self.record(number).map_or(-1, |record| record.offset())
    }

    /// That record, as locks on keys know it.
    pub(crate) fn holder(&self, number: u32) -> Holder {
        Holder { assignment: self.place.assignment, lot: self.parent, offset: self.offset(number) }
    }

    /// That record in a batch of its own, in its own buffer.
    pub(crate) fn only(&self, number: u32) -> Option<Batch> {
        Some(self.batch.only(*self.positions.get(number as usize)?))
    }

    // The user's side.

    /// Whether that record may still be handed out; marks it as handed out if so.
    pub(crate) fn hand_out(&self, number: u32) -> bool {
        let Some(handed) = self.handed.get(number as usize) else { return false };
        // Marked before it is looked whether that is allowed: a driver that closes the place sees the mark,
        // or this sees it closed.
        handed.store(self.place.mailbox.tick(), Ordering::SeqCst);
        let is_void = number >= self.limit.load(Ordering::SeqCst)
            || number < self.floor()
            || self.place.closed.load(Ordering::SeqCst);
        if is_void {
            handed.store(0, Ordering::SeqCst);
        }
        !is_void
    }

    pub(crate) fn ack(self: &Arc<Self>, number: u32) {
        self.ack_word(number / 64, 1 << (number % 64));
    }

    /// Acks `from..to`.
    pub(crate) fn ack_range(self: &Arc<Self>, from: u32, to: u32) {
        let mut at = from;
        while at < to {
            let end = ((at / 64 + 1) * 64).min(to);
            let width = end - at;
            let ones = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            self.ack_word(at / 64, ones << (at % 64));
            at = end;
        }
    }

    fn ack_word(self: &Arc<Self>, word: u32, bits: u64) {
        let Some(acked) = self.acked.get(word as usize) else { return };
        // The driver clears `dirty` before it looks at the bits: either it sees these, or this sees it
        // cleared. That takes one order for both.
        acked.fetch_or(bits, Ordering::SeqCst);
        if !self.dirty.load(Ordering::SeqCst) && !self.dirty.swap(true, Ordering::SeqCst) {
            self.place.mailbox.acked(Arc::clone(self));
        }
    }

    pub(crate) fn tell(self: &Arc<Self>, number: u32, word: Word) {
        self.place.mailbox.tell(Message { lot: Arc::clone(self), number, word });
    }

    // The driver's side.

    /// Bits from now on make the lot dirty again; to be called before they are looked at.
    pub(crate) fn begin_sweep(&self) {
        self.dirty.store(false, Ordering::SeqCst);
    }

    pub(crate) fn acked_words(&self) -> impl Iterator<Item = u64> + '_ {
        self.acked.iter().map(|word| word.load(Ordering::SeqCst))
    }

    /// Numbers that were acked since this was asked last.
    pub(crate) fn new_acks(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (at, (acked, seen)) in self.acked.iter().zip(&self.seen).enumerate() {
            let acked = acked.load(Ordering::SeqCst);
            let mut new = acked & !seen.swap(acked, Ordering::Relaxed);
            while new != 0 {
                numbers.push(at as u32 * 64 + new.trailing_zeros());
                new &= new - 1;
            }
        }
        numbers
    }

    /// When that record was handed out, in ms by the mailbox's clock, or a tick later.
    pub(crate) fn handed_at(&self, number: u32) -> Option<u64> {
        let tick = self.handed.get(number as usize)?.load(Ordering::SeqCst);
        (tick > 0).then(|| u64::from(tick) * TICK)
    }

    /// Records from that number on are void.
    pub(crate) fn cut(&self, limit: u32) {
        self.limit.fetch_min(limit, Ordering::SeqCst);
    }

    /// Records below that number are void.
    pub(crate) fn cut_below(&self, floor: u32) {
        self.floor.fetch_max(floor, Ordering::SeqCst);
    }

    pub(crate) fn floor(&self) -> u32 {
        self.floor.load(Ordering::SeqCst)
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Acquire)
    }
}

/// Records that are to be handed out.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lot: Arc<Lot>,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// What is said of a delivery, other than that it is done.
#[derive(Debug)]
pub(crate) enum Word {
    /// Went wrong; again after that time, or as the retry mode has it.
    Failed { reason: String, after: Option<Duration> },
    /// Again, not counted.
    Released,
    /// Dropped without a word.
    Dropped,
    /// It cannot be read.
    Poison { reason: String },
    /// Not to be tried again.
    Rejected { reason: String },
}

/// A word about a delivery.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) lot: Arc<Lot>,
    pub(crate) number: u32,
    pub(crate) word: Word,
}

/// What deliveries tell the driver, from any thread. Acks are bits of their lot; here stands only
/// which lots have new ones.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    /// The driver wants to know of acks at once.
    armed: AtomicBool,
    wake: Notify,
    /// Ticks since the spout began, as of the driver's last turn.
    clock: AtomicU32,
}

#[derive(Debug, Default)]
struct Inbox {
    dirty: Vec<Arc<Lot>>,
    messages: Vec<Message>,
    closed: bool,
}

impl Mailbox {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acked(&self, lot: Arc<Lot>) {
        let mut inbox = self.inbox();
        if inbox.closed {
            return;
        }
        inbox.dirty.push(lot);
        drop(inbox);
        if self.armed.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    fn tell(&self, message: Message) {
        let mut inbox = self.inbox();
        if inbox.closed {
            return;
        }
        inbox.messages.push(message);
        drop(inbox);
        self.wake.notify_one();
    }

    /// The time, rounded up: never 0.
    fn tick(&self) -> u32 {
        self.clock.load(Ordering::Relaxed).saturating_add(1)
    }

    pub(crate) fn set_clock(&self, ms: u64) {
        self.clock.store(u32::try_from(ms / TICK).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Takes what has come.
    pub(crate) fn take(&self) -> (Vec<Arc<Lot>>, Vec<Message>) {
        let mut inbox = self.inbox();
        (std::mem::take(&mut inbox.dirty), std::mem::take(&mut inbox.messages))
    }

    /// Whether acks are to wake the driver. It must look once more after having said yes.
    pub(crate) fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    /// Whether something waits to be taken.
    pub(crate) fn is_empty(&self) -> bool {
        let inbox = self.inbox();
        inbox.dirty.is_empty() && inbox.messages.is_empty()
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The driver is gone: what comes now is for nobody.
    pub(crate) fn close(&self) {
        let (dirty, messages) = {
            let mut inbox = self.inbox();
            inbox.closed = true;
            (std::mem::take(&mut inbox.dirty), std::mem::take(&mut inbox.messages))
        };
        drop((dirty, messages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spout::stage::lot_of;

    #[test]
    fn a_record_is_known_to_be_as_old_as_it_is_however_long_the_spout_has_run() {
        const DAY: u64 = 24 * 3600 * 1000;
        for now in [0, 1, TICK - 1, TICK, u64::from(u32::MAX) + 5, 50 * DAY, 8 * 365 * DAY] {
            let lot = lot_of(0, 1);
            assert_eq!(lot.handed_at(0), None);
            lot.place.mailbox.set_clock(now);
            assert!(lot.hand_out(0));
            let at = lot.handed_at(0).unwrap();
            assert!((now..=now + TICK).contains(&at), "{now}: {at}");
        }
    }
}
