//! What went wrong in storm-kafka: tracking offsets, and recovery. Rows of `storm-kafka.md` §4.1.

use downspout::protocol::{ApiKey, ErrorCode};
use downspout::records::Codec;
use downspout::testing::Fault;

use super::*;

fn settings(change: impl FnOnce(&mut SpoutSettings)) -> SpoutSettings {
    let mut settings = SpoutSettings::default();
    change(&mut settings);
    settings
}

/// The metrics of a partition, once the driver has had time to look.
async fn metrics(spout: &Spout, partition: i32) -> PartitionMetrics {
    sleep(Duration::from_secs(1)).await;
    spout.handle().metrics().partitions[&TopicPartition::new("t", partition)].clone()
}

fn retry_after(delay: Duration) -> RetryMode {
    RetryMode::Backoff(Backoff { first: delay, multiplier: 1.0, longest: delay, jitter: 0.0 })
}

/// Failed records are not kept in memory: their retry fetches them again.
fn nothing_parked() -> impl FnOnce(&mut SpoutSettings) {
    |settings| settings.parked = Limits { records: 1_000, bytes: 0 }
}

#[tokio::test(start_paused = true)]
async fn storm_643_o9_a_failed_record_that_is_gone_from_the_log_is_lost_and_new_ones_come() {
    let brokers = brokers();
    append(&brokers, 0, 10, 5);
    let kept = MemoryCheckpoints::new();
    let settings = settings(|settings| {
        nothing_parked()(settings);
        settings.retry = retry_after(Duration::from_secs(30));
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    for delivery in take(&mut spout, 10).await {
        match delivery.offset() {
            2 | 7 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    brokers.with(|core| core.delete_before("t", 0, 5)).unwrap();
    append(&brokers, 0, 3, 3);
    let new = take(&mut spout, 3).await;
    assert_eq!(offsets(&new), [10, 11, 12]);
    new.into_iter().for_each(Delivery::ack);
    let again = next(&mut spout).await;
    assert_eq!((again.offset(), again.attempt()), (7, 2), "what is still there comes again");
    again.ack();
    assert_eq!(metrics(&spout, 0).await.lost, 1);
    let asked = brokers.request_count(ApiKey::FETCH);
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await, "2 is never asked for again");
    assert!(brokers.request_count(ApiKey::FETCH) - asked < 400, "long polls, and no flood");
}

#[tokio::test(start_paused = true)]
async fn storm_1455_a_retry_that_is_out_of_range_moves_nothing_else() {
    let brokers = brokers();
    append(&brokers, 0, 20, 5);
    let kept = MemoryCheckpoints::new();
    let mut spout =
        builder(&brokers, &kept).await.settings(settings(nothing_parked())).build().await.unwrap();
    for delivery in take(&mut spout, 20).await {
        match delivery.offset() {
            1 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    brokers.with(|core| core.delete_before("t", 0, 10)).unwrap();
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await, "nothing that is still there comes twice");
    append(&brokers, 0, 1, 1);
    assert_eq!(next(&mut spout).await.offset(), 20);
}

#[tokio::test(start_paused = true)]
async fn storm_2608_what_was_dropped_holds_no_commit_back() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout =
        builder(&brokers, &kept).await.settings(settings(nothing_parked())).build().await.unwrap();
    for delivery in take(&mut spout, 10).await {
        match delivery.offset() {
            0..=3 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    brokers.with(|core| core.delete_before("t", 0, 10)).unwrap();
    append(&brokers, 0, 1, 1);
    next(&mut spout).await.ack();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(metrics(&spout, 0).await.lost, 4);
    assert_eq!(kept_of(&kept, 0).offset, 11);
    assert_eq!(spout.handle().parked().await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn storm_511_a_position_below_the_log_moves_once_and_floods_nobody() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    let kept = MemoryCheckpoints::new();
    kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(2)));
    brokers.with(|core| core.delete_before("t", 0, 6)).unwrap();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let left = take(&mut spout, 4).await;
    assert_eq!(offsets(&left), [6, 7, 8, 9]);
    left.into_iter().for_each(Delivery::ack);
    assert_eq!(metrics(&spout, 0).await.lost, 4);
    let fetches = brokers.request_count(ApiKey::FETCH);
    let lookups = brokers.request_count(ApiKey::LIST_OFFSETS);
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await);
    assert!(brokers.request_count(ApiKey::FETCH) - fetches < 400, "long polls alone");
    assert!(brokers.request_count(ApiKey::LIST_OFFSETS) - lookups < 100);
}

#[tokio::test(start_paused = true)]
async fn storm_2624_storm_2211_a_topic_made_anew_is_read_from_its_start_and_not_waited_for() {
    let brokers = brokers();
    append(&brokers, 0, 50, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    take(&mut spout, 50).await.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 50);
    brokers.create_topic("t", 3);
    append(&brokers, 0, 3, 3);
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let all = take(&mut spout, 3).await;
    assert_eq!(offsets(&all), [0, 1, 2]);
    all.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 3, "the position went down, for the log is another one");
}

#[tokio::test(start_paused = true)]
async fn storm_2624_a_topic_made_anew_while_it_is_read_goes_on_from_its_start() {
    let brokers = brokers();
    append(&brokers, 0, 50, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut first = take(&mut spout, 50).await;
    let late = first.pop().unwrap();
    first.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    brokers.create_topic("t", 3);
    append(&brokers, 0, 3, 3);
    let all = take(&mut spout, 3).await;
    assert_eq!(offsets(&all), [0, 1, 2]);
    all.into_iter().for_each(Delivery::ack);
    // An answer to a record of the old topic.
    late.fail("old");
    assert!(is_quiet(&mut spout, Duration::from_secs(100)).await);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 3);
}

#[tokio::test(start_paused = true)]
async fn storm_2270_a_position_above_the_end_is_never_a_silent_replay_of_everything() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    append(&brokers, 1, 1, 1);
    let kept = MemoryCheckpoints::new();
    kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(500)));
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let other = next(&mut spout).await;
    assert_eq!((other.partition(), other.offset()), (1, 0), "other partitions go on");
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await);
    let health = spout.handle().health();
    assert!(!health.ready);
    let why = &health.stopped[&TopicPartition::new("t", 0)];
    assert!(why.contains("500") && why.contains("checkpoint set"), "{why}");
    assert_eq!(kept_of(&kept, 0).offset, 500, "nothing is decided for the operator");
}

#[tokio::test(start_paused = true)]
async fn storm_2270_by_policy_a_position_above_the_end_goes_to_the_end() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    let kept = MemoryCheckpoints::new();
    kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(500)));
    let settings = settings(|settings| settings.reset = Some(ResetPolicy::Latest));
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    append(&brokers, 0, 2, 2);
    let all = take(&mut spout, 2).await;
    assert_eq!(offsets(&all), [10, 11]);
    all.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 12);
}

#[tokio::test(start_paused = true)]
async fn storm_1679_after_an_unclean_election_it_goes_on_where_the_logs_part() {
    let brokers = brokers();
    append(&brokers, 0, 20, 1);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut all = take(&mut spout, 20).await;
    let late = all.split_off(15);
    all.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 15);
    brokers.with(|core| core.truncate("t", 0, 12)).unwrap();
    append(&brokers, 0, 4, 1);
    let again = take(&mut spout, 4).await;
    assert_eq!(offsets(&again), [12, 13, 14, 15]);
    again.into_iter().for_each(Delivery::ack);
    late.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 16, "acks of the old log's records count for nothing");
}

/// It stands at the end of the log and has read nothing in this life, so only the store knows the epoch.
#[tokio::test(start_paused = true)]
async fn storm_1679_so_it_does_right_after_a_restart_and_when_the_log_has_grown_past_the_position() {
    let brokers = brokers();
    append(&brokers, 0, 20, 1);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    take(&mut spout, 20).await.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 20);
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    assert!(is_quiet(&mut spout, Duration::from_secs(5)).await);
    brokers.with(|core| {
        core.truncate("t", 0, 12).unwrap();
        let (leader, _) = core.leader("t", 0).unwrap();
        core.set_leader("t", 0, Some(leader.unwrap() % 3 + 1)).unwrap();
    });
    append(&brokers, 0, 18, 1);
    let again = take(&mut spout, 18).await;
    assert_eq!(offsets(&again), (12..30).collect::<Vec<_>>());
    again.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 30);
}

#[tokio::test(start_paused = true)]
async fn storm_2296_storm_2361_a_leader_move_keeps_what_is_out_what_waits_and_the_position() {
    let brokers = brokers();
    append(&brokers, 0, 10, 2);
    let kept = MemoryCheckpoints::new();
    let settings = settings(|settings| settings.retry = retry_after(Duration::from_secs(5)));
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut all = take(&mut spout, 10).await;
    all.remove(3).fail("no");
    let (leader, _) = brokers.with(|core| core.leader("t", 0)).unwrap();
    brokers.with(|core| core.set_leader("t", 0, Some(leader.unwrap() % 3 + 1))).unwrap();
    append(&brokers, 0, 2, 2);
    assert_eq!(offsets(&take(&mut spout, 2).await), [10, 11], "nothing is sent twice");
    let again = next(&mut spout).await;
    assert_eq!((again.offset(), again.attempt()), (3, 2));
    again.ack();
    // Handed out under the old leader.
    all.into_iter().for_each(Delivery::ack);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 10);
}

#[tokio::test(start_paused = true)]
async fn storm_3090_partitions_of_one_number_in_two_topics_are_two() {
    let brokers = brokers();
    brokers.create_topic("u", 1);
    append(&brokers, 0, 4, 4);
    let mut set = RecordSetWriter::new(Magic::V2);
    for _ in 0..9 {
        set.push(NewRecord::value(b"u")).unwrap();
    }
    brokers.append("u", 0, &set.finish().unwrap()).unwrap();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.topic("u").build().await.unwrap();
    for delivery in take(&mut spout, 13).await {
        match (delivery.topic(), delivery.offset()) {
            ("t", 2) => delivery.fail("no"),
            ("u", 7) => drop(delivery),
            _ => delivery.ack(),
        }
    }
    let again = take(&mut spout, 2).await;
    let mut ids: Vec<_> = again.iter().map(|it| (it.topic().to_owned(), it.offset())).collect();
    ids.sort();
    assert_eq!(ids, [("t".to_owned(), 2), ("u".to_owned(), 7)]);
    spout.handle().commit_now().await.unwrap();
    let kept_at = |topic: &str| kept.checkpoint("test", &TopicPartition::new(topic, 0)).unwrap().offset;
    assert_eq!((kept_at("t"), kept_at("u")), (2, 7));
}

#[tokio::test(start_paused = true)]
async fn storm_869_storm_1863_a_record_larger_than_a_fetch_stops_nothing_silently() {
    for release in [Release::V0_8_2, Release::V0_10_0, Release::V2_8] {
        let brokers = Arc::new(EmbeddedBroker::builder().release(release).topic("t", 3).in_memory());
        let mut set = RecordSetWriter::new(Magic::V0);
        for value in [&b"small"[..], &[7; 100_000], b"small"] {
            set.push(NewRecord::value(value)).unwrap();
        }
        brokers.append("t", 0, &set.finish().unwrap()).unwrap();
        let kept = MemoryCheckpoints::new();
        let settings = settings(|settings| settings.stream.partition_bytes = 1_000);
        let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
        let sizes: Vec<_> = take(&mut spout, 3).await.iter().map(|it| it.value().unwrap().len()).collect();
        assert_eq!(sizes, [5, 100_000, 5], "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn storm_2546_a_failed_record_that_was_compacted_away_is_done() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    let kept = MemoryCheckpoints::new();
    let settings = settings(|settings| {
        nothing_parked()(settings);
        settings.retry = retry_after(Duration::from_secs(10));
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    for delivery in take(&mut spout, 10).await {
        match delivery.offset() {
            4 | 6 | 9 => delivery.fail("no"),
            _ => delivery.ack(),
        }
    }
    // The last one of the log too: nothing comes behind it.
    brokers.with(|core| core.remove("t", 0, 4..5)).unwrap();
    brokers.with(|core| core.remove("t", 0, 9..10)).unwrap();
    let again = next(&mut spout).await;
    assert_eq!((again.offset(), again.attempt()), (6, 2));
    again.ack();
    // A minute of empty answers says that there is nothing any more; one of them may be slow storage (KAFKA-15776).
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    assert_eq!(kept_of(&kept, 0).offset, 9);
    assert!(is_quiet(&mut spout, Duration::from_secs(60)).await);
    assert_eq!(kept_of(&kept, 0).offset, 10);
}

#[tokio::test(start_paused = true)]
async fn storm_399_however_far_behind_it_is_nothing_is_passed_over() {
    let brokers = brokers();
    append(&brokers, 0, 150_000, 10_000);
    let kept = MemoryCheckpoints::new();
    kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(0)));
    let mut spout = builder(&brokers, &kept).await.start(StartOffset::Latest).build().await.unwrap();
    for offset in 0..150_000 {
        let delivery = next(&mut spout).await;
        assert_eq!(delivery.offset(), offset);
        delivery.ack();
    }
}

#[tokio::test(start_paused = true)]
async fn storm_238_an_ack_far_ahead_takes_nothing_else_along() {
    let brokers = brokers();
    append(&brokers, 0, 9_000, 100);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut all = take(&mut spout, 9_000).await;
    all.pop().unwrap().ack();
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 0);
    drop(all);
    let again = take(&mut spout, 8_999).await;
    assert_eq!(again.iter().map(Delivery::offset).max(), Some(8_998));
}

#[tokio::test(start_paused = true)]
async fn storm_563_without_a_checkpoint_the_start_decides() {
    for (start, first) in [
        (StartOffset::Earliest, 0),
        (StartOffset::Latest, 10),
        (StartOffset::At(4), 4),
        (StartOffset::Tail(3), 7),
        (StartOffset::Tail(100), 0),
    ] {
        let brokers = brokers();
        append(&brokers, 0, 10, 1);
        let kept = MemoryCheckpoints::new();
        let mut spout = builder(&brokers, &kept).await.start(start).build().await.unwrap();
        append(&brokers, 0, 1, 1);
        assert_eq!(next(&mut spout).await.offset(), first, "{start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn storm_1017_only_another_instances_checkpoint_is_set_aside_and_only_once() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    let kept = MemoryCheckpoints::new();
    let first = |instance: &str| {
        let (brokers, kept, instance) = (Arc::clone(&brokers), kept.clone(), instance.to_owned());
        async move {
            let settings = settings(|settings| {
                settings.ignore_stored_offsets = true;
                settings.instance_id = Some(instance);
            });
            let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
            let delivery = next(&mut spout).await;
            let offset = delivery.offset();
            delivery.ack();
            spout.close().await.unwrap();
            offset
        }
    };
    assert_eq!((first("one").await, first("one").await, first("one").await), (0, 1, 2));
    assert_eq!((first("two").await, first("two").await), (0, 1));
    let unstable = settings(|settings| settings.ignore_stored_offsets = true);
    let why = builder(&brokers, &kept).await.settings(unstable).build().await.unwrap_err();
    assert!(why.to_string().contains("STORM-1017"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn sk16_offset_0_is_a_position_like_any_other() {
    let brokers = brokers();
    append(&brokers, 0, 10, 1);
    let kept = MemoryCheckpoints::new();
    kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(0)));
    let mut spout = builder(&brokers, &kept).await.start(StartOffset::Latest).build().await.unwrap();
    let first = next(&mut spout).await;
    assert_eq!(first.offset(), 0);
    drop(first);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 0);
}

#[tokio::test(start_paused = true)]
async fn storm_352_a_commit_is_written_when_something_changed_and_only_then() {
    let brokers = brokers();
    append(&brokers, 0, 3, 3);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut all = take(&mut spout, 3).await;
    all.remove(0).ack();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 1);
    let written = kept_of(&kept, 0).extras.unwrap().serial;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(kept_of(&kept, 0).extras.unwrap().serial, written, "nothing changed");
    all.remove(0).ack();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(kept_of(&kept, 0).offset, 2);
}

#[tokio::test(start_paused = true)]
async fn storm_810_losing_a_partition_keeps_its_position() {
    let brokers = brokers();
    append(&brokers, 0, 10, 10);
    let kept = MemoryCheckpoints::new();
    let settings = settings(|settings| {
        settings.refresh_interval = Duration::from_secs(1);
        settings.commit_interval = Duration::from_secs(3600);
    });
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut all = take(&mut spout, 10).await;
    let late = all.split_off(6);
    all.into_iter().for_each(Delivery::ack);
    brokers.with(|core| core.delete_topic("t"));
    sleep(Duration::from_secs(10)).await;
    // What is out may still be answered for, until the drain is over.
    late.into_iter().take(2).for_each(Delivery::ack);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(kept_of(&kept, 0).offset, 8);
    assert!(spout.handle().metrics().partitions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn storm_303_inside_a_compressed_set_nothing_below_the_position_comes_and_offsets_are_real() {
    for (release, magic) in [(Release::V0_8_2, Magic::V0), (Release::V0_10_2, Magic::V1)] {
        let brokers = Arc::new(EmbeddedBroker::builder().release(release).topic("t", 3).in_memory());
        let mut set = RecordSetWriter::new(magic).codec(Codec::Gzip);
        for n in 0..10 {
            set.push(NewRecord::value(&[n])).unwrap();
        }
        brokers.append("t", 0, &set.finish().unwrap()).unwrap();
        let kept = MemoryCheckpoints::new();
        kept.set("test", &TopicPartition::new("t", 0), Some(&Checkpoint::at(6)));
        let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
        for delivery in take(&mut spout, 4).await {
            assert_eq!(delivery.value().unwrap(), [delivery.offset() as u8], "{release}");
            match delivery.offset() {
                8 => delivery.fail("no"),
                _ => delivery.ack(),
            }
        }
        let again = next(&mut spout).await;
        assert_eq!((again.offset(), again.value().unwrap()), (8, &[8][..]), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn sk20_rewind_repeats_from_the_failed_record_on_and_the_commit_never_goes_back() {
    let brokers = brokers();
    append(&brokers, 0, 10, 3);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.retry(RetryMode::Rewind).build().await.unwrap();
    let mut all = take(&mut spout, 10).await;
    let late = all.split_off(7);
    let failed = all.remove(4);
    all.into_iter().for_each(Delivery::ack);
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 4);
    failed.fail("no");
    let again = take(&mut spout, 6).await;
    assert_eq!(offsets(&again), [4, 5, 6, 7, 8, 9], "in order, and none of them twice");
    assert_eq!(again[0].attempt(), 2);
    // Handed out before the rewind.
    late.into_iter().for_each(Delivery::ack);
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 4, "their acks count for nothing");
    again.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 10);
}

#[tokio::test(start_paused = true)]
async fn storm_476_a_tombstone_is_a_record_without_a_value_and_through_a_scheme_done() {
    let brokers = brokers();
    let mut set = RecordSetWriter::new(Magic::V2);
    for value in [Some(&b"a"[..]), None, Some(b"b")] {
        set.push(NewRecord { key: Some(b"k"), value, ..NewRecord::default() }).unwrap();
    }
    brokers.append("t", 0, &set.finish().unwrap()).unwrap();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let all = take(&mut spout, 3).await;
    assert_eq!((all[1].key(), all[1].value()), (Some(&b"k"[..]), None));
    crash(spout).await;
    drop(all);
    let spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut texts = spout.tuples(scheme::Utf8);
    for text in ["a", "b"] {
        let tuple = texts.next().await.unwrap().unwrap();
        assert_eq!(tuple.value(), text);
        tuple.ack();
    }
    texts.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 3);
}

#[tokio::test(start_paused = true)]
async fn sk24_a_dead_partition_starves_no_other_and_its_refreshes_are_few() {
    let brokers = brokers();
    for partition in 0..3 {
        append(&brokers, partition, 1_000, 10);
    }
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    next(&mut spout).await.ack();
    let (leader, _) = brokers.with(|core| core.leader("t", 0)).unwrap();
    brokers.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).at_partition("t", 0).on(ApiKey::FETCH));
    let asked = brokers.request_count(ApiKey::METADATA);
    let mut others = 0;
    while others < 1_990 {
        let delivery = next(&mut spout).await;
        others += i32::from(delivery.partition() != 0);
        delivery.ack();
    }
    for _ in 0..60 {
        append(&brokers, 1, 1, 1);
        sleep(Duration::from_secs(1)).await;
    }
    let refreshes = brokers.request_count(ApiKey::METADATA) - asked;
    assert!(refreshes < 200, "{refreshes} in a minute");
    assert!(leader.is_some());
}
