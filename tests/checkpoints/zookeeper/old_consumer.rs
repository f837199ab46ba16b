//! Offsets of Kafka's old high-level consumer.

use super::*;

const OFFSET: &str = "/consumers/billing/offsets/clicks/0";

#[tokio::test]
async fn the_old_consumers_offsets_are_numbers_that_are_read_and_written() {
    let zookeeper = MemoryZooKeeper::new();
    let store = OldConsumerCheckpoints::over(Arc::new(zookeeper.clone()));
    zookeeper.put(OFFSET, "42");
    zookeeper.put("/consumers/billing/offsets/clicks/10", "0");
    let editor = open(&store, Access::Edit { force: false }).await;
    assert_eq!(editor.list().await.unwrap(), [clicks(0), clicks(10)]);
    assert_eq!(offset(&*editor, clicks(0)).await, Some(42));
    assert_eq!(offset(&*editor, clicks(10)).await, Some(0));
    assert_eq!(offset(&*editor, clicks(1)).await, None);
    for n in [0, 1] {
        assert_eq!(commit(&*editor, offer(clicks(n), 50, "", 1)).await.unwrap(), Stored { done_until: 50 });
    }
    assert_eq!(
        (text(&zookeeper, OFFSET), text(&zookeeper, "/consumers/billing/offsets/clicks/1")),
        ("50".into(), "50".into())
    );

    // Changed in between.
    load(&*editor, clicks(0)).await.unwrap();
    zookeeper.put(OFFSET, "60");
    let why = commit(&*editor, offer(clicks(0), 55, "", 1)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(50), found: Some(60) }), "{why}");
    editor.remove(&[clicks(0), clicks(7)]).await.into_iter().for_each(|one| one.unwrap());
    assert!(zookeeper.peek(OFFSET).is_none());
}

#[tokio::test]
async fn what_is_no_number_is_an_error_a_spout_cannot_run_there_and_members_are_left_alone() {
    let zookeeper = MemoryZooKeeper::new();
    let store = OldConsumerCheckpoints::over(Arc::new(zookeeper.clone()));
    let reader = open(&store, Access::Read).await;
    for wrong in ["", "x", "-1", "1.5", "9999999999999999999"] {
        zookeeper.put(OFFSET, wrong);
        let why = load(&*reader, clicks(0)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{wrong}: {why}");
    }
    assert!(commit(&*reader, offer(clicks(0), 1, "", 1)).await.is_err());
    let why = store.open("billing", Access::Own(owner("a"))).await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Config(_)), "{why}");
    zookeeper.put("/consumers/billing/ids/host-1", "{}");
    let why = store.open("billing", Access::Edit { force: false }).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Members { group } if group == "billing"), "{why}");
    open(&store, Access::Edit { force: true }).await;
}
