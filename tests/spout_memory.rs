//! What a spout allocates, and what it leaves behind.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use downspout::checkpoint::MemoryCheckpoints;
use downspout::client::Cluster;
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::spout::{Delivery, Spout};
use downspout::testing::{EmbeddedBroker, Release};

fn broker(records: usize) -> Arc<EmbeddedBroker> {
    let broker = EmbeddedBroker::builder().release(Release::V4_4).topic("t", 1).in_memory();
    let mut set = RecordSetWriter::new(Magic::V2);
    for _ in 0..records {
        set.push(NewRecord::value(b"value")).unwrap();
    }
    broker.append("t", 0, &set.finish().unwrap()).unwrap();
    Arc::new(broker)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

async fn cluster(broker: &EmbeddedBroker) -> Cluster {
    Cluster::builder([broker.addr()]).connector(broker.connector()).connect().await.unwrap()
}

async fn spout(cluster: &Cluster, kept: &MemoryCheckpoints) -> Spout {
    Spout::builder(cluster.clone()).topic("t").id("memory").checkpoints(kept.clone()).build().await.unwrap()
}

#[test]
fn ten_thousand_records_handed_out_and_acked_in_order_or_not_cost_no_allocation_each() {
    let broker = broker(10_000);
    let runtime = runtime();
    for in_order in [true, false] {
        let kept = MemoryCheckpoints::new();
        let mut spout = runtime.block_on(async {
            let cluster = cluster(&broker).await;
            spout(&cluster, &kept).await
        });
        let mut deliveries: Vec<Delivery> = Vec::with_capacity(10_000);
        deliveries.push(runtime.block_on(spout.next()).unwrap().unwrap());
        let taken = allocation_counter::measure(|| {
            runtime.block_on(async {
                while deliveries.len() < 10_000 {
                    deliveries.push(spout.next().await.unwrap().unwrap());
                }
            });
        });
        assert!(taken.count_total < 500, "{taken:?}");
        if !in_order {
            // 7,919 and 10,000 have no divisor in common.
            for at in 0..10_000usize {
                deliveries.swap(at, at * 7_919 % 10_000);
            }
        }
        let acked = allocation_counter::measure(|| deliveries.drain(..).for_each(Delivery::ack));
        assert!(acked.count_total < 10, "{acked:?}");
        let committed = allocation_counter::measure(|| {
            drop(runtime.block_on(spout.handle().commit_now()).unwrap());
        });
        assert!(committed.count_total < 500, "{committed:?}");
        let report = runtime.block_on(spout.close()).unwrap();
        assert_eq!(report.committed[0].1, 10_000);
    }
}

/// Takes the partition, reads one record, acks or fails it, and leaves, so many times. The brokers remember
/// requests; they go too.
fn lives(runtime: &tokio::runtime::Runtime, count: usize) {
    runtime.block_on(async {
        let broker = broker(3);
        let cluster = cluster(&broker).await;
        for life in 0..count {
            let kept = MemoryCheckpoints::new();
            let mut spout = spout(&cluster, &kept).await;
            let delivery = spout.next().await.unwrap().unwrap();
            match life % 3 {
                0 => delivery.ack(),
                1 => delivery.fail("so it goes"),
                _ => drop(delivery),
            }
            spout.close_within(Duration::from_secs(1)).await.unwrap();
        }
        assert_eq!(cluster.memory().lent, 0);
        cluster.close();
        drop((cluster, broker));
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
}

#[test]
fn pc8_32_ten_thousand_assignments_leave_nothing_behind() {
    let runtime = runtime();
    lives(&runtime, 100);
    let grown = allocation_counter::measure(|| lives(&runtime, 10_000));
    assert!(grown.count_total > 1_000_000, "{grown:?}: they did something");
    assert!(grown.count_current.abs() < 100, "{grown:?}");
}

#[test]
fn pc8_32_a_hundred_thousand_commits_leave_nothing_behind() {
    let broker = broker(3);
    let runtime = runtime();
    let kept = MemoryCheckpoints::new();
    let spout = runtime.block_on(async { spout(&cluster(&broker).await, &kept).await });
    let commits = |count: usize| {
        runtime.block_on(async {
            for _ in 0..count {
                spout.handle().commit_now().await.unwrap();
            }
        });
    };
    commits(1_000);
    let grown = allocation_counter::measure(|| commits(100_000));
    assert!(grown.bytes_current < 64 << 10, "{grown:?}");
    runtime.block_on(spout.close()).unwrap();
}
