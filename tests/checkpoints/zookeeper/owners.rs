//! One owner, by claims; answers that do not come; changes by hand.

use super::*;

/// A store whose owner `run` has claimed partition 0, which is at 7.
async fn claimed(zookeeper: &MemoryZooKeeper, run: &str) -> Box<dyn Checkpoints> {
    let opened = own(&over(zookeeper), run).await;
    load(&*opened, clicks(0)).await.unwrap();
    commit(&*opened, offer(clicks(0), 7, run, 1)).await.unwrap();
    opened
}

#[tokio::test]
async fn the_last_one_to_claim_is_the_owner_and_the_other_is_told() {
    let zookeeper = MemoryZooKeeper::new();
    let first = claimed(&zookeeper, "a").await;
    let second = own(&over(&zookeeper.connect()), "b").await;
    assert_eq!(offset(&*second, clicks(0)).await, Some(7));
    for _ in 0..2 {
        let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Foreign { owner } if owner.contains("run b")), "{why}");
        assert_eq!(why.retry(), Retry::Human);
        assert_eq!(why.topic().zip(why.partition()), Some(("clicks", 0)));
    }
    commit(&*second, offer(clicks(0), 9, "b", 1)).await.unwrap();
    let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Foreign { .. }), "{why}");
    // Claimed again, it is its own again.
    assert_eq!(offset(&*first, clicks(0)).await, Some(9));
    commit(&*first, offer(clicks(0), 10, "a", 3)).await.unwrap();
    let why = commit(&*second, offer(clicks(0), 10, "b", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Foreign { owner } if owner.contains("run a")), "{why}");
}

#[tokio::test]
async fn others_go_on_when_one_partition_is_lost_and_what_is_released_is_forgotten() {
    let zookeeper = MemoryZooKeeper::new();
    let first = own(&over(&zookeeper), "a").await;
    first.load(&[clicks(0), clicks(1)]).await.into_iter().for_each(|one| drop(one.unwrap()));
    let offers = |n| [offer(clicks(0), n, "a", 1), offer(clicks(1), n, "a", 1)];
    assert!(first.commit(&offers(1)).await.iter().all(Result::is_ok));
    let second = own(&over(&zookeeper), "b").await;
    load(&*second, clicks(0)).await.unwrap();
    let outcomes = first.commit(&offers(2)).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);

    second.release(&[clicks(0)]).await;
    let why = commit(&*second, offer(clicks(0), 3, "b", 1)).await.unwrap_err();
    assert!(why.to_string().contains("not claimed"), "{why}");
}

#[tokio::test]
async fn a_java_spout_that_writes_beside_us_is_noticed() {
    let zookeeper = MemoryZooKeeper::new();
    let opened = claimed(&zookeeper, "a").await;
    zookeeper.put(BY_TOPIC, java("clicks", 0, 5));
    let why = commit(&*opened, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(
        matches!(problem(&why), Problem::Foreign { owner } if owner.contains("top-1-1700000000")),
        "{why}"
    );
    assert_eq!(text(&zookeeper, BY_TOPIC), java("clicks", 0, 5));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_read_again_and_gone_on_from() {
    let late = |millis| ZooKeeperFault::Late(Duration::from_millis(millis));
    for compat in [true, false] {
        for fault in [
            ZooKeeperFault::NoAnswer,
            ZooKeeperFault::LostAnswer,
            ZooKeeperFault::SessionLost,
            late(500),
            late(1500),
        ] {
            // On the first write, which makes the node, and on a later one.
            for earlier in [false, true] {
                let zookeeper = MemoryZooKeeper::new();
                let client = zookeeper.connect();
                let opened = own(&over(&client).compat_storm(compat), "a").await;
                load(&*opened, clicks(0)).await.unwrap();
                if earlier {
                    commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
                }
                client.inject(fault);
                assert_eq!(
                    commit(&*opened, offer(clicks(0), 8, "a", 2)).await.unwrap_err().retry(),
                    Retry::Again
                );
                for (n, pause) in [(9, 0), (10, 2000), (11, 0)] {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    commit(&*opened, offer(clicks(0), n, "a", 3)).await.unwrap();
                    assert_eq!(as_java_reads(&text(&zookeeper, BY_TOPIC)), Some(n), "{fault:?} {compat}");
                }
                assert_eq!(text(&zookeeper, BY_TOPIC).contains("downspout"), !compat);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_not_waited_for_never_undoes_a_later_one() {
    let zookeeper = MemoryZooKeeper::new();
    let opened = claimed(&zookeeper, "a").await;
    for n in 0..20 {
        let late = [offer(clicks(0), 10 + 2 * n, "a", 1)];
        // The answer takes longer than anybody waits.
        zookeeper.inject(match n % 2 {
            0 => ZooKeeperFault::LostAnswer,
            _ => ZooKeeperFault::Late(Duration::from_millis(20)),
        });
        let waited = tokio::time::timeout(Duration::from_millis(10), opened.commit(&late)).await;
        assert!(waited.is_err());
        commit(&*opened, offer(clicks(0), 11 + 2 * n, "a", 2)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(offset(&*opened, clicks(0)).await, Some(11 + 2 * n));
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_forbidden_or_silent_is_an_error_and_never_a_fresh_start() {
    let zookeeper = MemoryZooKeeper::new();
    claimed(&zookeeper, "a").await.close().await;
    let opened = own(&over(&zookeeper), "b").await;
    zookeeper.set_reachable(false);
    for missing in [clicks(0), clicks(1)] {
        assert_eq!(load(&*opened, missing).await.unwrap_err().retry(), Retry::Again);
    }
    assert!(opened.list().await.is_err());
    assert!(over(&zookeeper).open("billing", Access::Read).await.is_err());
    zookeeper.set_reachable(true);
    zookeeper.deny(BY_TOPIC, true, false);
    assert!(load(&*opened, clicks(0)).await.is_err());

    zookeeper.deny(BY_TOPIC, false, true);
    let why = load(&*opened, clicks(0)).await.unwrap_err();
    assert!(
        matches!(problem(&why), Problem::Denied { place } if place == BY_TOPIC),
        "a claim proves that it may write: {why}"
    );
    assert_eq!(why.retry(), Retry::Human);
    assert_eq!(offset(&*open(&over(&zookeeper), Access::Read).await, clicks(0)).await, Some(7));
    // A node that does not let its parent be written to.
    zookeeper.deny("/spouts/billing/clicks", false, true);
    load(&*opened, clicks(1)).await.unwrap();
    let why = commit(&*opened, offer(clicks(1), 1, "b", 1)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Denied { .. }), "{why}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_an_answer_for_two_thirds_of_its_session_checks_its_claim_first() {
    let zookeeper = MemoryZooKeeper::new();
    let client = zookeeper.connect();
    let opened = own(&over(&client), "a").await;
    opened.load(&[clicks(0), clicks(1)]).await.into_iter().for_each(|one| drop(one.unwrap()));
    let offers = |n| [offer(clicks(0), n, "a", 1), offer(clicks(1), n, "a", 1)];
    assert!(opened.commit(&offers(1)).await.iter().all(Result::is_ok));

    client.set_reachable(false);
    let silent = opened.commit(&offers(2)).await.remove(0).unwrap_err();
    assert!(matches!(silent.kind(), ErrorKind::Timeout(_)), "not yet: {silent}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    for lapsed in opened.commit(&offers(3)).await {
        let lapsed = lapsed.unwrap_err();
        assert!(matches!(problem(&lapsed), Problem::Lapsed { .. }), "{lapsed}");
        assert_eq!(lapsed.retry(), Retry::Again);
    }
    // Meanwhile somebody takes one of the two.
    let second = own(&over(&zookeeper), "b").await;
    load(&*second, clicks(1)).await.unwrap();
    client.set_reachable(true);
    let mut outcomes = opened.commit(&offers(4)).await;
    let why = outcomes.pop().unwrap().unwrap_err();
    assert!(matches!(problem(&why), Problem::Foreign { .. }), "{why}");
    outcomes.pop().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_by_hand_while_an_owner_is_alive_unless_forced() {
    let zookeeper = MemoryZooKeeper::new();
    let client = zookeeper.connect();
    let first = claimed(&client, "a").await;
    let why = over(&zookeeper).open("billing", Access::Edit { force: false }).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Locked { by } if by.contains("run a")), "{why}");
    // Another id is another matter; and looking is always allowed.
    over(&zookeeper).open("another", Access::Edit { force: false }).await.unwrap();
    assert_eq!(offset(&*open(&over(&zookeeper), Access::Read).await, clicks(0)).await, Some(7));

    let editor = open(&over(&zookeeper), Access::Edit { force: true }).await;
    let mut by_hand = offer(clicks(0), 3, "", 0);
    by_hand.checkpoint.extras = None;
    commit(&*editor, by_hand.clone()).await.unwrap();
    let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(7), found: Some(3) }), "{why}");
    // That it is not storm-kafka's stays to be seen: extras are kept on.
    assert!(text(&zookeeper, BY_TOPIC).contains("downspout"));
    editor.remove(&[clicks(0), clicks(5)]).await.into_iter().for_each(|one| one.unwrap());
    let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { found: None, .. }), "{why}");

    // The owner's session is made anew: it is alive still. Closed or dead, it is not.
    client.lose_session();
    assert!(first.commit(&[]).await.is_empty());
    assert!(over(&zookeeper).open("billing", Access::Edit { force: false }).await.is_err());
    first.close().await;
    open(&over(&zookeeper), Access::Edit { force: false }).await;
    let second = own(&over(&client), "b").await;
    client.set_reachable(false);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(over(&zookeeper).open("billing", Access::Edit { force: false }).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let editor = open(&over(&zookeeper), Access::Edit { force: false }).await;
    commit(&*editor, by_hand).await.unwrap();
    drop(second);
}

#[tokio::test]
async fn two_editors_at_once_do_not_write_over_each_other() {
    let zookeeper = MemoryZooKeeper::new();
    zookeeper.put(BY_TOPIC, java("clicks", 0, 4));
    let store = over(&zookeeper);
    let (one, two) = (
        open(&store, Access::Edit { force: false }).await,
        open(&store, Access::Edit { force: false }).await,
    );
    assert_eq!((offset(&*one, clicks(0)).await, offset(&*two, clicks(0)).await), (Some(4), Some(4)));
    commit(&*one, offer(clicks(0), 5, "", 1)).await.unwrap();
    let why = commit(&*two, offer(clicks(0), 6, "", 1)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(4), found: Some(5) }), "{why}");
    assert!(!text(&zookeeper, BY_TOPIC).contains("downspout"), "it stays as the Java spout writes it");
    let reader = open(&store, Access::Read).await;
    assert!(commit(&*reader, offer(clicks(0), 6, "", 1)).await.is_err());
}

#[tokio::test]
async fn new_nodes_have_their_parents_acl() {
    let zookeeper = MemoryZooKeeper::new();
    zookeeper.put("/spouts/billing", "");
    zookeeper.deny("/spouts/billing", false, true);
    // Nothing may be made there, not even the node that says that an owner is alive; it opens all the same.
    let opened = own(&over(&zookeeper), "a").await;
    assert_eq!(offset(&*opened, clicks(0)).await, None);
    assert!(commit(&*opened, offer(clicks(0), 1, "a", 1)).await.is_err());
    assert_eq!(zookeeper.paths(), ["/spouts", "/spouts/billing"]);
    assert!(ZooKeeperOperation::Set.is_write() && zookeeper.silence().is_zero());
}
