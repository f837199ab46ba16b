//! `downspout checkpoint reset`.

use std::str::FromStr;

use clap::Args;
use downspout::checkpoint::Access;
use downspout::client::{OffsetSpec, TopicPartition};

use super::change::{ChangeArgs, Wanted, change};
use super::place::Place;
use super::plan;
use crate::exit::{Exit, Failure};

/// Set positions to where the logs start or end, or to a time
#[derive(Debug, Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    place: Place,
    /// The topic, with all its partitions; all partitions that have a position, if none is named
    #[arg(short, long)]
    topic: Option<String>,
    /// This partition alone; may be repeated
    #[arg(short, long = "partition", value_name = "N", requires = "topic")]
    partitions: Vec<i32>,
    /// Where to: earliest, latest, or a time in ms since 1970, for the first record that is not older
    /// (the end, if there is none)
    #[arg(long, value_name = "WHERE")]
    to: To,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Earliest,
    Latest,
    Time(i64),
}

impl FromStr for To {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "earliest" => Ok(To::Earliest),
            "latest" => Ok(To::Latest),
            _ => {
                let time = text.parse().ok().filter(|time| *time >= 0);
                time.map(To::Time).ok_or("expected earliest, latest, or milliseconds since 1970")
            }
        }
    }
}

pub(super) async fn run(args: &ResetArgs) -> Result<Exit, Failure> {
    let cluster = args.place.cluster().await?;
    let partitions: Vec<TopicPartition> = match &args.topic {
        Some(topic) if args.partitions.is_empty() => {
            let numbers = cluster.partitions(topic).await?;
            numbers.into_iter().map(|number| TopicPartition::new(&**topic, number)).collect()
        }
        Some(topic) => args.partitions.iter().map(|number| TopicPartition::new(&**topic, *number)).collect(),
        None => args.place.open(Some(&cluster), Access::Read).await?.list().await?,
    };
    let spec = match args.to {
        To::Earliest => OffsetSpec::Earliest,
        To::Latest => OffsetSpec::Latest,
        To::Time(time) => OffsetSpec::Timestamp(time),
    };
    let offsets = plan::listed(&cluster, &partitions, spec).await?;
    let ends = plan::listed(&cluster, &partitions, OffsetSpec::Latest).await?;
    let both = offsets.into_iter().zip(ends).map(|(offset, end)| offset.or(end).map(Wanted::Offset));
    let wanted: Vec<_> = partitions.into_iter().zip(both).filter(|(_, wanted)| wanted.is_some()).collect();
    change(&args.place, &args.change, &cluster, wanted).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_by_name_and_time() {
        for (text, to) in [
            ("earliest", To::Earliest),
            ("latest", To::Latest),
            ("1700000000000", To::Time(1_700_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(to), "{text}");
        }
        for text in ["", "now", "-1", "1.5"] {
            assert!(text.parse::<To>().is_err(), "{text}");
        }
    }
}
