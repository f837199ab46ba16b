//! `downspout offsets`: where logs begin and end, and which offset belongs to a time.

use std::io;
use std::str::FromStr;

use clap::Args;
use downspout::client::OffsetSpec;
use downspout::records::Isolation;
use serde_json::json;

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
struct When(OffsetSpec);

/// Each with the number that requests have for it.
const NAMES: [(&str, i64, OffsetSpec); 6] = [
    ("earliest", -2, OffsetSpec::Earliest),
    ("latest", -1, OffsetSpec::Latest),
    ("max-timestamp", -3, OffsetSpec::MaxTimestamp),
    ("earliest-local", -4, OffsetSpec::EarliestLocal),
    ("latest-tiered", -5, OffsetSpec::LatestTiered),
    ("earliest-pending-upload", -6, OffsetSpec::EarliestPendingUpload),
];

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = text.parse().ok();
        if let Some((.., spec)) =
            NAMES.iter().find(|(name, number, _)| *name == text || time == Some(*number))
        {
            return Ok(When(*spec));
        }
        let time = time.filter(|time| *time >= 0).map(|time| When(OffsetSpec::Timestamp(time)));
        let names = || NAMES.map(|(name, ..)| name).join(", ");
        time.ok_or_else(|| format!("expected {}, or milliseconds since 1970", names()))
    }
}

impl When {
    fn name(self) -> String {
        if let OffsetSpec::Timestamp(time) = self.0 {
            return time.to_string();
        }
        let known = NAMES.iter().find(|(.., spec)| *spec == self.0);
        known.map_or_else(String::new, |(name, ..)| (*name).to_owned())
    }
}

pub(crate) async fn run(args: &OffsetsArgs) -> Result<Exit, Failure> {
    let mut target = args.connect.target()?;
    target.properties.isolation = args.isolation.or(target.properties.isolation);
    let cluster = target.cluster().await?;
    let known = cluster.partitions(&args.topic).await?;
    let partitions = if args.partitions.is_empty() { known } else { args.partitions.clone() };
    let both = [When(OffsetSpec::Earliest), When(OffsetSpec::Latest)];
    let times = if args.at.is_empty() { &both[..] } else { &args.at };
    let at = |partition| times.iter().map(move |when| (args.topic.as_str(), partition, when.0));
    let wanted: Vec<_> = partitions.iter().copied().flat_map(at).collect();
    let mut listed = cluster.list_offsets(&wanted).await?.into_iter();
    let mut output = Output::new(io::stdout().lock());
    for partition in partitions {
        if !args.json {
            output.raw(format!("{} {partition}", args.topic).as_bytes());
        }
        for (when, mut listed) in times.iter().zip(listed.by_ref()) {
            if let Some(why) = listed.error.take() {
                return Err(why.into());
            }
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
        for (text, spec) in [
            ("earliest", OffsetSpec::Earliest),
            ("-1", OffsetSpec::Latest),
            ("max-timestamp", OffsetSpec::MaxTimestamp),
            ("1700000000000", OffsetSpec::Timestamp(1_700_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(When(spec)), "{text}");
        }
        for text in ["now", "-7", "", "1.5"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
        assert_eq!(
            (When(OffsetSpec::Earliest).name(), When(OffsetSpec::Timestamp(5)).name()),
            ("earliest".into(), "5".into())
        );
    }
}
