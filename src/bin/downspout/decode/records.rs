//! `downspout decode records`: a record set or a `.log` segment in, one JSON object per record out.

use std::io::{self, Read, Write};

use clap::Args;
use downspout::records::{Batch, Cause, Control, Corruption, Isolation, ReadOptions, RecordSet, Tail};

use crate::exit::{Exit, Failure};
use crate::input::{Input, InputArgs};
use crate::output::{BytesAs, Output};
use crate::record_json::Content;

/// Show the records of a record set, or of a .log segment, one JSON object a line
///
/// The last line tells where to fetch next and how many bytes follow the last complete entry.
/// Nothing is filtered: control records and records of aborted transactions are shown.
#[derive(Debug, Args)]
pub(crate) struct RecordsArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Bytes that compressed records may inflate to in the whole run; otherwise 32 times the
    /// input, and at least 128 MiB; and 256 MiB for a single batch
    #[arg(long, value_name = "BYTES")]
    max_inflated: Option<u64>,
    /// How byte strings are shown
    #[arg(long, value_name = "FORM", value_enum, default_value_t = BytesAs::Auto)]
    bytes: BytesAs,
}

/// Bytes of the input that are looked at together; an entry that is larger gets what it needs.
const WINDOW: usize = 4 << 20;
/// Bytes that a single batch may inflate to: it is held in memory.
const SINGLE: usize = 256 << 20;

pub(crate) fn run(args: &RecordsArgs) -> Result<Exit, Failure> {
    let mut window = Window::open(&args.input)?;
    let mut output = Output::new(io::stdout().lock()).bytes_as(args.bytes);
    let mut decode = Decode { output: &mut output, suffix: Vec::new(), inflated: 0, next_offset: None };
    let exit = decode.input(args, &mut window)?;
    output.flush().map_err(Failure::output)?;
    Ok(exit)
}

struct Decode<'a, W: Write> {
    output: &'a mut Output<W>,
    /// What every record line of a batch ends with.
    suffix: Vec<u8>,
    /// Bytes that came out of compressed batches so far.
    inflated: u64,
    /// Where to fetch after the entries seen so far.
    next_offset: Option<i64>,
}

impl<W: Write> Decode<'_, W> {
    fn input(&mut self, args: &RecordsArgs, window: &mut Window<'_>) -> Result<Exit, Failure> {
        let mut want = WINDOW;
        loop {
            let (set, position, last) = window.next(want)?;
            let floor = ReadOptions::DEFAULT_MAX_INFLATED as u64;
            let budget = args.max_inflated.unwrap_or_else(|| floor.max(32 * window.read));
            // What is said outright counts for a single batch, too.
            let single = if args.max_inflated.is_some() { usize::MAX } else { SINGLE };
            let (left, needed) = match self.set(&set, budget, single)? {
                Ok(tail) => (tail.bytes, tail.needed),
                Err(corruption) => {
                    let entry = corruption.entry_position;
                    if !window.only_zeros_from(&set.bytes()[entry..])? {
                        self.corruption(corruption, position)?;
                        return Ok(Exit::Found);
                    }
                    // A segment that was set aside in full before it was written (log.preallocate).
                    self.end(window.read - position - entry as u64)?;
                    return Ok(Exit::Ok);
                }
            };
            if last {
                self.end(left as u64)?;
                return Ok(Exit::Ok);
            }
            window.keep(&set.bytes()[set.bytes().len() - left..]);
            want = needed.unwrap_or(0).max(WINDOW);
        }
    }

    /// Shows the records of a set up to the first damage.
    fn set(
        &mut self,
        set: &RecordSet,
        budget: u64,
        single: usize,
    ) -> Result<Result<Tail, Corruption>, Failure> {
        let mut batches = set.batches(ReadOptions {
            isolation: Isolation::ReadUncommitted,
            control_batches: true,
            ..ReadOptions::default()
        });
        loop {
            let left = usize::try_from(budget.saturating_sub(self.inflated)).unwrap_or(usize::MAX);
            batches.set_max_inflated(left.min(single));
            let batch = match batches.next() {
                Some(Ok(batch)) => batch,
                Some(Err(corruption)) => return Ok(Err(corruption)),
                None => break,
            };
            self.next_offset = self.next_offset.max(batches.next_offset());
            self.inflated += batch.inflated() as u64;
            if let Some(corruption) = self.batch(&batch)? {
                return Ok(Err(corruption));
            }
        }
        self.next_offset = self.next_offset.max(batches.next_offset());
        Ok(Ok(batches.tail()))
    }

    fn batch(&mut self, batch: &Batch) -> Result<Option<Corruption>, Failure> {
        self.suffix.clear();
        let producer_id = batch.producer_id().map_or("null".into(), |id| id.to_string());
        // Writing to memory does not fail.
        let _ = write!(
            self.suffix,
            ",\"magic\":{},\"codec\":\"{}\",\"transactional\":{},\"producer_id\":{producer_id}",
            batch.magic().number(),
            batch.codec(),
            batch.is_transactional()
        );
        for record in batch.records() {
            let record = match record {
                Ok(record) => record,
                Err(corruption) => return Ok(Some(corruption)),
            };
            self.output.raw(b"{\"offset\":");
            self.output.integer(record.offset());
            Content::from(&record).write(self.output);
            self.output.raw(&self.suffix);
            if batch.is_control() {
                self.output.raw(b",\"control\":");
                let control = Control::of(&record);
                self.output.string(control.map_or("unknown", |control| control.kind.name()));
            }
            self.output.raw(b"}\n");
            self.output.check().map_err(Failure::output)?;
        }
        Ok(None)
    }

    /// The line about damage; `position` is where its set starts in the input.
    fn corruption(&mut self, mut corruption: Corruption, position: u64) -> Result<(), Failure> {
        corruption.entry_position += position as usize;
        if let Cause::Layout(error) = &mut corruption.cause {
            error.position += position as usize;
        }
        let mut what = corruption.to_string();
        if corruption.is_our_limit() {
            what += "; --max-inflated raises the limit";
        }
        self.output.raw(b"{\"error\":");
        self.output.string(&what);
        self.output.raw(b",\"field\":");
        self.output.string(corruption.field());
        self.output.raw(b",\"position\":");
        self.output.integer(corruption.position() as i64);
        self.output.raw(b",\"offset\":");
        self.output.integer(corruption.first_offset);
        self.output.raw(b"}\n");
        self.output.check().map_err(Failure::output)
    }

    /// The last line of a sound input.
    fn end(&mut self, partial_bytes: u64) -> Result<(), Failure> {
        self.output.raw(b"{\"next_offset\":");
        match self.next_offset {
            Some(offset) => self.output.integer(offset),
            None => self.output.raw(b"null"),
        }
        self.output.raw(b",\"partial_bytes\":");
        self.output.integer(partial_bytes as i64);
        self.output.raw(b"}\n");
        self.output.check().map_err(Failure::output)
    }
}

/// The input, a few megabytes at a time: a segment may be larger than the memory.
struct Window<'a> {
    args: &'a InputArgs,
    /// What the next set begins with.
    kept: Vec<u8>,
    rest: Box<dyn Read>,
    /// Bytes read so far.
    read: u64,
}

impl<'a> Window<'a> {
    fn open(args: &'a InputArgs) -> Result<Self, Failure> {
        let Input { head, rest } = args.open()?;
        Ok(Window { args, read: head.len() as u64, kept: head, rest })
    }

    /// Reads on to `want` bytes; gives them, where they start in the input, and whether they are
    /// the last.
    fn next(&mut self, want: usize) -> Result<(RecordSet, u64, bool), Failure> {
        let position = self.read - self.kept.len() as u64;
        let mut bytes = std::mem::take(&mut self.kept);
        let missing = want.saturating_sub(bytes.len()) as u64;
        let read = self.rest.by_ref().take(missing).read_to_end(&mut bytes);
        let read = read.map_err(|error| self.args.failed(&error))? as u64;
        self.read += read;
        Ok((RecordSet::new(bytes.into()), position, read < missing))
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept = bytes.to_vec();
    }

    /// Whether `bytes` and all that follows them are zeros; reads to the end if so.
    fn only_zeros_from(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let mut buffer = vec![0; 1 << 16];
        let mut piece = bytes;
        while piece.iter().all(|byte| *byte == 0) {
            let read = self.rest.read(&mut buffer).map_err(|error| self.args.failed(&error))?;
            if read == 0 {
                return Ok(true);
            }
            self.read += read as u64;
            piece = &buffer[..read];
        }
        Ok(false)
    }
}
