use std::time::Duration;

use super::*;

#[tokio::test]
async fn the_laws_hold_in_memory() {
    laws::hold(&MemoryCheckpoints::new()).await;
    laws::has_one_owner(&MemoryCheckpoints::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_test_can_make_it_slow_refuse_lose_answers_and_short_of_room() {
    let store = MemoryCheckpoints::new();
    let opened = own(&store, "a").await;
    let io = || Problem::Io { place: "disk".into(), why: std::io::Error::other("full").into() };
    store.on_commit(move |offer| match offer.partition.partition {
        0 => CommitFate::Kept,
        1 => CommitFate::Refused(io()),
        _ => CommitFate::Lost(io()),
    });
    store.set_delay(Duration::from_secs(3));
    let offers: Vec<Offer> = (0..3).map(|n| offer(clicks(n), 5, "a", 1)).collect();
    let begin = tokio::time::Instant::now();
    let outcomes = opened.commit(&offers).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    assert_eq!(outcomes.iter().map(|one| one.is_ok()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(outcomes[1].as_ref().unwrap_err().retry(), Retry::Again);
    let kept = |n| store.checkpoint("billing", &clicks(n)).map(|checkpoint| checkpoint.offset);
    assert_eq!([kept(0), kept(1), kept(2)], [Some(5), None, Some(5)]);
    assert_eq!(store.commits(), 1);

    store.set_extras_limit(10);
    let stored = commit(&*opened, offer(clicks(0), 6, "a", 2)).await.unwrap();
    assert_eq!(stored, Stored { done_until: 6 });
    store.on_load(move |partition| (partition.partition == 0).then(io));
    assert!(load(&*opened, clicks(0)).await.is_err());
    assert_eq!(offset(&*opened, clicks(2)).await, Some(5));
    store.set_document("billing", &clicks(2), Some("junk".into()));
    let why = load(&*opened, clicks(2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Unreadable { .. }), "{why}");
}
