//! The harness itself: what it promises about starting, stopping, freezing and several brokers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::corpus;
use crate::harness::{Driver, Kafka, Options, Prepared, Release, Result, Send, wait_for};
use crate::stage::{Turn, left_out};

fn start(name: &str, options: Options) -> Option<Kafka> {
    let release = Release::named(name);
    let prepared = Prepared::of(release).map_err(|why| left_out(release, &why)).ok()?;
    Some(Kafka::start(release, &prepared, options).unwrap())
}

/// Whether a broker answers ApiVersions v0 (0.10 and later) in time.
fn answers(kafka: &Kafka) -> bool {
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&kafka.address(), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_millis(700)))?;
        stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0, 0])?;
        stream.read_exact(&mut [0; 14])
    };
    ask().is_ok()
}

fn records(values: &[&str]) -> Vec<Send> {
    values.iter().map(|v| Send { value: Some(v.as_bytes().to_vec()), ..Send::default() }).collect()
}

/// Freeze, resume, stop, kill and restart; the data and the port stay.
fn one_broker(name: &str) {
    let _turn = Turn::take();
    let Some(mut kafka) =
        start(name, Options { session_timeout: Duration::from_secs(2), ..Options::default() })
    else {
        return;
    };
    let address = kafka.address();
    let mut driver = Driver::start(&kafka).unwrap();
    driver.create_topic(&kafka, "kept", 1, &[]).unwrap();
    driver.producer("p", &[]).unwrap();
    let sent = driver.send("p", "kept", &records(&["one", "two"])).unwrap();
    drop(driver);

    assert!(answers(&kafka), "a broker that was started answers");
    kafka.freeze(0).unwrap();
    assert!(!answers(&kafka), "a frozen broker takes connections and says nothing");
    kafka.resume(0).unwrap();
    wait_for("the resumed broker", Duration::from_secs(10), || Ok(answers(&kafka).then_some(()))).unwrap();

    kafka.stop(0).unwrap();
    assert!(!answers(&kafka), "a stopped broker does not answer");
    kafka.start_again(0).unwrap();
    kafka.kill(0).unwrap();
    assert!(!answers(&kafka), "a killed broker does not answer");
    kafka.start_again(0).unwrap();
    assert_eq!(kafka.address(), address);
    kafka.wait_topic("kept", 1).unwrap();

    let mut driver = Driver::start(&kafka).unwrap();
    let seen = driver.read("kept", 0, 0, 2, false).unwrap();
    let mut entries = Vec::new();
    corpus::place(&mut entries, sent, kafka.release());
    crate::reads::compare("kept", &entries, &seen).unwrap();
}

#[test]
fn a_zookeeper_mode_broker_freezes_stops_dies_and_comes_back_with_its_data() {
    one_broker("2.8.2");
}

#[test]
fn a_kraft_broker_freezes_stops_dies_and_comes_back_with_its_data() {
    one_broker("4.4.0");
}

/// Three brokers; the leader of a partition is killed and another one takes over, with the data.
fn failover(name: &str) -> Result<()> {
    let _turn = Turn::take();
    let options =
        Options { brokers: 3, session_timeout: Duration::from_secs(2), heap: "128m", ..Options::default() };
    let Some(mut kafka) = start(name, options) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, "spread", 3, &[])?;
    driver.producer("p", &[])?;
    driver.send("p", "spread", &records(&["one", "two"]))?;
    let leader = kafka.leader("spread", 0)?.ok_or("no leader of a new topic")?;
    kafka.kill(leader)?;
    let next = wait_for("another leader", Duration::from_secs(30), || {
        Ok(kafka.leader("spread", 0)?.filter(|&broker| broker != leader))
    })?;
    assert_ne!(next, leader);
    let seen = driver.read("spread", 0, 0, 2, false)?;
    let values: Vec<_> = seen.iter().map(|record| record.value.as_deref().unwrap()).collect();
    assert_eq!(values, [b"one", b"two"]);
    kafka.start_again(leader)
}

#[test]
fn another_of_three_brokers_takes_over_zookeeper_mode() {
    failover("0.11.0.3").unwrap();
}

#[test]
fn another_of_three_brokers_takes_over_kraft() {
    failover("3.9.2").unwrap();
}
