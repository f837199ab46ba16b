//! One release's run: a broker, a driver, and the checks one after the other.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::harness::{Driver, Kafka, LeftOut, Options, Prepared, Release, Result};
use crate::reads;
use crate::{
    checkpoints, cli, compacted, corpus, negotiation, offsets, produce, simple_consumer, simple_reads,
    transactions, upgraded, versions,
};

/// What the checks of a release share.
pub struct Stage {
    pub release: &'static Release,
    pub kafka: Kafka,
    pub driver: Driver,
    pub topics: Vec<corpus::Topic>,
    pub transactions: Option<transactions::Expected>,
}

/// Runs all checks of a release; fails with all that went wrong, not only the first.
pub fn run(name: &str) {
    let release = Release::named(name);
    let _turn = Turn::take();
    let prepared = match Prepared::of(release) {
        Ok(prepared) => prepared,
        Err(why) => return left_out(release, &why),
    };
    let start = Instant::now();
    let mut report = Report::of(release);
    let mut stage = Stage::start(release, &prepared).unwrap_or_else(|why| panic!("{release}: {why}"));
    println!("{release}: up in {:.1?}", start.elapsed());
    report.check("negotiation", || negotiation::recognised(&mut stage));
    report.check("produce the corpus", || {
        stage.topics = corpus::produce(&mut stage)?;
        Ok(())
    });
    report.check("its own consumer reads the corpus", || reads::own_consumer(&mut stage));
    report.check("SimpleConsumer reads from the middle of sets", || simple_reads::from_the_middle(&stage));
    report.check("downspout consume reads the corpus", || cli::corpus(&stage));
    report.check("SimpleConsumer reads the corpus", || simple_consumer::reads_the_corpus(&mut stage));
    report.check("SimpleConsumer keeps offsets", || simple_consumer::keeps_offsets(&mut stage));
    if release.since(&[0, 8, 1]) {
        report.check("checkpoints", || checkpoints::all(&mut stage));
    }
    report.check("offsets", || {
        let entries = offsets::produce(&mut stage)?;
        offsets::own_expectations(&mut stage, &entries)?;
        offsets::ours(&mut stage)?;
        simple_reads::offsets(&mut stage)
    });
    if release.has_transactions() {
        report.check("transactions", || {
            let expected = transactions::produce(&mut stage)?;
            transactions::own_consumer(&mut stage, &expected)?;
            transactions::ours(&stage, &expected)?;
            simple_reads::transactions(&stage, &expected)?;
            stage.transactions = Some(expected);
            Ok(())
        });
    }
    report.check("what we write, read by its own consumer", || produce::own_consumer(&mut stage));
    report.check("what downspout produce writes, shown by its console consumer", || {
        produce::console_consumer(&mut stage)
    });
    report.check("every version of every API", || versions::all(&mut stage));
    if release.has_null_values() {
        report.check("compacted", || {
            let expected = compacted::produce(&mut stage)?;
            compacted::own_consumer(&expected)?;
            compacted::ours(&stage, &expected)
        });
    }
    if release.since(&[0, 10]) {
        report.check("upgraded in place", || upgraded::all(&mut stage));
    }
    println!("{release}: all checks in {:.1?}", start.elapsed());
    report.finish();
}

/// Says so past the capture of test output, so that nobody takes it for a success.
pub fn left_out(release: &Release, LeftOut(why): &LeftOut) {
    let _ = writeln!(std::io::stderr(), "left out: {release}: {why}");
}

impl Stage {
    fn start(release: &'static Release, prepared: &Prepared) -> Result<Self> {
        let mut options = Options::default();
        if release.has_timestamps() {
            options = options.set("log.retention.ms", "-1"); // the corpus has times of long ago
        }
        let kafka = Kafka::start(release, prepared, options)?;
        let driver = Driver::start(&kafka)?;
        Ok(Self { release, kafka, driver, topics: Vec::new(), transactions: None })
    }
}

/// Of the checks that share a broker.
pub struct Report {
    release: &'static Release,
    failures: Vec<String>,
}

impl Report {
    pub fn of(release: &'static Release) -> Self {
        Self { release, failures: Vec::new() }
    }

    /// A check fails by an error or by a panic of one of its assertions; the next ones run in any case.
    pub fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
        });
        println!(
            "{}: {name}: {} in {:.1?}",
            self.release,
            if outcome.is_ok() { "ok" } else { "FAILED" },
            start.elapsed()
        );
        if let Err(why) = outcome {
            self.failures.push(format!("{}: {name}: {why}", self.release));
        }
    }

    pub fn finish(self) {
        let mut text = String::new();
        for failure in &self.failures {
            let _ = writeln!(text, "\n* {failure}");
        }
        assert!(
            self.failures.is_empty(),
            "{} of the checks of {} failed:{text}",
            self.failures.len(),
            self.release
        );
    }
}

/// Two releases at a time: each has up to three JVMs.
pub struct Turn;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl Turn {
    pub fn take() -> Self {
        let running = RUNNING.0.lock().unwrap();
        *RUNNING.1.wait_while(running, |running| *running >= 2).unwrap() += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap() -= 1;
        RUNNING.1.notify_one();
    }
}
