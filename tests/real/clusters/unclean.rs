//! An unclean election: a replica that was left behind becomes the leader, and what it did not have is gone.

use std::ops::Range;
use std::time::Duration;

use downspout::ErrorKind;
use downspout::client::{LogBounds, OutOfRange, Recovered, Reset, ResetPolicy, StartOffset};

use crate::harness::{Driver, Kafka, Release, Result, wait_for};
use crate::stage::Turn;

use super::reading::{Reading, Record, numbers, same};
use super::{final_log, send_numbers, start, three_brokers, wait_in_sync};

const TOPIC: &str = "unclean";

/// The log was the numbers 0 to 39, and is 0 to 19 and others after them.
struct Scene {
    kafka: Kafka,
    driver: Driver,
}

impl Scene {
    fn set(name: &str) -> Result<Option<Self>> {
        let release = Release::named(name);
        let Some(kafka) = start(release, three_brokers(release)) else { return Ok(None) };
        let mut driver = Driver::start(&kafka)?;
        // The third broker is there for the quorum of KRaft.
        let config = ["unclean.leader.election.enable=true", "min.insync.replicas=1"];
        driver.create_topic_on(&kafka, TOPIC, 1, &[0, 1], &config)?;
        wait_in_sync(&mut driver, TOPIC, 1, 2)?;
        send_numbers(&mut driver, TOPIC, 0, 0..20)?;
        Ok(Some(Self { kafka, driver }))
    }

    /// The follower is left behind: records 20 to 39 are on the leader alone.
    fn part(&mut self) -> Result<()> {
        // What has been acknowledged must have come to its checkpoint: old releases cut their logs there.
        let checkpoint =
            self.kafka.partition_dir(1, TOPIC, 0).with_file_name("replication-offset-checkpoint");
        wait_for("the follower's high-watermark checkpoint", Duration::from_secs(30), || {
            let text = std::fs::read_to_string(&checkpoint).unwrap_or_default();
            Ok(text.lines().any(|line| line == format!("{TOPIC} 0 20")).then_some(()))
        })?;
        self.kafka.kill(1)?;
        wait_in_sync(&mut self.driver, TOPIC, 1, 1)?;
        send_numbers(&mut self.driver, TOPIC, 0, 20..40)
    }

    /// It becomes the leader.
    fn elect(&mut self) -> Result<()> {
        self.kafka.kill(0)?;
        self.kafka.start_again(1)?;
        wait_for("the old follower to lead", Duration::from_secs(60), || {
            Ok(self.kafka.leader(TOPIC, 0).unwrap_or_default().filter(|&leader| leader == 1).map(drop))
        })
    }

    /// Gives the new log with more numbers at its end.
    fn after(&mut self, more: Range<u64>) -> Result<Vec<Record>> {
        send_numbers(&mut self.driver, TOPIC, 0, more.clone())?;
        let log = final_log::of_replica(&self.kafka, &mut self.driver, 1, TOPIC, 0)?;
        let log: Vec<Record> = log.into_iter().collect();
        same("the log after the election", &[numbers(0, 0..20), numbers(20, more)].concat(), &log)?;
        Ok(log)
    }
}

/// With leader epochs (trusted from 2.4 on): whatever the policy, it goes on where the logs part.
fn proven(name: &str) -> Result<()> {
    let _turn = Turn::take();
    let Some(mut scene) = Scene::set(name)? else { return Ok(()) };
    scene.part()?;
    let reading = Reading::connect(&scene.kafka)?;
    let mut live = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Fail)?;
    let mut paused = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Latest)?;
    for stream in [&mut live, &mut paused] {
        same("before", &numbers(0, 0..40), &stream.read_to(40)?)?;
    }
    paused.stream.pause();
    scene.elect()?;
    let event = live.event()?;
    assert_eq!(event, Recovered::Truncated { position: 40, diverged_at: 20 });
    assert_eq!((event.lost(), event.repeated()), (0, 20));
    // The new log grows past the position: that alone looks as if nothing had happened.
    let log = scene.after(100..130)?;
    same("after", &log[20..], &live.read_to(50)?)?;
    paused.stream.resume();
    assert_eq!(paused.event()?, event, "also when the log reaches beyond the position again");
    same("after the pause", &log[20..], &paused.read_to(50)?)?;
    // The old leader gives up what it had alone, and everybody agrees again.
    scene.kafka.start_again(0)?;
    wait_in_sync(&mut scene.driver, TOPIC, 1, 2)?;
    send_numbers(&mut scene.driver, TOPIC, 0, 130..140)?;
    same("in the end", &numbers(50, 130..140), &live.read_to(60)?)
}

/// Before leader epochs: all that can be known is that the log ends below the position.
fn above_the_end(name: &str) -> Result<()> {
    let _turn = Turn::take();
    let Some(mut scene) = Scene::set(name)? else { return Ok(()) };
    scene.part()?;
    let reading = Reading::connect(&scene.kafka)?;
    let mut streams = Vec::new();
    for (policy, resumed_at) in [
        (ResetPolicy::Fail, None),
        (ResetPolicy::Earliest, Some(0)),
        (ResetPolicy::Latest, Some(30)),
        (ResetPolicy::Nearest, Some(30)),
        (ResetPolicy::ask(|_, _, _, _| Reset::To(20)), Some(20)),
    ] {
        let mut stream = reading.stream(TOPIC, StartOffset::Earliest, policy)?;
        same("before", &numbers(0, 0..40), &stream.read_to(40)?)?;
        stream.stream.pause();
        streams.push((stream, resumed_at));
    }
    scene.elect()?;
    let log = scene.after(100..110)?;
    let bounds = LogBounds { start: 0, end: 30 };
    for (mut stream, resumed_at) in streams {
        stream.stream.resume();
        let Some(resumed_at) = resumed_at else {
            let why = stream.error()?;
            let ErrorKind::OutOfRange(OutOfRange::AboveEnd { log }) = why.kind() else { panic!("{why:?}") };
            assert_eq!((*log, why.offset()), (bounds, Some(40)));
            assert_eq!(stream.stream.position(), Some(40), "after an error a stream is where it was");
            continue;
        };
        let event = stream.event()?;
        let why = OutOfRange::AboveEnd { log: bounds };
        assert_eq!(event, Recovered::OutOfRange { position: 40, resumed_at, why });
        assert_eq!((event.lost(), event.repeated()), (0, 40 - resumed_at.unsigned_abs()));
        same("after", &log[resumed_at as usize..], &stream.read_to(30)?)?;
    }
    Ok(())
}

#[test]
fn o1_an_unclean_election_is_above_the_end_0_8_2_2() {
    above_the_end("0.8.2.2").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_an_unclean_election_is_above_the_end_0_10_2_2() {
    above_the_end("0.10.2.2").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_an_unclean_election_is_above_the_end_0_11_0_3() {
    above_the_end("0.11.0.3").unwrap();
}

#[test]
fn kip_320_an_unclean_election_is_a_truncation_where_the_logs_part_2_8_2() {
    proven("2.8.2").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn kip_320_an_unclean_election_is_a_truncation_where_the_logs_part_2_4_1() {
    proven("2.4.1").unwrap();
}

#[test]
fn kip_320_an_unclean_election_is_a_truncation_where_the_logs_part_4_4_0() {
    proven("4.4.0").unwrap();
}
