//! Ten lives, each killed without a word, with leaders that die between, of a handler that has three hundred records
//! at hand and finishes any of them next: nothing is lost, and what no checkpoint had comes again.

use crate::clusters::{start, three_brokers, wait_in_sync};
use crate::harness::{Driver, Kafka, Release, Result, wait_for};
use crate::stage::Turn;

use super::life::{Life, Notes, Own};
use super::{Chance, Plan, Store};

const PARTITIONS: i32 = 3;
const KILLS: u64 = 10;

fn ten_kills(name: &str, count: i64) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(mut kafka) = start(release, three_brokers(release)) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "numbers", PARTITIONS as usize, &["min.insync.replicas=2"])?;
    wait_in_sync(&mut admin, "numbers", PARTITIONS, 3)?;
    let own = Own::of(&kafka)?;
    let ends = own.write("numbers", PARTITIONS, count)?;
    for store in [Store::File, Store::Kafka] {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let id = format!("crash-{store:?}").to_lowercase();
        let mut plan = Plan::new(kafka.bootstrap(), "numbers", &id, store, dir.path());
        plan.fail_per_mille = 20;
        plan.pace = (count as u64 / 2_000).max(20);
        let mut chance = Chance(count as u64 ^ release.name.len() as u64);
        let mut may_repeat = 0;
        let mut told = Vec::new();
        for life in 1..=KILLS {
            plan.seed = chance.next();
            let before = Notes::count(&plan);
            // At random, on the way to nineteen twentieths in all.
            let by_now = (count as u64 * 19 / 20 * life / KILLS).saturating_sub(before);
            let more = 1 + chance.below(by_now);
            let child = Life::begin(&plan)?;
            if life == 4 || life == 8 {
                kill_a_leader(&mut kafka, &mut admin, (life % 3) as i32)?;
            }
            child.kill_at(&plan, before + more)?;
            let notes = Notes::of(&plan)?;
            let kept = own.kept(&plan, PARTITIONS)?;
            let again = notes.compare(&kept).map_err(|why| format!("life {life}: {why}"))?;
            may_repeat += again;
            told.push(again.to_string());
        }
        plan.until = Some(ends.clone());
        let end = Life::begin(&plan)?.end()?;
        if end.code != Some(0) {
            return Err(format!("the last life: {end:?}"));
        }
        let notes = Notes::of(&plan)?;
        notes.all(PARTITIONS, count)?;
        let kept = own.kept(&plan, PARTITIONS)?;
        assert_eq!(kept.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), ends, "{release}, {store:?}");
        let repeats = notes.repeats();
        println!(
            "{release}, {store:?}: {count} records, {KILLS} kills: {repeats} came again; not kept at each kill: {}",
            told.join(", ")
        );
        assert!(
            repeats <= may_repeat,
            "{release}, {store:?}: {repeats} came again, {may_repeat} at most may"
        );
    }
    Ok(())
}

fn kill_a_leader(kafka: &mut Kafka, admin: &mut Driver, partition: i32) -> Result<()> {
    let patience = std::time::Duration::from_secs(60);
    let find = |kafka: &Kafka| kafka.leader("numbers", partition).unwrap_or_default();
    let leader = wait_for("a leader", patience, || Ok(find(kafka)))?;
    kafka.kill(leader)?;
    wait_for("another leader", patience, || Ok(find(kafka).filter(|now| *now != leader).map(drop)))?;
    kafka.start_again(leader)?;
    wait_in_sync(admin, "numbers", PARTITIONS, 3)
}

macro_rules! releases {
    ($($test:ident $release:literal $count:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { ten_kills($release, $count).unwrap(); })*
    };
}

// The default run has `spout_lives`, which handles records in their order.
releases! {
    ten_kills_far_out_of_order_lose_nothing_0_8_2_2 "0.8.2.2" 100_000 #[ignore = "with tests/run --all"];
    ten_kills_far_out_of_order_lose_nothing_2_8_2 "2.8.2" 100_000 #[ignore = "with tests/run --all"];
    ten_kills_far_out_of_order_lose_nothing_4_4_0 "4.4.0" 100_000 #[ignore = "with tests/run --all"];
}
