use std::time::Duration;

use downspout::client::{Cluster, GroupOffset};
use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::{EmbeddedBroker, Fault, Release};
use tokio::time::{Instant, advance, sleep, timeout};

use super::*;

fn brokers(release: Release) -> EmbeddedBroker {
    with(release, |_| {})
}

fn with(release: Release, change: impl FnOnce(&mut downspout::testing::Settings)) -> EmbeddedBroker {
    let builder = EmbeddedBroker::builder().release(release).brokers(2).topic("clicks", 1000);
    builder.settings(change).in_memory()
}

async fn cluster(brokers: &EmbeddedBroker) -> Cluster {
    let builder = Cluster::builder([brokers.addr()]).connector(brokers.connector());
    builder.api_timeout(Duration::from_secs(5)).connect().await.unwrap()
}

async fn store(brokers: &EmbeddedBroker) -> KafkaCheckpoints {
    KafkaCheckpoints::new(cluster(brokers).await)
}

fn kept(brokers: &EmbeddedBroker, partition: i32) -> Option<i64> {
    brokers.with(|core| core.committed("billing", "clicks", partition))
}

fn beside(brokers: &EmbeddedBroker, partition: i32) -> String {
    brokers.with(|core| core.committed_metadata("billing", "clicks", partition)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_laws_hold_on_every_release_that_keeps_metadata() {
    for release in Release::ALL.iter().filter(|release| **release >= Release::V0_8_2) {
        let brokers = brokers(*release);
        laws::hold(&store(&brokers).await).await;
        // Others than ours see it too, from OffsetCommit 6 on.
        let found = cluster(&brokers).await.fetch_offsets("billing", &[("clicks", 2)]).await.unwrap();
        let epoch = (*release >= Release::V2_1).then_some(3);
        assert_eq!(found[0].leader_epoch, epoch, "{release}");
        assert!(found[0].metadata.starts_with('{'), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_0_8_1_a_broker_keeps_the_offset_in_zookeeper_and_nothing_beside_it() {
    let brokers = brokers(Release::V0_8_1);
    let store = store(&brokers).await;
    let opened = own(&store, "a").await;
    assert!(!opened.keeps_extras());
    assert_eq!(load(&*opened, clicks(0)).await.unwrap(), Loaded::default());
    for n in 0..3 {
        let stored = commit(&*opened, offer(clicks(0), n, "a", 1)).await.unwrap();
        assert_eq!(stored, Stored { done_until: n });
        advance(Duration::from_secs(31)).await;
    }
    assert_eq!(opened.list().await.unwrap(), [clicks(0)]);
    let second = own(&store, "b").await;
    assert_eq!(load(&*second, clicks(0)).await.unwrap().checkpoint, Some(Checkpoint::at(2)));
}

#[tokio::test(start_paused = true)]
async fn the_group_may_have_another_name_than_the_id() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await.group("other"), "a").await;
    commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
    assert_eq!(kept(&brokers, 0), None);
    assert_eq!(brokers.with(|core| core.committed("other", "clicks", 0)), Some(7));
    assert_eq!(opened.describe(), "Kafka, group other");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_says_none_is_asked_again_before_it_is_believed() {
    for release in [Release::V0_8_2, Release::LATEST] {
        let brokers = brokers(release);
        let store = store(&brokers).await;
        let opened = own(&store, "a").await;
        let fetches = || brokers.request_count(ApiKey::OFFSET_FETCH);
        let finds = || brokers.request_count(ApiKey::FIND_COORDINATOR);
        let (begin, before) = (Instant::now(), (fetches(), finds()));
        assert_eq!(offset(&*opened, clicks(0)).await, None);
        assert_eq!((fetches() - before.0, finds() - before.1), (3, 2), "{release}");
        assert!(begin.elapsed() >= Duration::from_millis(200));

        // The coordinator has read its log between the first and the second time of asking.
        let other = cluster(&brokers).await;
        let late = async {
            sleep(Duration::from_millis(50)).await;
            other.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 7)]).await.unwrap();
        };
        let (found, ()) = tokio::join!(offset(&*opened, clicks(0)), late);
        assert_eq!(found, Some(7), "{release}");
        let before = fetches();
        assert_eq!(offset(&*opened, clicks(0)).await, Some(7));
        assert_eq!(fetches() - before, 1, "what is there is believed at once");
    }
}

#[tokio::test(start_paused = true)]
async fn pc_3_5_what_does_not_fit_is_left_out_and_said_so() {
    let brokers = brokers(Release::LATEST);
    let store = store(&brokers).await;
    let opened = own(&store, "a").await;
    let mut offer = offer(clicks(0), 0, "a", 1);
    let done: Vec<_> = (0..5000).map(|n| 2 * n + 1..2 * n + 2).collect();
    offer.checkpoint.extras.as_mut().unwrap().done = done.clone();
    let stored = commit(&*opened, offer).await.unwrap();
    assert!((3000..4096).contains(&stored.done_until), "{stored:?}");
    assert!(beside(&brokers, 0).len() <= 4096);
    let loaded = load(&*own(&store, "b").await, clicks(0)).await.unwrap();
    let extras = loaded.checkpoint.unwrap().extras.unwrap();
    let expected: Vec<_> = done.into_iter().filter(|run| run.end <= stored.done_until).collect();
    assert_eq!(extras.done, expected);
}

#[tokio::test(start_paused = true)]
async fn pc_3_5_a_broker_with_less_room_gets_less_and_that_is_remembered() {
    for (limit, fits) in [(1100, true), (330, true), (300, false), (0, false)] {
        let brokers = with(Release::LATEST, |settings| settings.offset_metadata_limit = limit);
        let store = store(&brokers).await;
        let opened = own(&store, "a").await;
        for n in 0..3 {
            let before = brokers.request_count(ApiKey::OFFSET_COMMIT);
            let mut offer = offer(clicks(0), n, "a", 1);
            offer.checkpoint.extras.as_mut().unwrap().done =
                (0..5000).map(|run| n + 2 * run + 1..n + 2 * run + 2).collect();
            let stored = commit(&*opened, offer).await.unwrap();
            assert_eq!(stored.done_until > n, fits, "{limit}");
            let requests = brokers.request_count(ApiKey::OFFSET_COMMIT) - before;
            assert_eq!(requests == 1, n > 0, "{limit}: {requests}");
        }
        assert_eq!(kept(&brokers, 0), Some(2));
        assert_eq!(beside(&brokers, 0).is_empty(), !fits, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_owner_is_refused_while_the_first_goes_on() {
    let brokers = brokers(Release::LATEST);
    let first = own(&store(&brokers).await, "a").await;
    let second = own(&store(&brokers).await, "b").await;
    load(&*first, clicks(0)).await.unwrap();
    commit(&*first, offer(clicks(0), 1, "a", 1)).await.unwrap();
    assert_eq!(offset(&*second, clicks(0)).await, Some(1));
    commit(&*first, offer(clicks(0), 2, "a", 2)).await.unwrap();
    for _ in 0..2 {
        let why = commit(&*second, offer(clicks(0), 1, "b", 1)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Foreign { owner } if owner.contains("run a")), "{why}");
    }
    assert_eq!(kept(&brokers, 0), Some(2));
    for n in 3..40 {
        advance(Duration::from_secs(2)).await;
        commit(&*first, offer(clicks(0), n, "a", n as u64)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_learns_it_within_half_a_minute_changed_or_not() {
    for offers in [vec![], vec![offer(clicks(0), 9, "a", 2)]] {
        let brokers = brokers(Release::LATEST);
        let first = own(&store(&brokers).await, "a").await;
        commit(&*first, offer(clicks(0), 1, "a", 1)).await.unwrap();
        let second = own(&store(&brokers).await, "b").await;
        assert_eq!(offset(&*second, clicks(0)).await, Some(1));
        commit(&*second, offer(clicks(0), 5, "b", 1)).await.unwrap();
        advance(Duration::from_secs(31)).await;
        first.commit(&offers).await.into_iter().for_each(|one| {
            let why = one.unwrap_err();
            assert!(matches!(problem(&why), Problem::Foreign { owner } if owner.contains("run b")), "{why}");
        });
        // And never writes again, not even what has not changed.
        advance(Duration::from_secs(7200)).await;
        first.commit(&[]).await;
        assert!(commit(&*first, offer(clicks(0), 10, "a", 3)).await.is_err());
        assert_eq!(kept(&brokers, 0), Some(5));
        commit(&*second, offer(clicks(0), 6, "b", 2)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_position_changed_by_hand_is_left_alone() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
    let tool = cluster(&brokers).await;
    tool.commit_offsets("billing", &[GroupOffset::new("clicks", 0, 3)]).await.unwrap();
    advance(Duration::from_secs(31)).await;
    let why = commit(&*opened, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(7), found: Some(3) }), "{why}");
    assert_eq!(kept(&brokers, 0), Some(3));
    // Read anew, it is known.
    assert_eq!(offset(&*opened, clicks(0)).await, Some(3));
    commit(&*opened, offer(clicks(0), 4, "a", 3)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unchanged_positions_are_committed_again_every_hour() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    let offers: Vec<Offer> = (0..3).map(|n| offer(clicks(n), 7, "a", 1)).collect();
    opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
    let text = beside(&brokers, 1);
    let commits = || brokers.request_count(ApiKey::OFFSET_COMMIT);
    let before = commits();
    for second in (0..3600).step_by(2) {
        opened.commit(&[]).await;
        assert_eq!(commits(), before, "after {second} s");
        advance(Duration::from_secs(2)).await;
    }
    let fetches = brokers.request_count(ApiKey::OFFSET_FETCH);
    assert!((300..370).contains(&fetches), "a look every ten seconds: {fetches}");
    // One of them has changed, and counts for itself.
    commit(&*opened, offer(clicks(0), 8, "a", 2)).await.unwrap();
    assert_eq!(commits(), before + 1, "one request for all");
    assert_eq!((kept(&brokers, 0), kept(&brokers, 1), beside(&brokers, 1)), (Some(8), Some(7), text));
    opened.commit(&[]).await;
    assert_eq!(commits(), before + 1);
    opened.release(&[clicks(0), clicks(1), clicks(2)]).await;
    advance(Duration::from_secs(4000)).await;
    opened.commit(&[]).await;
    assert_eq!(commits(), before + 1, "what was released is not renewed");
}

#[tokio::test(start_paused = true)]
async fn a_position_that_kafka_has_forgotten_is_committed_again_and_then_in_time() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
    advance(Duration::from_secs(60)).await;
    brokers.with(|core| core.expire_committed("billing", "clicks", 0));
    opened.commit(&[]).await;
    assert_eq!(kept(&brokers, 0), Some(7));
    // It was there for less than a minute: half of that from now on.
    let commits = brokers.request_count(ApiKey::OFFSET_COMMIT);
    for _ in 0..100 {
        advance(Duration::from_secs(1)).await;
        opened.commit(&[]).await;
    }
    let commits = brokers.request_count(ApiKey::OFFSET_COMMIT) - commits;
    assert!((3..=4).contains(&commits), "{commits}");
}

#[tokio::test(start_paused = true)]
async fn a_group_with_live_members_refuses_and_the_error_says_so() {
    let codes =
        [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::REBALANCE_IN_PROGRESS];
    for code in codes {
        let brokers = brokers(Release::LATEST);
        let opened = own(&store(&brokers).await, "a").await;
        brokers.inject(Fault::error(code).on(ApiKey::OFFSET_COMMIT));
        let why = commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap_err();
        assert!(matches!(problem(&why), Problem::Members { group } if group == "billing"), "{why}");
        assert_eq!(why.retry(), Retry::Human);
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_7_no_error_code_is_taken_for_done() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    commit(&*opened, offer(clicks(0), 0, "a", 1)).await.unwrap();
    commit(&*opened, offer(clicks(1), 0, "a", 1)).await.unwrap();
    for code in (-1..=140).filter(|code| *code != 0) {
        let n = i64::from(code) + 10;
        let before = kept(&brokers, 0);
        let fault = Fault::error(ErrorCode(code)).on(ApiKey::OFFSET_COMMIT).at_partition("clicks", 0);
        brokers.inject(fault);
        let offers = [offer(clicks(0), n, "a", n as u64), offer(clicks(1), n, "a", n as u64)];
        let outcomes = opened.commit(&offers).await;
        let why = outcomes[0].as_ref().unwrap_err();
        assert_eq!(why.topic().zip(why.partition()), Some(("clicks", 0)), "{code}: {why}");
        assert_eq!(kept(&brokers, 0), before, "{code}");
        assert!(outcomes[1].is_ok(), "{code}: {:?}", outcomes[1]);
        brokers.with(|core| core.clear_faults());
        commit(&*opened, offer(clicks(0), n, "a", n as u64)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_6_a_lost_answer_is_no_change_by_hand() {
    // Where nothing but the offset tells who wrote it.
    let brokers = brokers(Release::V0_8_1);
    let opened = own(&store(&brokers).await, "a").await;
    commit(&*opened, offer(clicks(0), 1, "a", 1)).await.unwrap();
    for n in 2..10 {
        let late = Fault::delay(Duration::from_secs(20)).on(ApiKey::OFFSET_COMMIT).once();
        brokers.inject(late);
        let waited = timeout(Duration::from_secs(1), commit(&*opened, offer(clicks(0), n, "a", 1))).await;
        assert!(waited.is_err());
        assert_eq!(kept(&brokers, 0), Some(n));
        advance(Duration::from_secs(40)).await;
    }
    commit(&*opened, offer(clicks(0), 10, "a", 1)).await.unwrap();
    assert_eq!(kept(&brokers, 0), Some(10));
}

#[tokio::test(start_paused = true)]
async fn an_editor_spares_an_owner_that_has_not_closed_unless_forced() {
    let brokers = brokers(Release::LATEST);
    let store = store(&brokers).await;
    let first = own(&store, "a").await;
    commit(&*first, offer(clicks(0), 7, "a", 1)).await.unwrap();
    let by_hand = |offset| Offer {
        partition: clicks(0),
        epoch: 0,
        checkpoint: Checkpoint { extras: Some(Extras::default()), ..Checkpoint::at(offset) },
        reset: true,
    };
    let editor = open(&store, Access::Edit { force: false }).await;
    load(&*editor, clicks(0)).await.unwrap();
    let why = commit(&*editor, by_hand(3)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Locked { by } if by.contains("run a")), "{why}");
    let forced = open(&store, Access::Edit { force: true }).await;
    commit(&*forced, by_hand(3)).await.unwrap();
    advance(Duration::from_secs(31)).await;
    let why = commit(&*first, offer(clicks(0), 8, "a", 2)).await.unwrap_err();
    assert!(matches!(problem(&why), Problem::Changed { expected: Some(7), found: Some(3) }), "{why}");

    load(&*first, clicks(0)).await.unwrap();
    let mut last = offer(clicks(0), 9, "a", 3);
    last.checkpoint.extras.as_mut().unwrap().clean = true;
    commit(&*first, last).await.unwrap();
    load(&*editor, clicks(0)).await.unwrap();
    commit(&*editor, by_hand(4)).await.unwrap();
    assert_eq!(kept(&brokers, 0), Some(4));
    let why = editor.remove(&[clicks(0)]).await.pop().unwrap().unwrap_err();
    assert!(why.to_string().contains("--delete-offsets"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_too_large_for_one_batch_is_split() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    let done: Vec<_> = (0..3000).map(|n| 2 * n + 1..2 * n + 2).collect();
    let mut offers: Vec<Offer> = (0..1000).map(|n| offer(clicks(n), 0, "a", 1)).collect();
    offers.iter_mut().for_each(|offer| offer.checkpoint.extras.as_mut().unwrap().done = done.clone());
    let refused = Fault::error(ErrorCode::INVALID_COMMIT_OFFSET_SIZE).on(ApiKey::OFFSET_COMMIT);
    brokers.inject(refused.times(2));
    opened.commit(&offers).await.into_iter().for_each(|one| assert!(one.is_ok(), "{one:?}"));
    assert!((0..1000).all(|n| kept(&brokers, n) == Some(0)));
    let requests = brokers.request_count(ApiKey::OFFSET_COMMIT);
    assert!((10..60).contains(&requests), "{requests}");

    // One that is too large by itself loses what is beside it.
    brokers.with(|core| core.clear_faults());
    let refused = Fault::error(ErrorCode::INVALID_COMMIT_OFFSET_SIZE).on(ApiKey::OFFSET_COMMIT);
    brokers.inject(refused.times(3));
    commit(&*opened, offer(clicks(0), 1, "a", 2)).await.unwrap();
    assert_eq!((kept(&brokers, 0), beside(&brokers, 0)), (Some(1), String::new()));
}

#[tokio::test(start_paused = true)]
async fn pc8_10_foreign_metadata_is_discarded_with_a_reason_and_the_offset_counts() {
    let brokers = brokers(Release::LATEST);
    let store = store(&brokers).await;
    let tool = cluster(&brokers).await;
    for text in ["abcd", "bAAL9gcA", "kgo-1", "{}", "{\"v\":9}", "\u{1}\u{2}", "{\"v\":1,\"o\":7,\"s\":1}"] {
        let foreign = GroupOffset::new("clicks", 0, 7).metadata(text);
        tool.commit_offsets("billing", &[foreign]).await.unwrap();
        let opened = own(&store, "a").await;
        let loaded = load(&*opened, clicks(0)).await.unwrap();
        assert_eq!(loaded.checkpoint, Some(Checkpoint::at(7)), "{text}");
        assert!(loaded.discarded.is_some(), "{text}");
        commit(&*opened, offer(clicks(0), 7, "a", 1)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_storm_kafka_client_left_is_a_position_of_its_topology() {
    let brokers = brokers(Release::LATEST);
    let text =
        r#"{"topologyId":"top-1-1700000000","taskId":3,"threadName":"Thread-14-kafka-executor[3, 3]"}"#;
    let theirs = GroupOffset::new("clicks", 0, 7).metadata(text);
    cluster(&brokers).await.commit_offsets("billing", &[theirs]).await.unwrap();
    let opened = own(&store(&brokers).await, "a").await;
    let loaded = load(&*opened, clicks(0)).await.unwrap();
    let owner = Owner { instance: "top-1-1700000000".into(), ..Owner::default() };
    let checkpoint = Checkpoint { owner: Some(owner), ..Checkpoint::at(7) };
    assert_eq!(loaded, Loaded { checkpoint: Some(checkpoint), discarded: None });
    commit(&*opened, offer(clicks(0), 8, "a", 1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_an_error_and_never_a_fresh_start() {
    let brokers = brokers(Release::LATEST);
    let opened = own(&store(&brokers).await, "a").await;
    for code in [ErrorCode::GROUP_AUTHORIZATION_FAILED, ErrorCode::UNKNOWN_SERVER_ERROR] {
        brokers.inject(Fault::error(code).on(ApiKey::OFFSET_FETCH).once());
        assert_eq!(load(&*opened, clicks(0)).await.unwrap_err().code(), Some(code));
    }
    let partition = Fault::error(ErrorCode::UNSTABLE_OFFSET_COMMIT).at_partition("clicks", 0);
    brokers.inject(partition.on(ApiKey::OFFSET_FETCH));
    assert!(load(&*opened, clicks(0)).await.is_err());
    brokers.with(|core| core.stop_broker(1));
    brokers.with(|core| core.stop_broker(2));
    assert!(load(&*opened, clicks(0)).await.is_err());
    assert!(opened.list().await.is_err());
    assert!(commit(&*opened, offer(clicks(0), 7, "a", 1)).await.is_err());
}

/// 21 is next; 21–23 and 31–34 are missing, all others up to 40 are done.
const PARALLEL_CONSUMER: &str = "bAAU+MMPAA==";

#[tokio::test(start_paused = true)]
async fn pc_3_8_parallel_consumers_map_is_read_on_request_if_it_fits_the_log() {
    let brokers = brokers(Release::LATEST);
    let theirs = GroupOffset::new("clicks", 0, 21).metadata(PARALLEL_CONSUMER);
    let cluster = cluster(&brokers).await;
    cluster.commit_offsets("billing", &[theirs]).await.unwrap();
    let plain = own(&KafkaCheckpoints::new(cluster.clone()), "a").await;
    let loaded = load(&*plain, clicks(0)).await.unwrap();
    assert_eq!(loaded.checkpoint.unwrap().extras, None);
    assert!(loaded.discarded.is_some());

    let store = KafkaCheckpoints::new(cluster.clone()).reads_parallel_consumer(true);
    let opened = own(&store, "b").await;
    let loaded = load(&*opened, clicks(0)).await.unwrap();
    assert!(loaded.discarded.unwrap().contains("another log's"), "the log is empty");
    brokers.with(|core| core.reset_log("clicks", 0, 41)).unwrap();
    let loaded = load(&*opened, clicks(0)).await.unwrap();
    let checkpoint = loaded.checkpoint.unwrap();
    assert_eq!((checkpoint.offset, loaded.discarded), (21, None));
    assert_eq!(checkpoint.extras.as_ref().unwrap().done, [24..31, 35..41]);

    // The first commit keeps what was done, in our own way.
    let mut offer = offer(clicks(0), 21, "b", 1);
    offer.checkpoint.extras = checkpoint.extras;
    assert_eq!(commit(&*opened, offer).await.unwrap(), Stored { done_until: 41 });
    assert!(beside(&brokers, 0).starts_with('{'));
    let loaded = load(&*own(&store, "c").await, clicks(0)).await.unwrap();
    assert_eq!(loaded.checkpoint.unwrap().extras.unwrap().done, [24..31, 35..41]);
}
