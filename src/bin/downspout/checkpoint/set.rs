//! `downspout checkpoint set`.

use clap::Args;
use downspout::client::TopicPartition;

use super::change::{ChangeArgs, Wanted, change};
use super::place::Place;
use crate::exit::{Exit, Failure};

/// Set the position of a partition: the next offset to read
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    #[command(flatten)]
    place: Place,
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// The partition
    #[arg(short, long, value_name = "N")]
    partition: i32,
    /// The next offset to read
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(args: &SetArgs) -> Result<Exit, Failure> {
    let cluster = args.place.cluster().await?;
    let partition = TopicPartition::new(&*args.topic, args.partition);
    let wanted = vec![(partition, Some(Wanted::Offset(args.offset)))];
    change(&args.place, &args.change, &cluster, wanted).await
}
