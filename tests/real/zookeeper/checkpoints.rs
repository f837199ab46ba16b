//! Positions in a real ZooKeeper that is frozen, killed and started again, and two owners of them.

use downspout::checkpoint::*;
use downspout::client::TopicPartition;
use downspout::{Error, ErrorKind};

use super::*;
use crate::stage::Turn;

fn store(alone: &Alone) -> ZooKeeperCheckpoints {
    let session = Session::builder(&alone.connect_string()).unwrap().timeout(SESSION);
    ZooKeeperCheckpoints::with(session, "/spouts")
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("clicks", partition)
}

async fn own(store: &ZooKeeperCheckpoints, run: &str) -> Box<dyn Checkpoints> {
    let owner = Owner { instance: "billing-1".into(), name: "billing".into(), run: run.into() };
    store.open("billing", Access::Own(owner)).await.unwrap()
}

async fn claim(checkpoints: &dyn Checkpoints) -> Option<i64> {
    let loaded = checkpoints.load(&[at(0)]).await.remove(0).unwrap();
    loaded.checkpoint.map(|checkpoint| checkpoint.offset)
}

/// Partition 0 is at this offset.
async fn commit(checkpoints: &dyn Checkpoints, offset: i64) -> Result<Stored, Error> {
    let offer = Offer { partition: at(0), epoch: 1, checkpoint: Checkpoint::at(offset), reset: false };
    bounded_twice("a commit", checkpoints.commit(&[offer])).await.remove(0)
}

/// A commit may read once more and write once more.
async fn bounded_twice<T>(what: &str, call: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND * 3, call).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

fn is_foreign(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::Checkpoint(Problem::Foreign { .. } | Problem::Changed { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_outlive_a_frozen_and_a_killed_server_and_the_last_one_to_claim_is_the_owner() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let store = store(&alone);
    let first = own(&store, "a").await;
    assert_eq!(claim(&*first).await, None);
    commit(&*first, 1).await.unwrap();
    let edit = || store.open("billing", Access::Edit { force: false });
    let why = edit().await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Checkpoint(Problem::Locked { .. })), "{why}");

    // Frozen for longer than the session: no commit hangs, and it goes on by itself.
    alone.server.freeze().unwrap();
    let frozen = Instant::now();
    while frozen.elapsed() < SESSION * 2 {
        assert!(commit(&*first, 2).await.is_err());
    }
    alone.server.resume().unwrap();
    eventually("it commits again", SESSION * 3, async || commit(&*first, 3).await.is_ok()).await;
    assert!(edit().await.is_err(), "the node that says that it is alive is there again");

    // Killed and started again.
    alone.server.kill().unwrap();
    assert!(commit(&*first, 4).await.is_err());
    alone.server.start_again().unwrap();
    eventually("it commits again", SESSION * 3, async || commit(&*first, 5).await.is_ok()).await;

    // Another one claims.
    let second = own(&store, "b").await;
    assert_eq!(claim(&*second).await, Some(5));
    assert!(is_foreign(&commit(&*first, 6).await.unwrap_err()));
    commit(&*second, 6).await.unwrap();
    assert!(is_foreign(&commit(&*first, 7).await.unwrap_err()));
    first.close().await;
    second.close().await;
    let editor = edit().await.unwrap();
    assert_eq!(claim(&*editor).await, Some(6));
    commit(&*editor, 2).await.unwrap();
    editor.close().await;
    assert_eq!(store.ids().await.unwrap(), ["billing"]);
    // One that was asked for before the freeze or the kill, and never had, ends with its timeout.
    eventually("no session stays", SESSION * 2, async || {
        alone.server.sessions().is_ok_and(|sessions| sessions.is_empty())
    })
    .await;
}
