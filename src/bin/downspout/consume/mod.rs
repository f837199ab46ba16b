//! `downspout consume`: records of topics to standard output.

mod bound;
mod event;
mod plan;
mod print;
mod topics;

use std::future::ready;
use std::io;
use std::time::Duration;

use clap::Args;
use downspout::client::{Cluster, Item, MergedStream, Recovered, StreamOptions};
use downspout::records::Isolation;
use downspout::{Error, ErrorKind};

use crate::connect::{ConnectArgs, Target};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::properties::{self, OffsetReset};
use crate::show::ShowArgs;
use crate::signals::until_signal;
pub(crate) use bound::Bound;
use plan::Part;
use print::{Flow, OnCorrupt, Printer};
pub(crate) use topics::Wanted;

/// Print the records of topics
///
/// Begins at the beginning and follows the topics until it is stopped, unless told otherwise. What
/// happens to the position on the way stands on standard error, a line each (JSON with -J and --json).
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The topic; may be repeated. With ^ in front it is a regular expression, for all topics that
    /// match when the command starts; later ones are not read. Names with __ in front match only
    /// where the expression begins with ^__
    #[arg(short, long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<Wanted>,
    /// This partition alone; may be repeated [default: all, later ones too]
    #[arg(short, long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// Where to begin: beginning, end, N, -N (so many before the end) or s@MS (a time, in ms since
    /// 1970); and where to stop: e@MS. May be given twice [default: beginning]
    #[arg(short, long = "offset", value_name = "OFFSET", allow_hyphen_values = true)]
    offsets: Vec<Bound>,
    /// Exit when every partition was read to the end that it had at the start
    #[arg(short, long)]
    exit_at_end: bool,
    /// One partition after the other, instead of all by turns
    #[arg(long, requires = "exit_at_end")]
    by_partition: bool,
    /// Exit after so many records
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    show: ShowArgs,
    /// read_committed leaves out aborted transactions and what is not decided yet
    /// [default: read_committed]
    #[arg(long, value_name = "LEVEL", value_parser = properties::isolation)]
    isolation: Option<Isolation>,
    /// What to do when the offset that comes next is not in the log [default: fail]
    #[arg(long, value_name = "POLICY", value_enum)]
    reset: Option<OffsetReset>,
    /// What to do about data that cannot be read
    #[arg(long = "corrupt", alias = "on-corrupt", value_name = "POLICY", value_enum, default_value_t = OnCorrupt::Stop)]
    on_corrupt: OnCorrupt,
    /// The rack that this is run in: replicas there are read, where the brokers say so
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,
    /// Bytes for all that is fetched and not printed yet; K, M and G are understood
    #[arg(long, value_name = "BYTES", value_parser = properties::bytes, default_value = "256M")]
    memory: usize,
    /// Wait for a topic that does not exist yet
    #[arg(long)]
    wait_for_topic: bool,
    /// Say nothing on standard error but errors, and what was lost
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: &ConsumeArgs) -> Result<Exit, Failure> {
    let show = args.show.show()?;
    let mut target = args.connect.target()?;
    let properties = &mut target.properties;
    properties.isolation = args.isolation.or(properties.isolation);
    properties.offset_reset = args.reset.or(properties.offset_reset);
    properties.rack = args.rack.clone().or(properties.rack.take());
    properties.memory = Some(args.memory);
    until_signal(async {
        let cluster = target.cluster().await?;
        let topics = topics::find(&cluster, args).await?;
        let wants_bar = Progress::is_wanted(args.quiet);
        let parts = plan::parts(&cluster, args, &topics, wants_bar).await?;
        if args.count == Some(0) {
            return Ok(Exit::Ok);
        }
        let printer = Printer {
            output: Output::new(io::stdout().lock()).bytes_as(args.show.bytes),
            events_as_json: show.is_json(),
            show,
            on_corrupt: args.on_corrupt,
            until: args.until(),
            left: args.count,
            progress: Progress::new(args.quiet, plan::expected(args, &parts)),
            quiet: args.quiet,
            exit: Exit::Ok,
        };
        Consume { args, target: &target, cluster, printer }.run(&parts).await
    })
    .await
}

impl ConsumeArgs {
    /// Where to begin: what was said last counts.
    fn start(&self) -> Bound {
        let starts = self.offsets.iter().rev().find(|bound| !matches!(bound, Bound::Until(_)));
        starts.copied().unwrap_or(Bound::Beginning)
    }

    /// Stop at the first record that is not older, in ms since 1970.
    fn until(&self) -> Option<i64> {
        self.offsets.iter().rev().find_map(|bound| match bound {
            Bound::Until(time) => Some(*time),
            _ => None,
        })
    }
}

struct Consume<'a> {
    args: &'a ConsumeArgs,
    target: &'a Target,
    cluster: Cluster,
    printer: Printer,
}

impl Consume<'_> {
    async fn run(&mut self, parts: &[Part]) -> Result<Exit, Failure> {
        let together = if self.args.by_partition { 1 } else { parts.len().max(1) };
        for parts in parts.chunks(together) {
            let stream = self.stream(parts).await?;
            let flow = self.read(stream).await?;
            self.printer.flush()?;
            if flow == Flow::Enough {
                break;
            }
        }
        Ok(self.printer.exit)
    }

    async fn stream(&self, parts: &[Part]) -> Result<MergedStream, Error> {
        let mut builder = self.cluster.streams().options(self.options());
        for part in parts {
            builder = match part {
                Part::Whole { topic, start } => builder.start(*start).topic(topic),
                Part::Piece { topic, partition, start, end, .. } => {
                    builder.partition_between(topic, *partition, *start, *end)
                }
            };
        }
        builder.await
    }

    fn options(&self) -> StreamOptions {
        let properties = &self.target.properties;
        let mut options = StreamOptions::default();
        options.reset = properties.offset_reset.unwrap_or_default().into();
        options.corrupt = self.args.on_corrupt.into();
        options.isolation = properties.isolation.unwrap_or_default();
        options.crc = self.target.crc();
        let most = properties.max_bytes.unwrap_or(i32::MAX);
        options.partition_bytes = properties.partition_max_bytes.unwrap_or(options.partition_bytes).min(most);
        options.min_bytes = properties.min_bytes.unwrap_or(options.min_bytes);
        options.max_wait = properties.max_wait.unwrap_or(options.max_wait);
        if self.args.exit_at_end {
            options.report_stall_after = PATIENCE;
        }
        options
    }

    /// Prints what the stream gives, to its end if it has one.
    async fn read(&mut self, mut stream: MergedStream) -> Result<Flow, Failure> {
        let control = stream.control();
        loop {
            let next = tokio::select! {
                biased;
                next = stream.next() => next,
                // Nothing is there: what was printed is to be seen before anything is waited for.
                () = ready(()) => {
                    self.printer.flush()?;
                    stream.next().await
                }
            };
            let Some((from, item)) = next.map_err(|why| stopped(&why))? else { return Ok(Flow::On) };
            if let Item::Recovered(event @ (Recovered::Stalled { .. } | Recovered::Vanished { .. })) = &item
                && self.args.exit_at_end
            {
                // The end may never be reached.
                return Err(Failure::new(Exit::Unreachable, format_args!("{from}: {event}")));
            }
            let broker = stream.broker(&from.topic, from.partition);
            match self.printer.item(&from, broker, &item)? {
                Flow::On => {}
                Flow::Behind => control.end(&from.topic, from.partition)?,
                Flow::Enough => return Ok(Flow::Enough),
            }
            // Signals have their turn, also where there is always more to read.
            tokio::task::consume_budget().await;
        }
    }
}

/// So long may a partition stand still until reading to the end is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream stopped: why, and what goes on from there.
fn stopped(why: &Error) -> Failure {
    let help = match why.kind() {
        ErrorKind::OutOfRange(_) => {
            ". -o begins at another offset, --reset earliest, latest or nearest goes on by itself"
        }
        ErrorKind::Corrupt(damage) if damage.next_offset.is_none() => {
            ". The bytes do not tell where the next record begins; -o N starts at an offset"
        }
        ErrorKind::Corrupt(_) => ". --corrupt skip goes on after it, --corrupt raw shows the bytes",
        _ => "",
    };
    Failure::new(Exit::from(why), format_args!("{why}{help}"))
}
