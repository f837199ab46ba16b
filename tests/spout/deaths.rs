//! Processes that die again and again: of a record, or of something else.

use std::collections::BTreeSet;

use downspout::checkpoint::Extras;

use super::*;

/// As if that many processes had died with records out.
async fn after_deaths(brokers: &EmbeddedBroker, partitions: &[i32], deaths: u32) -> MemoryCheckpoints {
    let kept = MemoryCheckpoints::new();
    builder(brokers, &kept).await.build().await.unwrap().close().await.unwrap();
    for partition in partitions {
        let mut checkpoint = kept_of(&kept, *partition);
        // The last one is counted by who comes after it.
        let dead = |extras| Extras { deaths: deaths - 1, clean: false, idle: false, ..extras };
        checkpoint.extras = checkpoint.extras.map(dead);
        kept.set("test", &TopicPartition::new("t", *partition), Some(&checkpoint));
    }
    kept
}

/// A process that works on records, many at a time, until one kills it or none has come for a while.
/// Whether it was killed.
async fn live(build: SpoutBuilder, killer: (i32, i64), done: &mut BTreeSet<(i32, i64)>) -> bool {
    let mut spout = build.build().await.unwrap();
    let mut out = Vec::new();
    let mut quiet = 0;
    while quiet < 3_000 {
        let Ok(delivery) = timeout(Duration::from_millis(1), spout.next()).await else {
            quiet += 1;
            answer(&mut out, done);
            continue;
        };
        let delivery = delivery.unwrap().unwrap();
        let is_it = (delivery.partition(), delivery.offset()) == killer;
        out.push(delivery);
        if is_it {
            crash(spout).await;
            out.into_iter().for_each(std::mem::forget);
            return true;
        }
        quiet = 0;
        if out.len() == 4 {
            answer(&mut out, done);
        }
    }
    let stopped = spout.handle().health().stopped;
    spout.close().await.unwrap();
    assert!(stopped.values().all(|why| why.contains("1377")), "{stopped:?}");
    false
}

fn answer(out: &mut Vec<Delivery>, done: &mut BTreeSet<(i32, i64)>) {
    for delivery in out.drain(..) {
        done.insert((delivery.partition(), delivery.offset()));
        delivery.ack();
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_kills_is_found_among_many_and_is_the_only_one_given_up() {
    for policy in [true, false] {
        let brokers = brokers();
        (0..2).for_each(|partition| append(&brokers, partition, 3_000, 100));
        let kept = MemoryCheckpoints::new();
        let mut done = BTreeSet::new();
        let mut deaths = 0;
        loop {
            let build = builder(&brokers, &kept).await;
            let build = if policy { build.retry_limit(2, OnExhausted::Skip) } else { build };
            if !live(build, (1, 1377), &mut done).await {
                break;
            }
            deaths += 1;
            assert!(deaths < 12);
        }
        assert!(deaths >= 4, "{deaths}");
        assert!(!done.contains(&(1, 1377)));
        match policy {
            true => assert_eq!(done.len(), 5_999, "after {deaths} deaths"),
            // It stopped its partition, whose records before it are done.
            false => assert!((0..1377).all(|at| done.contains(&(1, at))) && done.contains(&(0, 2_999))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kills_while_another_partition_is_busy_blame_no_record() {
    let brokers = brokers();
    (0..3).for_each(|partition| append(&brokers, partition, 2_000, 100));
    let kept = MemoryCheckpoints::new();
    let quick = |build: SpoutBuilder| build.commit_interval(Duration::from_millis(100));
    for _ in 0..12 {
        let mut spout = quick(builder(&brokers, &kept).await).build().await.unwrap();
        for delivery in take(&mut spout, 70).await {
            delivery.ack();
        }
        sleep(Duration::from_millis(150)).await;
        crash(spout).await;
    }
    for partition in 0..3 {
        let extras = kept_of(&kept, partition).extras.unwrap();
        assert!(extras.deaths < 2 && extras.unfinished.is_empty(), "{partition}: {extras:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_alone_is_alone_in_the_whole_spout() {
    let brokers = brokers();
    (0..3).for_each(|partition| append(&brokers, partition, 100, 10));
    let kept = after_deaths(&brokers, &[0, 2], 3).await;
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut alone = Vec::new();
    for _ in 0..128 {
        let delivery = next(&mut spout).await;
        let suspects = kept_of(&kept, delivery.partition()).extras.unwrap().unfinished;
        assert_eq!(
            suspects.iter().map(|one| (one.offset, one.deaths)).collect::<Vec<_>>(),
            [(delivery.offset(), 1)]
        );
        assert!(is_quiet(&mut spout, Duration::from_secs(1)).await, "another one beside {delivery:?}");
        alone.push(delivery.partition());
        delivery.ack();
    }
    assert_eq!(alone, [[0; 64], [2; 64]].concat());
    let rest = take(&mut spout, 172).await;
    assert!(rest.iter().any(|delivery| delivery.partition() == 1), "the others go on afterwards");
    rest.into_iter().for_each(Delivery::ack);
    spout.close().await.unwrap();
    assert!((0..3).all(|partition| kept_of(&kept, partition).offset == 100));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_before_it_asks_for_a_record_blames_none() {
    let brokers = brokers();
    append(&brokers, 0, 100, 10);
    let kept = after_deaths(&brokers, &[0], 3).await;
    for _ in 0..5 {
        let spout = builder(&brokers, &kept).await.build().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        crash(spout).await;
    }
    assert_eq!(kept_of(&kept, 0).extras.unwrap().unfinished, []);
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    for offset in 0..100 {
        let delivery = next(&mut spout).await;
        assert_eq!(delivery.offset(), offset);
        delivery.ack();
    }
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_alone_partition_without_records_stops_no_other() {
    let brokers = brokers();
    append(&brokers, 0, 300, 10);
    let kept = after_deaths(&brokers, &[1], 3).await;
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let mut taken = take(&mut spout, 300).await;
    let last = taken.pop().unwrap();
    taken.into_iter().for_each(Delivery::ack);
    append(&brokers, 1, 1, 1);
    assert!(is_quiet(&mut spout, Duration::from_secs(5)).await, "what is out comes first");
    append(&brokers, 0, 1, 1);
    assert!(is_quiet(&mut spout, Duration::from_secs(5)).await, "what is out comes first");
    last.ack();
    for expected in [(1, 0), (0, 300)] {
        let delivery = next(&mut spout).await;
        assert_eq!((delivery.partition(), delivery.offset()), expected);
        delivery.ack();
    }
    spout.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_somebody_forgot_keeps_those_that_run_alone_for_a_minute_only() {
    let brokers = brokers();
    append(&brokers, 0, 1, 1);
    let kept = after_deaths(&brokers, &[1], 3).await;
    let mut spout = builder(&brokers, &kept).await.build().await.unwrap();
    let forgotten = next(&mut spout).await;
    append(&brokers, 1, 2, 1);
    assert!(is_quiet(&mut spout, Duration::from_secs(55)).await, "it may still be answered");
    for offset in 0..2 {
        let delivery = timeout(Duration::from_secs(10), next(&mut spout)).await.unwrap();
        assert_eq!((delivery.partition(), delivery.offset()), (1, offset));
        assert!(is_quiet(&mut spout, Duration::from_secs(5)).await, "one at a time all the same");
        delivery.ack();
    }
    forgotten.ack();
    spout.close().await.unwrap();
    assert_eq!((kept_of(&kept, 0).offset, kept_of(&kept, 1).offset), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn records_that_run_alone_may_fail_and_all_are_done_in_the_end_each_key_in_order() {
    for order in [Order::Any, Order::ByKey { null_is_a_key: false }] {
        let brokers = brokers();
        append_keyed(&brokers, 0, 300, 50, |offset| Some((offset % 9).to_string()));
        let kept = after_deaths(&brokers, &[0], 5).await;
        let mut spout = builder(&brokers, &kept).await.order(order).build().await.unwrap();
        let mut done = BTreeSet::new();
        while done.len() < 300 {
            let delivery = next(&mut spout).await;
            match (delivery.offset() % 7, delivery.attempt()) {
                (3, 1) => delivery.fail("once"),
                (5, 1) => drop(delivery),
                _ => {
                    if order != Order::Any {
                        let before = delivery.offset() - 9;
                        assert!(before < 0 || done.contains(&before), "{}", delivery.offset());
                    }
                    assert!(done.insert(delivery.offset()));
                    delivery.ack();
                }
            }
        }
        spout.close().await.unwrap();
        assert_eq!(kept_of(&kept, 0).offset, 300);
    }
}
