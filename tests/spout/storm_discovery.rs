//! What went wrong in storm-kafka: discovery and connections. Rows of `storm-kafka.md` §4.2, those
//! about ZooKeeper left out.

use downspout::checkpoint::FileCheckpoints;
use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::Fault;

use super::*;

fn every_second() -> SpoutSettings {
    let mut settings = SpoutSettings::default();
    settings.refresh_interval = Duration::from_secs(1);
    settings
}

fn partitions(spout: &Spout) -> Vec<String> {
    spout.handle().metrics().partitions.keys().map(TopicPartition::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn storm_1682_storm_380_a_partition_without_a_leader_stays_assigned_and_is_waited_for() {
    let brokers = brokers();
    for partition in 0..3 {
        append(&brokers, partition, 1, 1);
    }
    brokers.with(|core| core.set_leader("t", 1, None)).unwrap();
    let kept = MemoryCheckpoints::new();
    // Two tasks: what the leaderless one would shift is the other's.
    kept.set("test", &TopicPartition::new("t", 1), Some(&Checkpoint::at(0)));
    let mut settings = every_second();
    settings.assignment = AssignmentOrder::Concatenated;
    settings.task_index = 1;
    settings.total_tasks = 2;
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(partitions(&spout), ["t/1"]);
    brokers.with(|core| core.set_leader("t", 1, Some(2))).unwrap();
    let delivery = next(&mut spout).await;
    assert_eq!((delivery.partition(), delivery.offset()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn storm_1065_a_leaderless_partition_without_a_checkpoint_keeps_no_other_from_starting() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = MemoryCheckpoints::new();
    let mut settings = every_second();
    settings.commit_interval = Duration::from_millis(500);
    let mut spout =
        builder(&brokers, &kept).await.topics_matching(TopicPattern::new("u", |name| name == "u"));
    spout = spout.settings(settings);
    let mut spout = spout.build().await.unwrap();
    next(&mut spout).await.ack();
    // A topic comes, of which one partition has no leader yet.
    brokers.create_topic("u", 2);
    brokers.with(|core| core.set_leader("u", 1, None)).unwrap();
    sleep(Duration::from_secs(100)).await;
    assert!(partitions(&spout).contains(&"u/0".to_owned()), "{:?}", partitions(&spout));
    brokers.with(|core| core.set_leader("u", 1, Some(1))).unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(partitions(&spout), ["t/0", "t/1", "t/2", "u/0", "u/1"]);
}

#[tokio::test(start_paused = true)]
async fn storm_522_a_broker_that_comes_and_goes_is_no_error_of_anybodys() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    for _ in 0..5 {
        for node in [2, 3] {
            brokers.with(|core| core.stop_broker(node));
            sleep(Duration::from_secs(2)).await;
            brokers.with(|core| core.start_broker(node));
            sleep(Duration::from_secs(2)).await;
        }
    }
    for partition in 0..3 {
        append(&brokers, partition, 1, 1);
    }
    let all = take(&mut spout, 3).await;
    assert_eq!(all.len(), 3);
    all.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn storm_933_deactivating_a_spout_with_nothing_to_do_is_nothing() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.assignment = AssignmentOrder::Concatenated;
    // Three partitions: the fourth task has none.
    settings.task_index = 3;
    settings.total_tasks = 4;
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let handle = spout.handle();
    handle.deactivate();
    let report = handle.commit_now().await.unwrap();
    assert!(report.committed.is_empty() && report.failed.is_empty());
    handle.activate();
    assert!(is_quiet(&mut spout, Duration::from_secs(10)).await);
    let report = spout.close().await.unwrap();
    assert!(report.committed.is_empty() && report.failed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn storm_692_where_positions_are_kept_is_never_left_to_chance() {
    let brokers = brokers();
    let why = Spout::builder(cluster(&brokers).await).topic("t").id("test").build().await.unwrap_err();
    assert!(why.to_string().contains(".checkpoints("), "{why}");
}

#[tokio::test(start_paused = true)]
async fn storm_817_topics_that_match_are_picked_up_and_those_that_vanish_are_let_go() {
    let brokers = brokers();
    brokers.create_topic("clicks-a", 1);
    let kept = MemoryCheckpoints::new();
    let pattern = TopicPattern::new("^clicks-", |name| name.starts_with("clicks-"));
    let mut spout = Spout::builder(cluster(&brokers).await)
        .topics_matching(pattern)
        .id("test")
        .checkpoints(kept.clone())
        .settings(every_second())
        .build()
        .await
        .unwrap();
    let produce = |topic: &str| {
        let mut set = RecordSetWriter::new(Magic::V2);
        set.push(NewRecord::value(b"v")).unwrap();
        brokers.append(topic, 0, &set.finish().unwrap()).unwrap();
    };
    produce("clicks-a");
    next(&mut spout).await.ack();
    brokers.create_topic("clicks-b", 1);
    brokers.create_topic("other", 1);
    produce("clicks-b");
    produce("other");
    let delivery = next(&mut spout).await;
    assert_eq!(delivery.topic(), "clicks-b");
    delivery.ack();
    brokers.with(|core| core.delete_topic("clicks-a"));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(partitions(&spout), ["clicks-b/0"]);
    let kept_at = kept.checkpoint("test", &TopicPartition::new("clicks-a", 0)).unwrap();
    assert_eq!(kept_at.offset, 1, "its position is kept");
    brokers.with(|core| core.add_partitions("clicks-b", 3)).unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(partitions(&spout), ["clicks-b/0", "clicks-b/1", "clicks-b/2"]);
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_comes_back_while_its_last_records_are_out_is_read_again() {
    let brokers = brokers();
    brokers.create_topic("u", 1);
    let kept = MemoryCheckpoints::new();
    let mut settings = every_second();
    settings.drain_timeout = Duration::from_secs(60);
    let pattern = TopicPattern::new("u", |name| name == "u");
    let mut spout =
        builder(&brokers, &kept).await.topics_matching(pattern).settings(settings).build().await.unwrap();
    let mut set = RecordSetWriter::new(Magic::V2);
    set.push(NewRecord::value(b"v")).unwrap();
    let set = set.finish().unwrap();
    brokers.append("u", 0, &set).unwrap();
    let held = next(&mut spout).await;
    brokers.with(|core| core.delete_topic("u"));
    // Lost at the third look without it; its record is still out.
    sleep(Duration::from_secs(6)).await;
    brokers.create_topic("u", 1);
    brokers.append("u", 0, &set).unwrap();
    sleep(Duration::from_secs(10)).await;
    held.ack();
    let again = next(&mut spout).await;
    assert_eq!((again.topic(), again.offset()), ("u", 0));
    again.ack();
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn storm_2440_an_outage_of_all_brokers_ends_without_a_restart() {
    let brokers = brokers();
    append(&brokers, 0, 2, 1);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    let mut all = take(&mut spout, 2).await;
    for node in 1..=3 {
        brokers.with(|core| core.stop_broker(node));
    }
    all.pop().unwrap().fail("no");
    assert!(is_quiet(&mut spout, Duration::from_millis(50)).await);
    // What is in memory is retried all the same.
    next(&mut spout).await.ack();
    sleep(Duration::from_secs(600)).await;
    for node in 1..=3 {
        brokers.with(|core| core.start_broker(node));
    }
    append(&brokers, 0, 1, 1);
    let delivery = next(&mut spout).await;
    assert_eq!(delivery.offset(), 2);
    delivery.ack();
    all.pop().unwrap().ack();
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 3);
}

#[tokio::test(start_paused = true)]
async fn storm_2713_every_bootstrap_server_is_tried() {
    let brokers = brokers();
    append(&brokers, 2, 1, 1);
    brokers.with(|core| core.stop_broker(1));
    let cluster = Cluster::builder(brokers.addrs()).connector(brokers.connector()).connect().await.unwrap();
    let kept = MemoryCheckpoints::new();
    let mut spout = Spout::builder(cluster).topic("t").id("test").checkpoints(kept).build().await.unwrap();
    assert_eq!(next(&mut spout).await.partition(), 2);
}

#[tokio::test(start_paused = true)]
async fn storm_1027_reading_metrics_asks_nobody() {
    let brokers = brokers();
    append(&brokers, 0, 5, 5);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    next(&mut spout).await.ack();
    // No task runs in between.
    let asked = brokers.with(|core| core.requests().count());
    let handle = spout.handle();
    for _ in 0..10_000 {
        let metrics = handle.metrics();
        assert_eq!(metrics.partitions.len(), 3);
        drop((metrics.kafka_offset(), metrics.kafka_partition(), metrics.samples()));
    }
    assert_eq!(brokers.with(|core| core.requests().count()), asked);
    sleep(Duration::from_secs(3)).await;
    let offsets = handle.metrics().kafka_offset();
    assert_eq!(offsets["t/partition_0/latestTimeOffset"], 5);
    assert_eq!(offsets["t/partition_0/latestCompletedOffset"], 1);
    assert_eq!(offsets["t/partition_0/spoutLag"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn storm_2019_answers_from_many_threads_at_once_are_all_counted() {
    let brokers = EmbeddedBroker::builder().release(Release::V4_4).topic("t", 3).in_memory();
    for partition in 0..3 {
        append(&brokers, partition, 2_000, 50);
    }
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.retry = RetryMode::FailedSet;
    let spout = builder(&brokers, &kept).await.settings(settings).build().await;
    let mut spout = spout.unwrap();
    let (answers, mut left) = (Arc::new(std::sync::Mutex::new(Vec::new())), 6_000);
    let mut threads = Vec::new();
    while left > 0 {
        let delivery = timeout(Duration::from_secs(60), spout.next()).await.unwrap().unwrap().unwrap();
        let answers = Arc::clone(&answers);
        let fails = delivery.attempt() == 1 && delivery.offset() % 7 == 0;
        left -= i32::from(!fails);
        threads.push(tokio::task::spawn_blocking(move || {
            match fails {
                true => delivery.fail("no"),
                false => {
                    answers.lock().unwrap().push((delivery.partition(), delivery.offset()));
                    delivery.ack();
                }
            };
        }));
    }
    for thread in threads {
        thread.await.unwrap();
    }
    spout.close().await.unwrap();
    for partition in 0..3 {
        assert_eq!(kept_of(&kept, partition).offset, 2_000);
    }
    let mut answered = answers.lock().unwrap().clone();
    answered.sort_unstable();
    answered.dedup();
    assert_eq!(answered.len(), 6_000);
}

#[tokio::test(start_paused = true)]
async fn storm_603_settings_that_do_not_fit_say_what_to_do() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let wrong: [fn(&mut SpoutSettings); 6] = [
        |settings| settings.task_index = 1,
        |settings| settings.retry_limit = Some(3),
        |settings| settings.window.records = 0,
        |settings| settings.commit_interval = Duration::ZERO,
        |settings| settings.stream.max_wait = Duration::from_secs(3600),
        |settings| settings.stream.partition_bytes = 0,
    ];
    for change in wrong {
        let mut settings = SpoutSettings::default();
        change(&mut settings);
        let why = builder(&brokers, &kept).await.settings(settings).build().await.unwrap_err();
        assert!(matches!(why.kind(), downspout::ErrorKind::Config(_)), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn storm_391_a_topic_that_is_not_there_yet_is_waited_for_where_others_are() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = MemoryCheckpoints::new();
    let why = Spout::builder(cluster(&brokers).await)
        .topic("late")
        .id("test")
        .checkpoints(kept.clone())
        .build()
        .await
        .unwrap_err();
    assert!(matches!(why.kind(), downspout::ErrorKind::UnknownTopic { .. }), "{why}");
    let mut spout =
        builder(&brokers, &kept).await.topic("late").settings(every_second()).build().await.unwrap();
    next(&mut spout).await.ack();
    brokers.create_topic("late", 1);
    let mut set = RecordSetWriter::new(Magic::V2);
    set.push(NewRecord::value(b"v")).unwrap();
    brokers.append("late", 0, &set.finish().unwrap()).unwrap();
    assert_eq!(next(&mut spout).await.topic(), "late");
}

#[tokio::test(start_paused = true)]
async fn sk39_with_fixed_brokers_a_moved_leader_is_noticed() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for node in [2, 3, 1, 2] {
        brokers.with(|core| core.set_leader("t", 0, Some(node))).unwrap();
        append(&brokers, 0, 1, 1);
        next(&mut spout).await.ack();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_topic_is_not_told_about_for_a_while_is_no_loss_of_it() {
    let brokers = brokers();
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.settings(every_second()).build().await.unwrap();
    sleep(Duration::from_secs(2)).await;
    let before = partitions(&spout);
    assert_eq!(before.len(), 3);
    for code in [ErrorCode::LEADER_NOT_AVAILABLE, ErrorCode::TOPIC_AUTHORIZATION_FAILED] {
        brokers.inject(Fault::error(code).on(ApiKey::METADATA).at_topic("t"));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(partitions(&spout), before, "{code}");
        brokers.with(|core| core.clear_faults());
        sleep(Duration::from_secs(5)).await;
    }
    append(&brokers, 0, 1, 1);
    next(&mut spout).await.ack();
}

#[tokio::test]
async fn storm_2228_two_spouts_with_one_id_on_one_store_are_one_too_many() {
    let brokers = brokers();
    let dir = tempfile::tempdir().unwrap();
    let build = || async {
        let spout = Spout::builder(cluster(&brokers).await).topic("t").id("test");
        spout.checkpoints(FileCheckpoints::new(dir.path())).build().await
    };
    let first = build().await.unwrap();
    let why = build().await.unwrap_err();
    assert!(why.to_string().contains("another process"), "{why}");
    first.close().await.unwrap();
    build().await.unwrap().close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_topic_is_never_one_of_those_that_are_read() {
    let brokers = brokers();
    brokers.create_topic("t-dead", 1);
    append(&brokers, 0, 3, 3);
    let kept = MemoryCheckpoints::new();
    let dead = || OnExhausted::DeadLetter(DeadLetters::to("t-dead"));
    let all = TopicPattern::new("^t", |name| name.starts_with('t'));
    let pattern = builder(&brokers, &kept).await.topics_matching(all);
    let mut settings = every_second();
    settings.retry = RetryMode::FailedSet;
    let mut spout = pattern.settings(settings).retry_limit(1, dead()).build().await.unwrap();
    for _ in 0..6 {
        next(&mut spout).await.fail("no");
    }
    assert!(is_quiet(&mut spout, Duration::from_secs(30)).await);
    assert_eq!(partitions(&spout), ["t/0", "t/1", "t/2"]);
    spout.close().await.unwrap();
    assert_eq!(brokers.with(|core| core.offsets("t-dead", 0)).unwrap().end, 3);
    let named = builder(&brokers, &kept).await.topic("t-dead").retry_limit(1, dead());
    let why = named.build().await.unwrap_err().to_string();
    assert!(why.contains("round in circles") && why.contains("t-dead"), "{why}");
}
