//! Cancel safety: any future may be dropped at any point (C7).

use std::pin::pin;
use std::task::Poll;

use super::*;

/// Polls a future so many times, whenever it says that something may have happened, and drops it
/// unless it is done by then.
async fn poll_times<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

const RELEASES: [Release; 4] = [Release::V0_8_2, Release::V0_9_0, Release::V2_8, Release::V4_4];

/// Nothing is left behind once the last handle is gone.
async fn assert_nothing_is_left(brokers: &EmbeddedBroker, tasks_before: usize, what: &str) {
    sleep(Duration::from_millis(1)).await;
    assert_eq!(tasks(), tasks_before, "{what}: tasks");
    let open = brokers.with(|core| core.requests().filter(|seen| core.is_open(seen.connection)).count());
    assert_eq!(open, 0, "{what}: connections");
}

#[tokio::test(start_paused = true)]
async fn c7_connecting_may_be_dropped_at_every_point() {
    for release in RELEASES {
        let before = tasks();
        for polls in 0.. {
            let what = format!("{release}, {polls} polls");
            let brokers = brokers(release);
            append(&brokers, "t", 0, 100, 10);
            let done = poll_times(polls, builder(&brokers).connect()).await;
            let is_done = done.is_some();
            drop(done);
            assert_nothing_is_left(&brokers, before, &what).await;
            let cluster = cluster(&brokers).await;
            let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
            assert_eq!(read(&mut stream, 100).await, to(100), "{what}");
            drop((cluster, stream));
            assert_nothing_is_left(&brokers, before, &what).await;
            if is_done {
                assert!(polls >= 3, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c7_opening_a_stream_may_be_dropped_at_every_point() {
    for release in RELEASES {
        let before = tasks();
        for polls in 0.. {
            let what = format!("{release}, {polls} polls");
            let brokers = brokers(release);
            append(&brokers, "t", 0, 100, 10);
            // Not connected yet: opening has everything to wait for.
            let cluster = builder(&brokers).build().unwrap();
            let merged = poll_times(polls, cluster.streams().topic("t").into_future()).await;
            let one =
                poll_times(polls, cluster.partition("t", 0).stream(StartOffset::Earliest).into_future());
            let one = one.await;
            let is_done = merged.is_some() && one.is_some();
            drop((merged, one));
            let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
            assert_eq!(read(&mut stream, 100).await, to(100), "{what}");
            drop(stream);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(cluster.memory().used, 0, "{what}");
            drop(cluster);
            assert_nothing_is_left(&brokers, before, &what).await;
            if is_done {
                assert!(polls >= 3, "{what}");
                break;
            }
        }
    }
}

/// What happens to a cluster while it is read.
const TROUBLES: [fn(&EmbeddedBroker); 8] = [
    |_| {},
    |brokers| brokers.with(|core| core.set_leader("t", 0, Some(2))).unwrap(),
    |brokers| brokers.inject(Fault::close().on(ApiKey::FETCH).once()),
    |brokers| brokers.inject(Fault::corrupt_records().on(ApiKey::FETCH).once()),
    |brokers| brokers.inject(Fault::error(ErrorCode::OFFSET_OUT_OF_RANGE).on(ApiKey::FETCH).once()),
    |brokers| brokers.with(|core| core.stop_broker(3)),
    |brokers| brokers.inject(Fault::delay(Duration::from_millis(30)).times(2)),
    |brokers| brokers.with(|core| core.start_broker(3)),
];

#[tokio::test(start_paused = true)]
async fn c7_waiting_for_the_next_item_may_be_dropped_at_every_point() {
    for release in RELEASES {
        let before = tasks();
        for polls in 1..5 {
            let what = format!("{release}, {polls} polls");
            let brokers = brokers(release);
            let cluster = builder(&brokers).memory(256 << 10).connect().await.unwrap();
            let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(500);
            let mut stream = stream.await.unwrap();
            let mut found = Vec::new();
            let mut dropped = 0;
            for turn in 0..64 {
                append(&brokers, "t", 0, 10, 3);
                TROUBLES[turn % TROUBLES.len()](&brokers);
                let end = 10 * (turn + 1);
                let began = Instant::now();
                while found.len() < end {
                    match poll_times(polls, stream.next()).await {
                        Some(item) => match item.unwrap() {
                            Some(Item::Batch(batch)) => found.extend(offsets(&batch)),
                            other => panic!("{what}: {other:?}"),
                        },
                        None => {
                            dropped += 1;
                            sleep(Duration::from_millis(1)).await;
                        }
                    }
                    assert!(
                        began.elapsed() < Duration::from_secs(30),
                        "{what}, {turn}: stands at {}",
                        found.len()
                    );
                }
            }
            assert_eq!(found, to(640), "{what}");
            assert!(dropped > 50 || polls > 1, "{what}: {dropped}");
            drop((stream, cluster));
            assert_nothing_is_left(&brokers, before, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c7_calls_beside_an_open_stream_may_be_dropped_at_every_point() {
    for release in RELEASES {
        let before = tasks();
        for polls in 0.. {
            let what = format!("{release}, {polls} polls");
            let brokers = brokers(release);
            append(&brokers, "t", 0, 50, 10);
            let cluster = cluster(&brokers).await;
            let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
            let mut found = read(&mut stream, 20).await;

            let refreshed = poll_times(polls, cluster.refresh()).await.is_some();
            let asked = poll_times(polls, cluster.latest_offset("t", 0)).await.is_some();
            let waited = poll_times(polls, cluster.metadata(&["t"])).await.is_some();
            // May be carried out although nobody waits for it.
            let produced = poll_times(polls, cluster.produce("t", 1, &[NewRecord::value(b"v")])).await;
            brokers.with(|core| core.set_leader("t", 0, Some(2))).unwrap();
            append(&brokers, "t", 0, 50, 10);
            let rest = 100 - found.len();
            found.extend(read(&mut stream, rest).await);
            assert_eq!(found, to(100), "{what}");
            cluster.refresh().await.unwrap();
            assert_eq!(cluster.latest_offset("t", 0).await.unwrap(), 100, "{what}");
            cluster.produce("t", 1, &[NewRecord::value(b"v")]).await.unwrap();
            drop((stream, cluster));
            assert_nothing_is_left(&brokers, before, &what).await;
            if refreshed && asked && waited && produced.is_some() {
                assert!(polls >= 2, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c7_a_stream_may_be_dropped_at_every_moment_and_leaves_the_others_alone() {
    let before = tasks();
    let brokers = brokers(Release::V4_4);
    for partition in 0..3 {
        append(&brokers, "t", partition, 5_000, 50);
    }
    brokers.inject(Fault::delay(Duration::from_millis(3)).on(ApiKey::FETCH));
    let cluster = builder(&brokers).memory(256 << 10).connect().await.unwrap();
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).partition_bytes(1_000);
    let mut stream = stream.await.unwrap();
    let mut found = Vec::new();
    for moment in 0..80 {
        // In the same lane, with the same budget.
        let mut other = cluster.streams().topic("t").partition_bytes(3_000).await.unwrap();
        let held = timeout(Duration::from_millis(moment % 20), other.next()).await;
        drop(other);
        found.extend(read(&mut stream, 50).await);
        drop(held);
    }
    found.extend(read(&mut stream, 5_000 - found.len()).await);
    assert_eq!(found, to(5_000));
    drop(stream);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.memory().used, 0, "{:?}", cluster.memory());
    drop(cluster);
    assert_nothing_is_left(&brokers, before, "at the end").await;
}
