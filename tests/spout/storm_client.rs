//! What went wrong in storm-kafka-client. Rows of `storm-kafka.md` §4.4, Trident left out.

use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::Fault;

use super::*;

fn with(change: impl FnOnce(&mut SpoutSettings)) -> SpoutSettings {
    let mut settings = SpoutSettings::default();
    settings.retry = RetryMode::Backoff(Backoff {
        first: Duration::from_secs(1),
        multiplier: 1.0,
        longest: Duration::from_secs(1),
        jitter: 0.0,
    });
    change(&mut settings);
    settings
}

async fn metrics(spout: &Spout, partition: i32) -> PartitionMetrics {
    sleep(Duration::from_secs(1)).await;
    spout.handle().metrics().partitions[&TopicPartition::new("t", partition)].clone()
}

#[tokio::test(start_paused = true)]
async fn storm_2077_storm_2087_storm_2229_what_failed_comes_again_and_nothing_else() {
    let brokers = brokers();
    append(&brokers, 0, 100, 7);
    let kept = MemoryCheckpoints::new();
    for parked_bytes in [0, 1 << 20] {
        let settings = with(|settings| settings.parked.bytes = parked_bytes);
        let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
        let mut failed = Vec::new();
        for delivery in take(&mut spout, 100).await {
            match delivery.offset() {
                offset @ (3 | 50 | 51 | 99) => {
                    failed.push(offset);
                    delivery.fail("no");
                }
                _ => delivery.ack(),
            }
        }
        let mut again = offsets(&take(&mut spout, 4).await);
        again.sort_unstable();
        assert_eq!(again, failed, "{parked_bytes}");
        crash(spout).await;
        kept.set("test", &TopicPartition::new("t", 0), None);
    }
}

#[tokio::test(start_paused = true)]
async fn storm_2607_what_is_committed_is_the_next_offset_and_a_restart_repeats_nothing() {
    let brokers = brokers();
    append(&brokers, 0, 5, 5);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    take(&mut spout, 5).await.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 5);
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    assert!(is_quiet(&mut spout, Duration::from_secs(10)).await);
    append(&brokers, 0, 1, 1);
    assert_eq!(next(&mut spout).await.offset(), 5);
}

#[tokio::test(start_paused = true)]
async fn storm_2505_storm_2639_storm_3393_t3_gaps_are_crossed_and_do_not_count() {
    let brokers = brokers();
    append(&brokers, 0, 40, 1);
    brokers.with(|core| core.remove("t", 0, 5..25)).unwrap();
    brokers.with(|core| core.remove("t", 0, 0..1)).unwrap();
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| settings.window.records = 20);
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let all = take(&mut spout, 19).await;
    assert_eq!(offsets(&all), (1..5).chain(25..40).collect::<Vec<_>>());
    let before = metrics(&spout, 0).await;
    assert_eq!((before.window_records, before.messages), (19, 19));
    all.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 40);
}

#[tokio::test(start_paused = true)]
async fn storm_2343_storm_2549_storm_2430_storm_2851_t2_more_failures_than_the_window_are_retried_all_the_same()
 {
    let brokers = brokers();
    append(&brokers, 0, 60, 10);
    append(&brokers, 1, 60, 10);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| {
        settings.window.records = 10;
        settings.parked = Limits { records: 20, bytes: 0 };
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut others = 0;
    let mut failures = std::collections::BTreeMap::<i64, u32>::new();
    // All of partition 0 fail twice; they come again, and partition 1 goes on meanwhile.
    let mut done = 0;
    while done < 60 || others < 60 {
        let delivery = next(&mut spout).await;
        if delivery.partition() == 1 {
            others += 1;
            delivery.ack();
            continue;
        }
        let failed = failures.entry(delivery.offset()).or_default();
        assert_eq!(delivery.attempt(), *failed + 1);
        match *failed {
            2 => {
                done += 1;
                delivery.ack();
            }
            _ => {
                *failed += 1;
                delivery.fail("no");
            }
        }
    }
    spout.close().await.unwrap();
    assert_eq!((kept_of(&kept, 0).offset, kept_of(&kept, 1).offset), (60, 60));
}

#[tokio::test(start_paused = true)]
async fn storm_2104_an_answer_after_the_partition_went_elsewhere_is_counted_and_nothing_more() {
    let brokers = brokers();
    brokers.create_topic("u", 1);
    let mut set = RecordSetWriter::new(Magic::V2);
    for _ in 0..3 {
        set.push(NewRecord::value(b"v")).unwrap();
    }
    brokers.append("u", 0, &set.finish().unwrap()).unwrap();
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| {
        settings.refresh_interval = Duration::from_secs(1);
        settings.drain_timeout = Duration::from_secs(2);
    });
    let mut spout = builder(&brokers, &kept).await.topic("u").settings(settings).build().await.unwrap();
    let mut all = take(&mut spout, 3).await;
    brokers.with(|core| core.delete_topic("u"));
    sleep(Duration::from_secs(20)).await;
    assert!(!spout.handle().metrics().partitions.contains_key(&TopicPartition::new("u", 0)));
    all.pop().unwrap().ack();
    all.pop().unwrap().fail("late");
    drop(all);
    append(&brokers, 0, 1, 1);
    assert_eq!(next(&mut spout).await.topic(), "t");
    let kept_at = kept.checkpoint("test", &TopicPartition::new("u", 0)).unwrap().offset;
    assert_eq!(kept_at, 0);
}

#[tokio::test(start_paused = true)]
async fn storm_2315_an_ack_at_once_is_not_too_early() {
    let brokers = brokers();
    append(&brokers, 0, 1_000, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for _ in 0..1_000 {
        next(&mut spout).await.ack();
    }
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 1_000);
}

#[tokio::test(start_paused = true)]
async fn storm_2666_storm_2869_storm_3301_acks_out_of_order_bring_nothing_again() {
    let brokers = brokers();
    append(&brokers, 0, 500, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut all = take(&mut spout, 500).await;
    let first = all.remove(0);
    all.into_iter().rev().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 0);
    first.ack();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 500);
    append(&brokers, 0, 1, 1);
    assert_eq!(next(&mut spout).await.offset(), 500);
}

#[tokio::test(start_paused = true)]
async fn storm_2844_a_checkpoint_counts_more_than_where_to_start() {
    let brokers = brokers();
    append(&brokers, 0, 20, 5);
    for (start, first) in [(StartOffset::Earliest, 12), (StartOffset::At(3), 12), (StartOffset::Latest, 12)] {
        let kept = MemoryCheckpoints::new();
        kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(12)));
        let mut spout = builder(&brokers, &kept).await.start(start).build().await.unwrap();
        let delivery = next(&mut spout).await;
        assert_eq!(delivery.offset(), first, "{start:?}");
        delivery.ack();
        spout.close().await.unwrap();
        assert_eq!(kept_of(&kept, 0).offset, 13, "{start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn storm_2409_storm_3059_storm_3043_filtered_records_are_done() {
    let brokers = brokers();
    append(&brokers, 0, 30, 4);
    struct Tens;
    impl scheme::Scheme for Tens {
        type Tuple = i64;
        fn read(
            &self,
            source: &scheme::Source<'_>,
            tuples: &mut Vec<i64>,
        ) -> Result<(), scheme::SchemeError> {
            let offset = source.record.offset();
            tuples.extend((offset % 10 == 0).then_some(offset));
            Ok(())
        }
    }
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap().tuples(Tens);
    for wanted in [0, 10, 20] {
        let tuple = spout.next().await.unwrap().unwrap();
        assert_eq!(*tuple.value(), wanted);
        tuple.ack();
    }
    // The rest is looked at, and filtered, on the way to nothing.
    assert!(timeout(Duration::from_secs(5), spout.next()).await.is_err());
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 30);
}

#[tokio::test(start_paused = true)]
async fn storm_9078_what_cannot_be_read_goes_by_its_policy() {
    for (policy, then) in [
        (OnPoison::Stop, None),
        (OnPoison::Skip, None),
        (OnPoison::GiveUp, Some(OnExhausted::Skip)),
        (OnPoison::GiveUp, Some(OnExhausted::DeadLetter(DeadLetters::to("dead")))),
    ] {
        let brokers = brokers();
        brokers.create_topic("dead", 1);
        let mut set = RecordSetWriter::new(Magic::V2);
        for value in [&b"1"[..], b"x", b"3"] {
            set.push(NewRecord::value(value)).unwrap();
        }
        brokers.append("t", 0, &set.finish().unwrap()).unwrap();
        append(&brokers, 1, 1, 1);
        let kept = MemoryCheckpoints::new();
        let dead = matches!(then, Some(OnExhausted::DeadLetter(_)));
        let settings = with(|settings| {
            settings.on_poison = policy;
            settings.on_exhausted = then;
        });
        let spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
        let handle = spout.handle();
        let mut numbers = spout.tuples(scheme::Json::<u8>::new());
        let mut seen = Vec::new();
        while let Ok(tuple) = timeout(Duration::from_secs(10), numbers.next()).await {
            let tuple = tuple.unwrap().unwrap();
            seen.push((tuple.partition(), *tuple.value()));
            tuple.ack();
        }
        seen.sort_unstable();
        let stopped = handle.health().stopped;
        handle.commit_now().await.unwrap();
        match policy {
            OnPoison::Stop => {
                assert!(seen.contains(&(1, 0)), "others go on: {seen:?}");
                assert!(stopped[&TopicPartition::new("t", 0)].contains("offset 1"), "{stopped:?}");
                assert_eq!(kept_of(&kept, 0).offset, 1);
            }
            _ => {
                assert_eq!(seen, [(0, 1), (0, 3), (1, 0)]);
                assert!(stopped.is_empty());
                assert_eq!(kept_of(&kept, 0).offset, 3);
            }
        }
        let letters = brokers.with(|core| core.offsets("dead", 0)).unwrap().end;
        assert_eq!(letters, i64::from(dead));
    }
}

#[tokio::test(start_paused = true)]
async fn storm_2850_storm_2625_a_lost_partition_is_committed_and_takes_its_counts_along() {
    let brokers = brokers();
    brokers.create_topic("u", 1);
    let mut set = RecordSetWriter::new(Magic::V2);
    for _ in 0..10 {
        set.push(NewRecord::value(b"v")).unwrap();
    }
    brokers.append("u", 0, &set.finish().unwrap()).unwrap();
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| {
        settings.refresh_interval = Duration::from_secs(1);
        settings.drain_timeout = Duration::from_secs(1);
        settings.window.records = 10;
        settings.commit_interval = Duration::from_secs(3600);
    });
    let mut spout = builder(&brokers, &kept).await.topic("u").settings(settings).build().await.unwrap();
    let mut held = take(&mut spout, 10).await;
    held.drain(..4).for_each(Delivery::ack);
    brokers.with(|core| core.delete_topic("u"));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(kept.checkpoint("test", &TopicPartition::new("u", 0)).unwrap().offset, 4);
    // The window of the others is theirs alone.
    append(&brokers, 0, 10, 10);
    assert_eq!(take(&mut spout, 10).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn storm_2413_storm_2014_storm_2544_after_the_last_retry_it_is_done_with_and_counted() {
    let brokers = brokers();
    append(&brokers, 0, 3, 3);
    let kept = MemoryCheckpoints::new();
    let settings = with(|_| {});
    let spout = builder(&brokers, &kept).await.settings(settings).retry_limit(3, OnExhausted::Skip);
    let mut spout = spout.build().await.unwrap();
    let mut attempts = Vec::new();
    for delivery in take(&mut spout, 3).await {
        match delivery.offset() {
            1 => {
                attempts.push(delivery.attempt());
                delivery.fail("no");
            }
            _ => delivery.ack(),
        }
    }
    while let Ok(delivery) = timeout(Duration::from_secs(30), spout.next()).await {
        let delivery = delivery.unwrap().unwrap();
        attempts.push(delivery.attempt());
        delivery.fail("no");
    }
    // As in storm-kafka: 1 + 3.
    assert_eq!(attempts, [1, 2, 3, 4]);
    let metrics = metrics(&spout, 0).await;
    assert_eq!((metrics.ineligible, metrics.failed, metrics.acked), (1, 4, 2));
    assert_eq!(kept_of(&kept, 0).offset, 3);
}

#[tokio::test(start_paused = true)]
async fn storm_3082_an_absent_topic_among_others_is_skipped_and_picked_up_later() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| settings.refresh_interval = Duration::from_secs(1));
    let spout = builder(&brokers, &kept).await.topic("absent").settings(settings).build().await;
    let mut spout = spout.unwrap();
    next(&mut spout).await.ack();
    brokers.create_topic("absent", 2);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(spout.handle().metrics().partitions.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn storm_3102_storm_3222_a_record_costs_no_request_and_the_last_no_more_than_the_first() {
    let brokers = brokers();
    append(&brokers, 0, 9_000, 1_000);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let before = brokers.with(|core| core.requests().count());
    let mut held = take(&mut spout, 9_000).await;
    held.reverse();
    held.into_iter().for_each(Delivery::ack);
    let asked = brokers.with(|core| core.requests().count()) - before;
    assert!(asked < 100, "{asked} requests for 9,000 records");
}

#[tokio::test(start_paused = true)]
async fn storm_3529_errors_that_pass_kill_nothing() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for code in [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::LEADER_NOT_AVAILABLE,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::REPLICA_NOT_AVAILABLE,
        ErrorCode::KAFKA_STORAGE_ERROR,
        ErrorCode::FENCED_LEADER_EPOCH,
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        ErrorCode::UNKNOWN_SERVER_ERROR,
    ] {
        brokers.inject(Fault::error(code).on(ApiKey::FETCH).times(5));
        append(&brokers, 0, 1, 1);
        let delivery = next(&mut spout).await;
        delivery.ack();
        brokers.with(|core| core.clear_faults());
    }
    assert!(spout.handle().health().stopped.is_empty());
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 9);
}

#[tokio::test(start_paused = true)]
async fn storm_4055_storm_4041_a_lag_that_is_not_known_is_none() {
    let brokers = brokers();
    append(&brokers, 0, 5, 5);
    let kept = MemoryCheckpoints::new();
    let settings = with(|settings| settings.refresh_interval = Duration::from_secs(1));
    let spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let offsets = spout.handle().metrics().kafka_offset();
    assert_eq!(offsets["t/partition_0/spoutLag"], 5);
    // A partition of which nobody has heard yet.
    brokers.with(|core| core.add_partitions("t", 4)).unwrap();
    brokers.with(|core| core.set_leader("t", 3, None)).unwrap();
    sleep(Duration::from_secs(10)).await;
    let offsets = spout.handle().metrics().kafka_offset();
    assert!(!offsets.contains_key("t/partition_3/spoutLag"), "{offsets:?}");
    spout.close().await.unwrap();
}
