//! Tuples: what a scheme makes of records, each to be answered for.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::delivery::{Delivery, DeliveryId};
use super::handle::{CloseReport, SpoutHandle};
use super::scheme::{Scheme, Source};
use super::spout::Spout;
use crate::error::Result;

/// A spout of tuples: a [`Spout`] with a [`Scheme`] over it.
///
/// ```no_run
/// # async fn example(spout: downspout::spout::Spout) -> downspout::Result<()> {
/// use downspout::spout::scheme::{EachLine, Utf8};
///
/// let mut lines = spout.tuples(EachLine(Utf8));
/// while let Some(line) = lines.next().await? {
///     println!("{}: {}", line.offset(), line.value());
///     line.ack();
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TupleSpout<S: Scheme> {
    spout: Spout,
    scheme: S,
    /// Tuples of the record that is being handed out.
    waiting: VecDeque<Tuple<S::Tuple>>,
    scratch: Vec<S::Tuple>,
}

impl Spout {
    /// The same records as tuples.
    pub fn tuples<S: Scheme>(self, scheme: S) -> TupleSpout<S> {
        TupleSpout { spout: self, scheme, waiting: VecDeque::new(), scratch: Vec::new() }
    }
}

impl<S: Scheme> TupleSpout<S> {
    /// The next tuple; waits for one. `None` after a close. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// As [`Spout::next`]. A record that the scheme cannot read is none: it goes the way of
    /// [`OnPoison`](super::OnPoison).
    pub async fn next(&mut self) -> Result<Option<Tuple<S::Tuple>>> {
        std::future::poll_fn(|context| self.poll_tuple(context)).await
    }

    /// A handle to look at the spout and steer it.
    pub fn handle(&self) -> SpoutHandle {
        self.spout.handle()
    }

    /// As [`Spout::close`].
    pub async fn close(mut self) -> Result<CloseReport> {
        self.hand_back();
        self.spout.close().await
    }

    /// As [`Spout::close_within`].
    pub async fn close_within(mut self, within: Duration) -> Result<CloseReport> {
        self.hand_back();
        self.spout.close_within(within).await
    }

    fn hand_back(&mut self) {
        self.waiting.drain(..).for_each(Tuple::release);
    }

    fn poll_tuple(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Tuple<S::Tuple>>>> {
        loop {
            if let Some(tuple) = self.waiting.pop_front() {
                return Poll::Ready(Ok(Some(tuple)));
            }
            match ready!(self.spout.poll_delivery(context))? {
                Some(delivery) => self.take_apart(delivery),
                None => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// Every record that is looked at is answered for by this, or by its tuples.
    fn take_apart(&mut self, delivery: Delivery) {
        let source =
            Source { topic: delivery.topic(), partition: delivery.partition(), record: delivery.record() };
        self.scratch.clear();
        let read = catch_unwind(AssertUnwindSafe(|| self.scheme.read(&source, &mut self.scratch)));
        match read {
            Ok(Ok(())) => self.waiting.extend(tuples_of(delivery, &mut self.scratch)),
            Ok(Err(why)) => delivery.poison(why),
            Err(panic) => delivery.fail(format!("the scheme panicked: {}", panic_text(&*panic))),
        }
        self.scratch.clear();
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

/// The tuples of a record, which share its delivery. Without any the record is done.
fn tuples_of<T>(delivery: Delivery, values: &mut Vec<T>) -> Vec<Tuple<T>> {
    match values.len() {
        0 => {
            delivery.ack();
            Vec::new()
        }
        1 => {
            let ticket = Ticket(Share::Whole(delivery));
            values.pop().map(|value| Tuple { value, ticket }).into_iter().collect()
        }
        count => {
            let family = Family::new(delivery, count);
            let one = || Ticket(Share::One(Arc::clone(&family)));
            values.drain(..).map(|value| Tuple { value, ticket: one() }).collect()
        }
    }
}

impl<S: Scheme + Unpin> futures_core::Stream for TupleSpout<S>
where
    S::Tuple: Unpin,
{
    type Item = Result<Tuple<S::Tuple>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_tuple(context).map(Result::transpose)
    }
}

/// A tuple that was handed out, to be answered for like a [`Delivery`].
///
/// Where a record became several tuples, it is done when all of them are acknowledged; it has failed as
/// soon as one of them failed, once, whatever becomes of the others; and it comes again when one was
/// released or dropped and none failed, as soon as the others are answered for.
#[must_use = "a tuple that is dropped without an answer makes its record come again"]
pub struct Tuple<T> {
    value: T,
    ticket: Ticket,
}

/// What a tuple is answered for with; see [`Tuple::into_parts`].
#[must_use = "a ticket that is dropped without an answer makes its record come again"]
#[derive(Debug)]
pub struct Ticket(Share);

impl<T> Tuple<T> {
    /// What the scheme made.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// What the scheme made, and the ticket to answer for it with.
    pub fn into_parts(self) -> (T, Ticket) {
        (self.value, self.ticket)
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        match &self.ticket.0 {
            Share::Whole(delivery) => delivery.topic(),
            Share::One(family) => &family.id.topic,
            Share::Answered => "",
        }
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.place().0
    }

    /// The record's offset.
    pub fn offset(&self) -> i64 {
        self.place().1
    }

    /// How often the record was handed out with this; 1 is the first time.
    pub fn attempt(&self) -> u32 {
        self.place().2
    }

    fn place(&self) -> (i32, i64, u32) {
        match &self.ticket.0 {
            Share::Whole(delivery) => (delivery.partition(), delivery.offset(), delivery.attempt()),
            Share::One(family) => (family.id.partition, family.id.offset, family.id.attempt),
            Share::Answered => (-1, -1, 0),
        }
    }

    /// It is done.
    pub fn ack(self) {
        self.ticket.ack();
    }

    /// It went wrong.
    pub fn fail(self, reason: impl fmt::Display) {
        self.ticket.fail(reason);
    }

    /// It went wrong, and its record comes again after that time.
    pub fn fail_after(self, reason: impl fmt::Display, after: Duration) {
        self.ticket.fail_after(reason, after);
    }

    /// Its record is not to be tried again.
    pub fn reject(self, reason: impl fmt::Display) {
        self.ticket.reject(reason);
    }

    /// Again, without counting as an attempt.
    pub fn release(self) {
        self.ticket.release();
    }
}

impl<T: fmt::Debug> fmt::Debug for Tuple<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tuple({}/{}/{}, {:?})", self.topic(), self.partition(), self.offset(), self.value)
    }
}

impl Ticket {
    /// It is done.
    pub fn ack(mut self) {
        match self.0.take() {
            Share::Whole(delivery) => delivery.ack(),
            Share::One(family) => family.settle(Outcome::Done),
            Share::Answered => {}
        }
    }

    /// It went wrong.
    pub fn fail(self, reason: impl fmt::Display) {
        self.end(|delivery| delivery.fail(reason));
    }

    /// It went wrong, and its record comes again after that time.
    pub fn fail_after(self, reason: impl fmt::Display, after: Duration) {
        self.end(|delivery| delivery.fail_after(reason, after));
    }

    /// Its record is not to be tried again.
    pub fn reject(self, reason: impl fmt::Display) {
        self.end(|delivery| delivery.reject(reason));
    }

    /// Again, without counting as an attempt.
    pub fn release(mut self) {
        match self.0.take() {
            Share::Whole(delivery) => delivery.release(),
            Share::One(family) => family.settle(Outcome::Released),
            Share::Answered => {}
        }
    }

    fn end(mut self, answer: impl FnOnce(Delivery)) {
        match self.0.take() {
            Share::Whole(delivery) => answer(delivery),
            Share::One(family) => {
                if let Some(delivery) = family.take() {
                    answer(delivery);
                }
            }
            Share::Answered => {}
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A whole delivery says by itself that it was dropped.
        if let Share::One(family) = self.0.take() {
            family.settle(Outcome::Dropped);
        }
    }
}

/// A tuple's part in the answer for its record.
#[derive(Debug)]
enum Share {
    /// It is the only one.
    Whole(Delivery),
    One(Arc<Family>),
    Answered,
}

impl Share {
    fn take(&mut self) -> Share {
        std::mem::replace(self, Share::Answered)
    }
}

/// The tuples of one record.
#[derive(Debug)]
struct Family {
    id: DeliveryId,
    state: Mutex<FamilyState>,
}

#[derive(Debug)]
struct FamilyState {
    /// `None` once the record is answered for.
    delivery: Option<Delivery>,
    open: usize,
    worst: Outcome,
}

/// What one tuple says for its record, unless one of them failed; the strongest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    Dropped,
    Released,
}

impl Family {
    fn new(delivery: Delivery, count: usize) -> Arc<Self> {
        let id = delivery.id();
        let state = FamilyState { delivery: Some(delivery), open: count, worst: Outcome::Done };
        Arc::new(Family { id, state: Mutex::new(state) })
    }

    /// One of them says this; the last one answers for the record.
    fn settle(&self, outcome: Outcome) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.worst = state.worst.max(outcome);
        state.open -= 1;
        if state.open > 0 {
            return;
        }
        let (delivery, worst) = (state.delivery.take(), state.worst);
        drop(state);
        match (delivery, worst) {
            (Some(delivery), Outcome::Done) => delivery.ack(),
            (Some(delivery), Outcome::Released) => delivery.release(),
            (delivery, _) => drop(delivery),
        }
    }

    /// The delivery, for the one who answers for all.
    fn take(&self) -> Option<Delivery> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= 1;
        state.delivery.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scheme::{EachLine, Json, KeyValue, Nullable, SchemeError, Utf8};
    use super::super::stage::{Stage, said, stage};
    use super::*;

    async fn all<S: Scheme>(spout: &mut TupleSpout<S>) -> Vec<Tuple<S::Tuple>> {
        let mut tuples = Vec::new();
        while let Some(tuple) = spout.next().await.unwrap() {
            tuples.push(tuple);
        }
        tuples
    }

    #[tokio::test]
    async fn storm_1094_storm_2994_a_record_without_tuples_is_done_at_once() {
        let Stage { lot, spout, .. } = stage(&[Some(""), None, Some("a"), Some("\n")]);
        let mut spout = spout.tuples(EachLine(Utf8));
        let tuples = all(&mut spout).await;
        assert_eq!(tuples.iter().map(|tuple| tuple.offset()).collect::<Vec<_>>(), [12]);
        assert_eq!(said(&lot), (vec![10, 11, 13], vec![]));
        tuples.into_iter().for_each(Tuple::ack);
        assert_eq!(said(&lot), (vec![10, 11, 12, 13], vec![]));
    }

    #[tokio::test]
    async fn sk23_a_record_is_done_when_the_last_of_its_tuples_is() {
        let Stage { lot, spout, .. } = stage(&[Some("a\nb\nc")]);
        let mut tuples = all(&mut spout.tuples(EachLine(Utf8))).await;
        tuples.swap_remove(1).ack();
        tuples.pop().unwrap().ack();
        assert_eq!(said(&lot), (vec![], vec![]));
        let last = tuples.pop().unwrap();
        assert_eq!((last.topic(), last.partition(), last.offset(), last.attempt()), ("clicks", 3, 10, 1));
        last.ack();
        assert_eq!(said(&lot), (vec![10], vec![]));
    }

    #[tokio::test]
    async fn sk23_a_record_fails_once_and_at_once_whatever_becomes_of_the_other_tuples() {
        let Stage { lot, spout, .. } = stage(&[Some("a\nb\nc\nd")]);
        let mut tuples = all(&mut spout.tuples(EachLine(Utf8))).await;
        tuples.pop().unwrap().ack();
        tuples.pop().unwrap().fail("no");
        assert_eq!(said(&lot), (vec![], vec!["0 failed: no".to_owned()]));
        let last = tuples.pop().unwrap();
        assert_eq!((last.topic(), last.offset()), ("clicks", 10), "it still knows where it is from");
        last.fail("twice");
        tuples.pop().unwrap().ack();
        assert_eq!(said(&lot), (vec![], vec![]));
    }

    #[tokio::test]
    async fn a_dropped_tuple_makes_the_record_come_again_once_the_others_are_answered_for() {
        for (answer, word) in [("drop", "0 dropped"), ("release", "0 released"), ("fail", "0 failed: x")] {
            let Stage { lot, spout, .. } = stage(&[Some("a\nb\nc")]);
            let mut tuples = all(&mut spout.tuples(EachLine(Utf8))).await;
            drop(tuples.pop());
            tuples.pop().unwrap().ack();
            assert_eq!(said(&lot), (vec![], vec![]));
            let last = tuples.pop().unwrap();
            match answer {
                "drop" => drop(last),
                "release" => last.release(),
                _ => last.fail("x"),
            }
            assert_eq!(said(&lot), (vec![], vec![word.to_owned()]));
        }
    }

    #[tokio::test]
    async fn the_only_tuple_of_a_record_answers_for_it_whole() {
        let Stage { lot, spout, .. } = stage(&[Some("a"), Some("b"), Some("c"), Some("d")]);
        let mut tuples = all(&mut spout.tuples(Utf8)).await.into_iter();
        let (value, ticket) = tuples.next().unwrap().into_parts();
        assert_eq!(value, "a");
        ticket.ack();
        tuples.next().unwrap().reject("never");
        tuples.next().unwrap().release();
        drop(tuples);
        let words = ["1 rejected: never", "2 released", "3 dropped"].map(str::to_owned);
        assert_eq!(said(&lot), (vec![10], words.to_vec()));
    }

    #[tokio::test]
    async fn storm_9078_what_a_scheme_cannot_read_is_poison_and_the_next_record_comes() {
        let Stage { lot, spout, .. } = stage(&[Some("7"), Some("x"), Some("9")]);
        let tuples = all(&mut spout.tuples(Json::<u8>::new())).await;
        assert_eq!(tuples.iter().map(|tuple| *tuple.value()).collect::<Vec<_>>(), [7, 9]);
        let (acked, words) = said(&lot);
        assert!(acked.is_empty() && words.len() == 1 && words[0].starts_with("1 poison: "), "{words:?}");
    }

    #[tokio::test]
    async fn tuples_made_before_an_error_are_thrown_away() {
        let Stage { lot, spout, .. } = stage(&[Some("1\n2\nx"), Some("4")]);
        let tuples = all(&mut spout.tuples(EachLine(Json::<u8>::new()))).await;
        assert_eq!(tuples.iter().map(|tuple| *tuple.value()).collect::<Vec<_>>(), [4]);
        assert_eq!(said(&lot).1.len(), 1);
    }

    #[tokio::test]
    async fn pc8_12_a_panic_in_a_scheme_is_a_failure_and_never_done() {
        struct Panics;
        impl Scheme for Panics {
            type Tuple = ();
            fn read(&self, source: &Source<'_>, tuples: &mut Vec<()>) -> Result<(), SchemeError> {
                tuples.push(());
                assert!(source.record.value() != Some(b"bad"), "cannot bear it");
                Ok(())
            }
        }
        let Stage { lot, spout, .. } = stage(&[Some("bad"), Some("good")]);
        let mut spout = spout.tuples(Panics);
        let tuples = all(&mut spout).await;
        assert_eq!(tuples.len(), 1);
        let (acked, words) = said(&lot);
        assert_eq!(
            (acked, words),
            (vec![], vec!["0 failed: the scheme panicked: cannot bear it".to_owned()])
        );
    }

    #[tokio::test]
    async fn storm_476_a_tombstone_is_done_unless_the_scheme_wants_it() {
        let Stage { lot, spout, .. } = stage(&[None]);
        assert!(all(&mut spout.tuples(KeyValue(Utf8, Utf8))).await.is_empty());
        assert_eq!(said(&lot), (vec![10], vec![]));
        let Stage { lot, spout, .. } = stage(&[None]);
        let tuples = all(&mut spout.tuples(KeyValue(Utf8, Nullable(Utf8)))).await;
        assert_eq!((tuples.len(), said(&lot)), (1, (vec![], vec![])));
    }

    #[tokio::test]
    async fn storm_2835_a_close_hands_back_the_tuples_that_nobody_took() {
        let Stage { lot, spout, .. } = stage(&[Some("a\nb\nc"), Some("d")]);
        let mut spout = spout.tuples(EachLine(Utf8));
        spout.next().await.unwrap().unwrap().ack();
        let _ = spout.close().await;
        assert_eq!(said(&lot).1, ["0 released"]);
    }
}
