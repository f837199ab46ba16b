//! Clusters that change under a reader: leaders that die, freeze and come back, releases that are upgraded, logs that
//! lose their start or their end, topics that go, come back and grow. See `workload` for what is written and
//! `final_log` for what counts as the truth.

mod calls;
mod faults;
mod final_log;
mod following;
mod log_start;
mod reading;
mod survival;
mod topics;
mod unclean;
mod upgrade;
mod workload;

use std::ops::Range;
use std::time::Duration;

use crate::harness::{Driver, Kafka, Mode, Options, Prepared, Release, Result, Send, wait_for};
use crate::stage::left_out;

/// The settings of §11 of the notes on real brokers: a dead broker is found out in two seconds.
pub(crate) fn three_brokers(release: &Release) -> Options {
    let heap = if release.mode() == Mode::KRaft { "96m" } else { "64m" };
    Options { brokers: 3, session_timeout: Duration::from_secs(2), heap, ..Options::default() }
        .set("offsets.topic.replication.factor", "3")
        .set("controlled.shutdown.enable", "true") // an orderly stop hands the leadership over
        .set("controlled.shutdown.retry.backoff.ms", "500")
        .set("controller.socket.timeout.ms", "3000") // nor does the controller wait for a frozen broker
        .set("unclean.leader.election.enable", "false")
        .set("replica.high.watermark.checkpoint.interval.ms", "200") // at a start old releases cut their log there
        .set("replica.fetch.wait.max.ms", "200")
        .set("replica.socket.timeout.ms", "1500") // a follower gives up on a frozen leader
        .set("controller.quorum.election.timeout.ms", "500")
        .set("controller.quorum.fetch.timeout.ms", "1500")
}

/// `None`, and said so, where the release can't be had here.
pub(crate) fn start(release: &'static Release, options: Options) -> Option<Kafka> {
    let prepared = Prepared::of(release).map_err(|why| left_out(release, &why)).ok()?;
    Some(Kafka::start(release, &prepared, options).unwrap_or_else(|why| panic!("{release}: {why}")))
}

/// Returns when each partition has all its replicas in sync again.
pub(crate) fn wait_in_sync(admin: &mut Driver, topic: &str, partitions: i32, replicas: usize) -> Result<()> {
    wait_in_sync_for(Duration::from_secs(90), admin, topic, partitions, replicas)
}

fn wait_in_sync_for(
    time: Duration,
    admin: &mut Driver,
    topic: &str,
    partitions: i32,
    replicas: usize,
) -> Result<()> {
    let mut last = Vec::new();
    wait_for(&format!("{replicas} replicas in sync of {topic}"), time, || {
        last.clear();
        for partition in 0..partitions {
            // Right after a change of controllers it may not be able to say.
            last.push(admin.in_sync(topic, partition).unwrap_or(0));
        }
        Ok(last.iter().all(|&count| count == replicas).then_some(()))
    })
    .map_err(|e| format!("{e}; there are {last:?}"))
}

/// Writes numbers as text, and returns when all replicas in sync have them.
fn send_numbers(driver: &mut Driver, topic: &str, partition: i32, numbers: Range<u64>) -> Result<()> {
    send(driver, topic, partition, numbers, 0)
}

/// The same with blanks behind them, so that a segment of 16 KiB holds about 70.
fn send_padded(driver: &mut Driver, topic: &str, partition: i32, numbers: Range<u64>) -> Result<()> {
    send(driver, topic, partition, numbers, 200)
}

fn send(driver: &mut Driver, topic: &str, partition: i32, numbers: Range<u64>, width: usize) -> Result<()> {
    let records = numbers.map(|number| Send {
        partition,
        value: Some(format!("{number:<width$}").into_bytes()),
        ..Send::default()
    });
    driver.producer("one", &["acks=all"])?;
    driver.send("one", topic, &records.collect::<Vec<_>>())?;
    driver.close("one")
}
