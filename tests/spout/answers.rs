//! Acks, failures, releases and drops, and where the commit point stands then.

use downspout::checkpoint::FileCheckpoints;

use super::*;

#[tokio::test(start_paused = true)]
async fn pc8_11_the_classic_picture_after_a_restart_only_what_was_unfinished_comes_again() {
    let brokers = brokers();
    append(&brokers, 0, 41, 7);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for delivery in take(&mut spout, 41).await {
        let offset = delivery.offset();
        match offset {
            0..=20 | 24..=30 | 35..=40 => delivery.ack(),
            _ => std::mem::forget(delivery),
        }
    }
    let report = spout.handle().commit_now().await.unwrap();
    assert!(report.failed.is_empty());
    assert_eq!(kept_of(&kept, 0).offset, 21);
    let extras = kept_of(&kept, 0).extras.unwrap();
    assert_eq!(extras.done, [24..31, 35..41]);
    crash(spout).await;
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let again = take(&mut spout, 7).await;
    assert_eq!(offsets(&again), [21, 22, 23, 31, 32, 33, 34]);
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await);
    let metrics = spout.handle().metrics();
    assert_eq!(metrics.partitions[&TopicPartition::new("t", 0)].duplicates, 7);
    for delivery in again {
        delivery.ack();
    }
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 41);
}

/// The records of one batch, some of which an earlier life did, are behind a full window: nothing of what was known is
/// forgotten by the commits until they come in.
#[tokio::test(start_paused = true)]
async fn pc8_11_a_second_crash_amidst_what_the_first_life_did_costs_no_more() {
    let brokers = brokers();
    append(&brokers, 0, 41, 7);
    let dir = tempfile::tempdir().unwrap();
    let start = async |window| {
        let mut settings = SpoutSettings::default();
        settings.window.records = window;
        let spout = Spout::builder(cluster(&brokers).await).topic("t").id("test").settings(settings);
        spout.checkpoints(FileCheckpoints::new(dir.path())).build().await.unwrap()
    };
    let mut spout = start(1_000).await;
    for delivery in take(&mut spout, 41).await {
        match delivery.offset() {
            0..=20 | 24..=30 | 35..=40 => delivery.ack(),
            _ => std::mem::forget(delivery),
        }
    }
    spout.handle().commit_now().await.unwrap();
    crash(spout).await;
    for acked in [0, 2] {
        let mut spout = start(3).await;
        let mut held = take(&mut spout, 3).await;
        let rest = held.split_off(acked);
        held.into_iter().for_each(Delivery::ack);
        rest.into_iter().for_each(std::mem::forget);
        sleep(Duration::from_secs(5)).await;
        assert!(spout.handle().commit_now().await.unwrap().failed.is_empty());
        crash(spout).await;
    }
    // The process has died three times: one record runs at a time.
    let mut spout = start(1_000).await;
    for offset in [23, 31, 32, 33, 34] {
        let again = next(&mut spout).await;
        assert_eq!(again.offset(), offset);
        again.ack();
    }
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await);
}

#[tokio::test(start_paused = true)]
async fn storm_303_t1_only_the_failed_record_comes_again_and_the_commit_waits_for_it() {
    let brokers = brokers();
    append(&brokers, 1, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for delivery in take(&mut spout, 10).await {
        match delivery.offset() {
            4 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    sleep(Duration::from_millis(50)).await;
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 1).offset, 4);
    let parked = spout.handle().parked().await.unwrap();
    assert_eq!((parked[0].offset, parked[0].failures, parked[0].reason.as_str()), (4, 1, "no"));
    let again = next(&mut spout).await;
    assert_eq!((again.offset(), again.attempt(), again.value()), (4, 2, Some(&b"4"[..])));
    again.ack();
    let report = spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 1).offset, 10);
    assert!(report.unfinished.is_empty() && report.parked.is_empty());
}
