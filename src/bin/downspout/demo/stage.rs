//! Where the story is told: standard output, and a progress bar where there is a terminal.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Failure;

#[derive(Debug)]
pub(super) struct Stage {
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Stage {
    pub(super) fn new(records: u64) -> Stage {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(records);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} done") {
                bar.set_style(style);
            }
            bar
        });
        Stage { bar, began: Instant::now() }
    }

    /// So many are done.
    pub(super) fn done(&self, records: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(records);
        }
    }

    /// Text, as it is.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        let write = || stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
        .map_err(Failure::output)
    }

    /// Something happened now.
    pub(super) fn tell(&self, what: &str) -> Result<(), Failure> {
        self.write(&format!("{:>5.1} s  {what}\n", self.began.elapsed().as_secs_f64()))
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
