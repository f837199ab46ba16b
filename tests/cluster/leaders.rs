//! Leaders that move, die or are not to be found.

use super::*;

#[tokio::test(start_paused = true)]
async fn o5_calls_go_where_the_leader_goes_within_one_refresh() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        let cluster = cluster(&brokers).await;
        cluster.partitions("clicks").await.unwrap();
        for (i, leader) in [2, 3, 1, 3, 2, 1].into_iter().enumerate() {
            brokers.with(|core| core.set_leader("clicks", 0, Some(leader))).unwrap();
            let before = brokers.request_count(ApiKey::METADATA);
            if i % 2 == 0 {
                assert_eq!(cluster.latest_offset("clicks", 0).await.unwrap(), i as i64 / 2, "{release}");
            } else {
                let base = cluster.produce("clicks", 0, &[NewRecord::value(b"v")]).await;
                assert_eq!(base.unwrap(), i as i64 / 2, "{release}");
            }
            // The ladder of the first connection to a broker asks for metadata too.
            if *release >= Release::V0_10_0 {
                let hinted = i % 2 == 1 && *release >= Release::V3_9;
                let asked = brokers.request_count(ApiKey::METADATA) - before;
                assert_eq!(asked, usize::from(!hinted), "{release}, move {i}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn o5_calls_go_on_while_leaders_die_and_come_back() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V2_8, Release::V4_4] {
        let brokers = brokers(release);
        let cluster = cluster(&brokers).await;
        for turn in 0..9 {
            let dead = 1 + turn % 3;
            brokers.with(|core| core.stop_broker(dead));
            for partition in 0..3 {
                let begin = Instant::now();
                cluster.produce("clicks", partition, &[NewRecord::value(b"v")]).await.unwrap();
                cluster.earliest_offset("clicks", partition).await.unwrap();
                assert!(begin.elapsed() < Duration::from_secs(5), "{release}: {:?}", begin.elapsed());
            }
            brokers.with(|core| core.start_broker(dead));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c4_a_broker_that_cannot_be_reached_delays_no_partition_of_others() {
    let brokers = brokers(Release::LATEST);
    let network = Network::default();
    network.route_all(&brokers);
    let cluster = Cluster::builder([brokers.addr()]).connector(network.clone()).connect().await.unwrap();
    cluster.partitions("clicks").await.unwrap();
    network.black_hole("broker-2:9092");
    for _ in 0..3 {
        let slow = tokio::spawn({
            let cluster = cluster.clone();
            async move { cluster.latest_offset("clicks", 1).await }
        });
        tokio::task::yield_now().await;
        let begin = Instant::now();
        for partition in [0, 2] {
            cluster.latest_offset("clicks", partition).await.unwrap();
            cluster.produce("clicks", partition, &[NewRecord::value(b"v")]).await.unwrap();
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert!(!slow.is_finished());
        slow.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn c4_offsets_of_several_partitions_wait_for_the_slowest_alone() {
    let brokers = brokers(Release::LATEST);
    let cluster = builder(&brokers).api_timeout(Duration::from_millis(10)).connect().await.unwrap();
    brokers.inject(Fault::delay(Duration::from_secs(3)).on(ApiKey::LIST_OFFSETS));
    let begin = Instant::now();
    let wanted = [
        ("clicks", 0, OffsetSpec::Latest),
        ("clicks", 1, OffsetSpec::Latest),
        ("clicks", 2, OffsetSpec::Latest),
    ];
    let listed = cluster.list_offsets(&wanted).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    let offsets: Vec<_> = listed.iter().map(|listed| (listed.partition, listed.offset)).collect();
    assert_eq!(offsets, [(0, Some(0)), (1, Some(0)), (2, Some(0))]);
}

#[tokio::test(start_paused = true)]
async fn case_55_a_leader_that_is_not_among_the_brokers_is_none() {
    for release in [Release::V0_10_0, Release::V2_4, Release::V4_4] {
        let brokers = brokers(release);
        brokers.with(|core| core.hide_broker(2, true));
        let cluster = builder(&brokers).api_timeout(Duration::from_secs(2)).connect().await.unwrap();
        let why = cluster.latest_offset("clicks", 1).await.unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::NoLeader), "{why}");
        assert_eq!(
            (why.topic(), why.partition(), why.retry()),
            (Some("clicks"), Some(1), Retry::RefreshMetadata)
        );
        let waits = tokio::spawn(async move { cluster.latest_offset("clicks", 1).await });
        sleep(Duration::from_millis(500)).await;
        brokers.with(|core| core.hide_broker(2, false));
        assert_eq!(waits.await.unwrap().unwrap(), 0, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_finds_the_leader_himself_talks_to_it_over_the_connection_of_the_cluster() {
    let brokers = brokers(Release::LATEST);
    let network = Network::default();
    network.route_all(&brokers);
    let cluster = Cluster::builder([brokers.addr()]).connector(network.clone()).connect().await.unwrap();
    for _ in 0..3 {
        let leader = cluster.leader("clicks", 1).await.unwrap();
        let consumer = cluster.consumer(leader.id).unwrap();
        assert_eq!((leader.id, consumer.latest_offset("clicks", 1).await.unwrap()), (2, 0));
        cluster.latest_offset("clicks", 1).await.unwrap();
    }
    assert_eq!(network.attempts("broker-2:9092"), 1);
    let why = cluster.consumer(1).unwrap().latest_offset("clicks", 1).await.unwrap_err();
    assert!(
        matches!(why.kind(), ErrorKind::NotLeader { leader: Some(leader) } if leader == "broker-2:9092"),
        "{why}"
    );
    assert!(matches!(cluster.consumer(9).unwrap_err().kind(), ErrorKind::UnknownBroker(9)));
    brokers.with(|core| core.set_leader("clicks", 1, Some(3))).unwrap();
    cluster.refresh().await.unwrap();
    assert_eq!(cluster.leader("clicks", 1).await.unwrap().id, 3);
}

#[tokio::test(start_paused = true)]
async fn case_58_offsets_are_asked_of_the_leader_also_with_a_rack() {
    let brokers = brokers(Release::LATEST);
    let cluster = builder(&brokers).rack("a").connect().await.unwrap();
    for partition in 0..3 {
        cluster.earliest_offset("clicks", partition).await.unwrap();
    }
    let nodes = [1, 2, 3].map(|node| asked(&brokers, node, ApiKey::LIST_OFFSETS));
    assert_eq!(nodes, [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn o2_a_broker_whose_metadata_stands_still_is_left_for_another() {
    for release in [Release::V0_10_2, Release::V2_8, Release::V3_3] {
        let brokers = brokers(release);
        let cluster = cluster(&brokers).await;
        cluster.partitions("clicks").await.unwrap();
        brokers.with(|core| {
            core.hold_metadata(1, true);
            core.set_leader("clicks", 0, Some(2)).unwrap();
        });
        let begin = Instant::now();
        assert_eq!(cluster.latest_offset("clicks", 0).await.unwrap(), 0);
        assert!(begin.elapsed() < Duration::from_secs(3), "{release}: {:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_epoch_is_asked_of_the_leader_where_it_can_be() {
    let brokers = brokers(Release::V2_4);
    let cluster = cluster(&brokers).await;
    for _ in 0..3 {
        cluster.produce("clicks", 0, &[NewRecord::value(b"v")]).await.unwrap();
    }
    brokers.with(|core| core.truncate("clicks", 0, 2)).unwrap();
    brokers.with(|core| core.set_leader("clicks", 0, Some(3))).unwrap();
    let end = cluster.offset_for_leader_epoch("clicks", 0, 0).await.unwrap();
    assert_eq!((end.leader_epoch, end.end_offset), (Some(0), Some(2)));
    let old = super::brokers(Release::V2_0);
    let why = super::cluster(&old).await.offset_for_leader_epoch("clicks", 0, 0).await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Unsupported { .. }), "{why}");
    assert_eq!((why.topic(), why.partition()), (Some("clicks"), Some(0)));
}
