//! What the command says on standard error, beside a status line if there is one.

use std::io::{Write, stderr};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::time::Instant;

/// Says things; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Voice {
    pub(super) bar: Option<ProgressBar>,
}

impl Voice {
    /// A line of its own, without tearing the status line.
    pub(super) fn say(&self, text: &str) {
        // Nobody is left to tell when stderr is gone. What comes from elsewhere must not steer a terminal.
        let line: String =
            text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
        let write = || drop(writeln!(stderr(), "downspout: {line}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// Something that may come very often, and is said now and then.
#[derive(Debug)]
pub(super) struct Complaint {
    said: Option<Instant>,
    unsaid: u64,
}

/// Between two that are said.
const EVERY: Duration = Duration::from_secs(10);

impl Complaint {
    pub(super) const fn new() -> Self {
        Complaint { said: None, unsaid: 0 }
    }

    /// Says it, or counts it.
    pub(super) fn say(&mut self, voice: &Voice, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.said.is_some_and(|said| now - said < EVERY) {
            self.unsaid += 1;
            return;
        }
        let more = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            unsaid => format!(" (and {unsaid} more since the last such line)"),
        };
        voice.say(&format!("{}{more}", text()));
        self.said = Some(now);
    }
}
