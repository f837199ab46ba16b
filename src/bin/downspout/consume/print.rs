//! Shows the records of a fetch, and deals with damage among them.

use std::io;
use std::sync::atomic::Ordering;

use clap::ValueEnum;
use downspout::records::{Corruption, Record};

use super::reader::Data;
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
    /// Say what is lost, and go on after it; exit code 4 at the end.
    Skip,
    /// Show the raw bytes as a record, and go on after them; exit code 4 at the end.
    Raw,
}

/// Whether there is more to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    /// As many records as were asked for were shown.
    Enough,
}

pub(super) struct Printer {
    pub(super) output: Output<io::StdoutLock<'static>>,
    pub(super) show: Show,
    pub(super) topic: String,
    pub(super) on_corrupt: OnCorrupt,
    /// Records that may still be shown, if that is limited.
    pub(super) left: Option<u64>,
    pub(super) progress: Progress,
    pub(super) exit: Exit,
}

impl Printer {
    /// Shows what a fetch gave of a partition.
    pub(super) fn data(&mut self, data: &Data) -> Result<Flow, Failure> {
        let mut shown = 0;
        let flow = self.batches(data, &mut shown);
        let place = || format!("{}/{} at offset {}", self.topic, data.part.partition, data.part.start);
        self.progress.add(shown, data.fetched.record_set().bytes().len() as u64, place);
        // Also before a failure: what was good is to be seen.
        let flushed = self.output.flush();
        let flow = flow?;
        flushed.map_err(Failure::output)?;
        Ok(flow)
    }

    fn batches(&mut self, data: &Data, shown: &mut u64) -> Result<Flow, Failure> {
        let options = data.fetched.read_options().clone();
        for batch in data.fetched.record_set().batches(options) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(corruption) => {
                    self.damage(data, &corruption)?;
                    continue;
                }
            };
            for record in batch.records() {
                let record = match record {
                    Ok(record) => record,
                    Err(corruption) => {
                        self.damage(data, &corruption)?;
                        continue;
                    }
                };
                if is_behind(data, &record) {
                    data.part.enough.store(true, Ordering::Relaxed);
                    return Ok(Flow::On);
                }
                if self.left == Some(0) {
                    return Ok(Flow::Enough);
                }
                self.record(data, record.offset(), Content::from(&record), None);
                self.output.check().map_err(Failure::output)?;
                *shown += 1;
                if let Some(left) = &mut self.left {
                    *left -= 1;
                    if *left == 0 {
                        return Ok(Flow::Enough);
                    }
                }
            }
        }
        Ok(Flow::On)
    }

    fn record(&mut self, data: &Data, offset: i64, content: Content<'_>, damage: Option<&str>) {
        let (partition, broker) = (data.part.partition, data.broker);
        let shown = Shown { topic: &self.topic, partition, broker, offset, content, damage };
        self.show.record(&mut self.output, shown);
    }

    fn damage(&mut self, data: &Data, corruption: &Corruption) -> Result<(), Failure> {
        let what = format!("{}/{}: {corruption}", self.topic, data.part.partition);
        if self.on_corrupt == OnCorrupt::Raw {
            let set = data.fetched.record_set();
            let bytes = set.bytes();
            let entry = set.entries().flatten().find(|entry| entry.position() == corruption.entry_position);
            let raw = match &entry {
                Some(entry) => entry.bytes().as_ref(),
                None => bytes.get(corruption.entry_position..).unwrap_or_default(),
            };
            let content = Content { value: Some(raw), ..Content::default() };
            self.record(data, corruption.first_offset, content, Some(&what));
        }
        if corruption.next_offset.is_none() {
            let what = format!(
                "{what}. The bytes do not tell where the next record begins; -o N starts at an offset"
            );
            return Err(Failure::new(Exit::Found, what));
        }
        if self.on_corrupt == OnCorrupt::Stop {
            let what =
                format!("{what}. --on-corrupt skip goes on after it, --on-corrupt raw shows the bytes");
            return Err(Failure::new(Exit::Found, what));
        }
        if self.on_corrupt == OnCorrupt::Skip {
            self.progress.say(&what);
        }
        self.exit = Exit::Partly;
        Ok(())
    }
}

/// Whether the record lies where reading shall stop, or behind.
fn is_behind(data: &Data, record: &Record<'_>) -> bool {
    data.part.stop.is_some_and(|stop| record.offset() >= stop)
        || data.part.until.is_some_and(|until| record.timestamp().is_some_and(|time| time >= until))
}
