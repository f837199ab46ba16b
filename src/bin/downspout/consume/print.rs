//! Shows what a stream gives: records on standard output, what happened on standard error.

use std::io;

use clap::ValueEnum;
use downspout::client::{CorruptPolicy, Item, Recovered, TopicPartition};
use downspout::records::{Batch, Corruption};

use super::event;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::record_json::Content;
use crate::show::{Show, Shown};

/// What to do about data that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OnCorrupt {
    /// Stop, with exit code 1.
    Stop,
    /// Say what is lost, and go on after it; exit code 1 at the end.
    Skip,
    /// Show the raw bytes as a record, and go on after them; exit code 1 at the end.
    Raw,
}

impl From<OnCorrupt> for CorruptPolicy {
    fn from(policy: OnCorrupt) -> CorruptPolicy {
        match policy {
            OnCorrupt::Stop => CorruptPolicy::Stop,
            OnCorrupt::Skip => CorruptPolicy::Skip,
            OnCorrupt::Raw => CorruptPolicy::Raw,
        }
    }
}

/// Whether there is more to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    /// Nothing more of this partition.
    Behind,
    /// As many records as were asked for were shown.
    Enough,
}

pub(super) struct Printer {
    pub(super) output: Output<io::StdoutLock<'static>>,
    pub(super) show: Show,
    pub(super) events_as_json: bool,
    pub(super) on_corrupt: OnCorrupt,
    /// Show nothing of a partition from the first record on that is not older, in ms since 1970.
    pub(super) until: Option<i64>,
    /// Records that may still be shown, if that is limited.
    pub(super) left: Option<u64>,
    pub(super) progress: Progress,
    pub(super) quiet: bool,
    pub(super) exit: Exit,
}

impl Printer {
    /// Shows what came of a partition, and by which broker.
    pub(super) fn item(
        &mut self,
        from: &TopicPartition,
        broker: Option<i32>,
        item: &Item,
    ) -> Result<Flow, Failure> {
        let origin = Shown {
            topic: &from.topic,
            partition: from.partition,
            broker: broker.unwrap_or(-1),
            offset: 0,
            content: Content::default(),
            damage: None,
        };
        match item {
            Item::Batch(batch) => {
                let mut shown = 0;
                let flow = self.batch(from, origin, batch, &mut shown);
                let place = || format!("{from} at offset {}", batch.next_offset());
                self.progress.add(shown, batch.size() as u64, place);
                flow
            }
            Item::Recovered(event) => {
                self.event(from, event);
                Ok(Flow::On)
            }
            Item::Raw(bytes, damage) => {
                let what = format!("{from}: {damage}");
                let content = Content { value: Some(bytes), ..Content::default() };
                let shown = Shown { offset: damage.first_offset, content, damage: Some(&what), ..origin };
                self.exit = Exit::Found;
                self.record(shown)
            }
            // A kind that is not known here is no record.
            _ => Ok(Flow::On),
        }
    }

    /// Hands on what was shown.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.output.flush().map_err(Failure::output)
    }

    fn batch(
        &mut self,
        from: &TopicPartition,
        origin: Shown<'_>,
        batch: &Batch,
        shown: &mut u64,
    ) -> Result<Flow, Failure> {
        for record in batch.records() {
            let record = match record {
                Ok(record) => record,
                Err(damage) => {
                    self.damage(from, damage)?;
                    continue;
                }
            };
            if self.until.is_some_and(|until| record.timestamp().is_some_and(|time| time >= until)) {
                return Ok(Flow::Behind);
            }
            let flow =
                self.record(Shown { offset: record.offset(), content: Content::from(&record), ..origin })?;
            *shown += 1;
            if flow == Flow::Enough {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn record(&mut self, shown: Shown<'_>) -> Result<Flow, Failure> {
        self.show.record(&mut self.output, shown);
        self.output.check().map_err(Failure::output)?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::On)
    }

    /// Damage inside of a batch whose checksum is right, which the stream cannot see; there are no
    /// bytes of it to show.
    fn damage(&mut self, from: &TopicPartition, damage: Corruption) -> Result<(), Failure> {
        if self.on_corrupt == OnCorrupt::Stop {
            let what = format_args!("{from}: {damage}. --corrupt skip goes on after it");
            return Err(Failure::new(Exit::Found, what));
        }
        self.event(from, &Recovered::Corrupt(damage));
        Ok(())
    }

    fn event(&mut self, from: &TopicPartition, event: &Recovered) {
        let is_found = event::is_found(event);
        if is_found {
            self.exit = Exit::Found;
        }
        if self.quiet && !is_found {
            return;
        }
        let line = if self.events_as_json { event::json(from, event) } else { event::text(from, event) };
        self.progress.line(&line);
    }
}

impl Drop for Printer {
    /// Also after a failure or a signal: what was good is to be seen.
    fn drop(&mut self) {
        let _ = self.output.flush();
        self.progress.finish();
    }
}
