//! `downspout offsets`: where logs begin and end, and which offset belongs to a time.

use std::io;
use std::str::FromStr;

use clap::Args;
use downspout::records::Isolation;
use serde_json::json;

use crate::cluster::{Cluster, EARLIEST, LATEST};
use crate::connect::ConnectArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::properties;

/// Show the offsets of a topic's partitions: the earliest, the latest, or those at a time
#[derive(Debug, Args)]
pub(crate) struct OffsetsArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// This partition alone; may be repeated
    #[arg(short, long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// Which offsets: earliest, latest, max-timestamp, earliest-local, latest-tiered,
    /// earliest-pending-upload, or a time in ms since 1970, for the first record that is not older;
    /// may be repeated [default: earliest and latest]
    #[arg(short = 'a', long = "at", value_name = "WHEN", allow_negative_numbers = true)]
    at: Vec<When>,
    /// read_committed ends at the last stable offset, read_uncommitted at the high watermark
    #[arg(long, value_name = "LEVEL", value_parser = properties::isolation)]
    isolation: Option<Isolation>,
    /// Print one JSON object a line
    #[arg(short = 'J', long)]
    json: bool,
}

/// A time, or what stands for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct When(i64);

const NAMES: [(&str, i64); 6] = [
    ("earliest", EARLIEST),
    ("latest", LATEST),
    ("max-timestamp", -3),
    ("earliest-local", -4),
    ("latest-tiered", -5),
    ("earliest-pending-upload", -6),
];

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, time)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(When(*time));
        }
        let time = text.parse().ok().filter(|time| *time >= -6);
        time.map(When).ok_or_else(|| format!("expected {}, or milliseconds since 1970", names().join(", ")))
    }
}

fn names() -> Vec<&'static str> {
    NAMES.iter().map(|(name, _)| *name).collect()
}

impl When {
    fn name(self) -> String {
        let known = NAMES.iter().find(|(_, time)| *time == self.0);
        known.map_or_else(|| self.0.to_string(), |(name, _)| (*name).to_owned())
    }
}

pub(crate) async fn run(args: &OffsetsArgs) -> Result<Exit, Failure> {
    let target = args.connect.target()?;
    let isolation = args.isolation.or(target.properties.isolation).unwrap_or_default();
    let mut cluster = Cluster::connect(target).await?;
    let topic = cluster.topic(&args.topic, false).await?;
    let all = topic.partitions.iter().map(|partition| partition.partition_index);
    let partitions = if args.partitions.is_empty() { all.collect() } else { args.partitions.clone() };
    let both = [When(EARLIEST), When(LATEST)];
    let times = if args.at.is_empty() { &both[..] } else { &args.at };
    let mut output = Output::new(io::stdout().lock());
    for partition in partitions {
        if !args.json {
            output.raw(format!("{} {partition}", args.topic).as_bytes());
        }
        for when in times {
            let listed = cluster.list(&args.topic, partition, when.0, isolation).await?;
            if args.json {
                let line = json!({
                    "topic": args.topic,
                    "partition": partition,
                    "at": when.name(),
                    "offset": listed.offset,
                    "timestamp": listed.timestamp,
                    "leader_epoch": listed.leader_epoch,
                });
                output.raw(format!("{line}\n").as_bytes());
            } else {
                let offset = listed.offset.map_or_else(|| "none".to_owned(), |offset| offset.to_string());
                output.raw(format!(" {} {offset}", when.name()).as_bytes());
            }
        }
        if !args.json {
            output.raw(b"\n");
        }
    }
    output.flush().map_err(Failure::output)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_name_and_number() {
        for (text, time) in
            [("earliest", -2), ("-1", -1), ("max-timestamp", -3), ("1700000000000", 1_700_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(When(time)), "{text}");
        }
        for text in ["now", "-7", "", "1.5"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
        assert_eq!((When(-2).name(), When(5).name()), ("earliest".into(), "5".into()));
    }
}
