//! Who is asked for metadata, and what is never asked.

use super::*;
use downspout::net::Dialer;

#[tokio::test(start_paused = true)]
async fn o6_a_broker_that_died_is_not_chosen_again_while_others_answer() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V4_4] {
        let brokers = brokers(release);
        let network = Network::default();
        network.route_all(&brokers);
        let cluster = Cluster::builder(brokers.addrs()).connector(network.clone()).connect().await.unwrap();
        for dead in [1, 2] {
            let address = format!("broker-{dead}:9092");
            let before = network.attempts(&address);
            brokers.with(|core| core.stop_broker(dead));
            for _ in 0..20 {
                cluster.metadata(&["clicks"]).await.unwrap();
                sleep(Duration::from_secs(2)).await;
            }
            // One for the connection that was lost.
            assert!(network.attempts(&address) - before <= 1, "{release}, broker {dead}");
            brokers.with(|core| core.start_broker(dead));
        }
        let begin = Instant::now();
        cluster.metadata(&["clicks"]).await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO, "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn o6_a_frozen_broker_costs_a_second_once() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    brokers.with(|core| core.freeze_broker(1, true));
    let begin = Instant::now();
    cluster.metadata(&["clicks"]).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
    for _ in 0..10 {
        cluster.metadata(&["clicks"]).await.unwrap();
    }
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_among_good_ones_delays_the_beginning_by_a_second_at_most() {
    for release in [Release::V0_8_0, Release::V0_9_0, Release::V4_4] {
        let brokers = brokers(release);
        let network = Network::default();
        network.route_all(&brokers);
        // One vanishes, one does not exist (any more), one is good.
        network.route("gone:9092", &brokers, "broker-9:9092");
        let addresses = ["hole:9092", "gone:9092", "broker-3:9092"];
        let begin = Instant::now();
        let cluster = Cluster::builder(addresses).connector(network.clone()).connect().await.unwrap();
        // 0.9 takes three seconds to be recognised.
        let most = if release == Release::V0_9_0 { 6 } else { 1 };
        assert!(begin.elapsed() <= Duration::from_secs(most), "{release}: {:?}", begin.elapsed());
        assert_eq!(cluster.brokers().into_keys().collect::<Vec<_>>(), [1, 2, 3], "{release}");
        for _ in 0..5 {
            cluster.metadata(&[]).await.unwrap();
        }
        assert_eq!((network.attempts("hole:9092"), network.attempts("gone:9092")), (1, 1), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_nobody_can_be_reached_the_error_names_all_and_comes_in_time() {
    let brokers = brokers(Release::LATEST);
    let network = Network::default();
    network.route("gone:9092", &brokers, "broker-9:9092");
    let begin = Instant::now();
    let builder = Cluster::builder(["hole:1", "gone:9092"]).connector(network.clone());
    let why = builder.connect_timeout(Duration::from_secs(4)).connect().await.unwrap_err();
    assert!(begin.elapsed() <= Duration::from_secs(5), "{:?}", begin.elapsed());
    let ErrorKind::NoBroker(errors) = why.kind() else { panic!("{why}") };
    let mut named: Vec<_> = errors.iter().map(|error| error.broker().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["gone:9092", "hole:1"]);
    assert_eq!((why.fault(), why.retry()), (downspout::error::Fault::Network, Retry::Again));
    for address in named {
        assert!(why.to_string().contains(address), "{why}");
    }
    let why = Cluster::builder([""; 0]).build().unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Config(_)), "{why}");
    let why = Cluster::connect(["http://a:1"]).await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Config(_)), "{why}");
}

#[tokio::test(start_paused = true)]
async fn c2_a_name_is_looked_up_anew_and_the_first_addresses_are_kept_for_life() {
    let (old, new) = (brokers(Release::V2_8), brokers(Release::V4_4));
    let network = Network::default();
    network.route_all(&old);
    network.route("kafka:9092", &old, "broker-1:9092");
    let cluster = Cluster::builder(["kafka:9092"]).connector(network.clone()).connect().await.unwrap();
    cluster.latest_offset("clicks", 0).await.unwrap();
    assert_eq!(network.attempts("kafka:9092"), 1);
    // All brokers move to other machines; the names follow.
    (1..=3).for_each(|node| old.with(|core| core.stop_broker(node)));
    network.route_all(&new);
    network.route("kafka:9092", &new, "broker-1:9092");
    assert_eq!(cluster.produce("clicks", 2, &[NewRecord::value(b"v")]).await.unwrap(), 0);
    // KIP-899: the brokers known are no more, the first address still is.
    let network2 = Network::default();
    network2.route_all(&old);
    (1..=3).for_each(|node| old.with(|core| core.start_broker(node)));
    network2.route("kafka:9092", &old, "broker-1:9092");
    let cluster = Cluster::builder(["kafka:9092"]).connector(network2.clone()).connect().await.unwrap();
    (1..=3).for_each(|node| old.with(|core| core.stop_broker(node)));
    network2.route("kafka:9092", &new, "broker-2:9092");
    assert!(cluster.all_topics().await.is_ok());
    assert_eq!(network2.attempts("kafka:9092"), 2);
}

#[tokio::test(start_paused = true)]
async fn no_request_creates_a_topic_whatever_is_asked() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        let cluster = builder(&brokers).api_timeout(Duration::from_secs(1)).connect().await.unwrap();
        let _ = cluster.partitions("new").await;
        let _ = cluster.metadata(&["new"]).await;
        let _ = cluster.latest_offset("new", 0).await;
        let _ = cluster.offset_for_leader_epoch("new", 0, 0).await;
        let _ = cluster.produce("new", 0, &[NewRecord::value(b"v")]).await;
        let _ = cluster.commit_offsets("group", &[GroupOffset::new("new", 0, 1)]).await;
        let _ = cluster.fetch_offsets("group", &[("new", 0)]).await;
        let _ = cluster.wait_for_topic("new", Duration::from_millis(300)).await;
        assert!(brokers.with(|core| core.offsets("new", 0).is_err()), "{release}");
        assert!(brokers.with(|core| core.offsets("clicks", 0).is_ok()), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn bootstrap_reads_on_its_own_what_was_selected() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        brokers.create_topic("orders", 1);
        let dialer = Dialer::default().connector(Arc::new(brokers.connector()));
        let reader = Bootstrap::new(dialer, [brokers.addr().parse().unwrap()]).unwrap();
        let read = async |selection: TopicSelection| {
            let metadata = reader.read(&selection).await.unwrap();
            metadata.topics.into_iter().map(|topic| (topic.name, topic.partitions.len())).collect::<Vec<_>>()
        };
        let (clicks, orders) = (("clicks".to_owned(), 3), ("orders".to_owned(), 1));
        assert_eq!(read(TopicSelection::All).await, [clicks, orders.clone()], "{release}");
        assert_eq!(read(TopicSelection::named(["orders"])).await, [orders], "{release}");
        assert_eq!(read(TopicSelection::named([""; 0])).await, [], "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn static_hosts_lead_to_the_brokers_they_name_and_nothing_is_looked_up() {
    let brokers = brokers(Release::V0_8_2);
    let hosts = (0..3).try_fold(StaticHosts::new(), |hosts, partition| {
        hosts.partition("clicks", partition, &brokers.addrs()[partition as usize])
    });
    let builder = Cluster::builder([""; 0]).reader(hosts.unwrap()).connector(brokers.connector());
    let cluster = builder.assume_release(downspout::net::LegacyRelease::V0_8_2).connect().await.unwrap();
    for partition in cluster.partitions("clicks").await.unwrap() {
        assert_eq!(cluster.produce("clicks", partition, &[NewRecord::value(b"v")]).await.unwrap(), 0);
        assert_eq!(cluster.latest_offset("clicks", partition).await.unwrap(), 1);
    }
    assert_eq!(brokers.request_count(ApiKey::METADATA), 0);
    let why = cluster.partitions("cliks").await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::UnknownTopic { near } if near == &["clicks"]), "{why}");
    let why = StaticHosts::new().partition("t", -1, "a").unwrap_err();
    assert_eq!((why.topic(), why.partition()), (Some("t"), Some(-1)));
    assert!(StaticHosts::new().partition("t", 0, "a b").is_err());
}
