//! Checkpoint stores: what all of them promise (`laws`), and what each of them adds.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::single_range_in_vec_init)]

mod file;
mod kafka;
mod laws;
mod memory;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use downspout::checkpoint::*;
use downspout::client::TopicPartition;
use downspout::error::*;

fn clicks(partition: i32) -> TopicPartition {
    TopicPartition::new("clicks", partition)
}

fn owner(run: &str) -> Owner {
    Owner { instance: "billing-1".into(), name: "billing".into(), run: run.into() }
}

/// An offer of run `run`, with some extras.
fn offer(partition: TopicPartition, offset: i64, run: &str, serial: u64) -> Offer {
    let extras = Extras {
        serial,
        leader_epoch: Some(3),
        done: vec![offset + 2..offset + 5],
        unfinished: vec![Unfinished { offset, attempts: 2, deaths: 0 }],
        intake: Some(offset + 9),
        ..Extras::default()
    };
    let broker = Some(("127.0.0.1".to_owned(), 9092));
    let checkpoint = Checkpoint { offset, owner: Some(owner(run)), broker, extras: Some(extras) };
    Offer { partition, epoch: 1, checkpoint, reset: false }
}

async fn open(store: &dyn CheckpointStore, access: Access) -> Box<dyn Checkpoints> {
    store.open("billing", access).await.unwrap()
}

async fn own(store: &dyn CheckpointStore, run: &str) -> Box<dyn Checkpoints> {
    open(store, Access::Own(owner(run))).await
}

async fn load(checkpoints: &dyn Checkpoints, partition: TopicPartition) -> Result<Loaded> {
    checkpoints.load(&[partition]).await.pop().unwrap()
}

async fn offset(checkpoints: &dyn Checkpoints, partition: TopicPartition) -> Option<i64> {
    load(checkpoints, partition).await.unwrap().checkpoint.map(|checkpoint| checkpoint.offset)
}

async fn commit(checkpoints: &dyn Checkpoints, offer: Offer) -> Result<Stored> {
    checkpoints.commit(&[offer]).await.pop().unwrap()
}

fn problem(why: &Error) -> &Problem {
    match why.kind() {
        ErrorKind::Checkpoint(problem) => problem,
        _ => panic!("{why}"),
    }
}
