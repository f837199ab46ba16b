//! How a broker's versions are found out: the ladder for those that cannot tell, and brokers that are frozen.

use std::time::{Duration, Instant};

use downspout::client::SimpleConsumer;
use downspout::error::ErrorKind;
use downspout::net::{BrokerAddress, Dialer, LegacyRelease, VersionSource};

use crate::harness::{Kafka, Options, Prepared, Release, Result};
use crate::stage::{Stage, Turn, left_out};

/// What a release is to be taken for.
fn expected(release: &Release) -> VersionSource {
    match () {
        () if release.since(&[0, 10]) => VersionSource::Advertised,
        () if release.since(&[0, 9]) => VersionSource::Detected(LegacyRelease::V0_9),
        () if release.since(&[0, 8, 2]) => VersionSource::Detected(LegacyRelease::V0_8_2),
        () if release.since(&[0, 8, 1]) => VersionSource::Detected(LegacyRelease::V0_8_1),
        () => VersionSource::Detected(LegacyRelease::V0_8_0),
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn address(kafka: &Kafka) -> BrokerAddress {
    kafka.address().to_string().parse().unwrap()
}

/// The release is recognised in seconds, for nothing the second time, and no probe makes a topic.
pub fn recognised(stage: &mut Stage) -> Result<()> {
    let kafka = &stage.kafka;
    block_on(async {
        let dialer = Dialer::default();
        let source = async || {
            let start = Instant::now();
            let connection = dialer.dial(&address(kafka)).await.map_err(|why| why.to_string())?;
            let source = connection.versions().ok_or("no versions")?.source();
            Ok::<_, String>((source, start.elapsed()))
        };
        let (found, first) = source().await?;
        let (again, second) = source().await?;
        println!("{}: {found:?} in {first:.2?}, then {second:.2?}", stage.release);
        if (found, again) != (expected(stage.release), expected(stage.release)) {
            return Err(format!("taken for {found:?}, then {again:?}"));
        }
        if first > Duration::from_secs(8) || second > Duration::from_secs(1) {
            return Err(format!("took {first:?}, then {second:?}"));
        }
        let consumer =
            SimpleConsumer::connect(&kafka.address().to_string()).await.map_err(|why| why.to_string())?;
        let topics = consumer.all_topics().await.map_err(|why| why.to_string())?.topics;
        let internal = topics.iter().find(|topic| topic.name == "__consumer_offsets");
        match internal {
            Some(_) if !stage.release.since(&[0, 9]) => Err("a probe made the offsets topic".to_owned()),
            _ => Ok(()),
        }
    })
}

fn start(name: &str) -> Option<Kafka> {
    let release = Release::named(name);
    let prepared = Prepared::of(release).map_err(|why| left_out(release, &why)).ok()?;
    Some(Kafka::start(release, &prepared, Options::default()).unwrap())
}

/// A broker that is frozen, for a while or for good, is never taken for an old one.
fn frozen(name: &str) {
    let _turn = Turn::take();
    let Some(mut kafka) = start(name) else { return };
    let broker = address(&kafka);
    for pause in [700, 1600, 2600, 3300, 5000] {
        kafka.freeze(0).unwrap();
        let dialing = std::thread::spawn({
            let broker = broker.clone();
            move || {
                block_on(async {
                    let start = Instant::now();
                    let connection = Dialer::default().dial(&broker).await?;
                    let source = connection.versions().map(|versions| versions.source());
                    Ok::<_, downspout::Error>((source, start.elapsed()))
                })
            }
        });
        std::thread::sleep(Duration::from_millis(pause));
        kafka.resume(0).unwrap();
        let (source, took) = dialing.join().unwrap().unwrap();
        println!("{name} frozen for {pause} ms: {source:?} in {took:.2?}");
        assert_eq!(source, Some(VersionSource::Advertised), "frozen for {pause} ms");
    }
    kafka.freeze(0).unwrap();
    let start = Instant::now();
    let error = block_on(Dialer::default().dial(&broker)).unwrap_err();
    println!("{name} frozen for good: {error} in {:.2?}", start.elapsed());
    assert!(matches!(error.kind(), ErrorKind::Unresponsive(_)), "{error:?}");
    kafka.resume(0).unwrap();
}

/// A broker that is starting is never taken for an old one either.
fn starting(name: &str) {
    let _turn = Turn::take();
    let Some(mut kafka) = start(name) else { return };
    let broker = address(&kafka);
    kafka.kill(0).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watching = std::thread::spawn({
        let (broker, stop) = (broker.clone(), std::sync::Arc::clone(&stop));
        move || {
            block_on(async {
                let mut seen = Vec::new();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // A dialer without memory each time.
                    match Dialer::default().dial(&broker).await {
                        Ok(connection) => seen.push(connection.versions().map(|versions| versions.source())),
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
                seen
            })
        }
    });
    kafka.start_again(0).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let seen = watching.join().unwrap();
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|source| *source == Some(VersionSource::Advertised)), "{seen:?}");
}

#[test]
fn a_frozen_4_4_is_not_taken_for_0_9() {
    frozen("4.4.0");
}

#[test]
fn a_frozen_0_10_is_not_taken_for_0_9() {
    frozen("0.10.0.1");
}

#[test]
fn a_starting_4_4_is_not_taken_for_an_old_one() {
    starting("4.4.0");
}

#[test]
fn a_starting_0_11_is_not_taken_for_an_old_one() {
    starting("0.11.0.3");
}

/// ZooKeeper's own port says what it is.
#[test]
fn the_zookeeper_port_is_named() {
    let _turn = Turn::take();
    let Some(kafka) = start("0.8.2.2") else { return };
    let zookeeper = kafka.zookeeper().unwrap();
    let error = block_on(SimpleConsumer::connect(&zookeeper.to_string())).unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains("speaks ZooKeeper"), "{error}");
}
