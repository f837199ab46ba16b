//! `downspout checkpoint import`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use downspout::checkpoint::{Checkpoint, Loaded, Owner};
use downspout::client::TopicPartition;
use serde_json::Value;

use super::change::{ChangeArgs, Wanted, change, closed};
use super::place::Place;
use crate::exit::{Exit, Failure};

/// Set positions to those of an export, or of documents that storm-kafka kept
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    place: Place,
    /// The file with a document on each line; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(args: &ImportArgs) -> Result<Exit, Failure> {
    let name = args.file.display();
    let text = match args.file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(&args.file),
    };
    let text = text.map_err(|why| Failure::usage(format_args!("cannot read {name}: {why}")))?;
    let mut wanted = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let failed = |why: String| Failure::usage(format_args!("{name}, line {}: {why}", number + 1));
        let (partition, checkpoint) = parse(line).map_err(failed)?;
        if !seen.insert(partition.clone()) {
            return Err(failed(format!("{partition} stands there twice")));
        }
        wanted.push((partition, checkpoint.map(|checkpoint| Wanted::Whole(Box::new(checkpoint)))));
    }
    if wanted.is_empty() {
        return Err(Failure::usage(format_args!("{name}: there is nothing in it")));
    }
    let cluster = args.place.cluster().await?;
    change(&args.place, &args.change, &cluster, wanted).await
}

/// A partition, and its position unless the line says that it has none.
fn parse(line: &str) -> Result<(TopicPartition, Option<Checkpoint>), String> {
    let value: Value = serde_json::from_str(line).map_err(|why| why.to_string())?;
    let topic = value.get("topic").and_then(Value::as_str).filter(|topic| !topic.is_empty());
    let topic = topic.ok_or("it names no topic")?;
    let number = value.get("partition").and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
    let number = number.filter(|number| *number >= 0).ok_or("it names no partition")?;
    let partition = TopicPartition::new(topic, number);
    if value.get("offset").is_some_and(Value::is_null) {
        return Ok((partition, None));
    }
    let loaded = Loaded::from_document(line.as_bytes(), &partition).map_err(|why| why.to_string())?;
    let checkpoint = loaded.checkpoint.map(|checkpoint| Checkpoint {
        // Of no run: whoever finds it under its feet takes it for what it is, a change by hand.
        owner: checkpoint.owner.map(|owner| Owner { run: String::new(), ..owner }),
        extras: checkpoint.extras.map(closed),
        ..checkpoint
    });
    Ok((partition, checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_document_or_says_that_there_is_none() {
        let java = r#"{"topology":{"id":"t-1","name":"t"},"offset":7,"partition":3,"broker":{"host":"h","port":1},"topic":"clicks"}"#;
        let (partition, checkpoint) = parse(java).unwrap();
        assert_eq!(partition, TopicPartition::new("clicks", 3));
        assert_eq!(checkpoint.unwrap().offset, 7);
        let none = parse(r#"{"offset":null,"partition":0,"topic":"clicks"}"#).unwrap();
        assert_eq!(none, (TopicPartition::new("clicks", 0), None));
        for line in [
            "x",
            "[]",
            "{}",
            r#"{"topic":"clicks","offset":7}"#,
            r#"{"topic":"clicks","partition":-1,"offset":7}"#,
            r#"{"topic":"","partition":1,"offset":7}"#,
            r#"{"topic":"clicks","partition":1}"#,
            r#"{"topic":"clicks","partition":1,"offset":-7}"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
