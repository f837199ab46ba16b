//! In order by key.

use std::collections::BTreeMap;

use super::*;

fn key(offset: i64) -> Option<String> {
    match offset % 4 {
        0 => None,
        1 => Some(String::new()),
        other => Some(other.to_string()),
    }
}

async fn by_key(brokers: &EmbeddedBroker, null_is_a_key: bool) -> Spout {
    let kept = MemoryCheckpoints::new();
    builder(brokers, &kept).await.order(Order::ByKey { null_is_a_key }).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn pc8_25_of_each_key_one_runs_at_a_time_null_and_empty_are_two() {
    for null_is_a_key in [true, false] {
        let brokers = brokers();
        append_keyed(&brokers, 0, 40, 7, key);
        let mut spout = by_key(&brokers, null_is_a_key).await;
        let mut last = BTreeMap::new();
        let mut seen = 0;
        while seen < 40 {
            let mut running: Vec<Delivery> = Vec::new();
            while let Ok(delivery) = timeout(Duration::from_millis(50), spout.next()).await {
                running.push(delivery.unwrap().unwrap());
            }
            let keyed = running.iter().filter(|delivery| delivery.key().is_some() || null_is_a_key);
            let keys: Vec<Option<Vec<u8>>> =
                keyed.map(|delivery| delivery.key().map(<[u8]>::to_vec)).collect();
            let mut distinct = keys.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), keys.len(), "{keys:?}");
            assert!(!running.is_empty());
            for delivery in running {
                let key = delivery.key().map(<[u8]>::to_vec);
                assert!(last.insert(key, delivery.offset()) < Some(delivery.offset()));
                seen += 1;
                delivery.ack();
            }
        }
        spout.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_29_a_failed_record_keeps_its_key_until_it_is_done() {
    let brokers = brokers();
    append_keyed(&brokers, 0, 3, 3, |_| Some("same".to_owned()));
    let mut spout = by_key(&brokers, false).await;
    for expected in [(0, 1), (0, 2), (1, 1), (2, 1)] {
        let delivery = next(&mut spout).await;
        assert_eq!((delivery.offset(), delivery.attempt()), expected);
        assert!(is_quiet(&mut spout, Duration::from_secs(1)).await);
        match expected {
            (0, 1) => delivery.fail("once"),
            _ => delivery.ack(),
        }
    }
}
