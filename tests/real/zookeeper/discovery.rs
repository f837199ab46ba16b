//! What is found in ZooKeeper, beside what the brokers answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use downspout::client::{Cluster, Item, StartOffset};
use downspout::discovery::{
    Bootstrap, BrokerReader, CrossChecked, Metadata, PartitionMetadata, TopicSelection, ZooKeeperBrokers,
};
use downspout::net::{BrokerAddress, Dialer};

use super::*;
use crate::harness::{Driver, Kafka, Mode, Options, Prepared, Release, Send};
use crate::stage::{Turn, left_out};

fn start(release: &str, options: Options) -> Option<Kafka> {
    let release = Release::named(release);
    let prepared = Prepared::in_mode(release, Mode::ZooKeeper);
    let prepared = prepared.map_err(|why| left_out(release, &why)).ok()?;
    Some(Kafka::start(release, &prepared, options).unwrap_or_else(|why| panic!("{release}: {why}")))
}

fn bootstrap(address: impl ToString) -> Arc<Bootstrap> {
    let address: BrokerAddress = address.to_string().parse().unwrap();
    Arc::new(Bootstrap::new(Dialer::default(), [address]).unwrap())
}

async fn in_zookeeper(kafka: &Kafka) -> (Arc<Session>, ZooKeeperBrokers) {
    let session = Arc::new(session(&kafka.zookeeper_connect().unwrap()).await);
    let brokers = ZooKeeperBrokers::new(Arc::clone(&session) as Arc<dyn downspout::zookeeper::ZooKeeper>);
    (session, brokers)
}

/// Everything that both can know, as text. Epochs are told by brokers only where they can be trusted, and no release
/// before 0.8.2 names a broker that has no part in a topic.
fn shown(metadata: &Metadata, epochs: bool) -> String {
    let partition = |partition: &PartitionMetadata| {
        let (mut in_sync, mut replicas) = (partition.in_sync.clone(), partition.replicas.clone());
        in_sync.sort_unstable();
        replicas.sort_unstable(); // 0.10 answers in no order
        let epoch = partition.leader_epoch.filter(|_| epochs);
        let PartitionMetadata { id, leader, error, .. } = partition;
        format!("{id}: {leader:?} {epoch:?} {replicas:?} {in_sync:?} {error:?}")
    };
    let topics: BTreeMap<&str, (Vec<String>, _)> = metadata
        .topics
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter().map(partition).collect();
            (topic.name.as_str(), (partitions, topic.id))
        })
        .collect();
    let brokers: Vec<String> = metadata
        .brokers
        .iter()
        .map(|broker| format!("{} {} {:?}", broker.id, broker.address, broker.rack))
        .collect();
    format!("{:?} {brokers:#?} {topics:#?}", metadata.cluster_id)
}

/// Waits until both say the same; how long that took.
async fn agreed(what: &str, brokers: &Bootstrap, zookeeper: &ZooKeeperBrokers) -> Duration {
    let (start, limit) = (Instant::now(), Duration::from_secs(30));
    loop {
        // One after the other: what changes in between is seen the next time.
        let ours = zookeeper.read(&TopicSelection::All).await.unwrap();
        let theirs = brokers.read(&TopicSelection::All).await.unwrap();
        let epochs = theirs.topics.iter().flat_map(|it| &it.partitions).any(|it| it.leader_epoch.is_some());
        let (ours, theirs) = (shown(&ours, epochs), shown(&theirs, epochs));
        if ours == theirs {
            return start.elapsed();
        }
        assert!(start.elapsed() < limit, "{what}: ZooKeeper\n{ours}\nbrokers\n{theirs}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three brokers; the leader of a partition dies.
async fn equals_the_metadata_api(release: &str, chroot: &'static str) {
    let _turn = Turn::take();
    let options = Options {
        brokers: 3,
        session_timeout: Duration::from_secs(2),
        heap: "96m",
        chroot,
        ..Options::default()
    };
    let Some(mut kafka) = start(release, options) else { return };
    let mut driver = Driver::start(&kafka).unwrap();
    driver.create_topic(&kafka, "spread", 3, &[]).unwrap();
    driver.create_topic(&kafka, "other", 1, &[]).unwrap();
    drop(driver);
    let (session, zookeeper) = in_zookeeper(&kafka).await;
    let quiet = agreed("quiet", &bootstrap(kafka.address()), &zookeeper).await;

    let leader = kafka.leader("spread", 0).unwrap().unwrap();
    let other = (leader + 1) % 3;
    kafka.kill(leader).unwrap();
    let start = Instant::now();
    let brokers = bootstrap(kafka.broker_address(other));
    let (mut by_zookeeper, mut by_brokers) = (None, None);
    while by_zookeeper.is_none() || by_brokers.is_none() {
        let moved = |metadata: &Metadata| {
            metadata.leader("spread", 0).is_some_and(|broker| usize::try_from(broker.id) != Ok(leader))
        };
        let (ours, theirs) =
            (zookeeper.read(&TopicSelection::All).await, brokers.read(&TopicSelection::All).await);
        if by_zookeeper.is_none() && ours.is_ok_and(|metadata| moved(&metadata)) {
            by_zookeeper = Some(start.elapsed());
        }
        if by_brokers.is_none() && theirs.is_ok_and(|metadata| moved(&metadata)) {
            by_brokers = Some(start.elapsed());
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{release}: no new leader");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (by_zookeeper, by_brokers) = (by_zookeeper.unwrap(), by_brokers.unwrap());
    println!(
        "Kafka {release}: the same when quiet after {quiet:.1?}; a new leader in ZooKeeper after {:.1?}, told by \
         brokers after {:.1?}",
        by_zookeeper, by_brokers
    );
    assert!(by_zookeeper < by_brokers + Duration::from_secs(1), "no later than brokers tell it");
    // Old releases keep the dead broker in their answers: what they lead is compared, once it is back.
    kafka.start_again(leader).unwrap();
    agreed("after an election", &brokers, &zookeeper).await;
    reads_by_zookeeper_alone(&kafka).await;
    session.close().await;
}

/// A stream whose brokers and leaders come from ZooKeeper.
async fn reads_by_zookeeper_alone(kafka: &Kafka) {
    let mut driver = Driver::start(kafka).unwrap();
    driver.producer("p", &["acks=all"]).unwrap();
    let records = |values: &[&str]| -> Vec<Send> {
        values
            .iter()
            .map(|value| Send { value: Some(value.as_bytes().to_vec()), ..Send::default() })
            .collect()
    };
    driver.send("p", "spread", &records(&["one", "two", "three"])).unwrap();
    let zookeeper = ZooKeeperBrokers::connect(&kafka.zookeeper_connect().unwrap()).await.unwrap();
    let none: [&str; 0] = [];
    let cluster = Cluster::builder(none).reader(zookeeper).connect().await.unwrap();
    let mut stream = cluster.partition("spread", 0).stream(StartOffset::Earliest).open().await.unwrap();
    let mut values = Vec::new();
    while values.len() < 3 {
        let item = bounded("a batch", stream.next()).await.unwrap();
        if let Some(Item::Batch(batch)) = item {
            values.extend(batch.records().map(|record| record.unwrap().value().unwrap().to_vec()));
        }
    }
    assert_eq!(values, [&b"one"[..], b"two", b"three"]);
}

macro_rules! discovery {
    ($($test:ident $release:literal $chroot:literal $(#[$attribute:meta])?;)*) => {
        $(#[tokio::test(flavor = "multi_thread")] $(#[$attribute])? async fn $test() {
            equals_the_metadata_api($release, $chroot).await;
        })*
    };
}

discovery! {
    what_zookeeper_says_equals_what_brokers_of_0_8_0_answer "0.8.0" "";
    what_zookeeper_says_equals_what_brokers_of_0_8_2_2_answer "0.8.2.2" "" #[ignore = "with tests/run --all"];
    what_zookeeper_says_equals_what_brokers_of_0_9_0_1_answer "0.9.0.1" "" #[ignore = "with tests/run --all"];
    what_zookeeper_says_equals_what_brokers_of_0_10_2_2_answer "0.10.2.2" "/kafka" #[ignore = "with tests/run --all"];
    sk31_what_zookeeper_says_below_a_chroot_equals_what_brokers_of_2_8_2_answer "2.8.2" "/kafka/prod" #[ignore = "with tests/run --all"];
    what_zookeeper_says_equals_what_brokers_of_3_9_2_answer "3.9.2" "/kafka";
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_chosen_by_name_and_both_readers_agree_on_it() {
    let _turn = Turn::take();
    let options = Options { more_listeners: &[("INSIDE", "PLAINTEXT")], ..Options::default() };
    let Some(kafka) = start("2.8.2", options) else { return };
    let mut driver = Driver::start(&kafka).unwrap();
    driver.create_topic(&kafka, "t", 2, &[]).unwrap();
    drop(driver);
    let (session, zookeeper) = in_zookeeper(&kafka).await;
    agreed("the plain one", &bootstrap(kafka.address()), &zookeeper).await;
    let inside = zookeeper.clone().listener("INSIDE");
    agreed("the other one", &bootstrap(kafka.listener_address(0, 0)), &inside).await;
    let error = zookeeper.clone().listener("OUTSIDE").read(&TopicSelection::All).await.unwrap_err();
    assert!(error.to_string().contains("no listener OUTSIDE, only PLAINTEXT, INSIDE"), "{error}");

    // Side by side they agree, and another cluster is told from this one.
    let both = CrossChecked::new(bootstrap(kafka.address()), Arc::new(zookeeper.clone()));
    let metadata = both.read(&TopicSelection::named(["t", "tt"])).await.unwrap();
    assert_eq!(metadata.topic("t").unwrap().partitions.len(), 2);
    assert!(metadata.topic("tt").unwrap().error.is_some());
    assert_eq!(both.disagreements(), 0);
    let Some(stranger) = start("2.8.2", Options::default()) else { return };
    let both = CrossChecked::new(bootstrap(stranger.address()), Arc::new(zookeeper));
    let error = both.read(&TopicSelection::All).await.unwrap_err();
    assert!(error.to_string().contains("check both addresses"), "{error}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_a_plain_listener_is_found_all_the_same() {
    let _turn = Turn::take();
    let jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"b\" user_a=\"b\";";
    let options = Options {
        more_listeners: &[("SAFE", "SASL_PLAINTEXT"), ("OTHER", "SASL_PLAINTEXT")],
        without_plain: true,
        ..Options::default()
    }
    .set("inter.broker.listener.name", "SAFE")
    .set("sasl.mechanism.inter.broker.protocol", "PLAIN")
    .set("sasl.enabled.mechanisms", "PLAIN")
    .set("listener.name.safe.plain.sasl.jaas.config", jaas)
    .set("listener.name.other.plain.sasl.jaas.config", jaas);
    let Some(kafka) = start("2.8.2", options) else { return };
    let (session, zookeeper) = in_zookeeper(&kafka).await;
    let found = async |reader: &ZooKeeperBrokers| {
        reader.read(&TopicSelection::All).await.unwrap().brokers[0].address.to_string()
    };
    assert_eq!(found(&zookeeper).await, kafka.listener_address(0, 0).to_string());
    assert_eq!(found(&zookeeper.clone().listener("OTHER")).await, kafka.listener_address(0, 1).to_string());
    let document = session.get("/brokers/ids/0").await.unwrap().unwrap().data;
    let document = String::from_utf8(document).unwrap();
    assert!(document.contains("\"host\":null") && document.contains("\"port\":-1"), "{document}");
    session.close().await;
}
