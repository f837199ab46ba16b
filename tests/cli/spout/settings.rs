//! `spout`: settings from flags, variables and a file.

use std::fs;

use super::{finished, spout_with};
use crate::Run;

fn spout(args: &[&str], variables: &[(&str, &str)]) -> Run {
    finished(spout_with(args).envs(variables.iter().copied()).spawn().unwrap())
}

#[test]
fn flags_weigh_more_than_variables_than_the_file_and_what_is_printed_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spout.toml");
    fs::write(
        &file,
        "brokers = \"h:1\"\ntopics = [\"^clicks-.*\"]\nwindow_records = 5\norder = \"by_key\"\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let set =
        [("DOWNSPOUT_WINDOW_RECORDS", "6"), ("DOWNSPOUT_COMMIT_INTERVAL", "7s"), ("DOWNSPOUT_CONFIG", path)];
    let run = spout(&["--commit-interval", "8s", "--print-config", "--", "python3", "a b.py"], &set);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let lines: Vec<&str> = run.out.lines().collect();
    for expected in [
        &format!("brokers = [\"h:1\"]  # {path}:1"),
        &format!("order = \"by_key\"  # {path}:4"),
        "window_records = 6  # DOWNSPOUT_WINDOW_RECORDS",
        "commit_interval = \"8s\"  # --commit-interval",
        "exec = [\"python3\", \"a b.py\"]  # --exec",
        "drain_timeout = \"20s\"  # default",
        "# ack_timeout is not set",
    ] {
        assert!(lines.contains(&expected), "{expected} in\n{}", run.out);
    }
    // As a file it says the same, but for where it comes from.
    let copy = folder.path().join("copy.toml");
    fs::write(&copy, &run.out).unwrap();
    let again = spout(&["--config", copy.to_str().unwrap(), "--print-config"], &[]);
    let values = |out: &str| -> Vec<String> {
        out.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(values(&run.out), values(&again.out));
}

#[test]
fn check_says_whether_the_settings_are_right_and_does_nothing_else() {
    let run = spout(&["-b", "127.0.0.1:1", "-t", "clicks", "--check"], &[]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    for (args, message) in [
        (&["-b", "h", "--check"][..], "no topics: say what to read with --topic (-t)"),
        (&["-b", "h", "-t", "x", "--check", "--store", "kafka"], "no id: say with --id"),
        (&["-b", "h", "-t", "x", "--check", "--retry-limit", "1"], "retry_limit needs on_exhausted"),
        (&["-b", "h", "-t", "x", "--check", "--commit-intervall", "1s"], "'--commit-interval'"),
        (&["-b", "h", "-t", "x", "--check", "--config", "/no/such"], "cannot read /no/such"),
        (&["-b", "h", "-t", "x", "--exec", "a", "--", "b"], "one command too many"),
        (&["-b", "h", "-t", "x", "--on-exhausted", "ignore"], "[possible values: skip, dead_letter, stop]"),
        (&["-b", "h", "-t", "x", "--root", "/spouts"], "root needs zookeeper, where it is"),
        (
            &["-b", "h", "-t", "x", "--id", "x", "--members"],
            "members needs a store in ZooKeeper (--store zk://…)",
        ),
        (
            &["--zookeeper", "h", "--root", "/s", "-t", "x", "--id", "x", "--members", "-e"],
            "exit_at_end and members don't go together",
        ),
        (
            &["--zookeeper", "h", "--root", "/s", "-t", "x", "--id", "x", "--members", "--total-tasks", "2"],
            "partitions are either those of a task (total_tasks) or shared (members), not both",
        ),
    ] {
        let run = spout(args, &[]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        assert!(run.err.contains(message), "{args:?}: {}", run.err);
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_near_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spout.toml");
    fs::write(&file, "\nretry_limits = 5\n").unwrap();
    let path = file.to_str().unwrap();
    let run = spout(&["--config", path], &[]);
    let message = format!(
        "downspout: {path}:2: there is no setting retry_limits. Did you mean retry_limit, retry_first or retry?\n"
    );
    assert_eq!((run.code, run.err), (2, message));
    let run = spout(&[], &[("DOWNSPOUT_TOPICS", "x"), ("DOWNSPOUT_BROKER", "h")]);
    let message = "downspout: DOWNSPOUT_BROKER: there is no such setting. Did you mean DOWNSPOUT_BROKERS?\n";
    assert_eq!((run.code, run.err.as_str()), (2, message));
}

#[test]
fn settings_are_in_the_help_the_completions_and_the_manual() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().to_str().unwrap();
    assert_eq!(crate::downspout(&["man", pages], b"").code, 0);
    let manual = fs::read_to_string(folder.path().join("downspout-spout.1")).unwrap().replace("\\-", "-");
    let texts = [spout(&["--help"], &[]).out, crate::downspout(&["completions", "bash"], b"").out, manual];
    let file = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/spout-settings.md")).unwrap();
    let flags: Vec<&str> =
        file.split('`').filter(|word| word.starts_with("--") && !word.contains(' ')).collect();
    assert!(flags.len() > 60, "{flags:?}");
    for flag in flags {
        assert!(texts.iter().all(|text| text.contains(flag)), "{flag}");
    }
}

#[test]
fn printing_with_a_position_that_outlives_it_must_be_asked_for() {
    let run = spout(&["-b", "127.0.0.1:1", "-t", "x", "--id", "x", "--store", "file:/tmp/x"], &[]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("file:/tmp/x keeps that: say --ack-on-write"), "{}", run.err);
}
