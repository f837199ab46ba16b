//! Starting, pausing, stopping, closing, dying.

use downspout::checkpoint::{CommitFate, Problem};

use super::*;

#[tokio::test(start_paused = true)]
async fn pc8_33_a_close_waits_for_what_is_out_and_says_what_stayed() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut taken = take(&mut spout, 6).await;
    let late = taken.remove(5);
    let never = taken.remove(4);
    tokio::spawn(async move {
        sleep(Duration::from_secs(5)).await;
        taken.into_iter().for_each(Delivery::ack);
        late.ack();
    });
    let began = tokio::time::Instant::now();
    let report = spout.close_within(Duration::from_secs(10)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(13));
    assert_eq!(report.unfinished, [(TopicPartition::new("t", 0), 1)]);
    assert!(report.committed.contains(&(TopicPartition::new("t", 0), 4)), "{report:?}");
    drop(never);
    let checkpoint = kept_of(&kept, 0);
    assert_eq!((checkpoint.offset, checkpoint.extras.unwrap().done), (4, vec![5..6]));
}

#[tokio::test(start_paused = true)]
async fn a_close_from_elsewhere_ends_next() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let handle = spout.handle();
    let closing = tokio::spawn(async move { handle.close_within(Duration::from_secs(1)).await });
    assert!(timeout(Duration::from_secs(10), spout.next()).await.unwrap().unwrap().is_none());
    closing.await.unwrap().unwrap();
    assert!(spout.next().await.unwrap().is_none(), "and stays so");
}

#[tokio::test(start_paused = true)]
async fn storm_2294_deactivated_it_hands_nothing_out_and_commits_and_goes_on_when_activated() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let first = next(&mut spout).await;
    spout.handle().deactivate();
    first.ack();
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    assert_eq!(kept_of(&kept, 0).offset, 1);
    assert!(!spout.handle().health().ready);
    spout.handle().activate();
    assert_eq!(next(&mut spout).await.offset(), 1);
}

#[tokio::test(start_paused = true)]
async fn pc8_6_a_refused_commit_is_offered_again_without_new_traffic() {
    let brokers = brokers();
    append(&brokers, 0, 3, 3);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
    kept.on_commit({
        let fail = Arc::clone(&fail);
        move |_| match fail.load(std::sync::atomic::Ordering::Relaxed) {
            true => CommitFate::Refused(Problem::Io {
                place: "the test".to_owned(),
                why: Arc::new(std::io::ErrorKind::Other.into()),
            }),
            false => CommitFate::Kept,
        }
    });
    take(&mut spout, 3).await.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(kept_of(&kept, 0).offset, 0);
    let metrics = spout.handle().metrics();
    assert!(metrics.partitions[&TopicPartition::new("t", 0)].last_commit_error.is_some());
    fail.store(false, std::sync::atomic::Ordering::Relaxed);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(kept_of(&kept, 0).offset, 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_for_long_pauses_the_handing_out_and_no_longer() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
    kept.on_commit({
        let fail = Arc::clone(&fail);
        move |_| match fail.load(std::sync::atomic::Ordering::Relaxed) {
            true => CommitFate::Refused(Problem::Io {
                place: "the test".to_owned(),
                why: Arc::new(std::io::ErrorKind::Other.into()),
            }),
            false => CommitFate::Kept,
        }
    });
    next(&mut spout).await.ack();
    sleep(Duration::from_secs(200)).await;
    append(&brokers, 0, 1, 1);
    next(&mut spout).await.ack();
    sleep(Duration::from_secs(200)).await;
    append(&brokers, 0, 1, 1);
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await, "5 minutes are over");
    assert!(spout.handle().health().paused[&TopicPartition::new("t", 0)].contains("could not be kept"));
    fail.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(next(&mut spout).await.offset(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_forgotten_fails_after_its_time_and_its_late_ack_counts() {
    let brokers = brokers();
    append(&brokers, 0, 2, 2);
    let kept = MemoryCheckpoints::new();
    let build = builder(&brokers, &kept).await.ack_timeout(Duration::from_secs(30));
    let mut spout = build.build().await.unwrap();
    let forgotten = next(&mut spout).await;
    next(&mut spout).await.ack();
    assert!(is_quiet(&mut spout, Duration::from_secs(29)).await);
    let again = next(&mut spout).await;
    assert_eq!((again.offset(), again.attempt()), (0, 2));
    forgotten.ack();
    again.fail("the first one did it already");
    sleep(Duration::from_secs(1)).await;
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 2);
    assert!(is_quiet(&mut spout, Duration::from_secs(100)).await);
}

#[tokio::test(start_paused = true)]
async fn a_drop_comes_again_and_alone_never_leads_to_giving_up() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = MemoryCheckpoints::new();
    let build = builder(&brokers, &kept).await.retry_limit(1, OnExhausted::Skip);
    let mut spout = build.build().await.unwrap();
    for _ in 0..10 {
        drop(next(&mut spout).await);
    }
    let last = next(&mut spout).await;
    let metrics = spout.handle().metrics();
    let of = &metrics.partitions[&TopicPartition::new("t", 0)];
    assert!(of.dropped >= 9 && of.ineligible == 0, "{of:?}");
    last.ack();
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 1);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_stopped_goes_on_when_resumed() {
    let brokers = brokers();
    append(&brokers, 0, 4, 4);
    append(&brokers, 1, 2, 2);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut others = 0;
    for delivery in take(&mut spout, 6).await {
        match (delivery.partition(), delivery.offset()) {
            (0, 1) => delivery.poison("no JSON"),
            (0, _) => delivery.ack(),
            _ => {
                others += 1;
                delivery.ack();
            }
        }
    }
    assert_eq!(others, 2);
    sleep(Duration::from_secs(3)).await;
    let health = spout.handle().health();
    let why = &health.stopped[&TopicPartition::new("t", 0)];
    assert!(!health.ready && why.contains("offset 1") && why.contains("no JSON"), "{why}");
    assert_eq!(kept_of(&kept, 0).offset, 1);
    append(&brokers, 1, 1, 1);
    assert_eq!(next(&mut spout).await.partition(), 1, "others go on");
    spout.handle().resume("t", 0).await.unwrap();
    let again = next(&mut spout).await;
    assert_eq!((again.partition(), again.offset()), (0, 1));
    again.ack();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 4);
    assert!(spout.handle().health().ready);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_kills_its_process_again_and_again_is_found_and_given_up() {
    let brokers = brokers();
    append(&brokers, 0, 50, 50);
    let kept = MemoryCheckpoints::new();
    let mut lives = 0;
    loop {
        lives += 1;
        assert!(lives < 10, "it never gets past it");
        let build = builder(&brokers, &kept).await.retry_limit(5, OnExhausted::Skip);
        let mut spout = build.build().await.unwrap();
        let mut died = false;
        while let Ok(delivery) = timeout(Duration::from_millis(500), spout.next()).await {
            let delivery = delivery.unwrap().unwrap();
            if delivery.offset() == 20 {
                // The process aborts.
                died = true;
                std::mem::forget(delivery);
                break;
            }
            delivery.ack();
        }
        if !died {
            spout.close().await.unwrap();
            break;
        }
        crash(spout).await;
    }
    assert!(lives > 3);
    assert_eq!(kept_of(&kept, 0).offset, 50, "after {lives} lives");
}

#[tokio::test(start_paused = true)]
async fn batches_are_answered_by_index() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut batch = spout.next_batch(6).await.unwrap().unwrap();
    assert_eq!(batch.records().map(|record| record.offset()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    batch.fail(2, "no");
    batch.release(4);
    batch.ack_all();
    let rest = spout.next_batch(100).await.unwrap().unwrap();
    assert_eq!(rest.len(), 4);
    rest.ack_all();
    let mut again = take(&mut spout, 2).await;
    again.sort_by_key(Delivery::offset);
    assert_eq!(offsets(&again), [2, 4]);
    assert_eq!(again.iter().map(Delivery::attempt).collect::<Vec<_>>(), [2, 1], "a release does not count");
    again.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 10);
}
