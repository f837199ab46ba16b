//! The argument surface that all subcommands share.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::broker::BrokerArgs;
use crate::checkpoint::CheckpointArgs;
use crate::completions::CompletionsArgs;
use crate::consume::ConsumeArgs;
use crate::decode::DecodeArgs;
use crate::demo::DemoArgs;
use crate::dlq::DlqArgs;
use crate::exit::EXIT_CODES;
use crate::lag::LagArgs;
use crate::man::ManArgs;
use crate::metadata::MetadataArgs;
use crate::offsets::OffsetsArgs;
use crate::produce::ProduceArgs;
use crate::spout::SpoutArgs;

/// Reads and writes Kafka, every broker from 0.8.0 to 4.4.
#[derive(Debug, Parser)]
#[command(name = "downspout", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Metadata(MetadataArgs),
    Offsets(OffsetsArgs),
    Consume(ConsumeArgs),
    Produce(ProduceArgs),
    Spout(SpoutArgs),
    Lag(LagArgs),
    Checkpoint(CheckpointArgs),
    Dlq(DlqArgs),
    Decode(DecodeArgs),
    Demo(DemoArgs),
    Broker(BrokerArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Cli {
    /// Reads the command line; leaves with exit code 2 and a message if it is wrong.
    pub(crate) fn read() -> Cli {
        let matches = command().get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The command with all below it, each with the exit codes in its help.
pub(crate) fn command() -> clap::Command {
    fn with_exit_codes(command: clap::Command) -> clap::Command {
        command.after_help(EXIT_CODES).mut_subcommands(with_exit_codes)
    }
    with_exit_codes(Cli::command())
}
