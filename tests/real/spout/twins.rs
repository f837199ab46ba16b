//! Two processes with one id: one of them hears of it.

use crate::clusters::start;
use crate::harness::{Driver, Options, Release, Result};
use crate::stage::Turn;

use super::child::{FAILED, STOPPED};
use super::life::{Life, Notes, Own};
use super::{Plan, Store};

const COUNT: i64 = 48_000;

#[test]
fn of_two_processes_with_one_id_one_stops_and_says_why() {
    twins("4.4.0").unwrap();
}

fn twins(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "twins", 1, &[])?;
    let own = Own::of(&kafka)?;
    let ends = own.write("twins", 1, COUNT)?;
    for store in [Store::File, Store::Kafka] {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let id = format!("twins-{store:?}").to_lowercase();
        let mut plan = Plan::new(kafka.bootstrap(), "twins", &id, store, dir.path());
        plan.until = Some(ends.clone());
        plan.pace = if store == Store::File { 40 } else { 4 };
        let mut first = Life::begin(&plan)?;
        first.wait_for_notes(&plan, 1_000)?;
        let second = Life::begin(&plan)?;
        // The file store has a lock, and it is the first one's.
        let (last, then) = (second.end()?, first.end()?);
        // In Kafka a late comer may find the other one's position in place of its claim, and not even begin.
        let wanted: &[i32] = if store == Store::File { &[FAILED] } else { &[STOPPED, FAILED] };
        let ends = [last, then];
        let losers: Vec<_> =
            ends.iter().filter(|end| end.code.is_some_and(|code| wanted.contains(&code))).collect();
        assert!(!losers.is_empty(), "{ends:?}");
        for loser in &losers {
            println!("{release}, {store:?}: {}", loser.words.lines().last().unwrap_or_default());
            assert!(loser.words.contains("another") && loser.words.contains(&plan.id), "{loser:?}");
        }
        // Nobody can lock Kafka: who looks while the other one's position is there stops, and that may be both.
        if losers.len() == 2 {
            let third = Life::begin(&plan)?.end()?;
            assert_eq!(third.code, Some(0), "{third:?}");
        } else {
            assert!(ends.iter().any(|end| end.code == Some(0)), "{ends:?}");
        }
        Notes::of(&plan)?.all(1, COUNT)?;
        assert_eq!(own.kept(&plan, 1)?[0].0, COUNT);
    }
    Ok(())
}
