//! `downspout spout`: records to child commands or to standard output, each acknowledged or failed by itself.

mod config;
mod ends;
mod exec;
mod log;
mod print;
mod run;
mod status;
mod topics;
mod voice;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::progress::say;
use config::{Flags, Loaded};

/// Hand records to commands, one by one, and keep the position
///
/// Each record is acknowledged or failed by itself; what failed comes again, and after a crash what was
/// unfinished does. With --exec, or a program behind --, records go to that command; else to standard output.
///
/// Every setting is a flag, a variable (--commit-interval is DOWNSPOUT_COMMIT_INTERVAL) and a key of the file
/// (commit_interval), in this order of weight. In a variable the parts of a list stand apart by commas
/// (properties: by spaces).
#[derive(Debug, Args)]
pub(crate) struct SpoutArgs {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Say whether the settings are right, and exit
    #[arg(long)]
    check: bool,
    /// Print the settings in force as a file, with where each comes from, and exit
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    flags: Flags,
    /// The program that records are handed to, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

pub(crate) async fn run(args: &SpoutArgs) -> Result<Exit, Failure> {
    let flags = args.flags.clone().with_program(&args.program).map_err(Failure::usage)?;
    let loaded = Loaded::load(&flags, std::env::vars_os(), args.config.as_deref())?;
    if args.print_config {
        io::stdout().write_all(loaded.print().as_bytes()).map_err(Failure::output)?;
        return Ok(Exit::Ok);
    }
    loaded.notes.iter().for_each(|note| say(note));
    if args.check {
        return Ok(Exit::Ok);
    }
    run::run(&loaded).await
}
