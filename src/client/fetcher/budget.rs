//! One byte budget for all that a client has in flight, buffered or inflated.
//!
//! A request reserves what its answer may hold before it leaves; the answer's bytes are charged to
//! the partitions they belong to, and refunded by the last drop of each buffer. What a partition has
//! buffered counts up to its share, so that one that is not read, or holds one huge batch, takes no
//! room from others; and each partition that holds nothing may always ask for a little.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Names a partition within a client.
pub(crate) type Key = u64;

/// What each partition may ask for, however tight the budget, when it holds nothing.
pub(crate) const FLOOR: usize = 64 << 10;

/// Memory that the streams of a cluster use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The budget.
    pub budget: usize,
    /// What counts against it now.
    pub used: usize,
    /// The most that ever did.
    pub most: usize,
    /// Reserved for answers on their way.
    pub reserved: usize,
    /// Fetched and not handed out yet; of each partition its share counts.
    pub buffered: usize,
    /// Handed out and not dropped yet.
    pub lent: usize,
    /// Kept alive by something else in the same answer.
    pub pinned: usize,
}

/// The budget; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: usize,
    state: Mutex<State>,
    /// Told when something was freed that somebody waits for.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Reserved for answers.
    reserved: usize,
    /// Charged by partitions: buffered (up to the share of each), and in the hands of readers.
    charged: usize,
    /// Bytes that lie in frames of which something is still in use, and are not themselves.
    pinned: usize,
    accounts: BTreeMap<Key, Account>,
    /// Partitions that wait until their own buffer has been read, and whose was.
    drained: Vec<Key>,
    /// Somebody waits for any room at all.
    short: bool,
    most: usize,
}

#[derive(Debug, Default)]
struct Account {
    /// Not handed out yet.
    buffered: usize,
    /// Handed out and not dropped yet.
    lent: usize,
    /// How much of `buffered` counts.
    share: usize,
    /// Wake the fetcher when `buffered` has gone down to this.
    waits_for: Option<usize>,
}

impl Account {
    fn counts(&self) -> usize {
        self.buffered.min(self.share) + self.lent
    }
}

impl State {
    fn used(&self) -> usize {
        self.reserved + self.charged + self.pinned
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.accounts.get_mut(&key) else { return };
        let before = account.counts();
        change(account);
        self.charged = self.charged - before + account.counts();
        if account.waits_for.is_some_and(|level| account.buffered <= level) {
            account.waits_for = None;
            self.drained.push(key);
        }
        self.most = self.most.max(self.used());
    }
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        Budget { inner: Arc::new(Inner { total, state: Mutex::default(), freed: Notify::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that one partition's buffer takes of the budget.
    pub(crate) fn share(&self, wanted: usize) -> usize {
        wanted.min(self.inner.total / 8).max(1)
    }

    pub(crate) fn open_account(&self, key: Key, share: usize) {
        self.state().accounts.insert(key, Account { share, ..Account::default() });
    }

    /// The partition is read no more. What of it is still in use counts on until it is dropped.
    pub(crate) fn close_account(&self, key: Key) {
        let mut state = self.state();
        if let Some(account) = state.accounts.get(&key)
            && account.buffered == 0
            && account.lent == 0
        {
            state.accounts.remove(&key);
        } else if let Some(account) = state.accounts.get_mut(&key) {
            account.share = 0;
            account.waits_for = None;
            let left = state.accounts.values().map(Account::counts).sum();
            state.charged = left;
        }
    }

    /// What the partition has buffered, and has handed out.
    pub(crate) fn held(&self, key: Key) -> (usize, usize) {
        self.state().accounts.get(&key).map_or((0, 0), |account| (account.buffered, account.lent))
    }

    /// Bytes that could be reserved now, leaving the floors of partitions that hold nothing.
    pub(crate) fn available(&self) -> usize {
        let state = self.state();
        let idle = state.accounts.values().filter(|account| account.counts() == 0).count();
        let floors = (idle * FLOOR).min(self.inner.total / 2);
        self.inner.total.saturating_sub(state.used() + floors)
    }

    /// Sets bytes aside for an answer, whether or not they are there.
    pub(crate) fn reserve(&self, bytes: usize) -> Reservation {
        let mut state = self.state();
        state.reserved += bytes;
        state.most = state.most.max(state.used());
        Reservation { budget: self.clone(), bytes }
    }

    /// Wakes the fetcher when anything has been freed.
    pub(crate) fn wait_for_any(&self) {
        self.state().short = true;
    }

    /// Wakes the fetcher when what the partition has buffered is down to `level`. False if it is.
    pub(crate) fn wait_for_drain(&self, key: Key, level: usize) -> bool {
        let mut state = self.state();
        match state.accounts.get_mut(&key) {
            Some(account) if account.buffered > level => {
                account.waits_for = Some(level);
                true
            }
            _ => false,
        }
    }

    /// Partitions that were waited for and have been read.
    pub(crate) fn take_drained(&self) -> Vec<Key> {
        std::mem::take(&mut self.state().drained)
    }

    /// Told when something that is waited for has been freed.
    pub(crate) async fn freed(&self) {
        self.inner.freed.notified().await;
    }

    /// What of it is in use.
    pub(crate) fn usage(&self) -> MemoryUse {
        let state = self.state();
        let buffered = state.accounts.values().map(|account| account.buffered).sum();
        let lent = state.accounts.values().map(|account| account.lent).sum();
        let (reserved, pinned, used, most) = (state.reserved, state.pinned, state.used(), state.most);
        MemoryUse { budget: self.inner.total, used, most, reserved, buffered, lent, pinned }
    }

    /// Bytes pinned by frames of which little is in use.
    pub(crate) fn pinned(&self) -> usize {
        self.state().pinned
    }

    pub(crate) fn total(&self) -> usize {
        self.inner.total
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let wake = state.short || !state.drained.is_empty();
        state.short = false;
        drop(state);
        if wake {
            self.inner.freed.notify_one();
        }
    }
}

/// Bytes set aside for an answer.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.change(|state| state.reserved -= self.bytes);
    }
}

/// A frame of which slices are in use.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Bytes of its slices, in use and all.
    lots: Mutex<Lots>,
}

#[derive(Debug)]
struct Lots {
    live: usize,
    dead: usize,
}

impl Frame {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Frame { lots: Mutex::new(Lots { live: 0, dead: 0 }) })
    }

    fn lots(&self) -> MutexGuard<'_, Lots> {
        self.lots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether most of it is kept for nothing.
    pub(crate) fn is_mostly_dead(&self) -> bool {
        let lots = self.lots();
        lots.dead > lots.live
    }
}

/// Bytes that a partition is charged for; refunded on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Budget,
    key: Key,
    bytes: usize,
    lent: AtomicBool,
    frame: Option<Arc<Frame>>,
}

impl Charge {
    /// Charges `bytes`, a slice of `frame`, to what the partition has buffered.
    pub(crate) fn buffered(budget: &Budget, key: Key, bytes: usize, frame: Option<Arc<Frame>>) -> Self {
        if let Some(frame) = &frame {
            frame.lots().live += bytes;
        }
        budget.state().change(key, |account| account.buffered += bytes);
        Charge { budget: budget.clone(), key, bytes, lent: AtomicBool::new(false), frame }
    }

    /// Charges `bytes` that were made for the reader.
    pub(crate) fn lent(budget: &Budget, key: Key, bytes: usize) -> Self {
        budget.state().change(key, |account| account.lent += bytes);
        Charge { budget: budget.clone(), key, bytes, lent: AtomicBool::new(true), frame: None }
    }

    /// The buffer goes to the reader.
    pub(crate) fn lend(&self) {
        if !self.lent.swap(true, Ordering::Relaxed) {
            let bytes = self.bytes;
            self.budget.change(|state| {
                state.change(self.key, |account| {
                    account.buffered -= bytes;
                    account.lent += bytes;
                });
            });
        }
    }

    pub(crate) fn frame(&self) -> Option<&Arc<Frame>> {
        self.frame.as_ref()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = self.bytes;
        // Pinned: the frame stays as long as any slice of it.
        let pinned = self.frame.take().map_or((0, 0), |frame| {
            let mut lots = frame.lots();
            lots.live -= bytes;
            if lots.live > 0 {
                lots.dead += bytes;
                (bytes, 0)
            } else {
                (0, std::mem::take(&mut lots.dead))
            }
        });
        self.budget.change(|state| {
            state.pinned = state.pinned + pinned.0 - pinned.1;
            let lent = self.lent.load(Ordering::Relaxed);
            state.change(self.key, |account| match lent {
                true => account.lent -= bytes,
                false => account.buffered -= bytes,
            });
            if state
                .accounts
                .get(&self.key)
                .is_some_and(|account| account.share == 0 && account.counts() + account.buffered == 0)
            {
                state.accounts.remove(&self.key);
            }
        });
    }
}

/// Bytes, and the charge that is refunded with their last clone.
struct Charged<C> {
    bytes: Bytes,
    _charge: C,
}

impl<C> AsRef<[u8]> for Charged<C> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Ties a charge to a buffer.
pub(crate) fn charged<C: Send + 'static>(bytes: Bytes, charge: C) -> Bytes {
    Bytes::from_owner(Charged { bytes, _charge: charge })
}
