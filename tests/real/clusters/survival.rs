//! Records are read through all that happens to the brokers, each once and in order.

use std::time::Duration;

use crate::harness::{Driver, Release, Result, wait_for};
use crate::stage::Turn;

use super::calls::Calls;
use super::workload::Numbers;
use super::{faults, final_log, start, three_brokers, wait_in_sync};

const TOPIC: &str = "numbers";
/// What `Cluster`'s own calls write to.
const CALLED: &str = "called";
const PARTITIONS: i32 = 3;

/// Twenty seconds of faults, or three minutes with `tests/run --all`.
fn time() -> Duration {
    let long = std::env::var_os("DOWNSPOUT_ALL").is_some_and(|value| !value.is_empty());
    Duration::from_secs(if long { 180 } else { 20 })
}

fn survives(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(mut kafka) = start(release, three_brokers(release)) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, TOPIC, PARTITIONS as usize, &["min.insync.replicas=2"])?;
    wait_in_sync(&mut admin, TOPIC, PARTITIONS, 3)?;

    let runtime = tokio::runtime::Runtime::new().map_err(|e| e.to_string())?;
    admin.create_topic(&kafka, CALLED, PARTITIONS as usize, &["min.insync.replicas=2"])?;
    let calls = Calls::start(&runtime, &kafka, CALLED, PARTITIONS);
    let numbers = Numbers::start(&kafka, TOPIC, PARTITIONS)?;
    wait_for("the first numbers", Duration::from_secs(30), || Ok((numbers.count() > 0).then_some(())))?;
    let done = faults::happen(&mut kafka, &mut admin, TOPIC, PARTITIONS, time())?;
    let written = numbers.stop()?;
    let called = calls.stop(&runtime)?;
    wait_in_sync(&mut admin, TOPIC, PARTITIONS, 3)?;
    println!(
        "{release}: {} numbers acknowledged, {} flushes failed\n  {}",
        written.acknowledged.len(),
        written.failures.len(),
        done.join("\n  ")
    );
    println!(
        "{release}: {} calls of produce, {} commits, the slowest call {:?}",
        called.acknowledged.len(),
        called.commits,
        called.slowest
    );
    for partition in 0..PARTITIONS {
        let log = final_log::of_partition(&kafka, &mut admin, CALLED, partition)?;
        final_log::holds_what_was_acknowledged(&log, partition, &called.acknowledged)?;
        let log = final_log::of_partition(&kafka, &mut admin, TOPIC, partition)?;
        final_log::holds_what_was_acknowledged(&log, partition, &written.acknowledged)?;
        println!("{release}: {TOPIC} {partition}: {} records", log.len());
    }
    Ok(())
}

#[test]
fn numbers_survive_on_kafka_0_8_2_2() {
    survives("0.8.2.2").unwrap();
}

#[test]
fn numbers_survive_on_kafka_2_8_2() {
    survives("2.8.2").unwrap();
}

#[test]
fn numbers_survive_on_kafka_4_4_0() {
    survives("4.4.0").unwrap();
}
