//! The argument surface that all subcommands share.

use clap::{Parser, Subcommand};

use crate::decode::DecodeArgs;
use crate::exit::EXIT_CODES;

/// Reads and writes Kafka, every broker from 0.8.0 to 4.4.
#[derive(Debug, Parser)]
#[command(name = "downspout", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Decode(DecodeArgs),
}
