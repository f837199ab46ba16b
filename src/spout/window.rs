//! The ack window of a partition: what was taken in and is not safely done. A plain state machine.
//!
//! Each batch is one entry, each of its records one bit. What lies between records (markers, what
//! compaction removed, aborted transactions) needs no entry: it is done as soon as intake has passed
//! it. Batches that are done side by side become one entry.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::lot::{Grant, Lot};

/// The window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// By the offset of the first record.
    entries: BTreeMap<i64, Entry>,
    /// Entries with records that were not granted yet, in order.
    ungranted: VecDeque<i64>,
    /// The offset after the last batch that was walked: what lies below and is not here is done.
    intake: i64,
    /// Sums over the entries, kept by [`Window::change`].
    sums: Sums,
}

/// What an entry counts for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    /// Granted, and not durably done.
    uncommitted: usize,
    unfinished: usize,
    /// Not looked at for granting yet.
    ungranted: usize,
    /// Bytes of the batches that are kept.
    bytes: usize,
}

/// One batch, or neighbours that are done.
#[derive(Debug)]
struct Entry {
    /// Offset after what it covers.
    end: i64,
    offsets: Offsets,
    count: u32,
    /// A bit for each record that is done; empty once all are.
    done: Box<[u64]>,
    unfinished: u32,
    /// A bit for each record that somebody else looks after: it was tried before. Empty while none is.
    aside: Box<[u64]>,
    /// Records below were looked at for granting.
    cursor: u32,
    granted: u32,
    /// Records that were done when they came in.
    restored: u32,
    /// Granted records whose being done is kept by the store.
    durable: u32,
    /// Likewise, if the offer that is under way is kept as far as `offered_until`.
    offered: u32,
    offered_until: i64,
    /// Names the batch: acks of another one that had the same offsets are not meant.
    lot_id: u64,
    /// Until all records are done or aside.
    lot: Option<Arc<Lot>>,
}

/// Offsets of the records of a batch.
#[derive(Debug, Clone)]
pub(super) struct Offsets {
    pub(super) first: i64,
    /// Distance of each from the first, where they don't simply count up.
    pub(super) sparse: Option<Box<[u32]>>,
}

/// How a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not in the window: done and committed, or of another time.
    Unknown,
    Done,
    /// Not done, and looked after by the window alone.
    Open,
    /// Not done, and somebody else looks after it.
    Aside,
}

impl Offsets {
    pub(super) fn of(lot: &Lot, contiguous: bool) -> Self {
        let first = lot.offset(0);
        let far = |number| u32::try_from(lot.offset(number).saturating_sub(first)).unwrap_or(u32::MAX);
        Offsets { first, sparse: (!contiguous).then(|| (0..lot.len()).map(far).collect()) }
    }

    pub(super) fn at(&self, number: u32) -> i64 {
        match &self.sparse {
            None => self.first + i64::from(number),
            Some(far) => {
                self.first + far.get(number as usize).map_or(i64::from(number), |far| i64::from(*far))
            }
        }
    }

    fn number(&self, offset: i64, count: u32) -> Option<u32> {
        let far = u32::try_from(offset.checked_sub(self.first)?).ok()?;
        match &self.sparse {
            None => (far < count).then_some(far),
            Some(all) => all.binary_search(&far).ok().map(|at| at as u32).filter(|at| *at < count),
        }
    }
}

impl Window {
    /// An empty one that begins at that offset.
    pub(super) fn new(start: i64) -> Self {
        Window { intake: start, ..Window::default() }
    }

    /// Where intake stands.
    pub(super) fn intake(&self) -> i64 {
        self.intake
    }

    /// The lowest offset that is not done.
    pub(super) fn commit_point(&self) -> i64 {
        // Entries that are done leave the front at once.
        let first = self.entries.first_key_value();
        first.and_then(|(_, entry)| entry.first_open()).unwrap_or(self.intake)
    }

    /// Records granted and not known to be durably done, those aside included. What lies below the commit
    /// point does not count, committed or not.
    pub(super) fn uncommitted(&self) -> usize {
        let Some(first) = self.entries.values().next() else { return 0 };
        self.sums.uncommitted - first.sums().uncommitted + first.above_commit_point()
    }

    /// Records granted, those aside included, and not done.
    pub(super) fn unfinished(&self) -> usize {
        self.sums.unfinished.saturating_sub(self.sums.ungranted)
    }

    /// Bytes of batches that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.sums.bytes
    }

    /// Whether records wait to be granted.
    pub(super) fn has_ungranted(&mut self) -> bool {
        while let Some(first) = self.ungranted.front() {
            if self.entries.get(first).is_some_and(|entry| entry.next_ungranted().is_some()) {
                return true;
            }
            self.ungranted.pop_front();
        }
        false
    }

    /// Nothing is left to do between intake and that offset.
    pub(super) fn pass_to(&mut self, offset: i64) {
        self.intake = self.intake.max(offset);
    }

    /// Takes a batch in, after which the log goes on at `end`. Records of which `is_done` says so are
    /// done already. Returns how many those are.
    pub(super) fn take_in(
        &mut self,
        lot: Arc<Lot>,
        offsets: Offsets,
        end: i64,
        is_done: impl Fn(i64) -> bool,
    ) -> u32 {
        self.intake = self.intake.max(end);
        let count = lot.len();
        let mut done = vec![0; (count as usize).div_ceil(64)].into_boxed_slice();
        let mut restored = 0;
        for number in 0..count {
            if is_done(offsets.at(number)) {
                set(&mut done, number);
                restored += 1;
            }
        }
        if restored == count {
            return restored;
        }
        let first = offsets.first;
        let entry = Entry {
            end,
            offsets,
            count,
            done,
            unfinished: count - restored,
            aside: Box::default(),
            cursor: 0,
            granted: 0,
            restored,
            durable: 0,
            offered: 0,
            offered_until: end,
            lot_id: lot.id,
            lot: Some(lot),
        };
        self.sums.add(entry.sums());
        self.entries.insert(first, entry);
        self.ungranted.push_back(first);
        restored
    }

    /// The next records to be handed out, at most `limit`, as one run within one batch.
    pub(super) fn grant(&mut self, limit: usize) -> Option<Grant> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        if limit == 0 || !self.has_ungranted() {
            return None;
        }
        let first = *self.ungranted.front()?;
        self.change(first, |entry| {
            let from = entry.next_ungranted()?;
            let mut to = from + 1;
            while to < entry.count && to - from < limit && entry.is_open(to) {
                to += 1;
            }
            entry.cursor = to;
            entry.granted += to - from;
            Some(Grant { lot: Arc::clone(entry.lot.as_ref()?), from, to })
        })
        .flatten()
    }

    /// The record that would be granted next.
    pub(super) fn peek(&mut self) -> Option<i64> {
        if !self.has_ungranted() {
            return None;
        }
        let entry = self.entries.get(self.ungranted.front()?)?;
        entry.next_ungranted().map(|number| entry.offsets.at(number))
    }

    /// How a record stands, if it is of that batch.
    pub(super) fn standing(&self, offset: i64, lot_id: u64) -> Standing {
        match self.find(offset) {
            Some((_, entry, _)) if entry.unfinished > 0 && entry.lot_id != lot_id => Standing::Unknown,
            Some((_, entry, number)) if entry.is_done(number) => Standing::Done,
            Some((_, entry, number)) if get(&entry.aside, number) => Standing::Aside,
            Some(_) => Standing::Open,
            None => Standing::Unknown,
        }
    }

    /// The batch that a record came with, if it is still kept, and its number there.
    pub(super) fn lot_of(&self, offset: i64) -> Option<(Arc<Lot>, u32)> {
        let (_, entry, number) = self.find(offset)?;
        Some((Arc::clone(entry.lot.as_ref()?), number))
    }

    /// Somebody else looks after this record from now on.
    pub(super) fn put_aside(&mut self, offset: i64) {
        let Some((first, _, number)) = self.find(offset) else { return };
        self.change(first, |entry| {
            if entry.aside.is_empty() {
                entry.aside = vec![0; (entry.count as usize).div_ceil(64)].into_boxed_slice();
            }
            if entry.cursor <= number && !get(&entry.aside, number) {
                // It will not be granted here.
                entry.granted += 1;
            }
            set(&mut entry.aside, number);
            entry.let_go();
        });
    }

    /// A record is done. Returns whether that is news.
    pub(super) fn finish(&mut self, offset: i64) -> bool {
        let Some((first, entry, number)) = self.find(offset) else { return false };
        if entry.is_done(number) {
            return false;
        }
        self.change(first, |entry| {
            if entry.cursor <= number && !get(&entry.aside, number) {
                entry.granted += 1;
            }
            set(&mut entry.done, number);
            entry.unfinished -= 1;
            entry.let_go();
        });
        self.tidy(first);
        true
    }

    /// Takes the acks of a batch in: how many are news, and the offsets of those that were aside.
    pub(super) fn sweep(&mut self, lot: &Lot) -> (usize, Vec<i64>) {
        let first = lot.first;
        let Some(entry) =
            self.entries.get(&first).filter(|entry| entry.lot_id == lot.id && entry.unfinished > 0)
        else {
            return (0, Vec::new());
        };
        // What was cut off counts no more; a lot that was let go does not know of it.
        let limit = lot.limit().min(entry.count);
        let mut asides = Vec::new();
        let mut news = 0u32;
        let offsets = entry.offsets.clone_if_needed(!entry.aside.is_empty());
        self.change(first, |entry| {
            for (at, acked) in lot.acked_words().enumerate() {
                let Some(done) = entry.done.get_mut(at) else { break };
                let mut new = acked & !*done;
                if new == 0 {
                    continue;
                }
                let base = at as u32 * 64;
                if limit < base + 64 {
                    new &= (1u64.checked_shl(limit.saturating_sub(base)).unwrap_or(0)).wrapping_sub(1);
                }
                *done |= new;
                news += new.count_ones();
                let mut aside = new & entry.aside.get(at).copied().unwrap_or(0);
                while aside != 0 {
                    let number = base + aside.trailing_zeros();
                    aside &= aside - 1;
                    asides.extend(offsets.as_ref().map(|offsets| offsets.at(number)));
                }
            }
            entry.unfinished -= news;
            entry.let_go();
        });
        self.tidy(first);
        (news as usize, asides)
    }

    /// Records below are gone. Returns how many of them were not done.
    pub(super) fn prune_below(&mut self, offset: i64) -> usize {
        let before = self.sums.unfinished;
        let firsts: Vec<i64> = self.entries.range(..offset).map(|(first, _)| *first).collect();
        for first in firsts {
            self.change(first, |entry| {
                for number in 0..entry.count {
                    if entry.offsets.at(number) < offset && !entry.is_done(number) {
                        set(&mut entry.done, number);
                        entry.unfinished -= 1;
                        if entry.cursor <= number && !get(&entry.aside, number) {
                            entry.granted += 1;
                        }
                    }
                }
                entry.let_go();
            });
            self.tidy(first);
        }
        self.pass_to(offset);
        before - self.sums.unfinished
    }

    /// Forgets everything from that offset on, and takes it in again from there. Deliveries of it count
    /// no more.
    pub(super) fn void_from(&mut self, offset: i64) {
        let gone: Vec<i64> = self.entries.range(offset..).map(|(first, _)| *first).collect();
        for first in gone {
            if let Some(entry) = self.entries.remove(&first) {
                self.sums.remove(entry.sums());
                if let Some(lot) = entry.lot {
                    lot.cut(0);
                }
            }
        }
        self.ungranted.retain(|first| *first < offset);
        if let Some(first) = self.entries.last_key_value().map(|(first, _)| *first) {
            self.change(first, |entry| entry.truncate(offset));
            self.tidy(first);
        }
        self.intake = offset;
    }

    /// The runs of done records above the commit point, in order, at most so many, as they stand; what
    /// they hold is what the store may keep with the next offer.
    pub(super) fn offer_runs(&mut self, limit: usize) -> Vec<Range<i64>> {
        let mut runs: Vec<Range<i64>> = Vec::new();
        // Where the last undone record ended.
        let mut open_end = None;
        for entry in self.entries.values_mut() {
            let full = runs.len() >= limit;
            let finished = entry.count.saturating_sub(entry.restored).saturating_sub(entry.unfinished);
            entry.offered = if full { 0 } else { finished };
            entry.offered_until = entry.end;
            if full {
                continue;
            }
            let mut number = 0;
            while let Some(open) = entry.next_open(number) {
                let at = entry.offsets.at(open);
                if let Some(start) = open_end
                    && start < at
                {
                    runs.push(start..at);
                }
                open_end = Some(at + 1);
                number = open + 1;
                if number == entry.count {
                    entry.offered_until = at;
                }
            }
        }
        if let Some(start) = open_end
            && start < self.intake
        {
            runs.push(start..self.intake);
        }
        runs.truncate(limit);
        runs
    }

    /// How many runs of done records lie above the commit point, batches that have some of each counted
    /// once.
    pub(super) fn runs(&self) -> usize {
        self.entries.values().filter(|entry| entry.unfinished < entry.count).count()
    }

    /// The store has kept the offer, with runs that end at `until` or below.
    pub(super) fn kept(&mut self, until: i64) {
        let firsts: Vec<i64> = self.entries.range(..until).map(|(first, _)| *first).collect();
        for first in firsts {
            self.change(first, |entry| {
                if entry.offered_until <= until {
                    entry.durable = entry.durable.max(entry.offered.min(entry.granted));
                }
            });
        }
    }

    /// Batches that are kept, with the numbers of those records in them that were granted, are not done
    /// and not aside.
    pub(super) fn running(
        &self,
    ) -> impl Iterator<Item = (&Arc<Lot>, impl Iterator<Item = (u32, i64)> + '_)> + '_ {
        self.entries.values().filter_map(|entry| {
            let lot = entry.lot.as_ref()?;
            let open = (0..entry.cursor).filter(|number| entry.is_open(*number));
            Some((lot, open.map(|number| (number, entry.offsets.at(number)))))
        })
    }

    fn find(&self, offset: i64) -> Option<(i64, &Entry, u32)> {
        let (first, entry) = self.entries.range(..=offset).next_back()?;
        if entry.unfinished == 0 {
            return (offset < entry.end).then_some((*first, entry, 0));
        }
        Some((*first, entry, entry.offsets.number(offset, entry.count)?))
    }

    /// The only way to change an entry: the sums follow.
    fn change<T>(&mut self, first: i64, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.entries.get_mut(&first)?;
        self.sums.remove(entry.sums());
        let result = change(entry);
        self.sums.add(entry.sums());
        Some(result)
    }

    /// Done entries leave the front, and become one with done neighbours.
    fn tidy(&mut self, first: i64) {
        while let Some(entry) = self.entries.first_entry()
            && entry.get().unfinished == 0
        {
            self.sums.remove(entry.remove().sums());
        }
        if self.entries.get(&first).is_none_or(|entry| entry.unfinished > 0) {
            return;
        }
        if let Some((next, entry)) = self.entries.range(first + 1..).next()
            && entry.unfinished == 0
        {
            let next = *next;
            self.merge(first, next);
        }
        if let Some((before, entry)) = self.entries.range(..first).next_back()
            && entry.unfinished == 0
        {
            let before = *before;
            self.merge(before, first);
        }
    }

    fn merge(&mut self, first: i64, second: i64) {
        let Some(gone) = self.entries.remove(&second) else { return };
        self.sums.remove(gone.sums());
        self.change(first, |entry| {
            entry.end = entry.end.max(gone.end);
            entry.count = entry.count.saturating_add(gone.count);
            entry.cursor = entry.count;
            entry.granted = entry.granted.saturating_add(gone.granted);
            entry.restored = entry.restored.saturating_add(gone.restored);
            entry.durable = entry.durable.saturating_add(gone.durable);
            entry.offered = entry.offered.saturating_add(gone.offered);
            entry.offered_until = entry.offered_until.max(gone.offered_until);
        });
    }

    /// The sums, counted anew.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        let mut counted = Sums::default();
        for entry in self.entries.values() {
            counted.add(entry.sums());
            if entry.unfinished > 0 && entry.granted != entry.count_granted() {
                return Err(format!("granted {}, counted {}", entry.granted, entry.count_granted()));
            }
        }
        if counted != self.sums {
            return Err(format!("sums {:?}, counted {counted:?}", self.sums));
        }
        if self.entries.first_key_value().is_some_and(|(_, entry)| entry.unfinished == 0) {
            return Err("a done entry in front".to_owned());
        }
        match self.entries.last_key_value().is_some_and(|(_, entry)| entry.end > self.intake) {
            true => Err("an entry beyond intake".to_owned()),
            false => Ok(()),
        }
    }
}

impl Offsets {
    fn clone_if_needed(&self, needed: bool) -> Option<Self> {
        needed.then(|| self.clone())
    }
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.uncommitted += other.uncommitted;
        self.unfinished += other.unfinished;
        self.ungranted += other.ungranted;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Sums) {
        self.uncommitted -= other.uncommitted;
        self.unfinished -= other.unfinished;
        self.ungranted -= other.ungranted;
        self.bytes -= other.bytes;
    }
}

impl Entry {
    fn sums(&self) -> Sums {
        Sums {
            uncommitted: self.granted.saturating_sub(self.durable) as usize,
            unfinished: self.unfinished as usize,
            ungranted: self.count.saturating_sub(self.restored).saturating_sub(self.granted) as usize,
            bytes: self.lot.as_ref().map_or(0, |lot| lot.batch.size()),
        }
    }

    /// What the first entry counts for: the commit point lies within it.
    fn above_commit_point(&self) -> usize {
        let Some(first_open) = self.next_open(0) else { return 0 };
        let all_done = self.done.iter().map(|word| word.count_ones()).sum::<u32>();
        let finished = self.count.saturating_sub(self.restored).saturating_sub(self.unfinished);
        // Which of them are durable is not known one by one: this is never too few.
        let done = all_done.saturating_sub(first_open).min(finished.saturating_sub(self.durable));
        (self.granted.saturating_sub(finished) + done) as usize
    }

    /// Those done in this life, those aside, and those looked at for granting.
    fn count_granted(&self) -> u32 {
        let is_granted =
            |number: &u32| !self.is_done(*number) && (*number < self.cursor || get(&self.aside, *number));
        let running = (0..self.count).filter(is_granted).count() as u32;
        running + self.count.saturating_sub(self.restored).saturating_sub(self.unfinished)
    }

    fn is_done(&self, number: u32) -> bool {
        self.unfinished == 0 || get(&self.done, number)
    }

    /// Not done, and not aside.
    fn is_open(&self, number: u32) -> bool {
        !self.is_done(number) && !get(&self.aside, number)
    }

    fn next_ungranted(&self) -> Option<u32> {
        self.lot.as_ref()?;
        (self.cursor..self.count).find(|number| self.is_open(*number))
    }

    fn first_open(&self) -> Option<i64> {
        self.next_open(0).map(|number| self.offsets.at(number))
    }

    /// The first record that is not done from that number on.
    fn next_open(&self, from: u32) -> Option<u32> {
        if self.unfinished == 0 {
            return None;
        }
        let mut at = from;
        while at < self.count {
            let word = self.done.get(at as usize / 64).copied().unwrap_or(u64::MAX) >> (at % 64);
            // Bits beyond the word's end are not open.
            let open = (!word).trailing_zeros();
            if open < 64 - at % 64 {
                let number = at + open;
                return (number < self.count).then_some(number);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Lets the batch go when nobody here needs it any more.
    fn let_go(&mut self) {
        if self.unfinished == 0 {
            self.lot = None;
            self.done = Box::default();
            self.aside = Box::default();
        } else if self.lot.is_some()
            && self.cursor_is_at_end()
            && !self.aside.is_empty()
            && self.done.iter().zip(&self.aside).enumerate().all(|(at, (done, aside))| {
                let left = self.count - (at as u32 * 64).min(self.count);
                let all = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
                (done | aside) & all == all
            })
        {
            self.lot = None;
        }
    }

    fn cursor_is_at_end(&self) -> bool {
        (self.cursor..self.count).all(|number| !self.is_open(number))
    }

    /// Forgets the records from that offset on.
    fn truncate(&mut self, offset: i64) {
        if self.end <= offset {
            return;
        }
        self.end = offset;
        if self.unfinished == 0 {
            return;
        }
        let kept = (0..self.count).take_while(|number| self.offsets.at(*number) < offset).count() as u32;
        if let Some(lot) = &self.lot {
            lot.cut(kept);
        }
        for number in kept..self.count {
            self.unfinished -= u32::from(!self.is_done(number));
        }
        self.count = kept;
        self.restored = self.restored.min(kept - self.unfinished);
        self.cursor = self.cursor.min(kept);
        self.granted = self.count_granted();
        self.durable = self.durable.min(self.granted);
        self.offered = 0;
        self.let_go();
    }
}

fn get(bits: &[u64], number: u32) -> bool {
    bits.get(number as usize / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
}

fn set(bits: &mut [u64], number: u32) {
    if let Some(word) = bits.get_mut(number as usize / 64) {
        *word |= 1 << (number % 64);
    }
}
