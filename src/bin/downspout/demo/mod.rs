//! `downspout demo`: a spout at work, through failures, a leader's move and a crash; all inside this process.

mod read;
mod stage;
mod story;
mod tally;

use clap::Args;
use downspout::testing::Release;

use crate::exit::{Exit, Failure};
use crate::signals::until_signal;

/// See a spout at work: failures, a leader that moves, a crash, and nothing lost
///
/// Nothing has to be installed or running: the brokers are inside this process, and are those that
/// Downspout's own tests use. They can be any release: try --release 0.8.2.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The release of Kafka that the brokers behave as, from 0.8.0 on
    #[arg(long, value_name = "RELEASE", default_value_t = Release::LATEST)]
    release: Release,
    /// How many records are written and worked on
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    records: u32,
    /// Instead write a few records in every format and codec of the release, and show what comes back
    #[arg(long, conflicts_with = "records")]
    read: bool,
}

pub(crate) async fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    match args.read {
        true => read::run(args.release).await,
        false => until_signal(story::tell(args.release, args.records)).await,
    }
}
