//! A log that loses its start: by retention, or because somebody asked for it.

use downspout::ErrorKind;
use downspout::client::{Item, LogBounds, OutOfRange, Recovered, ResetPolicy, StartOffset};

use crate::harness::{Driver, Kafka, Options, Release, Result};
use crate::stage::Turn;

use super::reading::{self, Reading, numbers, same};
use super::{send_numbers, send_padded, start};

const TOPIC: &str = "shortened";

/// Small segments, where they are to be removed.
fn options(release: &Release) -> Options {
    match release.since(&[0, 11]) {
        true => Options::default(),
        false => Options::default().set("log.segment.bytes", "16384"),
    }
}

/// A log of the numbers 0 to 239, in several segments, of which the first ones are removed: gives the new start.
type Shorten = fn(&mut Kafka, &mut Driver) -> Result<i64>;

fn below_the_start(name: &str, shorten: Shorten) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(mut kafka) = start(release, options(release)) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    for flush in 0..12 {
        send_padded(&mut driver, TOPIC, 0, flush * 20..flush * 20 + 20)?;
    }
    let reading = Reading::connect(&kafka)?;
    let mut live = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Fail)?;
    same("all of it", &numbers(0, 0..240), &live.read_to(240)?)?;

    let first = shorten(&mut kafka, &mut driver)?;
    let bounds = LogBounds { start: first, end: 240 };
    // A stream at the end does not notice.
    send_numbers(&mut driver, TOPIC, 0, 240..241)?;
    same("at the end", &numbers(240, 240..241), &live.read_to(241)?)?;
    let bounds = LogBounds { end: 241, ..bounds };

    // One that wants what is gone fails, and stays usable.
    live.seek(StartOffset::At(5))?;
    for _ in 0..2 {
        let why = live.error()?;
        let ErrorKind::OutOfRange(OutOfRange::BelowStart { log }) = why.kind() else { panic!("{why:?}") };
        assert_eq!((*log, why.offset()), (bounds, Some(5)));
        assert_eq!(live.stream.position(), Some(5));
    }
    live.seek(StartOffset::At(first + 1))?;
    same("after a seek", &numbers(first + 1, first as u64 + 1..241), &live.read_to(241)?)?;

    // By a policy it goes on and says what was lost.
    for (policy, resumed_at) in
        [(ResetPolicy::Earliest, first), (ResetPolicy::Nearest, first), (ResetPolicy::Latest, 241)]
    {
        let mut stream = reading.stream(TOPIC, StartOffset::At(5), policy)?;
        let event = stream.event()?;
        let why = OutOfRange::BelowStart { log: bounds };
        assert_eq!(event, Recovered::OutOfRange { position: 5, resumed_at, why });
        assert_eq!((event.lost(), event.repeated()), (resumed_at.unsigned_abs() - 5, 0));
        same("after the event", &numbers(resumed_at, resumed_at.unsigned_abs()..241), &stream.read_to(241)?)?;
    }
    Ok(())
}

/// As retention does it: the first segment of a stopped broker is gone.
fn first_segment(kafka: &mut Kafka, _driver: &mut Driver) -> Result<i64> {
    let text = |e: std::io::Error| e.to_string();
    kafka.stop(0)?;
    let mut bases = Vec::new();
    for file in std::fs::read_dir(kafka.partition_dir(0, TOPIC, 0)).map_err(text)? {
        let path = file.map_err(text)?.path();
        let base = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<i64>().ok());
        if base == Some(0) {
            std::fs::remove_file(path).map_err(text)?;
        } else {
            bases.extend(base);
        }
    }
    kafka.start_again(0)?;
    kafka.wait_topic(TOPIC, 1)?;
    bases.into_iter().min().ok_or_else(|| "the log has one segment only".to_owned())
}

/// DeleteRecords, into the middle of a set.
fn delete_records(kafka: &mut Kafka, driver: &mut Driver) -> Result<i64> {
    delete_before(kafka, driver, 33)?;
    Ok(33)
}

fn delete_before(kafka: &Kafka, driver: &mut Driver, before: i64) -> Result<()> {
    if kafka.release().since(&[1, 1]) {
        return driver.delete_records(TOPIC, 0, before);
    }
    // The broker had it before AdminClient.
    let file = kafka.dir().join("delete.json");
    let json =
        format!(r#"{{"version":1,"partitions":[{{"topic":"{TOPIC}","partition":0,"offset":{before}}}]}}"#);
    std::fs::write(&file, json).map_err(|e| e.to_string())?;
    let args = ["--bootstrap-server", &kafka.bootstrap(), "--offset-json-file", &file.display().to_string()];
    driver.tool("kafka.admin.DeleteRecordsCommand", &args).map(drop)
}

/// The start moves past a stream that stands still, with records in its buffer or not.
fn overtaken(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, options(release)) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    send_numbers(&mut driver, TOPIC, 0, 0..20)?;
    let reading = Reading::connect(&kafka)?;
    let mut stream = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Earliest)?;
    let mut found = stream.read_to(20)?;
    stream.stream.pause();
    for set in 1..20 {
        send_numbers(&mut driver, TOPIC, 0, set * 20..set * 20 + 20)?;
    }
    delete_before(&kafka, &mut driver, 333)?;
    stream.stream.resume();
    let event = loop {
        match stream.next()? {
            Ok(Item::Batch(batch)) => found.extend(reading::records(&batch)?),
            Ok(Item::Recovered(event)) => break event,
            other => return Err(format!("{other:?}")),
        }
    };
    let position = found.len() as i64;
    same("before the event", &numbers(0, 0..position.unsigned_abs()), &found)?;
    let why = OutOfRange::BelowStart { log: LogBounds { start: 333, end: 400 } };
    assert_eq!(event, Recovered::OutOfRange { position, resumed_at: 333, why });
    same("after the event", &numbers(333, 333..400), &stream.read_to(400)?)
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_what_retention_removed_is_below_the_start_0_8_0() {
    below_the_start("0.8.0", first_segment).unwrap();
}

#[test]
fn o1_what_retention_removed_is_below_the_start_0_8_2_2() {
    below_the_start("0.8.2.2", first_segment).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_what_retention_removed_is_below_the_start_0_8_1_1() {
    below_the_start("0.8.1.1", first_segment).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_what_retention_removed_is_below_the_start_0_9_0_1() {
    below_the_start("0.9.0.1", first_segment).unwrap();
}

#[test]
fn o1_what_retention_removed_is_below_the_start_0_10_2_2() {
    below_the_start("0.10.2.2", first_segment).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_what_delete_records_removed_is_below_the_start_0_11_0_3() {
    below_the_start("0.11.0.3", delete_records).unwrap();
}

#[test]
fn o1_what_delete_records_removed_is_below_the_start_1_1_1() {
    below_the_start("1.1.1", delete_records).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn o1_what_delete_records_removed_is_below_the_start_2_8_2() {
    below_the_start("2.8.2", delete_records).unwrap();
}

#[test]
fn o1_what_delete_records_removed_is_below_the_start_4_4_0() {
    below_the_start("4.4.0", delete_records).unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn each_offset_is_delivered_or_reported_when_the_start_overtakes_a_stream_0_11_0_3() {
    overtaken("0.11.0.3").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn each_offset_is_delivered_or_reported_when_the_start_overtakes_a_stream_2_8_2() {
    overtaken("2.8.2").unwrap();
}

#[test]
fn each_offset_is_delivered_or_reported_when_the_start_overtakes_a_stream_4_4_0() {
    overtaken("4.4.0").unwrap();
}
