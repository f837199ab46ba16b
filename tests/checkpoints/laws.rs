//! What every store promises.

use super::*;

/// All of them, on a store that is empty.
pub(crate) async fn hold(store: &dyn CheckpointStore) {
    positions_come_back_as_a_set_in_the_order_of_asking(store).await;
    an_id_is_one_name(store).await;
    offset_0_is_an_offset(store).await;
}

async fn positions_come_back_as_a_set_in_the_order_of_asking(store: &dyn CheckpointStore) {
    let first = own(store, "a").await;
    assert_eq!(load(&*first, clicks(0)).await.unwrap(), Loaded::default());
    let asked = [clicks(2), clicks(0), clicks(1)];
    assert!(first.load(&asked).await.iter().all(|one| *one.as_ref().unwrap() == Loaded::default()));
    let offers = [offer(clicks(2), 20, "a", 1), offer(clicks(0), 0, "a", 1)];
    for (outcome, until) in first.commit(&offers).await.into_iter().zip([25, 5]) {
        assert_eq!(outcome.unwrap(), Stored { done_until: until });
    }
    first.close().await;
    drop(first);

    let second = own(store, "b").await;
    let loaded = second.load(&asked).await;
    let kept: Vec<Option<Checkpoint>> = loaded.into_iter().map(|one| one.unwrap().checkpoint).collect();
    let offsets: Vec<Option<i64>> = kept.iter().map(|one| one.as_ref().map(|one| one.offset)).collect();
    assert_eq!(offsets, [Some(20), Some(0), None]);
    let found = kept[0].as_ref().unwrap();
    let given = &offers[0].checkpoint;
    assert_eq!((&found.owner, &found.extras), (&given.owner, &given.extras));
    assert_eq!(second.list().await.unwrap(), [clicks(0), clicks(2)]);

    // And on from there.
    commit(&*second, offer(clicks(2), 21, "b", 1)).await.unwrap();
    commit(&*second, offer(clicks(2), 22, "b", 2)).await.unwrap();
    assert_eq!(offset(&*second, clicks(2)).await, Some(22));
    assert!(second.commit(&[]).await.is_empty());
    second.close().await;
}

async fn an_id_is_one_name(store: &dyn CheckpointStore) {
    for id in ["", "a/b", ".", "..", "a\0b"] {
        let why = store.open(id, Access::Read).await.unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::Config(_)), "{id:?}: {why}");
    }
}

/// storm-kafka took it for none, and went to the end (STORM-563 and others).
async fn offset_0_is_an_offset(store: &dyn CheckpointStore) {
    let opened = own(store, "c").await;
    assert_eq!(offset(&*opened, clicks(0)).await, Some(0));
    opened.close().await;
}

/// A store that has locks: one owner for an id, and as many readers as like.
pub(crate) async fn has_one_owner(store: &dyn CheckpointStore) {
    let first = own(store, "a").await;
    load(&*first, clicks(0)).await.unwrap();
    commit(&*first, offer(clicks(0), 7, "a", 1)).await.unwrap();
    for access in [Access::Own(owner("b")), Access::Edit { force: false }] {
        let why = store.open("billing", access).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Locked { by } if by.contains("run a")), "{why}");
        assert_eq!(why.retry(), Retry::Human);
    }
    let reader = open(store, Access::Read).await;
    assert_eq!(offset(&*reader, clicks(0)).await, Some(7));
    store.open("another", Access::Own(owner("b"))).await.unwrap().close().await;

    // Forced, the change is seen by the owner, and not written over.
    let editor = open(store, Access::Edit { force: true }).await;
    assert_eq!(offset(&*editor, clicks(0)).await, Some(7));
    commit(&*editor, offer(clicks(0), 3, "by hand", 1)).await.unwrap();
    editor.close().await;
    for _ in 0..2 {
        let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Changed { expected: Some(7), found: Some(3) }), "{why}");
        assert_eq!(why.topic().zip(why.partition()), Some(("clicks", 0)));
    }
    assert_eq!(offset(&*reader, clicks(0)).await, Some(3));
    // Read anew, it is known.
    assert_eq!(offset(&*first, clicks(0)).await, Some(3));
    commit(&*first, offer(clicks(0), 9, "a", 3)).await.unwrap();

    let editor = open(store, Access::Edit { force: true }).await;
    editor.remove(&[clicks(0), clicks(5)]).await.into_iter().for_each(|one| one.unwrap());
    let why = commit(&*first, offer(clicks(0), 10, "a", 4)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(9), found: None }), "{why}");
    assert_eq!(offset(&*reader, clicks(0)).await, None);
    load(&*first, clicks(1)).await.unwrap();
    commit(&*editor, offer(clicks(1), 5, "by hand", 1)).await.unwrap();
    let why = commit(&*first, offer(clicks(1), 2, "a", 4)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: None, found: Some(5) }), "{why}");

    // Closed or dropped, another may.
    first.close().await;
    let second = own(store, "b").await;
    drop(first);
    assert!(store.open("billing", Access::Own(owner("c"))).await.is_err());
    drop(second);
    let third = open(store, Access::Edit { force: false }).await;
    third.remove(&[clicks(0), clicks(1)]).await.into_iter().for_each(|one| one.unwrap());
    assert!(third.list().await.unwrap().is_empty());
    third.close().await;
}
