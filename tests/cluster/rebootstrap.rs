//! When the cluster is to be looked for anew (KIP-899, KIP-1102, KIP-1242).

use super::*;

/// Two clusters under the same names; the names lead to the first.
async fn moved() -> (EmbeddedBroker, EmbeddedBroker, Network, Cluster) {
    let (old, new) = (brokers(Release::V4_4), brokers(Release::V4_4));
    let network = Network::default();
    network.route_all(&old);
    network.route("kafka:9092", &old, "broker-1:9092");
    let cluster = Cluster::builder(["kafka:9092"]).connector(network.clone()).connect().await.unwrap();
    (old, new, network, cluster)
}

#[tokio::test(start_paused = true)]
async fn case_67_error_129_closes_all_connections_and_begins_at_the_first_addresses() {
    let (old, new, network, cluster) = moved().await;
    for partition in 0..3 {
        cluster.produce("clicks", partition, &[NewRecord::value(b"v")]).await.unwrap();
    }
    assert!(open(&old).await.len() >= 3);
    // Something is under way on the old cluster, and is never answered (KAFKA-18085).
    old.inject(Fault::silence().on(ApiKey::LIST_OFFSETS).once());
    let waits = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.latest_offset("clicks", 2).await }
    });
    sleep(Duration::from_secs(1)).await;
    network.route_all(&new);
    network.route("kafka:9092", &new, "broker-1:9092");
    old.inject(Fault::error(ErrorCode::REBOOTSTRAP_REQUIRED).on(ApiKey::METADATA).at_top());
    let begin = Instant::now();
    let metadata = cluster.metadata(&["clicks"]).await.unwrap();
    assert_eq!(metadata.brokers.len(), 3);
    assert_eq!(open(&old).await, [0; 0]);
    assert_eq!(waits.await.unwrap().unwrap(), 0, "asked again, of the new cluster");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(cluster.produce("clicks", 0, &[NewRecord::value(b"v")]).await.unwrap(), 0);
    assert_eq!(open(&old).await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn c3_no_more_rebootstraps_once_a_broker_answers() {
    let (old, _new, network, cluster) = moved().await;
    old.inject(Fault::error(ErrorCode::REBOOTSTRAP_REQUIRED).on(ApiKey::METADATA).at_top().times(6));
    let begin = Instant::now();
    while cluster.metadata(&["clicks"]).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    let attempts = network.attempts("kafka:9092");
    for _ in 0..50 {
        cluster.metadata(&["clicks"]).await.unwrap();
        cluster.latest_offset("clicks", 0).await.unwrap();
    }
    assert_eq!(network.attempts("kafka:9092"), attempts);
    assert!(attempts <= 7, "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn kip_1242_a_broker_that_is_not_who_it_was_taken_for_is_found_out() {
    let (old, new, network, cluster) = moved().await;
    cluster.partitions("clicks").await.unwrap();
    // The addresses of brokers 2 and 3 were swapped, and nobody has told.
    network.route("broker-2:9092", &old, "broker-3:9092");
    network.route("broker-3:9092", &new, "broker-2:9092");
    network.route("kafka:9092", &new, "broker-1:9092");
    network.route("broker-1:9092", &new, "broker-1:9092");
    let waits = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.produce("clicks", 1, &[NewRecord::value(b"v")]).await }
    });
    sleep(Duration::from_secs(2)).await;
    assert_eq!(asked(&old, 3, ApiKey::PRODUCE), 0, "it said who it is before anything was asked of it");
    network.route_all(&new);
    assert_eq!(waits.await.unwrap().unwrap(), 0);
    assert_eq!(asked(&new, 2, ApiKey::PRODUCE), 1);
}
