//! `downspout spout`, `lag`, `checkpoint` and `dlq` on real brokers, as an operator runs them.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::clusters::start;
use crate::harness::{Driver, Options, Release, Result};
use crate::stage::Turn;

use super::life::Own;

const COUNT: i64 = 300;

/// A handler that any system has: it takes each record but those that end with 13.
const HANDLER: &str = r#"while read -r line; do
  case "$line" in *'"id":"'*) ;; *) continue ;; esac
  id=${line#*\"id\":\"}; id=${id%%\"*}
  case "$line" in *13\",\"headers\"*) echo "fail $id unlucky" ;; *) echo "ack $id" ;; esac
done"#;

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

fn downspout(args: &[&str]) -> Result<Run> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downspout"));
    let run = command.args(args).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Run { code: run.status.code(), out: text(&run.stdout), err: text(&run.stderr) })
}

/// It ended well; its lines as JSON.
fn lines(args: &[&str]) -> Result<Vec<Value>> {
    let run = downspout(args)?;
    match run.code {
        Some(0) => {
            run.out.lines().map(|line| serde_json::from_str(line).map_err(|e| e.to_string())).collect()
        }
        code => Err(format!("{args:?} ended with {code:?}: {}{}", run.out, run.err)),
    }
}

fn commands(name: &str) -> Result<()> {
    let release = Release::named(name);
    let _turn = Turn::take();
    let Some(kafka) = start(release, Options::default()) else { return Ok(()) };
    let mut admin = Driver::start(&kafka)?;
    admin.create_topic(&kafka, "clicks", 2, &[])?;
    let own = Own::of(&kafka)?;
    own.write("clicks", 2, COUNT)?;
    let brokers = kafka.bootstrap();
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    // Before 0.11 a record has no headers, before 0.8.2 Kafka keeps no offsets by itself.
    let form = if release.has_headers() { "headers" } else { "envelope" };
    let stores = [(format!("file:{}", dir.path().display()), "dead-a", 3), ("kafka".to_owned(), "dead-b", 6)];
    for (store, letters, unlucky) in stores {
        let base = ["--brokers", &brokers, "--topic", "clicks", "--id", "billing", "--store", &store];
        let on_failure =
            ["--retry-limit", "1", "--on-exhausted", "dead_letter", "--dead-letter-topic", letters];
        let form = ["--dead-letter-form", form, "-e", "--exec", HANDLER];
        let spout = [&["spout"][..], &base, &on_failure, &form].concat();
        // The topic for dead letters is looked for before anything is handed out.
        let refused = downspout(&spout)?;
        if refused.code != Some(3) || !refused.err.contains(letters) {
            return Err(format!("{store}: no such topic: {:?} {}", refused.code, refused.err));
        }
        admin.create_topic(&kafka, letters, 1, &[])?;
        let run = downspout(&[&spout[..], &["--workers", "2"]].concat())?;
        if run.code != Some(0) {
            return Err(format!("{store}: {:?} {} {}", run.code, run.out, run.err));
        }
        let dead = lines(&["dlq", "list", "-b", &brokers, "-t", letters, "-J"])?;
        let mut values: Vec<_> =
            dead.iter().map(|one| (one["reason"].as_str(), one["attempts"].as_i64())).collect();
        values.dedup();
        assert_eq!(
            (dead.len(), values),
            (unlucky, vec![(Some("unlucky"), Some(2))]),
            "{release}, {store}: {dead:?}"
        );

        let lag = downspout(&[&["lag"][..], &base, &["--max-lag", "0"]].concat())?;
        assert_eq!(lag.code, Some(0), "{release}, {store}: {}{}", lag.out, lag.err);
        let again = downspout(&spout)?;
        assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{release}, {store}: {}", again.err);
        assert_eq!(lines(&["dlq", "list", "-b", &brokers, "-t", letters, "-J"])?.len(), unlucky);
        let redriven =
            downspout(&["dlq", "redrive", "-b", &brokers, "-t", letters, "--store", &store, "--execute"])?;
        assert_eq!(redriven.code, Some(0), "{release}, {store}: {}{}", redriven.out, redriven.err);
    }
    let ends = lines(&["offsets", "-b", &brokers, "-t", "clicks", "-J"])?;
    let total: i64 =
        ends.iter().filter(|end| end["at"] == "latest").filter_map(|end| end["offset"].as_i64()).sum();
    assert_eq!(total, COUNT + 3 + 6, "{release}: what was sent back came to its topic");
    Ok(())
}

macro_rules! releases {
    ($($test:ident $release:literal $(#[$attribute:meta])?;)*) => {
        $(#[test] $(#[$attribute])? fn $test() { commands($release).unwrap(); })*
    };
}

releases! {
    an_operators_day_on_0_8_2_2 "0.8.2.2";
    an_operators_day_on_0_10_2_2 "0.10.2.2" #[ignore = "with tests/run --all"];
    an_operators_day_on_2_8_2 "2.8.2" #[ignore = "with tests/run --all"];
    an_operators_day_on_4_4_0 "4.4.0";
}
