//! `downspout checkpoint`: where spouts stand, and setting that by hand.

mod change;
mod export;
mod import;
mod migrate;
mod place;
mod plan;
mod reset;
mod set;
mod show;

use clap::{Args, Subcommand};

pub(crate) use self::place::{Place, store_in};
use crate::exit::{Exit, Failure};
use crate::signals::until_signal;

/// Look at the positions of a spout, and change them while it does not run
///
/// A change says first what it would come to: which offsets would be handed out again, and which would
/// be skipped. Nothing is changed without --execute. With it, what is there is saved first, and the
/// command that brings it back is printed.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: Checkpoint,
}

#[derive(Debug, Subcommand)]
enum Checkpoint {
    List(show::ListArgs),
    Get(show::GetArgs),
    Set(set::SetArgs),
    Reset(reset::ResetArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Migrate(migrate::MigrateArgs),
}

pub(crate) async fn run(args: &CheckpointArgs) -> Result<Exit, Failure> {
    match &args.command {
        Checkpoint::List(args) => until_signal(show::list(args)).await,
        Checkpoint::Get(args) => until_signal(show::get(args)).await,
        Checkpoint::Set(args) => until_signal(set::run(args)).await,
        Checkpoint::Reset(args) => until_signal(reset::run(args)).await,
        Checkpoint::Export(args) => until_signal(export::run(args)).await,
        Checkpoint::Import(args) => until_signal(import::run(args)).await,
        Checkpoint::Migrate(args) => until_signal(migrate::run(args)).await,
    }
}
