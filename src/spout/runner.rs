//! A spout that calls a handler for each record.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;

use super::delivery::Delivery;
use super::handle::CloseReport;
use super::lot::Lot;
use super::spout::Spout;
use super::tuple::panic_text;
use crate::error::{Error, ErrorKind, Result};
use crate::records::{Headers, Record};

/// How [`Spout::run`] calls its handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Records in the hands of the handler at the same time; 1 by default.
    pub concurrency: usize,
    /// A record whose handler takes longer has failed, and its future is dropped; no limit by default.
    pub handler_timeout: Option<Duration>,
    /// How long a close waits for what the handler has in its hands; the spout's `drain_timeout` by
    /// default.
    pub drain_timeout: Option<Duration>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { concurrency: 1, handler_timeout: None, drain_timeout: None }
    }
}

impl RunOptions {
    /// So many records at the same time.
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = records;
        self
    }

    /// So long for each record.
    pub fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.handler_timeout = Some(timeout);
        self
    }

    /// So long for what is in the handler's hands at the end.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = Some(timeout);
        self
    }
}

/// A record in the hands of a handler, which answers for it by what it returns. Cheap to clone; each
/// clone keeps the record's whole batch in memory.
#[derive(Clone)]
pub struct Work {
    lot: Arc<Lot>,
    number: u32,
}

impl Work {
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

    /// How often it was handed out with this; 1 is the first time.
    pub fn attempt(&self) -> u32 {
        self.lot.attempt
    }

    /// The record.
    pub fn record(&self) -> Record<'_> {
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

    /// Its timestamp, in ms since 1970; `None` for message format 0, which has none.
    pub fn timestamp(&self) -> Option<i64> {
        self.record().timestamp()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({}/{}/{})", self.topic(), self.partition(), self.offset())
    }
}

/// What is next to do.
enum Turn {
    Handle(Delivery),
    Close,
    Failed(Error),
}

impl Spout {
    /// Calls `handler` for each record, up to [`RunOptions::concurrency`] at a time, each in a task of its
    /// own, until `shutdown` is ready; then takes in no more, waits for the handlers at work, commits and
    /// closes, as [`Spout::close`] does.
    ///
    /// `Ok` is an ack and an error a failure with that reason; so is a panic, with the panic's text, and a
    /// handler that takes longer than [`RunOptions::handler_timeout`]. A handler that is still at work when
    /// the close is over is ended; its record comes again with the next run. Dropping this future ends the
    /// handlers and leaves the spout as dropping it would.
    ///
    /// ```no_run
    /// # async fn example(spout: downspout::spout::Spout) -> downspout::Result<()> {
    /// use downspout::spout::{RunOptions, Work};
    ///
    /// async fn bill(click: Work) -> Result<(), std::io::Error> {
    ///     println!("{} bytes", click.value().map_or(0, <[u8]>::len));
    ///     Ok(())
    /// }
    /// # let interrupted = std::future::pending();
    /// let report = spout.run(RunOptions::default().concurrency(16), interrupted, bill).await?;
    /// println!("left behind: {:?}", report.unfinished);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// What no retry can mend, from [`Spout::next`] or the close.
    pub async fn run<H, F, E>(
        mut self,
        options: RunOptions,
        shutdown: impl Future<Output = ()>,
        handler: H,
    ) -> Result<CloseReport>
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + 'static,
    {
        if options.concurrency == 0 {
            return Err(Error::config("concurrency must be at least 1"));
        }
        let handler = Arc::new(handler);
        let mut shutdown = pin!(shutdown);
        // Dropped at the end, which ends those that are still at work.
        let mut at_work = JoinSet::new();
        let failed = loop {
            let turn = poll_fn(|context| {
                if shutdown.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Turn::Close);
                }
                while let Poll::Ready(Some(_)) = at_work.poll_join_next(context) {}
                if at_work.len() >= options.concurrency {
                    return Poll::Pending;
                }
                self.poll_delivery(context).map(|next| match next {
                    Ok(Some(delivery)) => Turn::Handle(delivery),
                    Ok(None) => Turn::Close,
                    Err(why) => Turn::Failed(why),
                })
            });
            match turn.await {
                Turn::Handle(delivery) => {
                    at_work.spawn(handle(Arc::clone(&handler), delivery, options.handler_timeout));
                }
                Turn::Close => break None,
                Turn::Failed(why) => break Some(why),
            }
        };
        let closed = match options.drain_timeout {
            Some(within) => self.close_within(within).await,
            None => self.close().await,
        };
        match (failed, closed) {
            (Some(why), _) => Err(why),
            // A handle has closed it, and has the report.
            (None, Err(why)) if matches!(why.kind(), ErrorKind::ClientClosed) => Ok(CloseReport::default()),
            (None, closed) => closed,
        }
    }
}

/// Handles one record and answers for it.
async fn handle<H, F, E>(handler: Arc<H>, delivery: Delivery, timeout: Option<Duration>)
where
    H: Fn(Work) -> F,
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let work = delivery.work();
    // Not called before it is polled, so that a panic in the call itself is met too.
    let mut running = Box::pin(async { handler(work).await.map_err(|why| why.to_string()) });
    let watched =
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(Err(format!("the handler panicked: {}", panic_text(&*panic)))),
        });
    let result = match timeout {
        None => watched.await,
        Some(limit) => match tokio::time::timeout(limit, watched).await {
            Ok(result) => result,
            Err(_) => Err(format!("the handler took longer than {limit:?}")),
        },
    };
    drop(running);
    match result {
        Ok(()) => delivery.ack(),
        Err(why) => delivery.fail(why),
    }
}

impl Delivery {
    fn work(&self) -> Work {
        let (lot, number) = self.place_in_lot();
        Work { lot: Arc::clone(lot), number }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;
    use tokio::time::{Instant, sleep};

    use super::super::stage::{Stage, said, stage};
    use super::*;

    fn text(work: &Work) -> String {
        String::from_utf8(work.value().unwrap().to_vec()).unwrap()
    }

    /// Runs a handler over these values until the spout has no more.
    async fn run<H, F>(values: &[&str], options: RunOptions, handler: H) -> (Vec<i64>, Vec<String>)
    where
        H: Fn(Work) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let values: Vec<_> = values.iter().map(|value| Some(*value)).collect();
        let Stage { lot, spout, commands, handouts } = stage(&values);
        Stage::answer_closes(commands);
        // Long enough, in the tests' own time, for every handler here.
        let shutdown = sleep(Duration::from_secs(3600));
        spout.run(options, shutdown, handler).await.unwrap();
        drop(handouts);
        said(&lot)
    }

    #[tokio::test(start_paused = true)]
    async fn ok_is_an_ack_and_an_error_a_failure_with_its_reason() {
        let handler = |work: Work| async move {
            match text(&work).as_str() {
                "bad" => Err(format!("no good at {}/{}/{}", work.topic(), work.partition(), work.offset())),
                _ => Ok(()),
            }
        };
        let (acked, words) = run(&["a", "bad", "b"], RunOptions::default(), handler).await;
        assert_eq!(acked, [10, 12]);
        assert_eq!(words, ["1 failed: no good at clicks/3/11"]);
    }

    #[tokio::test(start_paused = true)]
    async fn pc8_12_a_panic_is_a_failure_and_never_done() {
        let handler = |work: Work| {
            assert!(text(&work) != "at once", "before any future");
            async move {
                tokio::task::yield_now().await;
                assert!(text(&work) != "later", "in its midst, {}", 7);
                Ok(())
            }
        };
        let (acked, words) = run(&["at once", "fine", "later"], RunOptions::default(), handler).await;
        assert_eq!(acked, [11]);
        assert_eq!(
            words,
            [
                "0 failed: the handler panicked: before any future",
                "2 failed: the handler panicked: in its midst, 7"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_takes_too_long_has_failed_and_its_future_is_dropped() {
        struct Dropped(Arc<AtomicUsize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dropped);
        let handler = move |work: Work| {
            let guard = Dropped(Arc::clone(&count));
            async move {
                let _guard = guard;
                match text(&work).as_str() {
                    "slow" => sleep(Duration::from_secs(6)).await,
                    _ => sleep(Duration::from_secs(4)).await,
                }
                Ok(())
            }
        };
        let options = RunOptions::default().handler_timeout(Duration::from_secs(5));
        let (acked, words) = run(&["slow", "quick"], options, handler).await;
        assert_eq!((acked, words), (vec![11], vec!["0 failed: the handler took longer than 5s".to_owned()]));
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_records_are_at_work_than_the_limit_and_as_many() {
        for limit in [1, 3, 100] {
            let now = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
            let seen = Arc::clone(&now);
            let handler = move |_: Work| {
                let now = Arc::clone(&now);
                async move {
                    let running = now.0.fetch_add(1, Ordering::Relaxed) + 1;
                    now.1.fetch_max(running, Ordering::Relaxed);
                    sleep(Duration::from_secs(1)).await;
                    now.0.fetch_sub(1, Ordering::Relaxed);
                    Ok(())
                }
            };
            let (acked, _) = run(&["v"; 20], RunOptions::default().concurrency(limit), handler).await;
            assert_eq!((acked.len(), seen.1.load(Ordering::Relaxed)), (20, limit.min(20)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn with_one_at_a_time_records_come_in_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let handler = move |work: Work| {
            let order = Arc::clone(&order);
            async move {
                sleep(Duration::from_millis(100 - work.offset() as u64)).await;
                order.lock().unwrap().push(work.offset());
                Ok(())
            }
        };
        run(&["v"; 10], RunOptions::default(), handler).await;
        assert_eq!(*seen.lock().unwrap(), (10..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_shutdown_nothing_more_is_handed_out_and_handlers_may_finish() {
        let Stage { lot, spout, mut commands, handouts } = stage(&[Some("a"), Some("b"), Some("c")]);
        let (stop, stopped) = oneshot::channel::<()>();
        let began = Instant::now();
        let handler = |_: Work| async {
            sleep(Duration::from_secs(10)).await;
            Ok::<(), String>(())
        };
        let options = RunOptions::default().concurrency(2).drain_timeout(Duration::from_secs(15));
        let shutdown = async { drop(stopped.await) };
        let running = tokio::spawn(spout.run(options, shutdown, handler));
        sleep(Duration::from_secs(1)).await;
        stop.send(()).unwrap();
        // The driver waits for what was handed out.
        let Some(super::super::handle::Command::Close { within, reply }) = commands.recv().await else {
            panic!()
        };
        assert_eq!((within, began.elapsed()), (Duration::from_secs(15), Duration::from_secs(1)));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(said(&lot), (vec![10, 11], vec![]), "two were at work, the third never was");
        reply.send(Ok(CloseReport::default())).unwrap();
        running.await.unwrap().unwrap();
        drop(handouts);
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_at_work_after_the_close_are_ended_and_their_records_are_not_done() {
        let Stage { lot, spout, commands, handouts } = stage(&[Some("a")]);
        Stage::answer_closes(commands);
        let handler = |_: Work| std::future::pending::<Result<(), String>>();
        spout.run(RunOptions::default(), sleep(Duration::from_secs(5)), handler).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(said(&lot), (vec![], vec!["0 dropped".to_owned()]));
        drop(handouts);
    }

    #[tokio::test]
    async fn a_limit_of_nothing_at_a_time_is_an_error() {
        let Stage { spout, .. } = stage(&[Some("a")]);
        let handler = |_: Work| std::future::pending::<Result<(), String>>();
        let ran = spout.run(RunOptions::default().concurrency(0), std::future::pending(), handler).await;
        assert!(ran.unwrap_err().to_string().contains("at least 1"));
    }
}
