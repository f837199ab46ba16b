//! `downspout dlq list`.

use std::collections::BTreeMap;
use std::io;

use clap::Args;
use serde_json::json;

use super::Chosen;
use super::letters::Letters;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::progress::say;

/// List the records of a dead-letter topic: where they came from, how often they were tried, why
/// they failed, and when
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// Stop after so many
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object a line
    #[arg(short = 'J', long)]
    json: bool,
}

pub(super) async fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let cluster = args.chosen.connect.target()?.cluster().await?;
    let mut letters = Letters::open(&cluster, &args.chosen.topic, &BTreeMap::new()).await?;
    let mut output = Output::new(io::stdout().lock());
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut foreign = 0_u64;
    while left > 0
        && let Some(found) = letters.next().await?
    {
        let Some(letter) = found.letter else {
            foreign += 1;
            continue;
        };
        if !args.chosen.is_meant(&letter) {
            continue;
        }
        left -= 1;
        let line = if args.json {
            let line = json!({
                "topic": args.chosen.topic,
                "partition": found.partition,
                "offset": found.offset,
                "source": { "topic": letter.topic, "partition": letter.partition, "offset": letter.offset },
                "attempts": letter.attempts,
                "reason": letter.reason,
                "time": letter.time,
                "value_dropped": letter.value_dropped,
            });
            format!("{line}\n")
        } else {
            format!(
                "{}/{}\tfrom {}/{}/{}\tattempts {}\tat {}\t{}\n",
                found.partition,
                found.offset,
                letter.topic,
                letter.partition,
                letter.offset,
                letter.attempts,
                letter.time,
                letter.reason.escape_debug(),
            )
        };
        output.raw(line.as_bytes());
        output.check().map_err(Failure::output)?;
        tokio::task::consume_budget().await;
    }
    output.flush().map_err(Failure::output)?;
    if foreign > 0 {
        say(&format!("{foreign} records of {} are no dead letters of downspout", args.chosen.topic));
    }
    Ok(Exit::Ok)
}
