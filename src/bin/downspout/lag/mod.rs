//! `downspout lag`: how far a spout is behind.

mod row;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use clap::Args;
use downspout::checkpoint::{Access, Checkpoints, Loaded};
use downspout::client::{Cluster, OffsetSpec, TopicPartition};
use downspout::records::Isolation;

use self::row::Row;
use crate::checkpoint::Place;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::progress::say;
use crate::signals::until_signal;

/// Show how far a spout is behind: for each partition the position, the end that it may read to, the
/// distance between them in offsets, records done beyond the position, and the age of the next record
///
/// The end is the last stable offset, as a spout does not read what is not decided yet; hw is the high
/// watermark. What is not known is shown as -, never as 0. Without --id, all spouts that a store in
/// ZooKeeper has are shown.
#[derive(Debug, Args)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    place: Place,
    /// All partitions of this topic, with a position or without; may be repeated
    /// [default: the partitions that have a position]
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Exit with code 1 if a partition is behind by more than this, or it is not known by how much
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    max_lag: Option<i64>,
    /// Again every so many seconds, until a signal comes, or --max-lag is exceeded
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "5",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    watch: Option<u64>,
    /// Print one JSON object a line
    #[arg(short = 'J', long)]
    json: bool,
}

pub(crate) async fn run(args: &LagArgs) -> Result<Exit, Failure> {
    until_signal(show(args)).await
}

async fn show(args: &LagArgs) -> Result<Exit, Failure> {
    let ids = args.place.ids().await?;
    let logs = Logs::connect(args).await?;
    let store = args.place.store(Some(&logs.all)).await?;
    let mut spouts = Vec::new();
    for id in ids {
        let checkpoints = store.open(&id, Access::Read).await?;
        spouts.push((args.place.has_no_id().then_some(id), checkpoints));
    }
    loop {
        let exit = show_once(args, &logs, &spouts).await?;
        let Some(seconds) = args.watch.filter(|_| exit == Exit::Ok) else { return Ok(exit) };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        if !args.json {
            let mut output = Output::new(io::stdout().lock());
            output.raw(b"\n");
            output.flush().map_err(Failure::output)?;
        }
    }
}

/// The logs, up to their high watermarks and up to what is decided.
struct Logs {
    all: Cluster,
    decided: Cluster,
}

impl Logs {
    async fn connect(args: &LagArgs) -> Result<Self, Failure> {
        let mut target = args.place.connect.target()?;
        target.properties.isolation = Some(Isolation::ReadCommitted);
        Ok(Logs { all: args.place.cluster().await?, decided: target.cluster().await? })
    }
}

/// A spout's positions, with its id where several are shown.
type Positions = (Option<String>, Box<dyn Checkpoints>);

async fn show_once(args: &LagArgs, logs: &Logs, spouts: &[Positions]) -> Result<Exit, Failure> {
    let mut named = BTreeSet::new();
    for topic in &args.topics {
        let numbers = logs.all.partitions(topic).await?;
        named.extend(numbers.into_iter().map(|number| TopicPartition::new(&**topic, number)));
    }
    let mut rows = Vec::new();
    for (id, checkpoints) in spouts {
        let mut partitions = named.clone();
        if args.topics.is_empty() {
            partitions.extend(checkpoints.list().await?);
        }
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let mut found = self::rows(logs, &**checkpoints, &partitions).await?;
        found.iter_mut().for_each(|row| row.id.clone_from(id));
        rows.append(&mut found);
    }
    if rows.is_empty() {
        say(
            "no checkpoint is there: the id, the store or its root is another one, or no position was kept yet (with -t all partitions of a topic are shown)",
        );
        return Ok(if args.max_lag.is_some() { Exit::Found } else { Exit::Unreachable });
    }
    let mut output = Output::new(io::stdout().lock());
    for row in &rows {
        let line = if args.json { format!("{}\n", row.object()) } else { row.line() };
        output.raw(line.as_bytes());
    }
    if !args.json && rows.len() != 1 {
        output.raw(row::total(&rows).as_bytes());
    }
    output.flush().map_err(Failure::output)?;
    drop(output);
    for row in rows.iter().filter(|row| row.error.is_some()) {
        let id = row.id.as_ref().map_or_else(String::new, |id| format!("{id} "));
        say(&format!("{id}{}: {}", row.partition, row.error.as_deref().unwrap_or_default()));
    }
    if args.max_lag.is_some_and(|most| rows.iter().any(|row| row.lag().is_none_or(|lag| lag > most))) {
        return Ok(Exit::Found);
    }
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    Ok(match failed {
        0 => Exit::Ok,
        _ if failed == rows.len() => Exit::Unreachable,
        _ => Exit::Partly,
    })
}

async fn rows(
    logs: &Logs,
    checkpoints: &dyn Checkpoints,
    partitions: &[TopicPartition],
) -> Result<Vec<Row>, Failure> {
    let loaded = checkpoints.load(partitions).await;
    let mut rows: Vec<Row> =
        partitions.iter().zip(loaded).map(|(partition, loaded)| row(partition, loaded)).collect();
    let starts = offsets(&logs.all, partitions, OffsetSpec::Earliest).await?;
    let ends = offsets(&logs.decided, partitions, OffsetSpec::Latest).await?;
    let watermarks = offsets(&logs.all, partitions, OffsetSpec::Latest).await?;
    for (((row, start), end), watermark) in rows.iter_mut().zip(starts).zip(ends).zip(watermarks) {
        row.start = row.known(start);
        row.end = row.known(end);
        row.high_watermark = row.known(watermark);
    }
    row::ages(&logs.all, &mut rows).await;
    Ok(rows)
}

fn row(partition: &TopicPartition, loaded: downspout::Result<Loaded>) -> Row {
    let mut row = Row::new(partition.clone());
    match loaded {
        Err(why) => row.error = Some(why.to_string()),
        Ok(loaded) => row.checkpoint = loaded.checkpoint,
    }
    row
}

/// The offset of each partition, or why it is not known.
async fn offsets(
    cluster: &Cluster,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> Result<Vec<downspout::Result<Option<i64>>>, Failure> {
    let wanted: Vec<_> = partitions.iter().map(|one| (&*one.topic, one.partition, spec)).collect();
    let listed = cluster.list_offsets(&wanted).await?;
    Ok(listed.into_iter().map(|listed| listed.error.map_or(Ok(listed.offset), Err)).collect())
}
