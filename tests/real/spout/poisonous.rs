//! A record whose handler takes the whole process down, each time.

use crate::clusters::start;
use crate::harness::{Driver, Options, Release, Result};
use crate::stage::Turn;

use super::life::{Life, Notes, Own};
use super::{Plan, Store};

const COUNT: i64 = 20_000;
const DEADLY: i64 = 7_777;

#[test]
fn a_record_that_aborts_its_process_is_found_out_and_given_up() {
    aborts("4.4.0").unwrap();
}

fn aborts(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "deadly", 1, &[])?;
    let own = Own::of(&kafka)?;
    let ends = own.write("deadly", 1, COUNT)?;
    for store in [Store::File, Store::Kafka] {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let id = format!("deadly-{store:?}").to_lowercase();
        let mut plan = Plan::new(kafka.bootstrap(), "deadly", &id, store, dir.path());
        plan.deadly = Some(DEADLY);
        plan.until = Some(ends.clone());
        plan.pace = 1_000;
        let mut lives = 0;
        loop {
            lives += 1;
            plan.seed = lives;
            let end = Life::begin(&plan)?.end()?;
            let mut notes = Notes::of(&plan)?;
            if end.code == Some(0) {
                assert!(notes.times.insert((0, DEADLY), 1).is_none(), "it was given up, and is done so");
            }
            notes.compare(&own.kept(&plan, 1)?)?;
            match (end.code, end.signal) {
                (Some(0), _) => break,
                (None, Some(6)) if lives < 20 => {}
                _ => return Err(format!("life {lives}: {end:?}")),
            }
        }
        let notes = Notes::of(&plan)?;
        assert!(!notes.times.contains_key(&(0, DEADLY)));
        assert_eq!(notes.times.len() as i64, COUNT - 1, "all the others were processed");
        println!("{release}, {store:?}: given up after {} deaths, {} came again", lives - 1, notes.repeats());
        assert!(lives <= 10, "{lives} lives");
    }
    Ok(())
}
