//! Windows, budgets, and what happens at them.

use downspout::protocol::ApiKey;
use downspout::testing::Fault;

use super::*;

#[tokio::test(start_paused = true)]
async fn pc8_26_a_stuck_partition_fills_its_own_window_and_no_other() {
    let brokers = brokers();
    append(&brokers, 0, 500, 10);
    append(&brokers, 1, 500, 10);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.window(20, 1 << 20).build().await.unwrap();
    let mut stuck = Vec::new();
    let mut done = 0;
    while done < 500 {
        let delivery = next(&mut spout).await;
        match delivery.partition() {
            0 => stuck.push(delivery),
            _ => {
                done += 1;
                delivery.ack();
            }
        }
    }
    assert_eq!(offsets(&stuck), (0..20).collect::<Vec<_>>(), "its window, and no more");
    sleep(Duration::from_secs(1)).await;
    let health = spout.handle().health();
    let paused = &health.paused[&TopicPartition::new("t", 0)];
    assert!(paused.contains("window is full") && paused.contains("blocks it is 0"), "{paused}");
    assert!(health.ready, "{health:?}");
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 1).offset, 500);
}

#[tokio::test(start_paused = true)]
async fn one_stuck_record_does_not_stop_what_the_store_keeps_as_done() {
    let brokers = brokers();
    append(&brokers, 0, 2_000, 50);
    let kept = MemoryCheckpoints::new();
    let mut spout = builder(&brokers, &kept).await.window(100, 1 << 20).build().await.unwrap();
    let stuck = next(&mut spout).await;
    for _ in 1..2_000 {
        next(&mut spout).await.ack();
    }
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).extras.unwrap().done, [1..2_000]);
    crash(spout).await;
    let mut spout = builder(&brokers, &kept).await.window(100, 1 << 20).build().await.unwrap();
    let again = next(&mut spout).await;
    assert_eq!(again.offset(), 0);
    assert!(is_quiet(&mut spout, Duration::from_secs(10)).await, "the others were done");
    stuck.ack();
    again.ack();
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 2_000);
}

#[tokio::test(start_paused = true)]
async fn pc8_16_poison_without_a_limit_stops_its_partition_when_the_parked_budget_is_full() {
    let brokers = brokers();
    append(&brokers, 0, 3_000, 100);
    append(&brokers, 1, 3_000, 100);
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.parked.records = 50;
    settings.window.records = 100;
    settings.retry = RetryMode::Backoff(Backoff { first: Duration::from_secs(3_600), ..Backoff::default() });
    if let RetryMode::Backoff(backoff) = &mut settings.retry {
        backoff.longest = Duration::from_secs(3_600);
    }
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let mut healthy = [0, 0];
    while let Ok(delivery) = timeout(Duration::from_secs(5), spout.next()).await {
        let delivery = delivery.unwrap().unwrap();
        let partition = delivery.partition() as usize;
        if partition == 0 && delivery.offset() % 5 == 0 {
            delivery.fail("poison");
        } else {
            healthy[partition] += 1;
            delivery.ack();
        }
    }
    assert_eq!(healthy[1], 3_000, "the other partition is untouched");
    assert!(healthy[0] < 1_000, "{healthy:?}");
    let health = spout.handle().health();
    let paused = &health.paused[&TopicPartition::new("t", 0)];
    assert!(paused.contains("wait for their retry"), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn pc8_16_poison_with_a_limit_costs_the_healthy_ones_nothing() {
    for percent in [1, 5, 20] {
        let brokers = brokers();
        append(&brokers, 0, 5_000, 100);
        let kept = MemoryCheckpoints::new();
        let build = builder(&brokers, &kept).await.retry_limit(2, OnExhausted::Skip);
        let mut spout = build.build().await.unwrap();
        let (mut healthy, mut attempts) = (0, 0);
        let began = tokio::time::Instant::now();
        while healthy < 5_000 - 50 * percent {
            let delivery = next(&mut spout).await;
            if delivery.offset() % 100 < percent {
                attempts += 1;
                delivery.fail("poison");
            } else {
                healthy += 1;
                delivery.ack();
            }
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{percent} %: {:?}", began.elapsed());
        while attempts < 3 * 50 * percent {
            let delivery = next(&mut spout).await;
            attempts += 1;
            delivery.fail("poison");
        }
        let report = spout.close().await.unwrap();
        assert!(report.parked.is_empty());
        assert_eq!(kept_of(&kept, 0).offset, 5_000, "{percent} %");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_beyond_the_parked_bytes_are_fetched_again() {
    let brokers = brokers();
    append(&brokers, 0, 100, 10);
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.parked.bytes = 0;
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    for delivery in take(&mut spout, 100).await {
        match delivery.offset() % 10 {
            0 => delivery.fail("once"),
            _ => delivery.ack(),
        }
    }
    let mut again = take(&mut spout, 10).await;
    again.sort_by_key(Delivery::offset);
    assert_eq!(offsets(&again), (0..100).step_by(10).collect::<Vec<_>>());
    assert!(again.iter().all(|delivery| delivery.value() == Some(delivery.offset().to_string().as_bytes())));
    again.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 100);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_blocks_a_window_of_finished_ones_is_given_up_by_choice() {
    let brokers = brokers();
    append(&brokers, 0, 1_000, 10);
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.window.records = 200;
    settings.compat_storm = true;
    settings.give_up_under_pressure = true;
    settings.on_exhausted = Some(OnExhausted::Skip);
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    let stuck = next(&mut spout).await;
    for _ in 1..1_000 {
        next(&mut spout).await.ack();
    }
    sleep(Duration::from_secs(1)).await;
    spout.handle().commit_now().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 1_000);
    assert_eq!(spout.handle().metrics().partitions[&TopicPartition::new("t", 0)].ineligible, 1);
    stuck.fail("too late");
}

/// The store has no room for what is done beyond it, so the pressure stays while the letter is written.
#[tokio::test(start_paused = true)]
async fn a_record_that_blocks_a_window_is_sent_to_the_dead_letters_once_however_long_that_takes() {
    let brokers = brokers();
    brokers.create_topic("dead", 1);
    append(&brokers, 0, 1_000, 10);
    let kept = MemoryCheckpoints::new();
    let mut settings = SpoutSettings::default();
    settings.window.records = 200;
    settings.compat_storm = true;
    settings.give_up_under_pressure = true;
    settings.on_exhausted = Some(OnExhausted::DeadLetter(DeadLetters::to("dead")));
    let mut spout = builder(&brokers, &kept).await.settings(settings).build().await.unwrap();
    brokers.inject(Fault::delay(Duration::from_secs(10)).on(ApiKey::PRODUCE));
    let stuck = next(&mut spout).await;
    for _ in 1..1_000 {
        next(&mut spout).await.ack();
    }
    sleep(Duration::from_secs(20)).await;
    spout.close().await.unwrap();
    assert_eq!(kept_of(&kept, 0).offset, 1_000);
    assert_eq!(brokers.with(|core| core.offsets("dead", 0)).unwrap().end, 1);
    drop(stuck);
}
