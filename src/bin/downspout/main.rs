//! The `downspout` command: one file per subcommand, over the library.

mod args;
mod broker;
mod checkpoint;
mod completions;
mod connect;
mod consume;
mod decode;
mod demo;
mod dlq;
mod escape;
mod exit;
mod input;
mod lag;
mod man;
mod metadata;
mod near;
mod offsets;
mod output;
mod produce;
mod progress;
mod properties;
mod properties_file;
mod record_json;
mod security;
mod show;
mod signals;
mod spout;
mod store;
mod zookeeper;

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
        Command::Metadata(args) => block_on(metadata::run(&args)),
        Command::Offsets(args) => block_on(offsets::run(&args)),
        Command::Consume(args) => block_on(consume::run(&args)),
        Command::Produce(args) => block_on(produce::run(&args)),
        Command::Dlq(args) => block_on(dlq::run(&args)),
        Command::Spout(args) => block_on(spout::run(&args)),
        Command::Lag(args) => block_on(lag::run(&args)),
        Command::Checkpoint(args) => block_on(checkpoint::run(&args)),
        Command::Decode(args) => decode::run(args),
        Command::Demo(args) => block_on(demo::run(&args)),
        Command::Broker(args) => block_on(broker::run(&args)),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Runs the work of a command that talks to brokers.
fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Unreachable, error))?;
    let exit = runtime.block_on(async {
        let exit = work.await;
        zookeeper::close_all().await;
        exit
    });
    // Not waited for: name look-ups and reads of standard input cannot be stopped.
    runtime.shutdown_background();
    exit
}
