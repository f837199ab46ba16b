use std::future::poll_fn;
use std::task::Poll;

use crate::net::BoxFuture;

/// How many are under way at a time.
const AT_A_TIME: usize = 32;

/// The outcomes of all of them, in their order.
pub(super) async fn gather<T>(all: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut all = all.into_iter();
    let mut outcomes = Vec::with_capacity(all.len());
    while all.len() > 0 {
        let mut some: Vec<_> = all.by_ref().take(AT_A_TIME).map(|one| (one, None)).collect();
        poll_fn(|cx| {
            let mut is_ready = true;
            for (one, outcome) in &mut some {
                if outcome.is_none() {
                    match one.as_mut().poll(cx) {
                        Poll::Ready(came) => *outcome = Some(came),
                        Poll::Pending => is_ready = false,
                    }
                }
            }
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        outcomes.extend(some.into_iter().filter_map(|(_, outcome)| outcome));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn outcomes_keep_their_order_and_some_are_waited_for_at_a_time() {
        let start = tokio::time::Instant::now();
        let wait = |i: u64| -> BoxFuture<'static, u64> {
            Box::pin(async move {
                tokio::time::sleep(std::time::Duration::from_millis(1000 - i)).await;
                i
            })
        };
        assert_eq!(gather((0..70).map(wait).collect()).await, (0..70).collect::<Vec<_>>());
        assert_eq!(start.elapsed().as_millis().div_ceil(1000), 3);
        assert!(gather::<u64>(Vec::new()).await.is_empty());
    }
}
