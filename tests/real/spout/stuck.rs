//! One record that is stuck, 200,000 done ones behind it, and a crash: with holes kept hardly anything comes again.

use std::time::Duration;

use crate::clusters::start;
use crate::harness::{Driver, Options, Release, Result, wait_for};
use crate::stage::Turn;

use super::life::{Life, Notes, Own};
use super::{Plan, Store};

const BEHIND: i64 = 200_000;

#[test]
fn behind_a_stuck_record_a_crash_repeats_what_is_not_kept_and_no_more() {
    one_stuck("4.4.0").unwrap();
}

fn one_stuck(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "stuck", 1, &[])?;
    let own = Own::of(&kafka)?;
    let ends = own.write("stuck", 1, BEHIND + 1)?;
    for (holes, store) in [(true, Store::File), (true, Store::Kafka), (false, Store::File)] {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let id = format!("stuck-{holes}-{store:?}").to_lowercase();
        let mut plan = Plan::new(kafka.bootstrap(), "stuck", &id, store, dir.path());
        plan.holes = holes;
        plan.pace = 1_000;
        plan.held = Some(0);
        // Without holes kept, a window is full of what the store cannot be told.
        plan.window = if holes { 10_000 } else { 300_000 };
        let mut child = Life::begin(&plan)?;
        child.wait_for_notes(&plan, BEHIND as u64)?;
        if holes {
            wait_for("all of it kept", Duration::from_secs(30), || {
                let kept = own.kept(&plan, 1)?;
                Ok((kept[0].1.last().is_some_and(|run| run.end == BEHIND + 1)).then_some(()))
            })?;
        }
        child.kill_at(&plan, BEHIND as u64)?;
        let kept = own.kept(&plan, 1)?;
        assert_eq!(kept[0].0, 0, "the stuck one holds the position");
        let again = Notes::of(&plan)?.compare(&kept)?;
        plan.held = None;
        plan.until = Some(ends.clone());
        let end = Life::begin(&plan)?.end()?;
        assert_eq!(end.code, Some(0), "{end:?}");
        let notes = Notes::of(&plan)?;
        notes.all(1, BEHIND + 1)?;
        println!(
            "{release}: 1 stuck, {BEHIND} done behind it, holes kept: {holes} ({store:?}): {} came again",
            notes.repeats()
        );
        assert_eq!(notes.repeats(), again);
        assert_eq!(again, if holes { 0 } else { BEHIND as u64 });
    }
    Ok(())
}
