use super::*;

#[tokio::test(start_paused = true)]
async fn o5_a_moved_leader_is_followed_within_one_refresh() {
    for release in [Release::V0_8_2, Release::V0_11_0, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 10, 5);
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
        let mut found = read(&mut stream, 10).await;
        for turn in 0..6 {
            brokers.with(|core| core.set_leader("t", 0, Some(turn % 3 + 1))).unwrap();
            append(&brokers, "t", 0, 10, 5);
            let began = Instant::now();
            found.extend(read(&mut stream, 10).await);
            assert!(began.elapsed() < Duration::from_secs(2), "{release}: {:?}", began.elapsed());
        }
        assert_eq!(found, to(70), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn o1_below_the_start_fails_by_default_and_stays_usable() {
    for release in [Release::V0_8_0, Release::V0_10_2, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 1);
        brokers.with(|core| core.delete_before("t", 0, 60)).unwrap();
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.partition("t", 0).stream(StartOffset::At(20)).await.unwrap();
        for _ in 0..2 {
            let why = stream.next().await.unwrap_err();
            let ErrorKind::OutOfRange(OutOfRange::BelowStart { log }) = why.kind() else { panic!("{why:?}") };
            assert_eq!((log.start, log.end, why.offset()), (60, 100, Some(20)), "{release}");
            assert_eq!(stream.position(), Some(20));
        }
        stream.seek(StartOffset::At(60)).unwrap();
        assert_eq!(read(&mut stream, 40).await, (60..100).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn o1_o11_a_policy_goes_on_and_says_what_it_cost() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 100, 1);
    brokers.with(|core| core.delete_before("t", 0, 60)).unwrap();
    let cluster = cluster(&brokers).await;
    let table = [
        (ResetPolicy::Earliest, 20, 60, 40, 0),
        (ResetPolicy::Latest, 20, 100, 80, 0),
        (ResetPolicy::Nearest, 20, 60, 40, 0),
        (ResetPolicy::Nearest, 120, 100, 0, 20),
        (ResetPolicy::Earliest, 120, 60, 0, 60),
    ];
    for (policy, from, resumed, lost, repeated) in table {
        let stream = cluster.partition("t", 0).stream(StartOffset::At(from)).reset(policy.clone());
        let mut stream = stream.await.unwrap();
        let event = event(&mut stream).await;
        let Recovered::OutOfRange { position, resumed_at, .. } = &event else { panic!("{event}") };
        assert_eq!((*position, *resumed_at), (from, resumed), "{policy:?}");
        assert_eq!((event.lost(), event.repeated()), (lost, repeated), "{policy:?} {from}");
        let rest = (100 - resumed) as usize;
        assert_eq!(read(&mut stream, rest).await, (resumed..100).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn o2_a_stale_leaders_refusal_resets_nothing() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 100, 10);
    let cluster = cluster(&brokers).await;
    brokers.inject(Fault::error(ErrorCode::OFFSET_OUT_OF_RANGE).on(ApiKey::FETCH).once());
    let stream = cluster.partition("t", 0).stream(StartOffset::At(50)).reset(ResetPolicy::Earliest);
    let mut stream = stream.await.unwrap();
    assert_eq!(read(&mut stream, 50).await, (50..100).collect::<Vec<_>>());
}

/// A broker that has just started, and is asked for metadata, knows of no topics.
#[tokio::test(start_paused = true)]
async fn kip_320_a_truncation_is_found_also_when_the_topic_was_missing_before_its_new_leader() {
    for (release, missing) in [(Release::V2_4, 1), (Release::V2_8, 1), (Release::V2_8, 3), (Release::V4_4, 2)]
    {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        let cluster = cluster(&brokers).await;
        let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
        assert_eq!(read(&mut stream, 100).await, to(100), "{release}");
        let unknown = Fault::error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        brokers.inject(unknown.on(ApiKey::METADATA).at_topic("t").times(missing));
        // No hint of the new leader (KIP-951): metadata are asked for.
        brokers.inject(Fault::error(ErrorCode::REPLICA_NOT_AVAILABLE).on(ApiKey::FETCH).times(missing));
        brokers.with(|core| {
            core.truncate("t", 0, 70).unwrap();
            core.set_leader("t", 0, Some(2)).unwrap();
        });
        append(&brokers, "t", 0, 60, 10);
        let event = event(&mut stream).await;
        assert_eq!(event, Recovered::Truncated { position: 100, diverged_at: 70 }, "{release}");
        assert_eq!(read(&mut stream, 60).await, (70..130).collect::<Vec<_>>(), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn kip_320_an_unclean_election_goes_on_where_the_logs_part() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 100, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 100).await, to(100));
    brokers.with(|core| {
        core.truncate("t", 0, 70).unwrap();
        core.set_leader("t", 0, Some(2)).unwrap();
    });
    append(&brokers, "t", 0, 60, 10);
    let event = event(&mut stream).await;
    assert_eq!(event, Recovered::Truncated { position: 100, diverged_at: 70 });
    assert_eq!(event.repeated(), 30);
    assert_eq!(read(&mut stream, 60).await, (70..130).collect::<Vec<_>>());
}

/// Positions that were kept elsewhere, with the epoch of what was read last.
#[tokio::test(start_paused = true)]
async fn kip_320_a_start_in_an_epoch_finds_what_was_truncated_meanwhile() {
    // Release, until when to read, leader epoch, event.
    let parted = Some(Recovered::Truncated { position: 100, diverged_at: 70 });
    for (release, end, leader_epoch, expected) in [
        (Release::V2_0, EndOffset::Never, 0, parted.clone()),
        (Release::V2_4, EndOffset::Latest, 0, parted.clone()),
        (Release::V4_4, EndOffset::Never, 0, parted.clone()),
        (Release::V4_4, EndOffset::At(130), 0, parted),
        // What no log holds, and what brokers cannot tell, proves nothing.
        (Release::V4_4, EndOffset::Never, 40, None),
        (Release::V4_4, EndOffset::Latest, -1, None),
        (Release::V0_10_2, EndOffset::Latest, 0, None),
        (Release::V0_11_0, EndOffset::Never, 0, None),
    ] {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 100, 10);
        brokers.with(|core| {
            core.truncate("t", 0, 70).unwrap();
            core.set_leader("t", 0, Some(2)).unwrap();
        });
        append(&brokers, "t", 0, 60, 10);
        let cluster = cluster(&brokers).await;
        let start = StartOffset::InEpoch { offset: 100, leader_epoch };
        let mut stream = cluster.partition("t", 0).stream(start).until(end).await.unwrap();
        let from = match expected {
            Some(expected) => {
                assert_eq!(event(&mut stream).await, expected, "{release}");
                70
            }
            None => 100,
        };
        let rest = (130 - from) as usize;
        assert_eq!(
            read(&mut stream, rest).await,
            (from..130).collect::<Vec<_>>(),
            "{release} {leader_epoch}"
        );
        // Elsewhere in the same stream: the same.
        stream.seek(StartOffset::InEpoch { offset: 90, leader_epoch }).unwrap();
        assert_eq!(stream.position(), Some(90));
        let from = if from == 70 {
            event(&mut stream).await;
            70
        } else {
            90
        };
        let rest = (130 - from) as usize;
        assert_eq!(read(&mut stream, rest).await, (from..130).collect::<Vec<_>>(), "{release}");
    }
    let brokers = brokers(Release::V4_4);
    let start = StartOffset::InEpoch { offset: -1, leader_epoch: 0 };
    let why = cluster(&brokers).await.partition("t", 0).stream(start).await.unwrap_err();
    assert!(why.to_string().contains("no offset"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn case_56_a_topic_made_anew_is_reported() {
    let brokers = brokers(Release::V4_4);
    append(&brokers, "t", 0, 100, 10);
    let cluster = cluster(&brokers).await;
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).reset(ResetPolicy::Earliest);
    let mut stream = stream.await.unwrap();
    assert_eq!(read(&mut stream, 100).await, to(100));
    brokers.with(|core| {
        core.delete_topic("t");
        core.create_topic("t", 3);
    });
    append(&brokers, "t", 0, 200, 10);
    let event = event(&mut stream).await;
    let Recovered::OutOfRange { position: 100, resumed_at: 0, why: OutOfRange::Recreated { .. } } = event
    else {
        panic!("{event}")
    };
    assert_eq!(read(&mut stream, 200).await, to(200));
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_vanishes_keeps_its_position_and_says_so() {
    let brokers = brokers(Release::V0_10_2);
    append(&brokers, "t", 0, 10, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 10).await, to(10));
    brokers.with(|core| core.delete_topic("t"));
    assert_eq!(event(&mut stream).await, Recovered::Vanished { position: 10 });
    brokers.with(|core| core.create_topic("t", 3));
    append(&brokers, "t", 0, 20, 10);
    assert_eq!(event(&mut stream).await, Recovered::Returned { position: 10 });
    assert_eq!(read(&mut stream, 10).await, (10..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn case_56_without_ids_the_epochs_of_a_topic_that_came_back_prove_no_truncation() {
    let brokers = brokers(Release::V2_4);
    append(&brokers, "t", 0, 50, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 50).await, to(50));
    brokers.with(|core| core.delete_topic("t"));
    assert_eq!(event(&mut stream).await, Recovered::Vanished { position: 50 });
    brokers.with(|core| core.create_topic("t", 3));
    append(&brokers, "t", 0, 10, 10);
    assert_eq!(event(&mut stream).await, Recovered::Returned { position: 50 });
    let why = stream.next().await.unwrap_err();
    let ErrorKind::OutOfRange(OutOfRange::AboveEnd { log }) = why.kind() else { panic!("{why:?}") };
    assert_eq!((log.start, log.end, why.offset()), (0, 10, Some(50)));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_has_just_started_and_knows_no_topics_yet_is_not_believed() {
    let brokers = brokers(Release::V0_8_2);
    append(&brokers, "t", 0, 10, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 10).await, to(10));
    let unknown = || Fault::error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    brokers.inject(unknown().on(ApiKey::METADATA).at_topic("t"));
    brokers.inject(unknown().on(ApiKey::FETCH));
    append(&brokers, "t", 0, 10, 10);
    sleep(Duration::from_secs(2)).await; // of the paused clock
    brokers.with(|core| core.clear_faults());
    append(&brokers, "t", 0, 10, 10);
    assert_eq!(
        read(&mut stream, 20).await,
        (10..30).collect::<Vec<_>>(),
        "and no word of a topic that is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn partitions_that_are_added_are_read_too() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 10, 10);
    let cluster = builder(&brokers).metadata_max_age(Duration::from_secs(5)).connect().await.unwrap();
    let mut stream = cluster.streams().topic("t").await.unwrap();
    assert!(matches!(stream.next().await.unwrap(), Some((_, Item::Batch(_)))));
    brokers.with(|core| core.add_partitions("t", 5)).unwrap();
    append(&brokers, "t", 4, 10, 10);
    let (at, item) = stream.next().await.unwrap().unwrap();
    let Item::Recovered(event) = item else { panic!("{item:?}") };
    assert_eq!((at.partition, event), (3, Recovered::PartitionsAdded { added: 3..5 }));
    let (at, item) = stream.next().await.unwrap().unwrap();
    assert!(at.partition == 4 && matches!(item, Item::Batch(_)));
}

/// Whatever becomes of the picture of the cluster in between.
#[tokio::test(start_paused = true)]
async fn partitions_that_are_added_are_read_too_after_other_streams_and_refreshes_that_failed() {
    for fails in [false, true] {
        let brokers = brokers(Release::V2_8);
        append(&brokers, "t", 0, 10, 10);
        let cluster = builder(&brokers).metadata_max_age(Duration::from_secs(60)).connect().await.unwrap();
        let mut stream = cluster.streams().topic("t").await.unwrap();
        assert!(matches!(stream.next().await.unwrap(), Some((_, Item::Batch(_)))));
        brokers.with(|core| core.create_topic("other", 2));
        let other = cluster.streams().topic("other").await.unwrap();
        if fails {
            brokers.inject(Fault::close().on(ApiKey::METADATA));
            sleep(Duration::from_secs(100)).await;
            brokers.with(|core| core.clear_faults());
        }
        brokers.with(|core| core.add_partitions("t", 5)).unwrap();
        let found = timeout(Duration::from_secs(200), stream.next()).await.unwrap();
        let Item::Recovered(event) = found.unwrap().unwrap().1 else { panic!() };
        assert_eq!(event, Recovered::PartitionsAdded { added: 3..5 });
        drop(other);
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_that_was_granted_again_is_noticed() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 10, 10);
    let cluster = builder(&brokers).metadata_max_age(Duration::from_secs(5)).connect().await.unwrap();
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 10).await, to(10));
    let denied = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    brokers.inject(Fault::error(denied).on(ApiKey::METADATA).at_topic("t"));
    brokers.inject(Fault::error(denied).on(ApiKey::FETCH));
    for _ in 0..3 {
        let why = timeout(Duration::from_secs(60), stream.next()).await.unwrap().unwrap_err();
        assert_eq!(why.code(), Some(denied));
        sleep(Duration::from_secs(10)).await;
    }
    brokers.with(|core| core.clear_faults());
    append(&brokers, "t", 0, 10, 10);
    let began = Instant::now();
    loop {
        match timeout(Duration::from_secs(10), stream.next()).await.unwrap() {
            Ok(item) => break assert!(matches!(item, Some(Item::Batch(_)))),
            Err(why) => assert!(began.elapsed() < Duration::from_secs(10), "{why}"),
        }
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_cluster_ends_a_stream_whose_topic_is_gone() {
    let brokers = brokers(Release::V2_8);
    append(&brokers, "t", 0, 10, 10);
    let cluster = cluster(&brokers).await;
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    assert_eq!(read(&mut stream, 10).await, to(10));
    brokers.with(|core| core.delete_topic("t"));
    assert_eq!(event(&mut stream).await, Recovered::Vanished { position: 10 });
    let waits = tokio::spawn(async move { stream.next().await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    cluster.close();
    let ended = timeout(Duration::from_secs(60), waits).await.unwrap().unwrap();
    assert!(matches!(ended.unwrap_err().kind(), ErrorKind::ClientClosed));
}
