//! `downspout dlq`: what lies in a dead-letter topic, and its way back.

mod letters;
mod list;
mod position;
mod redrive;

use clap::{Args, Subcommand};
use downspout::spout::DeadLetter;

use crate::connect::ConnectArgs;
use crate::exit::{Exit, Failure};
use crate::signals::until_signal;

/// Look at a dead-letter topic, and send its records back to where they came from
#[derive(Debug, Args)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    command: Dlq,
}

#[derive(Debug, Subcommand)]
enum Dlq {
    List(list::ListArgs),
    Redrive(redrive::RedriveArgs),
}

/// Which topic, and which of its records.
#[derive(Debug, Args)]
struct Chosen {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The dead-letter topic
    #[arg(short, long)]
    topic: String,
    /// Only records that were read from this topic; may be repeated
    #[arg(long = "source", value_name = "TOPIC")]
    sources: Vec<String>,
    /// Only records whose reason has this text in it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Chosen {
    fn is_meant(&self, letter: &DeadLetter) -> bool {
        (self.sources.is_empty() || self.sources.contains(&letter.topic))
            && self.reason.as_ref().is_none_or(|text| letter.reason.contains(text.as_str()))
    }
}

pub(crate) async fn run(args: &DlqArgs) -> Result<Exit, Failure> {
    match &args.command {
        Dlq::List(args) => until_signal(list::run(args)).await,
        // It sends and keeps positions: a signal stops it between two batches, not amid one.
        Dlq::Redrive(args) => redrive::run(args).await,
    }
}
