//! What the stand-in for a ZooKeeper promises to those who test with it.

use downspout::zookeeper::{Created, Deleted, Mode, Written};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn ephemeral_nodes_go_with_their_session_and_others_are_told() {
    let one = MemoryZooKeeper::new();
    let two = one.connect();
    assert_eq!(one.create("/m/a", b"1".to_vec(), Mode::Ephemeral).await.unwrap(), Created::Made);
    assert_eq!(two.create("/m/a", b"2".to_vec(), Mode::Ephemeral).await.unwrap(), Created::Exists);
    assert_eq!(two.children("/m").await.unwrap(), Some(vec!["a".to_owned()]));
    assert!(two.get("/m/a").await.unwrap().unwrap().is_ephemeral);

    // Cut off for as long as its session lasts.
    let (begin, before) = (Instant::now(), one.session());
    one.set_reachable(false);
    two.changed("/m", Duration::from_secs(60)).await;
    assert_eq!(begin.elapsed(), one.timeout());
    assert_eq!(one.silence(), one.timeout());
    assert_eq!(two.children("/m").await.unwrap(), Some(vec![]));
    assert!(one.get("/m").await.is_err());
    one.set_reachable(true);
    assert_ne!(one.session(), before);
    assert!(one.silence().is_zero());

    // A change between a look and the wait for one is not missed; without one it ends.
    one.create("/m/b", Vec::new(), Mode::Ephemeral).await.unwrap();
    let begin = Instant::now();
    two.changed("/m", Duration::from_secs(60)).await;
    assert!(begin.elapsed().is_zero());
    two.children("/m").await.unwrap();
    two.changed("/m", Duration::from_secs(60)).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(60));
    one.close().await;
    assert_eq!(two.children("/m").await.unwrap(), Some(vec![]));
    assert!(one.get("/m").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn writes_are_for_a_version_and_late_ones_too() {
    let one = MemoryZooKeeper::new();
    one.create("/a/b", b"0".to_vec(), Mode::Persistent).await.unwrap();
    assert_eq!(one.set("/a/b", b"1".to_vec(), 0).await.unwrap(), Written::Stored { version: 1 });
    assert!(
        matches!(one.set("/a/b", b"2".to_vec(), 0).await.unwrap(), Written::Conflict(Some(node)) if node.data == b"1")
    );
    assert_eq!(one.set("/none", Vec::new(), 0).await.unwrap(), Written::Missing);
    assert_eq!(one.delete("/a", -1).await.unwrap(), Deleted::NotEmpty);
    assert_eq!(one.delete("/a/b", 0).await.unwrap(), Deleted::Conflict);

    one.inject(ZooKeeperFault::Late(Duration::from_secs(3)));
    assert!(one.set("/a/b", b"late".to_vec(), 1).await.is_err());
    assert_eq!(one.peek("/a/b").unwrap().data, b"1");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(one.peek("/a/b").unwrap().data, b"late");
    one.inject(ZooKeeperFault::ReadAgain { done: true });
    assert_eq!(one.set("/a/b", b"3".to_vec(), 2).await.unwrap(), Written::Stored { version: 3 });
    one.inject(ZooKeeperFault::ReadAgain { done: false });
    assert!(one.set("/a/b", b"4".to_vec(), 3).await.is_err());
    one.inject(ZooKeeperFault::LostAnswer);
    assert!(one.delete("/a/b", 3).await.is_err());
    assert_eq!(one.paths(), ["/a"]);
}
