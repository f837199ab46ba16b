//! What went wrong in Parallel Consumer. Rows of `parallel-consumer.md` §8 that no other file here has.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use downspout::checkpoint::{CommitFate, KafkaCheckpoints, Problem};
use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::Fault;

use super::*;

fn with(change: impl FnOnce(&mut SpoutSettings)) -> SpoutSettings {
    let mut settings = SpoutSettings::default();
    change(&mut settings);
    settings
}

fn every_second() -> SpoutSettings {
    with(|settings| {
        settings.refresh_interval = Duration::from_secs(1);
        settings.drain_timeout = Duration::from_secs(2);
    })
}

async fn metrics(spout: &Spout, partition: i32) -> PartitionMetrics {
    sleep(Duration::from_secs(1)).await;
    spout.handle().metrics().partitions[&TopicPartition::new("t", partition)].clone()
}

/// The topic seems to be gone until it is lost, and comes back with the same log.
async fn lose_and_regain(brokers: &EmbeddedBroker) {
    let gone = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    brokers.inject(Fault::error(gone).on(ApiKey::METADATA).at_topic("t"));
    sleep(Duration::from_secs(10)).await;
    brokers.with(|core| core.clear_faults());
    sleep(Duration::from_secs(10)).await;
}

fn failing() -> Problem {
    Problem::Io { place: "here".to_owned(), why: Arc::new(std::io::Error::other("no")) }
}

#[tokio::test(start_paused = true)]
async fn pc8_1_what_was_taken_in_and_not_handed_out_holds_the_commit() {
    let brokers = brokers();
    append(&brokers, 0, 100, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    take(&mut spout, 25).await.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 25);
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    assert_eq!(offsets(&take(&mut spout, 75).await), (25..100).collect::<Vec<_>>());
}

/// What a checkpoint says is done was told to be done before, at whatever moment it is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pc8_2_pc8_3_offset_and_runs_are_of_one_moment_whatever_is_acked_meanwhile() {
    const COUNT: usize = 9_000;
    let brokers = brokers();
    append(&brokers, 0, COUNT as i64, 90);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let told: Arc<Vec<AtomicBool>> = Arc::new((0..COUNT).map(|_| AtomicBool::new(false)).collect());
    let (mine, theirs): (Vec<_>, Vec<_>) =
        take(&mut spout, COUNT).await.into_iter().partition(|delivery| delivery.offset() % 3 == 0);
    let mut acking = Vec::new();
    for deliveries in [mine, theirs] {
        let told = Arc::clone(&told);
        acking.push(tokio::task::spawn_blocking(move || {
            // In no order.
            for at in 0..deliveries.len() {
                let far = at * 7919 % deliveries.len();
                told[deliveries[far].offset() as usize].store(true, Ordering::SeqCst);
            }
            for delivery in deliveries {
                delivery.ack();
                std::thread::yield_now();
            }
        }));
    }
    let handle = spout.handle();
    loop {
        let done = acking.iter().all(|task| task.is_finished());
        handle.commit_now().await.unwrap();
        let checkpoint = kept_of(&kept, 0);
        let runs = checkpoint.extras.unwrap().done;
        assert!(runs.first().is_none_or(|run| run.start > checkpoint.offset), "{runs:?}");
        for offset in (0..checkpoint.offset).chain(runs.into_iter().flatten()) {
            assert!(told[offset as usize].load(Ordering::SeqCst), "{offset}");
        }
        if done {
            break;
        }
    }
    handle.commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, COUNT as i64);
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pc8_4_pc8_5_after_a_partition_came_back_every_record_of_it_is_delivered() {
    let brokers = brokers();
    append(&brokers, 0, 10, 3);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    let mut old = take(&mut spout, 10).await;
    old.drain(..4).for_each(Delivery::ack);
    lose_and_regain(&brokers).await;
    let new = take(&mut spout, 6).await;
    assert_eq!(offsets(&new), [4, 5, 6, 7, 8, 9]);
    // The old ones' answers take nothing away from the new ones.
    for (at, delivery) in old.into_iter().enumerate() {
        match at % 3 {
            0 => delivery.ack(),
            1 => delivery.fail("old"),
            _ => drop(delivery),
        }
    }
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 4);
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    new.into_iter().for_each(Delivery::ack);
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 10);
}

#[tokio::test(start_paused = true)]
async fn pc8_8_an_ack_while_a_commit_is_on_its_way_is_committed_by_itself() {
    let brokers = brokers();
    append(&brokers, 0, 2, 2);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut all = take(&mut spout, 2).await;
    kept.set_delay(Duration::from_millis(500));
    all.remove(0).ack();
    let committing = tokio::spawn({
        let handle = spout.handle();
        async move { handle.commit_now().await }
    });
    sleep(Duration::from_millis(250)).await;
    all.remove(0).ack();
    committing.await.unwrap().unwrap();
    // No traffic, and nobody asks.
    sleep(Duration::from_secs(10)).await;
    assert_eq!(kept_of(&kept, 0).offset, 2);
    drop(spout);
}

#[tokio::test(start_paused = true)]
async fn pc8_9_a_stale_answer_changes_nothing_but_a_counter() {
    let brokers = brokers();
    append(&brokers, 0, 4, 4);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    let mut old = take(&mut spout, 4).await;
    lose_and_regain(&brokers).await;
    let new = take(&mut spout, 4).await;
    let before = metrics(&spout, 0).await;
    old.pop().unwrap().ack();
    old.pop().unwrap().fail("old");
    old.pop().unwrap().release();
    drop(old);
    let after = metrics(&spout, 0).await;
    assert_eq!(after.stale - before.stale, 4);
    assert_eq!((after.acked, after.failed, after.dropped, after.parked), (0, 0, 0, 0));
    assert_eq!(after.latest_completed, Some(0));
    new.into_iter().for_each(Delivery::ack);
    assert_eq!(metrics(&spout, 0).await.latest_completed, Some(4));
}

#[tokio::test(start_paused = true)]
async fn pc8_9_a_late_ack_of_an_earlier_attempt_counts_and_a_late_failure_does_not() {
    let brokers = brokers();
    append(&brokers, 0, 2, 2);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| {
        settings.ack_timeout = Some(Duration::from_secs(5));
        settings.retry = RetryMode::FailedSet;
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut first = take(&mut spout, 2).await;
    // They are forgotten, and come again.
    let mut second = take(&mut spout, 2).await;
    second.sort_by_key(Delivery::offset);
    assert_eq!((second[0].attempt(), second[1].attempt()), (2, 2));
    first.pop().unwrap().fail("late");
    first.pop().unwrap().ack();
    let seen = metrics(&spout, 0).await;
    assert_eq!((seen.latest_completed, seen.parked), (Some(1), 0));
    second.pop().unwrap().ack();
    second.pop().unwrap().ack();
    assert_eq!(metrics(&spout, 0).await.latest_completed, Some(2));
}

#[tokio::test(start_paused = true)]
async fn pc8_11_after_0_1_and_n_acks_a_restart_delivers_exactly_the_rest() {
    for acks in [0, 1, 2, 9, 10] {
        let brokers = brokers();
        append(&brokers, 0, 10, 4);
        let kept = MemoryCheckpoints::new();
        let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
        let mut all = take(&mut spout, 10).await;
        all.drain(..acks).for_each(Delivery::ack);
        spout.close_within(Duration::ZERO).await.unwrap();
        drop(all);
        let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
        let rest = take(&mut spout, 10 - acks).await;
        assert_eq!(offsets(&rest), (acks as i64..10).collect::<Vec<_>>());
        assert!(is_quiet(&mut spout, Duration::from_secs(5)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_12_a_retry_manager_that_panics_stops_its_partition_and_nothing_counts_as_done() {
    struct Panics;
    impl RetryManager for Panics {
        fn failed(&mut self, failure: &Failure<'_>) -> Verdict {
            assert!(failure.offset != 3, "cannot bear it");
            Verdict::Again(Duration::from_secs(1))
        }
    }
    struct Factory;
    impl RetryManagerFactory for Factory {
        fn make(&self, _: &str, _: i32) -> Box<dyn RetryManager> {
            Box::new(Panics)
        }
    }
    let brokers = brokers();
    append(&brokers, 0, 5, 5);
    append(&brokers, 1, 1, 1);
    let kept = MemoryCheckpoints::new();
    let spout = builder(&brokers, &kept).await.retry(RetryMode::Custom(Arc::new(Factory)));
    let mut spout = spout.build().await.unwrap();
    for delivery in take(&mut spout, 6).await {
        match (delivery.partition(), delivery.offset()) {
            (0, 3) => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    sleep(Duration::from_secs(5)).await;
    let stopped = spout.handle().health().stopped;
    let why = &stopped[&TopicPartition::new("t", 0)];
    assert!(why.contains("cannot bear it") && why.contains("offset 3"), "{why}");
    assert_eq!((kept_of(&kept, 0).offset, kept_of(&kept, 1).offset), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn pc8_13_a_dead_letter_that_is_not_taken_leaves_its_record_unfinished() {
    let brokers = brokers();
    brokers.create_topic("dead", 1);
    append(&brokers, 0, 2, 2);
    let kept = MemoryCheckpoints::new();
    let spout = builder(&brokers, &kept).await.retry(RetryMode::FailedSet);
    let spout = spout.retry_limit(1, OnExhausted::DeadLetter(DeadLetters::to("dead")));
    let mut spout = spout.build().await.unwrap();
    brokers.inject(Fault::error(ErrorCode::INVALID_RECORD).on(ApiKey::PRODUCE));
    for delivery in take(&mut spout, 2).await {
        match delivery.offset() {
            0 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    next(&mut spout).await.fail("again");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(kept_of(&kept, 0).offset, 0);
    let why = spout.handle().health().stopped[&TopicPartition::new("t", 0)].clone();
    assert!(why.contains("offset 0") && why.contains("INVALID_RECORD"), "{why}");
    // Mended, and resumed.
    brokers.with(|core| core.clear_faults());
    spout.handle().resume("t", 0).await.unwrap();
    while let Ok(delivery) = timeout(Duration::from_secs(10), spout.next()).await {
        delivery.unwrap().unwrap().fail("still");
    }
    assert_eq!(brokers.with(|core| core.offsets("dead", 0)).unwrap().end, 1);
    assert_eq!(kept_of(&kept, 0).offset, 2);
}

#[tokio::test(start_paused = true)]
async fn pc8_14_pc8_21_a_store_that_hangs_holds_up_nobody_and_every_wait_ends() {
    let brokers = brokers();
    append(&brokers, 0, 100, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    kept.set_delay(Duration::from_secs(100_000));
    for _ in 0..100 {
        next(&mut spout).await.ack();
    }
    let asked = spout.handle();
    let report = timeout(Duration::from_secs(120), asked.commit_now()).await.unwrap().unwrap();
    let (_, why) = &report.failed[0];
    assert!(why.to_string().contains("30s"), "the time that was waited is named: {why}");
    let closed = timeout(Duration::from_secs(120), spout.close_within(Duration::from_secs(5))).await;
    drop(closed.unwrap());
}

#[tokio::test(start_paused = true)]
async fn pc8_15_no_error_of_a_commit_ends_the_spout_or_loses_the_offer() {
    let brokers = brokers();
    append(&brokers, 0, 100, 1);
    let cluster = cluster(&brokers).await;
    let store = KafkaCheckpoints::new(cluster.clone());
    let spout = Spout::builder(cluster.clone()).topic("t").id("test").checkpoints(store);
    let mut spout = spout.commit_interval(Duration::from_millis(100)).build().await.unwrap();
    let mut done = 0;
    for code in [
        ErrorCode::UNKNOWN_SERVER_ERROR,
        ErrorCode::OFFSET_METADATA_TOO_LARGE,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode::REBALANCE_IN_PROGRESS,
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ] {
        brokers.inject(Fault::error(code).on(ApiKey::OFFSET_COMMIT).times(3));
        next(&mut spout).await.ack();
        done += 1;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(brokers.with(|core| core.committed("test", "t", 0)), Some(done), "{code}");
        brokers.with(|core| core.clear_faults());
    }
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pc8_17_pc8_19_after_any_history_an_empty_window_counts_nothing_and_takes_more() {
    let brokers = brokers();
    append(&brokers, 0, 200, 9);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| {
        settings.window.records = 25;
        settings.parked = Limits { records: 10, bytes: 1 << 20 };
        settings.retry = RetryMode::Backoff(Backoff { first: Duration::from_secs(1), ..Backoff::default() });
        settings.commit_interval = Duration::from_millis(300);
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut done = std::collections::BTreeSet::new();
    let mut turn = 0;
    while done.len() < 200 {
        let delivery = next(&mut spout).await;
        turn += 1;
        match (delivery.attempt(), turn % 5) {
            (1..=4, 0) => delivery.fail("no"),
            (1..=4, 1) => delivery.release(),
            (1..=4, 2) => drop(delivery),
            _ => {
                done.insert(delivery.offset());
                delivery.ack();
            }
        }
    }
    let seen = metrics(&spout, 0).await;
    assert_eq!((seen.window_records, seen.window_bytes, seen.parked, seen.parked_bytes), (0, 0, 0, 0));
    assert_eq!((seen.oldest_unfinished, seen.holes, seen.paused), (None, 0, None));
    append(&brokers, 0, 25, 5);
    assert_eq!(take(&mut spout, 25).await.len(), 25);
}

#[tokio::test(start_paused = true)]
async fn pc8_18_a_lost_partition_takes_its_timers_and_parked_records_along() {
    let brokers = brokers();
    append(&brokers, 0, 5, 5);
    let kept = MemoryCheckpoints::new();
    let mut settings = every_second();
    let first = Duration::from_secs(3600);
    settings.retry = RetryMode::Backoff(Backoff { first, longest: first, ..Backoff::default() });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    for delivery in take(&mut spout, 5).await {
        delivery.fail("no");
    }
    brokers.with(|core| core.delete_topic("t"));
    sleep(Duration::from_secs(20)).await;
    assert!(spout.handle().parked().await.unwrap().is_empty());
    let began = tokio::time::Instant::now();
    let report = spout.close().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "nothing is waited for");
    assert!(report.parked.is_empty() && report.unfinished.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pc8_22_after_a_reset_the_commit_follows_the_new_base_and_the_old_runs_are_gone() {
    let brokers = brokers();
    append(&brokers, 0, 20, 5);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| settings.reset = Some(ResetPolicy::Latest));
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut all = take(&mut spout, 20).await;
    let first = all.remove(0);
    all.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).extras.unwrap().done, [1..20]);
    brokers.with(|core| core.reset_log("t", 0, 100)).unwrap();
    append(&brokers, 0, 3, 3);
    sleep(Duration::from_secs(10)).await;
    append(&brokers, 0, 2, 2);
    let new = take(&mut spout, 2).await;
    assert_eq!(offsets(&new), [103, 104]);
    first.fail("old");
    spout.handle().commit_now().await.unwrap();
    let checkpoint = kept_of(&kept, 0);
    assert_eq!((checkpoint.offset, checkpoint.extras.unwrap().done), (103, vec![]));
}

#[tokio::test(start_paused = true)]
async fn pc8_23_a_hole_exactly_between_two_fetches_pins_nothing() {
    for per_set in [1, 10] {
        let brokers = brokers();
        append(&brokers, 0, 40, per_set);
        brokers.with(|core| core.remove("t", 0, 10..20)).unwrap();
        let kept = MemoryCheckpoints::new();
        // One set in an answer: the hole is never inside one.
        let settings = with(|settings| settings.stream.partition_bytes = 1);
        let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
        take(&mut spout, 10).await.into_iter().for_each(Delivery::ack);
        let more = take(&mut spout, 1).await;
        spout.handle().commit_now().await.unwrap();
        assert_eq!(kept_of(&kept, 0).offset, 20, "{per_set}");
        drop((more, spout));
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_24_a_log_that_ends_in_markers_is_done_to_its_end() {
    let brokers = brokers();
    append(&brokers, 0, 3, 3);
    let control = RecordSetWriter::new(Magic::V2).base_offset(3).producer(7, 0, -1).transactional().control();
    let mut control = control;
    // Version 0, commit.
    control
        .push(NewRecord { key: Some(&[0, 0, 0, 1]), value: Some(&[0; 6]), ..NewRecord::default() })
        .unwrap();
    brokers.with(|core| core.store("t", 0, &control.finish().unwrap())).unwrap();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    take(&mut spout, 3).await.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(kept_of(&kept, 0).offset, 4);
    assert_eq!(metrics(&spout, 0).await.spout_lag(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn pc8_24_windows_and_offsets_beyond_16_and_32_bits_are_nothing_special() {
    for (start, count, window) in [
        (0, 3, 1),
        (0, 32_768, 32_767),
        (0, 33_000, 32_769),
        ((1 << 31) - 2, 5, 10_000),
        ((1 << 32) - 2, 5, 10_000),
        (i64::MAX / 2, 5, 10_000),
    ] {
        let brokers = brokers();
        brokers.with(|core| core.reset_log("t", 0, start)).unwrap();
        append(&brokers, 0, count, 1_000);
        let kept = MemoryCheckpoints::new();
        let settings = with(|settings| {
            settings.window.records = window;
            settings.commit_interval = Duration::from_millis(10);
        });
        let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
        let first = next(&mut spout).await;
        for offset in 1..(count.min(window as i64)) {
            let delivery = next(&mut spout).await;
            assert_eq!(delivery.offset(), start + offset);
            delivery.ack();
        }
        if count > window as i64 {
            assert!(is_quiet(&mut spout, Duration::from_millis(500)).await || window > 1, "{window}");
        }
        spout.handle().commit_now().await.unwrap();
        let checkpoint = kept_of(&kept, 0);
        assert_eq!(checkpoint.offset, start);
        first.ack();
        while let Ok(delivery) = timeout(Duration::from_secs(1), spout.next()).await {
            delivery.unwrap().unwrap().ack();
        }
        spout.close().await.unwrap();
        assert_eq!(kept_of(&kept, 0).offset, start + count, "from {start}, window {window}");
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_27_a_key_stays_locked_until_its_old_delivery_is_answered_whatever_the_assignment() {
    let brokers = brokers();
    append_keyed(&brokers, 0, 3, 3, |offset| Some(["a", "b", "a"][offset as usize].to_owned()));
    let kept = MemoryCheckpoints::new();
    let spout = builder(&brokers, &kept).await.settings(every_second());
    let mut spout = spout.order(Order::ByKey { null_is_a_key: false }).build().await.unwrap();
    let mut old = take(&mut spout, 2).await;
    assert_eq!(offsets(&old), [0, 1]);
    lose_and_regain(&brokers).await;
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await, "both keys are still at work elsewhere");
    drop(old.pop());
    let again = next(&mut spout).await;
    assert_eq!(again.offset(), 1);
    again.ack();
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    old.pop().unwrap().ack();
    for offset in [0, 2] {
        let delivery = next(&mut spout).await;
        assert_eq!(delivery.offset(), offset);
        delivery.ack();
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_28_what_is_done_before_a_loss_is_taken_in_first_and_only_the_rest_repeats() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut settings = every_second();
    settings.commit_interval = Duration::from_secs(3600);
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut all = take(&mut spout, 10).await;
    let held = all.remove(5);
    let gone = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    brokers.inject(Fault::error(gone).on(ApiKey::METADATA).at_topic("t"));
    // The last moment before it is let go: within its drain.
    sleep(Duration::from_millis(3_500)).await;
    all.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(10)).await;
    brokers.with(|core| core.clear_faults());
    let again = next(&mut spout).await;
    assert_eq!(again.offset(), 5);
    assert!(is_quiet(&mut spout, Duration::from_secs(10)).await, "only what was unfinished comes again");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn pc8_30_one_bad_record_of_a_batch_repeats_alone() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut batch = spout.next_batch(100).await.unwrap().unwrap();
    assert_eq!(batch.len(), 10);
    batch.fail(3, "no");
    batch.release(6);
    batch.ack_all();
    let mut again = offsets(&take(&mut spout, 2).await);
    again.sort_unstable();
    assert_eq!(again, [3, 6]);
}

#[tokio::test(start_paused = true)]
async fn pc8_31_a_record_is_kept_once_however_often_it_fails() {
    let brokers = brokers();
    append(&brokers, 0, 2, 2);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.retry(RetryMode::FailedSet).build().await.unwrap();
    let held = next(&mut spout).await;
    let mut most = 0;
    for turn in 0..20_000 {
        let delivery = next(&mut spout).await;
        assert_eq!(delivery.offset(), 1);
        delivery.fail("no");
        if turn % 1_000 == 0 {
            let seen = metrics(&spout, 0).await;
            assert!(seen.parked <= 1 && seen.window_records <= 2, "{seen:?}");
            most = most.max(seen.parked_bytes);
        }
    }
    assert!(most < 1_000, "{most} bytes for one small record");
    held.ack();
}

#[tokio::test(start_paused = true)]
async fn pc8_33_a_close_ends_within_its_deadline_whatever_does_not_answer() {
    for what in ["a delivery", "the store", "the brokers", "all of them"] {
        let brokers = brokers();
        append(&brokers, 0, 10, 10);
        let kept = MemoryCheckpoints::new();
        let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
        let mut held = take(&mut spout, 10).await;
        held.drain(..5).for_each(Delivery::ack);
        if what != "a delivery" && what != "all of them" {
            held.drain(..).for_each(Delivery::ack);
        }
        if what == "the store" || what == "all of them" {
            kept.set_delay(Duration::from_secs(100_000));
        }
        if what == "the brokers" || what == "all of them" {
            for node in 1..=3 {
                brokers.with(|core| core.freeze_broker(node, true));
            }
        }
        let began = tokio::time::Instant::now();
        let closed = timeout(Duration::from_secs(1_000), spout.close_within(Duration::from_secs(10))).await;
        let report = closed.unwrap_or_else(|_| panic!("{what} holds up the close"));
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", began.elapsed());
        if what == "the store" {
            let failed = report.as_ref().unwrap().failed.iter().map(|(partition, _)| partition.partition);
            assert!(failed.eq(0..3), "{report:?}");
        }
        if what == "a delivery" {
            let report = report.unwrap();
            assert_eq!(report.unfinished, [(TopicPartition::new("t", 0), 5)]);
            assert_eq!(kept_of(&kept, 0).offset, 5);
        }
        drop(held);
    }
}

/// An earlier commit is under way when it closes, and answered while it waits: the last position follows.
#[tokio::test(start_paused = true)]
async fn pc8_33_a_close_commits_what_came_while_an_earlier_commit_was_under_way() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    append(&brokers, 1, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let held = take(&mut spout, 20).await;
    sleep(Duration::from_millis(100)).await;
    kept.set_delay(Duration::from_millis(3_500));
    let (early, late): (Vec<_>, Vec<_>) = held.into_iter().partition(|one| one.offset() < 5);
    early.into_iter().for_each(Delivery::ack);
    let handle = spout.handle();
    let asked = tokio::spawn(async move { handle.commit_now().await });
    sleep(Duration::from_millis(500)).await;
    late.into_iter().for_each(Delivery::ack);
    let handle = spout.handle();
    let closing = tokio::spawn(async move { handle.close_within(Duration::from_secs(10)).await });
    sleep(Duration::from_millis(500)).await;
    kept.set_delay(Duration::ZERO);
    let report = closing.await.unwrap().unwrap();
    assert!(report.failed.is_empty(), "{report:?}");
    assert!(asked.await.unwrap().is_ok());
    assert_eq!((kept_of(&kept, 0).offset, kept_of(&kept, 1).offset), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn pc8_34_many_losses_and_gains_with_work_under_way_end_well() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    let mut held: Vec<Delivery> = Vec::new();
    let mut acked = std::collections::BTreeSet::new();
    let gone = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    for turn in 0..40_u64 {
        append(&brokers, (turn % 3) as i32, 5, 2);
        if turn % 3 == 1 {
            brokers.inject(Fault::error(gone).on(ApiKey::METADATA).at_topic("t"));
        }
        sleep(Duration::from_millis(500 + turn * 977 % 6_000)).await;
        brokers.with(|core| core.clear_faults());
        while let Ok(delivery) = timeout(Duration::from_millis(turn * 131 % 2_000), spout.next()).await {
            held.push(delivery.unwrap().unwrap());
        }
        let keep = held.len() / 3;
        for delivery in held.drain(keep..) {
            if delivery.offset() % 11 == 10 {
                delivery.fail("no");
            } else {
                acked.insert((delivery.partition(), delivery.offset()));
                delivery.ack();
            }
        }
    }
    drop(held);
    while let Ok(delivery) = timeout(Duration::from_secs(100), spout.next()).await {
        let delivery = delivery.unwrap().unwrap();
        acked.insert((delivery.partition(), delivery.offset()));
        delivery.ack();
    }
    spout.close().await.unwrap();
    for partition in 0..3 {
        let end = brokers.with(|core| core.offsets("t", partition)).unwrap().end;
        assert_eq!(kept_of(&kept, partition).offset, end);
        assert_eq!(acked.iter().filter(|(of, _)| *of == partition).count() as i64, end, "each was acked");
    }
}

/// What the library says while records fail in every way.
struct Ear(Arc<Mutex<Vec<String>>>, AtomicU64);

impl tracing::Subscriber for Ear {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Words(String);
        impl tracing::field::Visit for Words {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut words = Words(event.metadata().level().to_string());
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn pc8_35_what_is_logged_holds_no_keys_and_values_and_is_no_flood() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let _guard = tracing::subscriber::set_default(Ear(Arc::clone(&lines), AtomicU64::new(0)));
    let brokers = brokers();
    brokers.create_topic("dead", 1);
    let mut set = RecordSetWriter::new(Magic::V2);
    for _ in 0..200 {
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"hidden-h", Some(b"hidden-v"))];
        let record =
            NewRecord { key: Some(b"hidden-key"), headers: &headers, ..NewRecord::value(b"hidden-value") };
        set.push(record).unwrap();
    }
    brokers.append("t", 0, &set.finish().unwrap()).unwrap();
    let kept = MemoryCheckpoints::new();
    let refuse = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&refuse);
    let mut letters = DeadLetters::to("dead");
    letters.break_at = 1.0;
    let spout = builder(&brokers, &kept).await.retry(RetryMode::FailedSet);
    let mut spout = spout.retry_limit(1, OnExhausted::DeadLetter(letters)).build().await.unwrap();
    kept.on_commit(move |_| match refuses.load(Ordering::Relaxed) {
        true => CommitFate::Refused(failing()),
        false => CommitFate::Kept,
    });
    brokers.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::PRODUCE).times(3));
    while let Ok(delivery) = timeout(Duration::from_secs(60), spout.next()).await {
        let delivery = delivery.unwrap().unwrap();
        match delivery.offset() % 3 {
            0 => delivery.fail("no"),
            1 if delivery.attempt() == 1 => drop(delivery),
            _ => delivery.ack(),
        }
    }
    refuse.store(false, Ordering::Relaxed);
    spout.close().await.unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.starts_with("WARN")), "something is said");
    let loud = lines.iter().filter(|line| line.starts_with("WARN") || line.starts_with("ERROR")).count();
    assert!(loud < 200, "{loud} lines for 200 records: {:?}", &lines[..20]);
    for line in lines.iter() {
        assert!(!line.contains("hidden") && !line.contains("104, 105, 100, 100"), "{line}");
    }
}
