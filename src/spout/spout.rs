use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;

use super::builder::{Brokers, SpoutBuilder};
use super::delivery::{Delivery, DeliveryBatch};
use super::handle::{CloseReport, Command, SpoutHandle};
use super::lot::Grant;
use crate::error::{Error, Result};

/// An at-least-once stream of records, each to be acknowledged or failed by itself.
///
/// ```no_run
/// # async fn example() -> downspout::Result<()> {
/// use downspout::checkpoint::FileCheckpoints;
/// use downspout::spout::{Brokers, Spout};
///
/// # fn bill(_: Option<&[u8]>) -> Result<(), String> { Ok(()) }
/// let mut spout = Spout::builder(Brokers::bootstrap(["127.0.0.1:9092"]))
///     .topic("clicks")
///     .id("billing")
///     .checkpoints(FileCheckpoints::new("/var/lib/billing"))
///     .build()
///     .await?;
/// while let Some(delivery) = spout.next().await? {
///     match bill(delivery.value()) {
///         Ok(()) => delivery.ack(),
///         Err(why) => delivery.fail(why),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// Close it with [`close`](Self::close): dropping it commits nothing, and warns.
#[derive(Debug)]
#[doc(alias = "KafkaSpout")]
pub struct Spout {
    handle: SpoutHandle,
    handouts: mpsc::UnboundedReceiver<Handout>,
    current: Option<Grant>,
    /// What no retry can mend; it stays.
    fatal: Option<Error>,
    closed: bool,
    drain_timeout: Duration,
}

/// What the driver hands over.
#[derive(Debug)]
pub(super) enum Handout {
    Grant(Grant),
    Failed(Error),
}

impl Spout {
    /// What a spout is made of; [`SpoutBuilder::build`] starts it.
    pub fn builder(brokers: impl Into<Brokers>) -> SpoutBuilder {
        SpoutBuilder::new(brokers.into())
    }

    pub(super) fn new(
        handle: SpoutHandle,
        handouts: mpsc::UnboundedReceiver<Handout>,
        drain_timeout: Duration,
    ) -> Self {
        Spout { handle, handouts, current: None, fatal: None, closed: false, drain_timeout }
    }

    /// The next record; waits for one. `None` after a close. An error is something that no retry can
    /// mend, and stays one. Dropping the future loses nothing.
    #[doc(alias = "nextTuple")]
    pub async fn next(&mut self) -> Result<Option<Delivery>> {
        std::future::poll_fn(|context| self.poll_delivery(context)).await
    }

    /// The next records of one batch, at most `limit`; waits for at least one.
    pub async fn next_batch(&mut self, limit: usize) -> Result<Option<DeliveryBatch>> {
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        std::future::poll_fn(|context| self.poll_batch(context, limit)).await
    }

    /// A handle to look at it and steer it.
    pub fn handle(&self) -> SpoutHandle {
        self.handle.clone()
    }

    /// Stops taking in, waits for what was handed out (20 s by default), commits, and says what stayed
    /// unfinished. Records that wait for their retry are not waited for.
    pub async fn close(self) -> Result<CloseReport> {
        let within = self.drain_timeout;
        self.close_within(within).await
    }

    /// Likewise, waiting at most that long.
    pub async fn close_within(mut self, within: Duration) -> Result<CloseReport> {
        self.closed = true;
        self.current = None;
        self.handle.close_within(within).await
    }

    pub(super) fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Delivery>>> {
        loop {
            if let Some(grant) = &mut self.current
                && !self.handle.shared.inactive.load(Ordering::Relaxed)
            {
                grant.from = grant.from.max(grant.lot.floor());
                if grant.from < grant.to && grant.lot.hand_out(grant.from) {
                    let number = grant.from;
                    grant.from += 1;
                    return Poll::Ready(Ok(Some(Delivery::new(grant.lot.clone(), number))));
                }
                self.current = None;
            }
            match self.poll_grant(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>, limit: u32) -> Poll<Result<Option<DeliveryBatch>>> {
        loop {
            if let Some(grant) = &mut self.current
                && !self.handle.shared.inactive.load(Ordering::Relaxed)
            {
                let from = grant.from.max(grant.lot.floor());
                grant.from = from;
                let to = grant.to.min(from.saturating_add(limit));
                while grant.from < to && grant.lot.hand_out(grant.from) {
                    grant.from += 1;
                }
                let handed = from..grant.from;
                let lot = grant.lot.clone();
                if grant.from < to || grant.from >= grant.to {
                    self.current = None;
                }
                if !handed.is_empty() {
                    return Poll::Ready(Ok(Some(DeliveryBatch::new(lot, handed))));
                }
            }
            match self.poll_grant(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the next grant, if none is at hand; false when closed.
    fn poll_grant(&mut self, context: &mut Context<'_>) -> Poll<Result<bool>> {
        if let Some(why) = &self.fatal {
            return Poll::Ready(Err(why.clone()));
        }
        if self.current.is_some() {
            // Deactivated: what is at hand stays, unless the spout was closed meanwhile.
            self.handle.shared.register(context.waker());
            if !self.handouts.is_closed() {
                let inactive = self.handle.shared.inactive.load(Ordering::Acquire);
                return if inactive { Poll::Pending } else { Poll::Ready(Ok(true)) };
            }
            self.current = None;
        }
        match self.handouts.poll_recv(context) {
            Poll::Ready(Some(Handout::Grant(grant))) => {
                self.current = Some(grant);
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Some(Handout::Failed(why))) => {
                self.fatal = Some(why.clone());
                Poll::Ready(Err(why))
            }
            Poll::Ready(None) => {
                self.closed = true;
                Poll::Ready(Ok(false))
            }
            Poll::Pending => {
                let news = !self.handle.shared.waits.swap(true, Ordering::SeqCst);
                if news && self.handle.shared.trial.load(Ordering::SeqCst) {
                    let _ = self.handle.commands.send(Command::Waits);
                }
                Poll::Pending
            }
        }
    }
}

impl futures_core::Stream for Spout {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_delivery(context).map(Result::transpose)
    }
}

impl Drop for Spout {
    fn drop(&mut self) {
        if !self.closed && self.fatal.is_none() {
            tracing::warn!("a spout was dropped without being closed: nothing more is committed");
        }
    }
}
