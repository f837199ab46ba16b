//! `downspout metadata`: brokers, topics, and who leads what.

use std::fmt::Write as _;
use std::io;

use clap::Args;
use downspout::Error;
use downspout::client::Metadata;
use downspout::protocol::ErrorCode;
use serde_json::{Value, json};

use crate::connect::ConnectArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Show the brokers and the topics, with their partitions and leaders
#[derive(Debug, Args)]
pub(crate) struct MetadataArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Show this topic alone; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Print one JSON object
    #[arg(short = 'J', long)]
    json: bool,
}

pub(crate) async fn run(args: &MetadataArgs) -> Result<Exit, Failure> {
    let cluster = args.connect.target()?.cluster().await?;
    // Each topic on its own first: one that was made just now has no partitions yet.
    for topic in &args.topics {
        cluster.partitions(topic).await?;
    }
    let names: Vec<&str> = args.topics.iter().map(String::as_str).collect();
    let metadata =
        if names.is_empty() { cluster.all_topics().await? } else { cluster.metadata(&names).await? };
    let mut output = Output::new(io::stdout().lock());
    if args.json {
        output.raw(object(&metadata).to_string().as_bytes());
        output.raw(b"\n");
    } else {
        output.raw(text(&metadata).as_bytes());
    }
    output.flush().map_err(Failure::output)?;
    Ok(Exit::Ok)
}

/// As text for people.
fn text(metadata: &Metadata) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, metadata);
    text
}

fn write_text(text: &mut String, metadata: &Metadata) -> std::fmt::Result {
    if let Some(cluster) = &metadata.cluster_id {
        writeln!(text, "cluster {cluster}")?;
    }
    writeln!(text, "brokers: {}", metadata.brokers.len())?;
    for broker in &metadata.brokers {
        write!(text, "  {} at {}:{}", broker.id, broker.address.host, broker.address.port)?;
        if let Some(rack) = &broker.rack {
            write!(text, ", rack {rack}")?;
        }
        let controller = if Some(broker.id) == metadata.controller_id { ", controller" } else { "" };
        writeln!(text, "{controller}")?;
    }
    writeln!(text, "topics: {}", metadata.topics.len())?;
    for topic in &metadata.topics {
        write!(text, "  {}, partitions: {}", topic.name, topic.partitions.len())?;
        if topic.is_internal {
            write!(text, ", internal")?;
        }
        writeln!(text, "{}", trouble(code(topic.error.as_ref())))?;
        for partition in &topic.partitions {
            let list = |nodes: &[i32]| nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let leader = partition.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
            write!(
                text,
                "    {}: leader {leader}, replicas {}, in sync {}",
                partition.id,
                list(&partition.replicas),
                list(&partition.in_sync)
            )?;
            if !partition.offline.is_empty() {
                write!(text, ", offline {}", list(&partition.offline))?;
            }
            writeln!(text, "{}", trouble(partition.error))?;
        }
    }
    Ok(())
}

/// As JSON: the protocol guide's names.
fn object(metadata: &Metadata) -> Value {
    let brokers = metadata.brokers.iter().map(|broker| {
        json!({"node_id": broker.id, "host": broker.address.host, "port": broker.address.port, "rack": broker.rack})
    });
    let topics = metadata.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            json!({
                "partition_index": partition.id,
                "error": error(partition.error),
                "leader_id": partition.leader.unwrap_or(-1),
                "leader_epoch": partition.leader_epoch.unwrap_or(-1),
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.in_sync,
                "offline_replicas": partition.offline,
            })
        });
        json!({
            "name": topic.name,
            "topic_id": topic.id.map(|id| id.to_string()),
            "error": error(code(topic.error.as_ref())),
            "is_internal": topic.is_internal,
            "partitions": partitions.collect::<Vec<_>>(),
        })
    });
    json!({
        "cluster_id": metadata.cluster_id,
        "controller_id": metadata.controller_id.unwrap_or(-1),
        "brokers": brokers.collect::<Vec<_>>(),
        "topics": topics.collect::<Vec<_>>(),
    })
}

fn code(error: Option<&Error>) -> Option<ErrorCode> {
    error.and_then(Error::code)
}

fn error(code: Option<ErrorCode>) -> Option<String> {
    code.map(|code| code.to_string())
}

fn trouble(code: Option<ErrorCode>) -> String {
    error(code).map(|error| format!(" ({error})")).unwrap_or_default()
}
