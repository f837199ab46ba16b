//! Many calls in flight.

use std::future::poll_fn;
use std::task::Poll;

use crate::net::BoxFuture;

/// So many at once.
const AT_ONCE: usize = 64;

/// The results, in the order of the calls.
pub(super) async fn together<'a, T: Send>(calls: impl Iterator<Item = BoxFuture<'a, T>> + Send) -> Vec<T> {
    let mut waiting = calls.enumerate();
    let mut flying = Vec::new();
    let mut results: Vec<Option<T>> = Vec::new();
    poll_fn(|context| {
        loop {
            while flying.len() < AT_ONCE
                && let Some((number, call)) = waiting.next()
            {
                results.resize_with(number + 1, || None);
                flying.push((number, call));
            }
            let before = flying.len();
            flying.retain_mut(|(number, call)| match call.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    results[*number] = Some(result);
                    false
                }
            });
            if flying.is_empty() && waiting.size_hint().1 == Some(0) {
                return Poll::Ready(());
            }
            if flying.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
