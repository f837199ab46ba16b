//! Every corner case and complaint that this layer answers for has a test that names it.
//!
//! Rows are cited in the names of tests: `case_42_…` for the corner cases of the protocol notes,
//! `d15_…`, `b2_…`, `g1_…`, `o3_…`, `s7_…`, `p1_…`, `c4_…` for what users of other clients ran into;
//! `storm_643_…` and `sk23_…` for the tickets and rows of storm-kafka, `pc8_12_…` for those of Parallel
//! Consumer. A row about something that is not built yet stands in [`OPEN`], with the reason, and is printed; it
//! never gets an empty test.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rows without a test, and what they wait for.
const OPEN: &[(&str, &str)] = &[
    ("o10", "a limit of lag at which records are passed over is not offered"),
    ("p9", "payloads taken without a copy: the full producer"),
    ("storm_2432", "batches of Trident: Trident"),
    ("pc8_20", "a revocation that waits for a transaction: transactions"),
];

/// Rows of the storm-kafka notes, by their ticket or, without one, by their number there (`sk…`): §4.1,
/// §4.2 and §4.4.
const STORM: [&str; 68] = [
    // §4.1
    "storm_643",
    "storm_1455",
    "storm_2608",
    "storm_511",
    "storm_2624",
    "storm_2270",
    "storm_2296",
    "storm_2361",
    "storm_3090",
    "storm_869",
    "storm_2546",
    "storm_399",
    "storm_238",
    "storm_563",
    "storm_1017",
    "sk16",
    "storm_352",
    "storm_810",
    "storm_303",
    "sk20",
    "storm_476",
    "storm_1094",
    "sk23",
    "sk24",
    "storm_1679",
    // §4.2
    "storm_1682",
    "storm_380",
    "storm_522",
    "storm_933",
    "storm_692",
    "sk31",
    "storm_817",
    "storm_2440",
    "storm_2713",
    "storm_1027",
    "storm_2019",
    "storm_498",
    "storm_603",
    "storm_391",
    "sk39",
    // §4.4
    "storm_2077",
    "storm_2607",
    "storm_2505",
    "storm_2639",
    "storm_2343",
    "storm_2549",
    "storm_2104",
    "storm_2315",
    "storm_2666",
    "storm_2869",
    "storm_3301",
    "storm_2844",
    "storm_2994",
    "storm_9078",
    "storm_2835",
    "storm_2850",
    "storm_2625",
    "storm_2851",
    "storm_2413",
    "storm_2544",
    "storm_3082",
    "storm_3102",
    "storm_3222",
    "storm_3529",
    "storm_4055",
    "storm_4041",
    "storm_2432",
    "storm_2228",
];

fn wanted() -> BTreeSet<String> {
    let cases = (1..=51).chain(53..=64).chain(67..=80);
    let cases = cases.map(|number| format!("case_{number}"));
    let others = [("d", 23), ("b", 6), ("g", 7), ("o", 13), ("s", 9), ("p", 10), ("c", 8), ("t", 3)];
    let storm = STORM.map(str::to_owned).into_iter();
    let parallel = (1..=35).map(|number| format!("pc8_{number}"));
    cases
        .chain(storm)
        .chain(parallel)
        .chain(others.into_iter().flat_map(|(letter, last)| (1..=last).map(move |n| format!("{letter}{n}"))))
        .collect()
}

/// The rows named by the test functions of a source file.
fn cited(source: &str, found: &mut BTreeSet<String>) {
    let names = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "))
    });
    for name in names.filter_map(|line| line.split(['(', '<']).next()) {
        let words: Vec<_> = name.split('_').collect();
        for pair in words.windows(2) {
            if let [kind @ ("case" | "storm" | "pc8"), number] = pair
                && let Ok(number) = number.parse::<u32>()
            {
                found.insert(format!("{kind}_{number}"));
            }
        }
        found.extend(words.iter().map(|word| (*word).to_owned()));
    }
}

fn walk(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut here = BTreeSet::new();
            cited(&fs::read_to_string(&path).unwrap(), &mut here);
            if speaks_of_vectors(&path) {
                here.retain(|row| !row.starts_with('p'));
            }
            found.extend(here);
        }
    }
}

/// Request and response vectors are numbered P1, P2, … too.
fn speaks_of_vectors(path: &Path) -> bool {
    path.components().any(|part| ["protocol", "cli"].iter().any(|name| part.as_os_str() == *name))
}

#[test]
fn every_row_has_a_test_or_is_listed_as_open() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    walk(&root.join("src"), &mut found);
    walk(&root.join("tests"), &mut found);
    for (row, why) in OPEN {
        println!("open: {row}: {why}");
        assert!(!found.contains(*row), "{row} is open, but a test names it: take it off the list");
    }
    let open: BTreeSet<_> = OPEN.iter().map(|(row, _)| (*row).to_owned()).collect();
    let missing: Vec<_> =
        wanted().into_iter().filter(|row| !found.contains(row) && !open.contains(row)).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}
