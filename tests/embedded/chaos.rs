//! Random schedules.

use std::collections::BTreeSet;

use super::direct::Direct;
use super::*;
use downspout::testing::{Action, Chaos, Core};

fn cluster() -> Direct {
    let mut cluster = Direct::new(Release::V4_4, |settings| settings.brokers = 3);
    cluster.append(0);
    cluster.append(0);
    cluster.append(1);
    cluster
}

fn run(cluster: &mut Direct, chaos: &mut Chaos, steps: usize) {
    for _ in 0..steps {
        chaos.step(&mut cluster.core);
        cluster.pass(10);
    }
}

fn ends(core: &Core) -> Vec<(i64, i64)> {
    (0..2).map(|partition| core.offsets("t", partition).unwrap()).map(|log| (log.start, log.end)).collect()
}

#[test]
fn a_seed_is_one_schedule_and_another_seed_another_one() {
    let events = |seed| {
        let mut chaos = Chaos::new(seed).losing_records().corrupting_records();
        run(&mut cluster(), &mut chaos, 500);
        chaos.events().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(events(1), events(1));
    assert_ne!(events(1), events(2));
}

#[test]
fn after_healing_every_broker_answers_and_every_partition_is_led() {
    for seed in 0..300 {
        let mut cluster = cluster();
        let mut chaos = Chaos::new(seed).losing_records();
        run(&mut cluster, &mut chaos, 100);
        chaos.heal(&mut cluster.core);
        for node in 1..=3 {
            let at = cluster.connect(node);
            let answer = cluster.ask(at, 12, metadata_of("t"));
            assert_eq!(answer.brokers.len(), 3, "seed {seed}");
            let partitions = &answer.topics[0].partitions;
            assert!(partitions.len() >= 2, "seed {seed}");
            for (index, partition) in (0..).zip(partitions) {
                let leader = (Some(partition.leader_id), partition.leader_epoch);
                assert_eq!(cluster.core.leader("t", index).unwrap(), leader, "seed {seed}");
                assert_eq!(partition.error_code, ErrorCode(0), "seed {seed}");
            }
        }
    }
}

#[test]
fn without_losses_logs_stay_as_they_are_and_one_broker_is_always_up() {
    for seed in 0..300 {
        let mut cluster = cluster();
        let before = ends(&cluster.core);
        let mut chaos = Chaos::new(seed).rate(100);
        for _ in 0..100 {
            run(&mut cluster, &mut chaos, 1);
            assert!((1..=3).any(|node| cluster.core.is_up(node)), "seed {seed}");
        }
        assert_eq!(ends(&cluster.core), before, "seed {seed}");
    }
}

#[test]
fn everything_that_can_happen_does() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut chaos = Chaos::new(seed).losing_records().corrupting_records().rate(60);
        run(&mut cluster(), &mut chaos, 100);
        for event in chaos.events() {
            let name = format!("{:?}", event.action);
            let name = match &event.action {
                Action::Fault { what, .. } => format!("{what:?}"),
                _ => name,
            };
            seen.insert(name.split([' ', '(']).next().unwrap().to_owned());
        }
    }
    let expected = [
        "AddPartitions",
        "Close",
        "Compact",
        "CorrelationId",
        "CorruptRecords",
        "Create",
        "CutAfter",
        "Delay",
        "Delete",
        "DeleteBefore",
        "Error",
        "ForgetSessions",
        "Freeze",
        "Hide",
        "HoldFollower",
        "HoldHighWatermark",
        "HoldMetadata",
        "Lead",
        "ShowEpoch",
        "Silence",
        "Size",
        "Start",
        "Stop",
        "Throttle",
        "TopError",
        "Truncate",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn corrupted_records_fail_their_checksum_and_nothing_else() {
    let mut cluster = cluster();
    cluster.core.inject(Fault::corrupt_records().on(ApiKey::FETCH).once());
    let at = cluster.connect(1);
    let intact = |answer: &FetchResponse| {
        let set = downspout::records::RecordSet::new(Bytes::copy_from_slice(records(answer, 0)));
        set.entries().map(|entry| entry.unwrap().check_crc().is_ok()).collect::<Vec<_>>()
    };
    let answer = cluster.ask(at, 12, fetch(&[(0, 0)], 1_000));
    assert_eq!(intact(&answer), [false, true]);
    let answer = cluster.ask(at, 12, fetch(&[(0, 0)], 1_000));
    assert_eq!(intact(&answer), [true, true]);
}
