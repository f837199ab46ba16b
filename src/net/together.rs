//! Many calls in flight.

use std::future::poll_fn;
use std::task::Poll;

use super::BoxFuture;

/// So many at once.
const AT_ONCE: usize = 64;

/// The results, in the order of the calls.
pub(crate) async fn together<'a, T: Send>(calls: impl Iterator<Item = BoxFuture<'a, T>> + Send) -> Vec<T> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn results_keep_their_order_and_so_many_are_in_flight_at_a_time() {
        let start = Instant::now();
        let wait = |number: u64| -> BoxFuture<'static, u64> {
            Box::pin(async move {
                sleep(Duration::from_millis(1000 - number)).await;
                number
            })
        };
        assert_eq!(together((0..150).map(wait)).await, (0..150).collect::<Vec<_>>());
        assert_eq!(start.elapsed().as_millis().div_ceil(1000), 3);
        assert!(together(std::iter::empty::<BoxFuture<'_, u64>>()).await.is_empty());
    }
}
