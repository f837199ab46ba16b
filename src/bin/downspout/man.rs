//! `downspout man`: the manual pages, made from the same table as `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::args;
use crate::exit::{Exit, Failure};

/// Write the manual pages
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder that gets one page per command; `-` prints the page of `downspout` itself
    #[arg(value_name = "DIR", default_value = "-")]
    folder: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let mut command = args::command();
    command.build();
    if args.folder.as_os_str() == "-" {
        io::stdout().write_all(&page(command)?).map_err(Failure::output)?;
        return Ok(Exit::Ok);
    }
    let failed = |error| Failure::usage(format_args!("cannot write to {}: {error}", args.folder.display()));
    fs::create_dir_all(&args.folder).map_err(failed)?;
    for command in family(command) {
        let name = command.get_display_name().unwrap_or("downspout").to_owned();
        fs::write(args.folder.join(format!("{name}.1")), page(command)?).map_err(failed)?;
    }
    Ok(Exit::Ok)
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(Failure::output)?;
    Ok(page)
}

/// A command, and the commands below it.
fn family(command: Command) -> Vec<Command> {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set());
    let below: Vec<Command> = below.cloned().flat_map(family).collect();
    std::iter::once(command).chain(below).collect()
}
