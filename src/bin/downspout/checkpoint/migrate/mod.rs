//! `downspout checkpoint migrate`: positions from one store to another.

mod aim;
mod layout;
mod look;

use std::io::{self, Write};

use clap::Args;
use downspout::checkpoint::{Access, Checkpoint, Extras, Owner};
use downspout::client::{Cluster, TopicPartition};

use self::aim::Aim;
use self::look::Seen;
use super::change::{ChangeArgs, Wanted, change, closed};
use super::place::{Place, load};
use crate::connect::ConnectArgs;
use crate::exit::{Exit, Failure};
use crate::store::StoreName;

/// Bring positions from one store to another: of storm-kafka, storm-kafka-client, Parallel Consumer, the old
/// high-level consumer, or a spout of this kind, to any of them
///
/// What is in the store it comes from stays as it is. Both programs have to be stopped. Within one log the
/// offsets stay; in another cluster the record of the same time is looked for, less a margin. For each
/// partition the record at the old position and the one at the new position are shown.
#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    /// Where positions are now: zk://HOST:PORT,…/ROOT (storm-kafka), kafka:GROUP (storm-kafka-client,
    /// Parallel Consumer, or any consumer), old-consumer://HOST:PORT,…[/CHROOT], file:DIR
    #[arg(long, value_name = "STORE")]
    from: StoreName,
    /// The id there: the spout's, or the old consumer's group
    #[arg(long, value_name = "ID")]
    from_id: Option<String>,
    /// The cluster whose offsets these are, if it is another one than --brokers
    #[arg(long, value_name = "LIST")]
    from_brokers: Option<String>,
    /// Where positions are to be
    #[arg(long, value_name = "STORE")]
    to: StoreName,
    /// The id there [default: that of --from-id]
    #[arg(long, value_name = "ID")]
    to_id: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// This topic alone; may be repeated [default: all that have a position]
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// The logs of both clusters have the same offsets
    #[arg(long, requires = "from_brokers")]
    same_log: bool,
    /// In another cluster, so many seconds before the record's time
    #[arg(long, value_name = "SECONDS", default_value_t = 600, conflicts_with = "same_log")]
    margin: u32,
    /// Offsets alone, as the programs that were there before this one write them
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(args: &MigrateArgs) -> Result<Exit, Failure> {
    if let Some(moved) = layout::Move::of(args)? {
        return moved.run(&args.change).await;
    }
    let (from, to) = places(args)?;
    let target = to.cluster().await?;
    let source = match &args.from_brokers {
        Some(_) => from.cluster().await?,
        None => target.clone(),
    };
    let found = positions(args, &from, &source).await?;
    let aim = match &args.from_brokers {
        Some(_) if !args.same_log && !is_same(&source, &target) => Aim::ByTime { margin: args.margin },
        _ => Aim::ByOffset,
    };
    let sources = aim::sources(&source, found).await?;
    let offsets = aim.offsets(&sources, (&source, &target)).await?;
    let mut wanted = Vec::new();
    let mut out = io::stdout().lock();
    for (source, (partition, offset)) in offsets {
        let new = look::record(&target, &partition, offset).await?;
        let lines = [("old", source.checkpoint.offset, &source.record), ("new", offset, &new)];
        writeln!(out, "{partition}").map_err(Failure::output)?;
        for (which, offset, record) in lines {
            let record = record.as_ref().map_or("the end of the log".to_owned(), Seen::to_string);
            writeln!(out, "  {which} {offset}: {record}").map_err(Failure::output)?;
        }
        if let Some(why) = &source.warning {
            writeln!(out, "  {why}").map_err(Failure::output)?;
        }
        let checkpoint = carried(args, &aim, &source.checkpoint, offset);
        wanted.push((partition, Some(Wanted::Whole(Box::new(checkpoint)))));
    }
    drop(out);
    change(&to, &args.change, &target, wanted).await
}

/// From where, and to where.
fn places(args: &MigrateArgs) -> Result<(Place, Place), Failure> {
    let mut to = args.to.clone();
    if let StoreName::ZooKeeper(name) = &mut to
        && args.plain
    {
        name.compat.get_or_insert(true);
    }
    let connect = match &args.from_brokers {
        Some(brokers) => args.connect.to(brokers),
        None => args.connect.clone(),
    };
    let from = Place::new(connect, args.from.clone(), args.from_id.clone());
    let to_id = args.to_id.clone().or_else(|| match &to {
        StoreName::Kafka(Some(_)) => None,
        _ => from.id().ok().map(str::to_owned),
    });
    let to = Place::new(args.connect.clone(), to, to_id);
    let is_same_store = match (&args.from, &args.to) {
        (StoreName::ZooKeeper(from), StoreName::ZooKeeper(to)) => from.is_same_place(to),
        (StoreName::Kafka(_), StoreName::Kafka(_)) => args.from_brokers.is_none(),
        (from, to) => from == to,
    };
    if is_same_store && from.id()? == to.id()? {
        return Err(Failure::usage(
            "--from and --to are the same; from one layout in ZooKeeper to the other: --to 'zk://…?layout=by-topic' or one-topic",
        ));
    }
    to.id()?;
    Ok((from, to))
}

/// Whether two connections are to one cluster.
fn is_same(one: &Cluster, other: &Cluster) -> bool {
    one.cluster_id().is_some() && one.cluster_id() == other.cluster_id()
}

/// What is to be brought.
async fn positions(
    args: &MigrateArgs,
    from: &Place,
    source: &Cluster,
) -> Result<Vec<(TopicPartition, Checkpoint)>, Failure> {
    if !args.from.is_durable() {
        return Err(Failure::usage("--from memory: that is gone with the process that had it"));
    }
    let reader = args.from.left_behind(source).open(from.id()?, Access::Read).await?;
    let mut partitions = reader.list().await?;
    partitions.retain(|one| args.topics.is_empty() || args.topics.iter().any(|topic| **topic == *one.topic));
    let loaded = load(&*reader, &partitions).await?;
    let described = reader.describe();
    reader.close().await;
    let found: Vec<_> = partitions
        .into_iter()
        .zip(loaded)
        .filter_map(|(partition, loaded)| Some((partition, loaded.checkpoint?)))
        .collect();
    match found.is_empty() {
        true => Err(Failure::new(Exit::Unreachable, format_args!("{described}: no position is kept there"))),
        false => Ok(found),
    }
}

/// What is kept of a position where it goes.
fn carried(args: &MigrateArgs, aim: &Aim, from: &Checkpoint, offset: i64) -> Checkpoint {
    let owner = from.owner.clone().map(|owner| Owner { run: String::new(), ..owner });
    let stays = *aim == Aim::ByOffset;
    let is_kept = stays && offset == from.offset && !args.plain;
    let extras = from.extras.clone().filter(|_| is_kept).map(closed);
    // What another cluster's log is called means nothing here.
    let extras = extras.map(|extras| match args.from_brokers {
        Some(_) => Extras { topic_id: None, cluster_id: None, leader_epoch: None, ..extras },
        None => extras,
    });
    let owner = owner.filter(|_| !(args.plain && matches!(args.to, StoreName::Kafka(_))));
    Checkpoint { owner, broker: from.broker.clone().filter(|_| stays), extras, ..Checkpoint::at(offset) }
}
