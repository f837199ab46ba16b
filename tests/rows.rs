//! Every corner case and complaint that this layer answers for has a test that names it.
//!
//! Rows are cited in the names of tests: `case_42_…` for the corner cases of the protocol notes,
//! `d15_…`, `b2_…`, `g1_…`, `o3_…`, `s7_…`, `p1_…`, `c4_…` for what users of other clients ran into. A
//! row about something that is not built yet stands in [`OPEN`], with the reason, and is printed; it
//! never gets an empty test.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rows without a test, and what they wait for.
const OPEN: &[(&str, &str)] = &[
    ("o9", "pending and failed offsets below the log start: the spout"),
    ("o10", "a lag limit: the spout"),
    ("p9", "payloads taken without a copy: the full producer"),
    ("c8", "stale brokers, paths and sessions of ZooKeeper: ZooKeeper"),
];

fn wanted() -> BTreeSet<String> {
    let cases = (1..=51).chain(53..=64).chain(67..=80);
    let cases = cases.map(|number| format!("case_{number}"));
    let others = [("d", 23), ("b", 6), ("g", 7), ("o", 13), ("s", 9), ("p", 10), ("c", 8)];
    cases
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
            if pair[0] == "case"
                && let Ok(number) = pair[1].parse::<u32>()
            {
                found.insert(format!("case_{number}"));
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
