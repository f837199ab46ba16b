//! A progress bar on stderr, for when stdout goes somewhere else.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

/// How far `consume` is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Instant,
    records: u64,
    bytes: u64,
}

/// Between two looks at the clock that change what is shown.
const EVERY: Duration = Duration::from_millis(200);

impl Progress {
    /// Whether anything is shown: only if stdout is no terminal and stderr is one.
    pub(crate) fn is_wanted(quiet: bool) -> bool {
        !quiet && !stdout().is_terminal() && stderr().is_terminal()
    }

    /// `records` are expected, if that is known.
    pub(crate) fn new(quiet: bool, records: Option<u64>) -> Progress {
        let bar = Progress::is_wanted(quiet).then(|| {
            let (bar, template) = match records {
                Some(records) => (ProgressBar::new(records), "{wide_bar} {percent}% {msg}"),
                None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Progress { bar, started: now, shown: now, records: 0, bytes: 0 }
    }

    /// Counts what was read; `place` says where, as topic/partition @ offset.
    pub(crate) fn add(&mut self, records: u64, bytes: u64, place: impl FnOnce() -> String) {
        self.records += records;
        self.bytes += bytes;
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < EVERY {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = HumanCount((self.records as f64 / seconds) as u64);
        let flow = HumanBytes((self.bytes as f64 / seconds) as u64);
        bar.set_position(self.records);
        bar.set_message(format!("{} records, {rate}/s, {flow}/s, {}", HumanCount(self.records), place()));
    }

    /// Writes a line to stderr without tearing the bar.
    pub(crate) fn line(&self, line: &str) {
        // Nobody is left to tell when stderr is gone.
        let write = || drop(writeln!(stderr(), "{line}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Says something on stderr.
pub(crate) fn say(line: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(stderr(), "downspout: {line}");
}
