//! What is left behind: nothing.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use super::*;

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_clusters_leave_no_task_and_no_connection_behind() {
    let brokers = brokers(Release::LATEST);
    let before = tasks();
    for turn in 0..1_000 {
        let cluster = cluster(&brokers).await;
        cluster.latest_offset("clicks", turn % 3).await.unwrap();
        match turn % 3 {
            0 => cluster.close(),
            1 => drop(cluster),
            // With a request under way.
            _ => drop(poll_times(1, cluster.produce("clicks", 0, &[NewRecord::value(b"v")])).await),
        }
    }
    assert_eq!(open(&brokers).await, [0; 0]);
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn no_connection_is_kept_to_a_broker_that_left_or_under_a_name_that_was_only_the_way_in() {
    let brokers = brokers(Release::LATEST);
    let network = Network::default();
    network.route_all(&brokers);
    network.route("kafka:9092", &brokers, "broker-3:9092");
    let cluster = Cluster::builder(["kafka:9092"]).connector(network.clone()).connect().await.unwrap();
    assert_eq!(open(&brokers).await, [0; 0]);
    for partition in 0..3 {
        cluster.latest_offset("clicks", partition).await.unwrap();
    }
    let mut all = open(&brokers).await;
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
    brokers.with(|core| core.hide_broker(3, true));
    cluster.refresh().await.unwrap();
    let mut left = open(&brokers).await;
    left.sort_unstable();
    assert_eq!(left, [1, 2]);
    assert_eq!(network.attempts("kafka:9092"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_cluster_says_so_whatever_is_asked() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    brokers.inject(Fault::silence().on(ApiKey::LIST_OFFSETS));
    let waits = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.latest_offset("clicks", 0).await }
    });
    sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    cluster.close();
    let errors = [
        waits.await.unwrap().map(drop).unwrap_err(),
        cluster.metadata(&[]).await.map(drop).unwrap_err(),
        cluster.all_topics().await.map(drop).unwrap_err(),
        cluster.partitions("clicks").await.map(drop).unwrap_err(),
        cluster.latest_offset("clicks", 0).await.map(drop).unwrap_err(),
        cluster.produce("clicks", 0, &[NewRecord::value(b"v")]).await.map(drop).unwrap_err(),
        cluster.coordinator("g").await.map(drop).unwrap_err(),
        cluster.commit_offsets("g", &[GroupOffset::new("clicks", 0, 1)]).await.map(drop).unwrap_err(),
        cluster.fetch_offsets("g", &[("clicks", 0)]).await.map(drop).unwrap_err(),
        cluster.offset_for_leader_epoch("clicks", 0, 0).await.map(drop).unwrap_err(),
        cluster.wait_for_topic("clicks", Duration::from_secs(9)).await.map(drop).unwrap_err(),
    ];
    for (i, why) in errors.iter().enumerate() {
        assert!(matches!(why.kind(), ErrorKind::ClientClosed), "{i}: {why}");
        assert_eq!((why.fault(), why.retry()), (downspout::error::Fault::Caller, Retry::No));
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

/// Polls a future so many times, and drops it unless it is done by then.
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

/// Drops a call after each number of polls, until it is done before that; after each drop the same
/// call, made again, must be right.
macro_rules! sweep {
    ($release:expr, |$cluster:ident| $call:expr) => {{
        let mut polls = 0;
        loop {
            let brokers = brokers($release);
            let $cluster = builder(&brokers).build().unwrap();
            let done = poll_times(polls, $call).await;
            $call.await.unwrap_or_else(|why| panic!("after {polls} polls: {why}"));
            if done.is_some() {
                break polls;
            }
            polls += 1;
        }
    }};
}

#[tokio::test(start_paused = true)]
async fn c7_every_call_may_be_dropped_at_every_point() {
    let records = [NewRecord::value(b"v")];
    let offsets = [GroupOffset::new("clicks", 0, 1)];
    for release in [Release::V0_8_2, Release::V2_4, Release::V4_4] {
        let polls = [
            sweep!(release, |cluster| cluster.partitions("clicks")),
            sweep!(release, |cluster| cluster.latest_offset("clicks", 1)),
            sweep!(release, |cluster| cluster.produce("clicks", 1, &records)),
            sweep!(release, |cluster| cluster.coordinator("g")),
            sweep!(release, |cluster| cluster.commit_offsets("g", &offsets)),
            sweep!(release, |cluster| cluster.fetch_offsets("g", &[("clicks", 0)])),
            sweep!(release, |cluster| cluster.metadata(&["clikcs"])),
            sweep!(release, |cluster| cluster.wait_for_topic("clicks", Duration::from_secs(9))),
        ];
        assert!(polls.iter().all(|polls| *polls >= 3), "{polls:?}");
    }
}
