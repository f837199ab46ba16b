//! Hints that something changed: one watch per path, set again when it has fired or its connection is gone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::client::Client;

/// The client keeps each watch until it fires: no path may have more than one at a time.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<String, Slot>>);

#[derive(Debug, Clone)]
struct Slot {
    /// Counts how often the watch has fired.
    fired: watch::Sender<u64>,
    /// The connection and the count when it was last set.
    set: Option<(u64, u64)>,
}

impl Watches {
    fn slot(&self, path: &str) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Slot { fired: watch::Sender::new(0), set: None };
        slots.entry(path.to_owned()).or_insert_with(new).clone()
    }

    fn set(&self, path: &str, set: (u64, u64)) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(path) {
            slot.set = Some(set);
        }
    }

    /// Returns when there may be something new, or at that time. The watch is set when it returns, so that whoever
    /// looks then, and comes back, misses nothing: that is why the first call returns at once.
    pub(super) async fn changed(&self, client: &Client, path: &str, until: Instant, call: Duration) {
        let mut turns = client.shared.turns.subscribe();
        loop {
            let turn = *turns.borrow_and_update();
            let slot = self.slot(path);
            let mut fired = slot.fired.subscribe();
            let count = *fired.borrow_and_update();
            if !turn.is_up {
                if timeout_at(until, turns.changed()).await.is_err() {
                    return;
                }
            } else if slot.set == Some((turn.number, count)) {
                if timeout_at(until, either(fired.changed(), turns.changed())).await.is_err() {
                    return;
                }
            } else if client.watch(path, &slot.fired, until.min(Instant::now() + call)).await.is_ok() {
                self.set(path, (turn.number, count));
                return;
            } else if timeout_at(until, turns.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// Returns when one of them has happened.
async fn either<A: Future, B: Future>(a: A, b: B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        let is_done = a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready();
        if is_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
