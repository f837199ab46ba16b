use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use clap::{Args, FromArgMatches};
use downspout::client::StartOffset;
use downspout::spout::{OnExhausted, Order, RetryMode, SpoutSettings};

use super::value::{Kind, Value};
use super::{Flags, Loaded, Source, file, keys, print, variables_of};
use crate::exit::{Exit, Failure};

fn flags(args: &[&str]) -> Flags {
    let command = Flags::augment_args(clap::Command::new("spout").no_binary_name(true));
    let matches = command.try_get_matches_from(args).unwrap_or_else(|why| panic!("{args:?}: {why}"));
    Flags::from_arg_matches(&matches).unwrap()
}

fn variables(set: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// Loads with a file of this text.
fn load(args: &[&str], set: &[(&str, &str)], text: &str) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spout.toml");
    std::fs::write(&path, text).unwrap();
    Loaded::load(&flags(args), variables(set), Some(&path)).map_err(|failure| {
        assert_eq!(failure.exit, Exit::Usage);
        failure.message.unwrap().replace(&format!("{}", path.display()), "FILE")
    })
}

const ENOUGH: &[&str] = &["-b", "h", "-t", "clicks"];

#[track_caller]
fn refused(args: &[&str], set: &[(&str, &str)], text: &str, message: &str) {
    let args = [ENOUGH, args].concat();
    let why = load(&args, set, text).expect_err("it was taken");
    assert!(why.contains(message), "{why}");
}

#[test]
fn the_defaults_of_the_table_are_those_of_the_library() {
    let loaded = load(ENOUGH, &[], "").unwrap();
    assert_eq!(format!("{:?}", loaded.config.settings), format!("{:?}", SpoutSettings::default()));
    assert_eq!(loaded.target.properties.memory, Some(256 << 20));
}

#[test]
fn flags_weigh_more_than_variables_and_these_more_than_the_file() {
    let text = "commit_interval = \"1s\"\nwindow_records = 1\nparked_records = 1\ntopics = [\"from-file\"]\n";
    let set =
        [("DOWNSPOUT_COMMIT_INTERVAL", "2m"), ("DOWNSPOUT_WINDOW_RECORDS", "2"), ("DOWNSPOUT_EMPTY", "")];
    let loaded = load(&["-b", "h", "--commit-interval", "3s"], &set, text).unwrap();
    let settings = &loaded.config.settings;
    assert_eq!(settings.commit_interval.as_secs(), 3);
    assert_eq!((settings.window.records, settings.parked.records), (2, 1));
    let source = |name: &str| loaded.given[name].1.clone();
    assert_eq!(source("commit_interval"), Source::Flag("commit-interval".into()));
    assert_eq!(source("window_records"), Source::Variable("DOWNSPOUT_WINDOW_RECORDS".into()));
    assert!(matches!(source("parked_records"), Source::File(_, 3)));
    // A list of more weight replaces one of less.
    let topics = |args: &[&str], set: &[(&str, &str)]| load(args, set, text).unwrap().config.topics.len();
    assert_eq!(topics(&["-b", "h"], &[("DOWNSPOUT_TOPICS", "a, b,c")]), 3);
    assert_eq!(topics(&["-b", "h", "-t", "a", "-t", "b,^c-.*"], &[("DOWNSPOUT_TOPICS", "a")]), 3);
}

#[test]
fn an_unknown_key_is_an_error_with_near_names() {
    refused(
        &[],
        &[],
        "\n\ncomit_interval = \"2s\"\n",
        "FILE:3: there is no setting comit_interval. Did you mean commit_interval?",
    );
    refused(&[], &[], "[retry]\nfirst = \"1s\"\n", "FILE:1: retry: expected a text in quotes");
    refused(&[], &[("DOWNSPOUT_COMIT_INTERVAL", "2s")], "", "Did you mean DOWNSPOUT_COMMIT_INTERVAL?");
    // What others may have put there is said and passed over.
    for name in ["XYZZY", "ALL", "SERVICE_HOST", "PORT", "PORT_9092_TCP_ADDR"] {
        let name = format!("DOWNSPOUT_{name}");
        let loaded = load(ENOUGH, &[(&name, "1"), ("HOME", "/")], "").unwrap();
        assert_eq!(loaded.notes, [format!("{name} is passed over: there is no such setting")]);
    }
}

#[test]
fn a_wrong_value_is_told_with_its_place_and_what_is_right() {
    refused(&["--commit-interval", "2"], &[], "", "--commit-interval: expected a time with its unit");
    refused(
        &[],
        &[("DOWNSPOUT_WINDOW_BYTES", "64MB")],
        "",
        "DOWNSPOUT_WINDOW_BYTES: expected a number of bytes",
    );
    refused(&[], &[], "\nretry_limit = \"5\"", "FILE:2: retry_limit: expected a whole number");
    refused(&[], &[], "retry_limit = -5", "FILE:1: retry_limit: expected a whole number from 0 on");
    refused(&[], &[], "x = \n", "FILE:1: ");
    refused(&[], &[], "commit_interval = 2", "expected a time in quotes, as in \"2s\"");
    refused(&[], &[], "on_poison = \"ignore\"", "expected stop, skip or give_up; it is \"ignore\"");
    refused(&["-t", "^("], &[], "", "--topic: ");
    refused(&["--metrics", "x:1"], &[], "", "--metrics: expected PORT or ADDRESS:PORT");
    refused(&["--start", "e@5"], &[], "", "--start: expected earliest, latest, N, -N or s@MS");
    refused(&["-X", "fetch.max.byte=1"], &[], "", "Did you mean fetch.max.bytes");
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    refused(&["--retry-limit", "3"], &[], "", "retry_limit needs on_exhausted");
    refused(
        &["--on-exhausted", "dead-letter"],
        &[],
        "",
        "on_exhausted = dead_letter needs dead_letter_topic",
    );
    refused(&["--dead-letter-topic", "x"], &[], "", "dead_letter_topic needs on_exhausted = dead_letter");
    refused(&["--retry", "rewind", "--retry-first", "1s"], &[], "", "retry_first needs retry = backoff");
    refused(&["--null-is-a-key"], &[], "", "null_is_a_key needs order = by_key");
    refused(&["--workers", "2"], &[], "", "workers needs exec");
    refused(&["--exec", "x", "--ack-on-write"], &[], "", "ack_on_write needs");
    refused(&["--store", "file:/tmp/x"], &[], "", "--id");
    refused(&["--task-index", "2", "--total-tasks", "2"], &[], "", "tasks are numbered from 0");
    let missing = |args: &[&str]| load(args, &[], "").unwrap_err();
    assert!(missing(&["-t", "x"]).contains("--brokers"));
    assert!(missing(&["-b", "h"]).contains("--topic"));
}

#[test]
fn every_setting_of_the_spout_can_be_set() {
    let text = r#"
        brokers = ["a:1", "b:2"]
        topics = "clicks, ^orders-.*"
        start = 100
        retry = "backoff"
        retry_first = "1s"
        retry_multiplier = 1.5
        retry_jitter = 0
        retry_limit = 5
        on_exhausted = "dead_letter"
        dead_letter_topic = "dead"
        dead_letter_form = "envelope"
        order = "by_key"
        null_is_a_key = true
        window_bytes = 1_000
        exec = ["python3", "-u", "bill.py"]
        metrics = "9898"
    "#;
    let config = load(&[], &[], text).unwrap().config;
    assert_eq!(config.settings.start, StartOffset::At(100));
    assert!(
        matches!(&config.settings.retry, RetryMode::Backoff(it) if it.multiplier == 1.5 && it.jitter == 0.0)
    );
    assert!(matches!(&config.settings.on_exhausted, Some(OnExhausted::DeadLetter(it)) if it.topic == "dead"));
    assert_eq!(config.settings.order, Order::ByKey { null_is_a_key: true });
    assert_eq!(config.settings.window.bytes, 1_000);
    assert_eq!(config.exec.unwrap(), ["python3", "-u", "bill.py"]);
    assert_eq!(config.metrics.unwrap().to_string(), "127.0.0.1:9898");
    let config = load(ENOUGH, &[("DOWNSPOUT_EXEC", "sed x | y")], "").unwrap().config;
    assert_eq!(config.exec.unwrap(), ["sh", "-c", "sed x | y"]);
}

#[test]
fn properties_count_where_no_setting_of_its_own_was_given() {
    let file = "partition_bytes = \"2KiB\"";
    let args =
        [ENOUGH, &["-X", "isolation.level=read_uncommitted", "-X", "max.partition.fetch.bytes=5"]].concat();
    let stream = load(&args, &[], file).unwrap().config.settings.stream;
    assert_eq!(stream.partition_bytes, 2 << 10);
    assert_eq!(stream.isolation, downspout::records::Isolation::ReadUncommitted);
    // What is printed is what is in force.
    let printed = load(&args, &[], file).unwrap().print();
    assert!(printed.contains("isolation = \"read_uncommitted\"  # properties\n"), "{printed}");
}

/// A value other than the default.
fn other(key: &keys::Key) -> Value {
    let text = match key.kind {
        Kind::Choice(names) => names.last().unwrap(),
        Kind::Switch => "true",
        Kind::Number => "1",
        Kind::Decimal => "1",
        Kind::Duration => "7m",
        Kind::Size => "3KiB",
        Kind::Command => return Value::Many(vec!["a \"b\"".into(), "\\c".into()]),
        Kind::List(_) => return Value::Many(vec!["a=b".into(), "ü".into()]),
        Kind::Text if key.name == "store" => "file:x",
        Kind::Text if key.name == "metrics" => "0.0.0.0:1",
        Kind::Text => "-5",
    };
    Value::One(text.to_owned())
}

#[test]
fn what_print_config_prints_reads_the_same_again() {
    let source = Source::File("a\nb = 1".into(), 1);
    let all = keys::all().map(|key| (key.name, (other(key), source.clone()))).collect();
    let read = file::parse(Path::new("x"), &print::effective(&all)).unwrap();
    for (name, (value, _)) in all {
        assert_eq!(read[name].0, value, "{name}");
    }
    // With nothing given there is a line for each setting all the same, and the values are the defaults.
    let text = print::effective(&Default::default());
    let read = file::parse(Path::new("x"), &text).unwrap();
    for key in keys::all() {
        assert_eq!(
            read.get(key.name).map(|(value, _)| value.clone()),
            key.default.map(|it| key.kind.read(it))
        );
        assert!(text.contains(&format!("{} ", key.name)), "{}", key.name);
    }
}

#[test]
fn names_flags_and_variables_are_each_one_of_a_kind() {
    let mut seen = BTreeSet::new();
    for key in keys::all() {
        assert!(seen.insert(key.name.to_owned()), "{}", key.name);
        assert!(seen.insert(format!("--{}", key.flag())), "{}", key.name);
        assert!(seen.insert(key.variable()), "{}", key.name);
    }
}

#[test]
fn a_file_can_be_named_by_a_variable() {
    let (_, file, _) = variables_of(variables(&[("DOWNSPOUT_CONFIG", "/x.toml")])).unwrap();
    assert_eq!(file.unwrap(), Path::new("/x.toml"));
    let read = |path: &str| Loaded::load(&flags(&[]), variables(&[("DOWNSPOUT_CONFIG", path)]), None);
    let Err(Failure { exit: Exit::Usage, message: Some(why) }) = read("/no/such/file") else { panic!() };
    assert!(why.starts_with("cannot read /no/such/file"), "{why}");
}

#[test]
fn switches_can_be_turned_off_again() {
    let text = "quiet = true\nexit_at_end = true";
    let config = load(&[ENOUGH, &["--quiet=false"]].concat(), &[], text).unwrap().config;
    assert_eq!((config.quiet, config.exit_at_end), (false, true));
    let config = load(&[ENOUGH, &["-qe"]].concat(), &[], "").unwrap().config;
    assert_eq!((config.quiet, config.exit_at_end), (true, true));
}

/// `DOWNSPOUT_REWRITE=1` writes it anew.
#[test]
fn the_documentation_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/spout-settings.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let introduction = old.split_inclusive("\n\n## ").next().unwrap_or_default().trim_end_matches("## ");
    let new = format!("{introduction}{}", print::table());
    if std::env::var_os("DOWNSPOUT_REWRITE").is_some() {
        std::fs::write(path, new).unwrap();
        return;
    }
    assert_eq!(old, new, "run it again with DOWNSPOUT_REWRITE=1");
}
