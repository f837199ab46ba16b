//! `downspout completions`: what a shell needs to complete the arguments.

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::exit::{Exit, Failure};

/// Print completions for a shell
///
/// For bash: downspout completions bash > ~/.local/share/bash-completion/completions/downspout
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    // Written to memory first: the generator knows no failing output.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "downspout", &mut script);
    io::stdout().write_all(&script).map_err(Failure::output)?;
    Ok(Exit::Ok)
}
