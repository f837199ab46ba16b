//! `downspout decode`: bytes from a file or standard input, out as JSON.

mod frame;
mod json;
mod records;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};

/// Show record sets, requests and responses as JSON
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Records(records::RecordsArgs),
    Request(frame::RequestArgs),
    Response(frame::ResponseArgs),
}

pub(crate) fn run(args: DecodeArgs) -> Result<Exit, Failure> {
    match args.what {
        What::Records(args) => records::run(&args),
        What::Request(args) => frame::request(&args),
        What::Response(args) => frame::response(&args),
    }
}
