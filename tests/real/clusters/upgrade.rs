//! A broker that is stopped under one release and started under a later one, with its data, while a stream is open.

use downspout::client::{ResetPolicy, StartOffset};

use crate::harness::{Driver, LeftOut, Options, Prepared, Release, Result};
use crate::stage::{Turn, left_out};

use super::reading::{Reading, numbers, same};
use super::{send_numbers, start};

const TOPIC: &str = "upgraded";

/// Numbers written under each release.
const EACH: u64 = 60;

fn upgraded(names: &[&str]) -> Result<()> {
    let releases: Vec<&Release> = names.iter().map(|name| Release::named(name)).collect();
    let _turn = Turn::take();
    let prepared: std::result::Result<Vec<Prepared>, LeftOut> =
        releases.iter().map(|release| Prepared::of(release)).collect();
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            left_out(releases[0], &why);
            return Ok(());
        }
    };
    let Some(mut kafka) = start(releases[0], Options::default()) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    let reading = Reading::connect(&kafka)?;
    let mut stream = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Fail)?;
    let mut found = Vec::new();
    for (step, (release, prepared)) in (0..).zip(releases.iter().zip(&prepared)) {
        if step > 0 {
            drop(driver);
            kafka.stop(0)?;
            kafka.upgrade(release, prepared)?;
            kafka.wait_topic(TOPIC, 1)?;
            driver = Driver::start(&kafka)?;
        }
        // Half of them are read under this release, the others under the next one.
        send_numbers(&mut driver, TOPIC, 0, step * EACH..(step + 1) * EACH)?;
        found.extend(stream.read_to((step * EACH + EACH / 2) as i64).map_err(|e| format!("{release}: {e}"))?);
    }
    let all = releases.len() as u64 * EACH;
    found.extend(stream.read_to(all as i64)?);
    same("the stream", &numbers(0, 0..all), &found)?;
    // Old records are still as they were for those who start now.
    let mut late = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Fail)?;
    same("a new stream", &found, &late.read_to(all as i64)?)
}

#[test]
fn b2_a_stream_outlives_upgrades_from_0_8_2_2_to_0_10_2_2_to_0_11_0_3_to_2_8_2() {
    upgraded(&["0.8.2.2", "0.10.2.2", "0.11.0.3", "2.8.2"]).unwrap();
}

#[test]
fn b2_a_stream_outlives_the_upgrade_from_3_9_2_to_4_4_0() {
    upgraded(&["3.9.2", "4.4.0"]).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn b2_a_stream_outlives_upgrades_through_every_line_with_zookeeper() {
    upgraded(&[
        "0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1",
        "2.4.1", "2.8.2",
    ])
    .unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn b2_a_stream_outlives_upgrades_through_every_line_with_kraft() {
    upgraded(&["3.3.2", "3.5.2", "3.7.2", "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0"]).unwrap();
}
