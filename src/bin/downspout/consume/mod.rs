//! `downspout consume`: records of a topic to standard output.

mod bound;
mod plan;
mod print;
mod reader;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use clap::Args;
use downspout::client::{BrokerInfo, OffsetSpec};
use downspout::records::Isolation;
use downspout::{Error, ErrorKind};
use tokio::sync::mpsc;

use crate::cluster::{Cluster, Retries};
use crate::connect::ConnectArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::properties::{self, OffsetReset, Properties};
use crate::show::ShowArgs;
use crate::signals::until_signal;
use bound::Bound;
use plan::Part;
use print::{Flow, OnCorrupt, Printer};
use reader::{Event, Limits, Reader};

/// Print the records of a topic
///
/// Begins at the beginning and follows the topic until it is stopped, unless told otherwise.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// This partition alone; may be repeated [default: all]
    #[arg(short, long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// Where to begin: beginning, end, N, -N (so many before the end) or s@MS (a time, in ms since
    /// 1970); and where to stop: e@MS. May be given twice [default: beginning]
    #[arg(short, long = "offset", value_name = "OFFSET", allow_hyphen_values = true)]
    offsets: Vec<Bound>,
    /// Exit when every partition was read to the end that it had at the start
    #[arg(short, long)]
    exit_at_end: bool,
    /// Exit after so many records
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    show: ShowArgs,
    /// read_committed leaves out aborted transactions and what is not decided yet
    /// [default: read_committed]
    #[arg(long, value_name = "LEVEL", value_parser = properties::isolation)]
    isolation: Option<Isolation>,
    /// What to do about data that cannot be read
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = OnCorrupt::Stop)]
    on_corrupt: OnCorrupt,
    /// Wait for the topic if it does not exist yet
    #[arg(long)]
    wait_for_topic: bool,
    /// Say nothing on standard error but errors
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: &ConsumeArgs) -> Result<Exit, Failure> {
    let show = args.show.show()?;
    let mut target = args.connect.target()?;
    let properties = &mut target.properties;
    properties.isolation = args.isolation.or(properties.isolation);
    let limits = limits(properties);
    let reset = properties.offset_reset.unwrap_or(OffsetReset::Fail);
    until_signal(async {
        let mut cluster = Cluster::new(target);
        let parts = plan::parts(&mut cluster, args).await?;
        let printer = Printer {
            output: Output::new(io::stdout().lock()).bytes_as(args.show.bytes),
            show,
            topic: args.topic.clone(),
            on_corrupt: args.on_corrupt,
            left: args.count,
            progress: Progress::new(args.quiet, expected(args, &parts)),
            exit: Exit::Ok,
        };
        let (events, queue) = mpsc::channel(1);
        let open = parts.len();
        let retries = BTreeMap::new();
        let mut consume = Consume { args, cluster, printer, limits, reset, events, retries, open };
        let exit = consume.run(parts, queue).await;
        consume.printer.progress.finish();
        exit
    })
    .await
}

fn limits(properties: &Properties) -> Limits {
    Limits {
        max_bytes: properties.max_bytes.unwrap_or(16 << 20),
        partition_max_bytes: properties.partition_max_bytes.unwrap_or(4 << 20),
        min_bytes: properties.min_bytes.unwrap_or(1),
        max_wait: properties.max_wait.unwrap_or(Duration::from_millis(500)),
    }
}

/// How many records will come, where that is known.
fn expected(args: &ConsumeArgs, parts: &[Part]) -> Option<u64> {
    let ahead = |part: &Part| Some(part.stop?.saturating_sub(part.start).max(0) as u64);
    let all = parts.iter().map(ahead).sum::<Option<u64>>();
    match (all, args.count) {
        (Some(all), Some(count)) => Some(all.min(count)),
        (all, count) => all.or(count),
    }
}

struct Consume<'a> {
    args: &'a ConsumeArgs,
    cluster: Cluster,
    printer: Printer,
    limits: Limits,
    reset: OffsetReset,
    events: mpsc::Sender<Event>,
    /// Tries since a partition last gave something.
    retries: BTreeMap<i32, Retries>,
    /// Partitions that are still read.
    open: usize,
}

impl Consume<'_> {
    async fn run(&mut self, parts: Vec<Part>, mut queue: mpsc::Receiver<Event>) -> Result<Exit, Failure> {
        if self.args.count == Some(0) {
            return Ok(Exit::Ok);
        }
        self.assign(parts).await?;
        while self.open > 0 {
            match queue.recv().await {
                Some(Event::Data(data)) => {
                    self.retries.remove(&data.part.partition);
                    if self.printer.data(&data)? == Flow::Enough {
                        break;
                    }
                }
                Some(Event::Done) => self.open -= 1,
                Some(Event::Lost(parts, error)) => self.lost(parts, error).await?,
                None => break,
            }
        }
        Ok(self.printer.exit)
    }

    /// Gives each partition to a reader of its leader.
    async fn assign(&mut self, parts: Vec<Part>) -> Result<(), Failure> {
        let mut leaders: BTreeMap<i32, (BrokerInfo, Vec<Part>)> = BTreeMap::new();
        for part in parts {
            let leader = loop {
                match self.cluster.leader(&self.args.topic, part.partition).await {
                    Ok(leader) => break leader,
                    Err(error) => {
                        self.cluster.forget(&self.args.topic);
                        self.retries.entry(part.partition).or_default().after(error).await?;
                    }
                }
            };
            leaders.entry(leader.id).or_insert_with(|| (leader, Vec::new())).1.push(part);
        }
        for (leader, parts) in leaders.into_values() {
            let reader = Reader {
                consumer: self.cluster.consumer(&leader.address)?,
                broker: leader.id,
                topic: self.args.topic.clone(),
                parts,
                limits: self.limits.clone(),
                events: self.events.clone(),
            };
            tokio::spawn(reader.run());
        }
        Ok(())
    }

    /// A broker gives no more of these partitions: looks where they are now, and goes on there.
    async fn lost(&mut self, mut parts: Vec<Part>, error: Error) -> Result<(), Failure> {
        let Some(first) = parts.first() else { return Ok(()) };
        if matches!(error.kind(), ErrorKind::Broker { code, .. } if code.0 == 1) {
            for part in &mut parts {
                self.out_of_range(part, &error).await?;
            }
        } else {
            self.retries.entry(first.partition).or_default().after(error).await?;
        }
        self.cluster.forget(&self.args.topic);
        self.assign(parts).await
    }

    /// The offset asked for is not in the log.
    async fn out_of_range(&mut self, part: &mut Part, error: &Error) -> Result<(), Failure> {
        let (topic, partition) = (&self.args.topic, part.partition);
        let first = self.cluster.list(topic, partition, OffsetSpec::Earliest).await?.offset.unwrap_or(0);
        let end = self.cluster.list(topic, partition, OffsetSpec::Latest).await?.offset.unwrap_or(0);
        let to = match self.reset {
            OffsetReset::Earliest => first,
            OffsetReset::Latest => end,
            OffsetReset::Fail => {
                let what = format!(
                    "{error}. The log goes from offset {first} to {end}: name another offset with -o, or a policy with -X auto.offset.reset=earliest"
                );
                return Err(Failure::new(Exit::Stopped, what));
            }
        };
        let asked = part.start;
        if asked == to {
            return Err(error.clone().into());
        }
        let what = format!(
            "{topic}/{partition}: offset {asked} is not in the log ({first} to {end}); going on at {to}"
        );
        self.printer.progress.say(&what);
        part.start = to;
        Ok(())
    }
}
