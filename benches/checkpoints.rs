//! A set of 1,000 positions, committed and read back in each store: plain ones, and with a hundred runs of done
//! records beyond each.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use downspout::checkpoint::*;
use downspout::client::{Cluster, TopicPartition};
use downspout::testing::EmbeddedBroker;
use tokio::runtime::Runtime;

const PARTITIONS: i32 = 1_000;

fn offers(offset: i64, runs: i64) -> Vec<Offer> {
    let owner = Owner { instance: "bench-1".into(), name: "bench".into(), run: "9f3c".into() };
    let done: Vec<_> = (0..runs).map(|n| offset + 1 + 7 * n..offset + 4 + 7 * n).collect();
    let extras = Extras { serial: offset as u64, done, leader_epoch: Some(3), ..Extras::default() };
    let checkpoint = Checkpoint {
        owner: Some(owner),
        broker: Some(("127.0.0.1".to_owned(), 9092)),
        extras: Some(extras),
        ..Checkpoint::at(offset)
    };
    let offer = |n| Offer {
        partition: TopicPartition::new("clicks", n),
        epoch: 1,
        checkpoint: checkpoint.clone(),
        reset: false,
    };
    (0..PARTITIONS).map(offer).collect()
}

fn stores(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let broker = EmbeddedBroker::builder().topic("clicks", PARTITIONS).start().unwrap();
    let cluster = runtime.block_on(Cluster::connect([broker.addr()])).unwrap();
    let stores: [(&str, Box<dyn CheckpointStore>); 3] = [
        ("memory", Box::new(MemoryCheckpoints::new())),
        ("file", Box::new(FileCheckpoints::new(dir.path()))),
        ("kafka", Box::new(KafkaCheckpoints::new(cluster))),
    ];
    for (name, store) in &stores {
        for runs in [0, 100] {
            let owner = Owner { instance: "bench-1".into(), name: "bench".into(), run: "9f3c".into() };
            let id = format!("bench-{runs}");
            let opened = runtime.block_on(store.open(&id, Access::Own(owner))).unwrap();
            let all: Vec<TopicPartition> =
                (0..PARTITIONS).map(|n| TopicPartition::new("clicks", n)).collect();
            let mut offset = 0;
            let mut group = criterion.benchmark_group(format!("checkpoints/{name}"));
            group.sample_size(20).measurement_time(Duration::from_secs(4));
            group.bench_function(format!("commit 1000, {runs} runs each"), |bencher| {
                bencher.iter_batched(
                    || {
                        offset += 1;
                        offers(offset, runs)
                    },
                    |offers| {
                        let outcomes = runtime.block_on(opened.commit(&offers));
                        assert!(outcomes.iter().all(Result::is_ok));
                    },
                    criterion::BatchSize::PerIteration,
                );
            });
            group.bench_function(format!("load 1000, {runs} runs each"), |bencher| {
                bencher.iter(|| {
                    let loaded = runtime.block_on(opened.load(&all));
                    assert!(loaded.iter().all(|one| one.as_ref().is_ok_and(|one| one.checkpoint.is_some())));
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, stores);
criterion_main!(benches);
