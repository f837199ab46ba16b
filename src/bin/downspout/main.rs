//! The `downspout` command: one file per subcommand, over the library.

mod args;
mod completions;
mod decode;
mod exit;
mod input;
mod man;
mod near;
mod output;
mod record_json;

use std::io::Write;
use std::process::ExitCode;

use args::{Cli, Command};
use exit::{Exit, Failure};

fn main() -> ExitCode {
    let exit = match run(Cli::read()) {
        Ok(exit) => exit,
        Err(Failure { exit, message: None }) => exit,
        Err(Failure { exit, message: Some(message) }) => {
            // Nobody is left to tell when stderr is gone as well.
            let _ = writeln!(std::io::stderr(), "downspout: {message}");
            exit
        }
    };
    exit.into()
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        Command::Decode(args) => decode::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
