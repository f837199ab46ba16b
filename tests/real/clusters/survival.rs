//! Records are read through all that happens to the brokers, each once and in order.

use std::time::Duration;

use crate::harness::{Driver, Release, Result, wait_for};
use crate::stage::Turn;

use super::calls::Calls;
use super::following::Follower;
use super::reading::Reading;
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
    for topic in [TOPIC, CALLED] {
        admin.create_topic(&kafka, topic, PARTITIONS as usize, &["min.insync.replicas=2"])?;
        wait_in_sync(&mut admin, topic, PARTITIONS, 3)?;
    }
    // A broker may wait so long for a follower that is frozen, and we for a leader that is.
    let hasty = Reading::with(&kafka, |builder| builder.request_timeout(Duration::from_secs(3)))?;
    let patient = Reading::with(&kafka, |builder| builder)?; // as it comes

    let calls = Calls::start(&hasty, release, CALLED, PARTITIONS);
    let numbers = Numbers::start(&kafka, TOPIC, PARTITIONS)?;
    let mut followers = vec![Follower::of_topic(&patient, TOPIC)?];
    for partition in 0..PARTITIONS {
        followers.push(Follower::of_partition(&hasty, TOPIC, partition)?);
    }
    wait_for("the first numbers", Duration::from_secs(30), || Ok((numbers.count() > 0).then_some(())))?;
    let done = faults::happen(&mut kafka, &mut admin, TOPIC, PARTITIONS, time())?;
    let written = numbers.stop()?;
    let called = calls.stop(&hasty)?;
    wait_in_sync(&mut admin, TOPIC, PARTITIONS, 3)?;
    wait_in_sync(&mut admin, CALLED, PARTITIONS, 3)?;

    for partition in 0..PARTITIONS {
        let log = final_log::of_partition(&kafka, &mut admin, CALLED, partition)?;
        final_log::holds_what_was_acknowledged(&log, partition, &called.acknowledged)?;
        let log = final_log::of_partition(&kafka, &mut admin, TOPIC, partition)?;
        final_log::holds_what_was_acknowledged(&log, partition, &written.acknowledged)?;
        followers[0].saw(partition, &log)?;
        followers[1 + partition as usize].saw(partition, &log)?;
    }
    let summaries: Vec<String> = followers.iter().map(Follower::summary).collect();
    println!(
        "{release}: {} numbers acknowledged, {} flushes failed\n  {}\n  {}\n  {}",
        written.acknowledged.len(),
        written.failures.len(),
        called.summary(),
        summaries.join("\n  "),
        done.join("\n  "),
    );
    Ok(())
}

macro_rules! releases {
    ($($test:ident $release:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { survives($release).unwrap(); })*
    };
}

releases! {
    o5_each_record_once_and_in_order_while_leaders_die_and_freeze_0_8_2_2 "0.8.2.2";
    o5_each_record_once_and_in_order_while_leaders_die_and_freeze_0_11_0_3 "0.11.0.3" #[ignore = "with tests/run --all"];
    o5_each_record_once_and_in_order_while_leaders_die_and_freeze_2_8_2 "2.8.2";
    o5_each_record_once_and_in_order_while_leaders_die_and_freeze_3_9_2 "3.9.2" #[ignore = "with tests/run --all"];
    o5_each_record_once_and_in_order_while_leaders_die_and_freeze_4_4_0 "4.4.0";
}
