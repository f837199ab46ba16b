//! One layout for an id: the one that is there, or the one that is named.

use super::*;

#[tokio::test]
async fn the_layout_that_is_there_is_kept_and_a_new_id_has_the_one_by_topic() {
    let zookeeper = MemoryZooKeeper::new();
    zookeeper.put(FLAT, java("clicks", 0, 4));
    let opened = own(&over(&zookeeper), "a").await;
    opened.load(&[clicks(0), clicks(1)]).await.into_iter().for_each(|one| drop(one.unwrap()));
    for n in 0..2 {
        commit(&*opened, offer(clicks(n), 5, "a", 1)).await.unwrap();
    }
    // A new partition is where the others are: the Java spout would find it.
    assert!(zookeeper.peek("/spouts/billing/partition_1").is_some());
    assert_eq!(opened.list().await.unwrap(), [clicks(0), clicks(1)]);
    let fresh = over(&zookeeper).open("fresh", Access::Own(owner("a"))).await.unwrap();
    load(&*fresh, clicks(0)).await.unwrap();
    commit(&*fresh, offer(clicks(0), 5, "a", 1)).await.unwrap();
    assert!(zookeeper.peek("/spouts/fresh/clicks/partition_0").is_some());
    assert_eq!(over(&zookeeper).ids().await.unwrap(), ["billing", "fresh"]);
}

#[tokio::test]
async fn storm817_a_document_in_the_other_layout_is_taken_over() {
    for (layout, from, to) in [(Layout::ByTopic, FLAT, BY_TOPIC), (Layout::OneTopic, BY_TOPIC, FLAT)] {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(from, java("clicks", 0, 40));
        let store = over(&zookeeper).layout(layout);
        // Looking moves nothing.
        let reader = open(&store, Access::Read).await;
        assert_eq!(offset(&*reader, clicks(0)).await, Some(40));
        assert_eq!(text(&zookeeper, from), java("clicks", 0, 40));

        let opened = own(&store, "a").await;
        assert_eq!(offset(&*opened, clicks(0)).await, Some(40));
        assert!(zookeeper.peek(from).is_none());
        commit(&*opened, offer(clicks(0), 41, "a", 1)).await.unwrap();
        assert_eq!(as_java_reads(&text(&zookeeper, to)), Some(41));
        assert!(!text(&zookeeper, to).contains("downspout"), "the Java spout wrote last");
    }
}

#[tokio::test]
async fn two_that_differ_are_refused_and_two_that_say_the_same_become_one() {
    for (layout, stays, goes) in [(Layout::ByTopic, BY_TOPIC, FLAT), (Layout::OneTopic, FLAT, BY_TOPIC)] {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(FLAT, java("clicks", 0, 40));
        zookeeper.put(BY_TOPIC, java("clicks", 0, 41));
        let opened = own(&over(&zookeeper).layout(layout), "a").await;
        let why = load(&*opened, clicks(0)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{why}");
        assert!(why.to_string().contains("40") && why.to_string().contains("41"), "{why}");
        assert_eq!(zookeeper.peek(goes).unwrap().version, 0);

        zookeeper.put(BY_TOPIC, java("clicks", 0, 40));
        assert_eq!(offset(&*opened, clicks(0)).await, Some(40));
        assert!(zookeeper.peek(goes).is_none() && zookeeper.peek(stays).is_some());
    }
}

#[tokio::test]
async fn another_topics_document_is_refused_where_it_would_be_ours_and_passed_over_elsewhere() {
    let zookeeper = MemoryZooKeeper::new();
    zookeeper.put(FLAT, java("other", 0, 40));
    let opened = own(&over(&zookeeper), "a").await;
    let why = load(&*opened, clicks(0)).await.unwrap_err();
    assert!(why.to_string().contains("another topic"), "{why}");
    opened.close().await;
    let opened = own(&over(&zookeeper).layout(Layout::ByTopic), "a").await;
    assert_eq!(offset(&*opened, clicks(0)).await, None);
    assert_eq!(text(&zookeeper, FLAT), java("other", 0, 40));
    opened.remove(&[clicks(0)]).await.pop().unwrap().unwrap();
    assert_eq!(text(&zookeeper, FLAT), java("other", 0, 40));

    zookeeper.put(FLAT, r#"{"offset":3}"#);
    let why = load(&*opened, clicks(0)).await.unwrap_err();
    assert!(why.to_string().contains("of which topic"), "{why}");
}

/// A fault at each call of taking over, one after another: the position is never lost, and the next try, by
/// another owner too, finds it.
#[tokio::test(start_paused = true)]
async fn taking_over_that_ends_anywhere_loses_nothing() {
    for fault in [ZooKeeperFault::NoAnswer, ZooKeeperFault::LostAnswer, ZooKeeperFault::SessionLost] {
        for at in 0..8 {
            let zookeeper = MemoryZooKeeper::new();
            zookeeper.put(FLAT, java("clicks", 0, 40));
            let first = zookeeper.connect();
            let store = over(&first).layout(Layout::ByTopic);
            let opened = own(&store, "a").await;
            let calls = std::sync::atomic::AtomicUsize::new(0);
            first.on_call(move |_| {
                (calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == at).then_some(fault)
            });
            if let Ok(loaded) = load(&*opened, clicks(0)).await {
                assert_eq!(loaded.checkpoint.unwrap().offset, 40, "{fault:?} at {at}");
            }
            let second = own(&over(&zookeeper).layout(Layout::ByTopic), "b").await;
            assert_eq!(offset(&*second, clicks(0)).await, Some(40), "{fault:?} at {at}");
            assert!(zookeeper.peek(FLAT).is_none());
        }
    }
}

#[tokio::test]
async fn a_document_that_another_owner_moves_between_two_looks_is_not_missed() {
    for at in 0..4 {
        let zookeeper = MemoryZooKeeper::new();
        zookeeper.put(FLAT, java("clicks", 0, 40));
        let client = zookeeper.connect();
        let opened = own(&over(&client).layout(Layout::ByTopic), "a").await;
        let (reads, tree) = (std::sync::atomic::AtomicUsize::new(0), zookeeper.clone());
        client.on_call(move |call| {
            let read = call.operation == ZooKeeperOperation::Get;
            if read && reads.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == at {
                tree.put(BY_TOPIC, java("clicks", 0, 41));
                tree.cut(FLAT);
            }
            None
        });
        match load(&*opened, clicks(0)).await {
            Ok(loaded) => assert!(loaded.checkpoint.is_some_and(|found| found.offset >= 40), "{at}"),
            Err(why) => assert_eq!(why.retry(), Retry::Again, "{at}: {why}"),
        }
        if at < 2 {
            assert_eq!(offset(&*opened, clicks(0)).await, Some(41), "{at}");
        }
    }
}
