//! Topics that are deleted and made again, and topics that grow.

use std::time::Duration;

use downspout::ErrorKind;
use downspout::client::{Item, LogBounds, OutOfRange, Recovered, ResetPolicy, StartOffset};
use downspout::wire::Uuid;

use crate::harness::{Driver, Options, Release, Result};
use crate::stage::Turn;

use super::reading::{self, Reading, numbers, same};
use super::{send_numbers, start};

const TOPIC: &str = "again";

/// Deleted with 50 records, made again with 80: by the offsets alone nothing has happened.
fn recreated(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    send_numbers(&mut driver, TOPIC, 0, 0..50)?;
    let reading = Reading::connect(&kafka)?;
    let old = topic_id(&reading)?;
    assert!(old.is_some(), "{release} has topic ids");
    let mut streams = Vec::new();
    for (policy, resumed_at) in
        [(ResetPolicy::Fail, None), (ResetPolicy::Nearest, Some(0)), (ResetPolicy::Latest, Some(80))]
    {
        let mut stream = reading.stream(TOPIC, StartOffset::Earliest, policy)?;
        same("before", &numbers(0, 0..50), &stream.read_to(50)?)?;
        stream.stream.pause();
        streams.push((stream, resumed_at));
    }
    driver.delete_topic(&kafka, TOPIC)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    // A producer that knew the old topic would have to find out about the new one.
    let mut driver = Driver::start(&kafka)?;
    send_numbers(&mut driver, TOPIC, 0, 1000..1080)?;
    let new = topic_id(&reading)?;
    for (mut stream, resumed_at) in streams {
        stream.stream.resume();
        let log = LogBounds { start: 0, end: 80 };
        let why = OutOfRange::Recreated { old: old.unwrap(), new: new.unwrap(), log };
        let Some(resumed_at) = resumed_at else {
            let Err(error) = stream.after_vanishing()? else { panic!("{release}: no error") };
            let ErrorKind::OutOfRange(found) = error.kind() else { panic!("{error:?}") };
            assert_eq!((*found, error.offset()), (why, Some(50)));
            assert_eq!(stream.stream.position(), Some(50));
            continue;
        };
        let Ok(Item::Recovered(event)) = stream.after_vanishing()? else { panic!("{release}: no event") };
        assert_eq!(event, Recovered::OutOfRange { position: 50, resumed_at, why });
        assert_eq!(event.repeated(), 0, "they are other records");
        let first = 1000 + resumed_at.unsigned_abs();
        same("after", &numbers(resumed_at, first..1080), &stream.read_to(80)?)?;
    }
    Ok(())
}

fn topic_id(reading: &Reading) -> Result<Option<Uuid>> {
    let metadata = reading.runtime.block_on(reading.cluster.metadata(&[TOPIC])).map_err(|e| e.to_string())?;
    Ok(metadata.topics.first().ok_or("no topic")?.id)
}

/// Without topic ids: it vanished, it is back, and its log ends below the position.
fn recreated_unnoticed(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    send_numbers(&mut driver, TOPIC, 0, 0..50)?;
    let reading = Reading::connect(&kafka)?;
    let mut stream = reading.stream(TOPIC, StartOffset::Earliest, ResetPolicy::Earliest)?;
    same("before", &numbers(0, 0..50), &stream.read_to(50)?)?;
    driver.delete_topic(&kafka, TOPIC)?;
    assert_eq!(stream.event()?, Recovered::Vanished { position: 50 });
    driver.create_topic(&kafka, TOPIC, 1, &[])?;
    assert_eq!(stream.event()?, Recovered::Returned { position: 50 });
    let event = stream.event()?;
    let Recovered::OutOfRange { position: 50, resumed_at: 0, why: OutOfRange::AboveEnd { log } } = event
    else {
        panic!("{event:?}")
    };
    assert_eq!(log, LogBounds { start: 0, end: 0 });
    assert_eq!((event.lost(), event.repeated()), (0, 50));
    let mut driver = Driver::start(&kafka)?;
    send_numbers(&mut driver, TOPIC, 0, 1000..1010)?;
    same("after", &numbers(0, 1000..1010), &stream.read_to(10)?)
}

/// A stream over a whole topic reads new partitions too, all of them, and says so first.
fn grown(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut driver = Driver::start(&kafka)?;
    driver.create_topic(&kafka, TOPIC, 2, &[])?;
    let reading = Reading::connect(&kafka)?;
    let builder = reading.cluster.streams().topic(TOPIC).start(StartOffset::Latest);
    let mut stream = reading.runtime.block_on(builder.open()).map_err(|e| e.to_string())?;
    driver.grow_topic(&kafka, TOPIC, 4)?;
    let mut driver = Driver::start(&kafka)?; // one that knows all four
    for partition in 2..4 {
        send_numbers(&mut driver, TOPIC, partition, 0..30)?;
    }
    let (mut added, mut found) = (Vec::new(), [Vec::new(), Vec::new()]);
    while found.iter().any(|records| records.len() < 30) {
        let next = async { tokio::time::timeout(Duration::from_secs(60), stream.next()).await };
        let next =
            reading.runtime.block_on(next).map_err(|_| format!("nothing after {added:?}, {found:?}"))?;
        match next.map_err(|e| e.to_string())?.ok_or("the stream ended")? {
            (place, Item::Batch(batch)) => {
                let new = usize::try_from(place.partition - 2).map_err(|_| format!("records in {place}"))?;
                assert!(!added.is_empty(), "{place}: records before the event");
                found[new].extend(reading::records(&batch)?);
            }
            (_, Item::Recovered(Recovered::PartitionsAdded { added: range })) => added.push(range),
            other => return Err(format!("{other:?}")),
        }
    }
    // Brokers may show one new partition before the other.
    assert_eq!(added.into_iter().flatten().collect::<Vec<i32>>(), [2, 3]);
    for records in &found {
        same("a new partition", &numbers(0, 0..30), records)?;
    }
    let partitions: Vec<i32> = stream.partitions().iter().map(|place| place.partition).collect();
    assert_eq!(partitions, [0, 1, 2, 3]);
    Ok(())
}

#[test]
fn o12_case_56_a_topic_made_again_is_another_one_2_8_2() {
    recreated("2.8.2").unwrap();
}

#[test]
fn o12_case_56_a_topic_made_again_is_another_one_4_4_0() {
    recreated("4.4.0").unwrap();
}

#[test]
fn case_56_without_ids_a_topic_made_again_vanished_came_back_and_ends_below_the_position_0_8_2_2() {
    recreated_unnoticed("0.8.2.2").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn case_56_without_ids_a_topic_made_again_vanished_came_back_and_ends_below_the_position_0_11_0_3() {
    recreated_unnoticed("0.11.0.3").unwrap();
}

/// Its epochs begin anew, too: what they say about the position is no proof of anything.
#[test]
#[ignore = "with tests/run --all"]
fn case_56_without_ids_a_topic_made_again_vanished_came_back_and_ends_below_the_position_2_4_1() {
    recreated_unnoticed("2.4.1").unwrap();
}

#[test]
fn partitions_that_are_added_are_read_from_their_start_0_8_2_2() {
    grown("0.8.2.2").unwrap();
}

#[test]
#[ignore = "with tests/run --all"]
fn partitions_that_are_added_are_read_from_their_start_2_8_2() {
    grown("2.8.2").unwrap();
}

#[test]
fn partitions_that_are_added_are_read_from_their_start_4_4_0() {
    grown("4.4.0").unwrap();
}
