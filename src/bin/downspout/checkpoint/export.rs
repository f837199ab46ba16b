//! `downspout checkpoint export`: positions as lines, each a document of storm-kafka.

use std::io;

use clap::Args;
use downspout::checkpoint::{Access, Checkpoint};
use downspout::client::TopicPartition;
use serde_json::json;

use super::place::{Place, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print all positions, to be kept or imported elsewhere: a line for each, which is the document that
/// storm-kafka keeps, with what this program keeps beside the offset as a last key
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let checkpoints = args.place.open(None, Access::Read).await?;
    let partitions = checkpoints.list().await?;
    let loaded = load(&*checkpoints, &partitions).await?;
    let mut output = Output::new(io::stdout().lock());
    for (partition, loaded) in partitions.iter().zip(&loaded) {
        if let Some(checkpoint) = &loaded.checkpoint {
            output.raw(line(partition, Some(checkpoint)).as_bytes());
        }
    }
    output.flush().map_err(Failure::output)?;
    Ok(Exit::Ok)
}

/// The line of a partition, with or without a position.
pub(super) fn line(partition: &TopicPartition, checkpoint: Option<&Checkpoint>) -> String {
    match checkpoint {
        Some(checkpoint) => format!("{}\n", checkpoint.to_document(partition)),
        None => {
            format!(
                "{}\n",
                json!({"offset": null, "partition": partition.partition, "topic": &*partition.topic})
            )
        }
    }
}
