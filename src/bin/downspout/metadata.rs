//! `downspout metadata`: brokers, topics, and who leads what.

use std::fmt::Write as _;
use std::io;

use clap::Args;
use downspout::protocol::{ErrorCode, MetadataResponse, MetadataTopic};
use serde_json::{Value, json};

use crate::cluster::Cluster;
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
    let mut cluster = Cluster::connect(args.connect.target()?).await?;
    // Each topic on its own first, for the error that names near ones.
    for topic in &args.topics {
        cluster.topic(topic, false).await?;
    }
    let names = (!args.topics.is_empty()).then_some(args.topics.as_slice());
    let metadata = cluster.metadata(names).await?;
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
fn text(metadata: &MetadataResponse) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, metadata);
    text
}

fn write_text(text: &mut String, metadata: &MetadataResponse) -> std::fmt::Result {
    if let Some(cluster) = &metadata.cluster_id {
        writeln!(text, "cluster {cluster}")?;
    }
    writeln!(text, "brokers: {}", metadata.brokers.len())?;
    for broker in &metadata.brokers {
        write!(text, "  {} at {}:{}", broker.node_id, broker.host, broker.port)?;
        if let Some(rack) = &broker.rack {
            write!(text, ", rack {rack}")?;
        }
        let controller = if broker.node_id == metadata.controller_id { ", controller" } else { "" };
        writeln!(text, "{controller}")?;
    }
    writeln!(text, "topics: {}", metadata.topics.len())?;
    for topic in &metadata.topics {
        write!(text, "  {}, partitions: {}", name(topic), topic.partitions.len())?;
        if topic.is_internal {
            write!(text, ", internal")?;
        }
        writeln!(text, "{}", trouble(topic.error_code))?;
        for partition in &topic.partitions {
            let list = |nodes: &[i32]| nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let leader = match partition.leader_id {
                -1 => "none".to_owned(),
                leader => leader.to_string(),
            };
            write!(
                text,
                "    {}: leader {leader}, replicas {}, in sync {}",
                partition.partition_index,
                list(&partition.replica_nodes),
                list(&partition.isr_nodes)
            )?;
            if !partition.offline_replicas.is_empty() {
                write!(text, ", offline {}", list(&partition.offline_replicas))?;
            }
            writeln!(text, "{}", trouble(partition.error_code))?;
        }
    }
    Ok(())
}

/// As JSON: the protocol guide's names.
fn object(metadata: &MetadataResponse) -> Value {
    let brokers = metadata.brokers.iter().map(|broker| {
        json!({"node_id": broker.node_id, "host": broker.host, "port": broker.port, "rack": broker.rack})
    });
    let topics = metadata.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            json!({
                "partition_index": partition.partition_index,
                "error": error(partition.error_code),
                "leader_id": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replica_nodes,
                "isr_nodes": partition.isr_nodes,
                "offline_replicas": partition.offline_replicas,
            })
        });
        let id = (!topic.topic_id.is_zero()).then(|| topic.topic_id.to_string());
        json!({
            "name": name(topic),
            "topic_id": id,
            "error": error(topic.error_code),
            "is_internal": topic.is_internal,
            "partitions": partitions.collect::<Vec<_>>(),
        })
    });
    json!({
        "cluster_id": metadata.cluster_id,
        "controller_id": metadata.controller_id,
        "brokers": brokers.collect::<Vec<_>>(),
        "topics": topics.collect::<Vec<_>>(),
    })
}

fn name(topic: &MetadataTopic) -> &str {
    topic.name.as_deref().unwrap_or_default()
}

fn error(code: ErrorCode) -> Option<String> {
    code.is_err().then(|| code.to_string())
}

fn trouble(code: ErrorCode) -> String {
    error(code).map(|error| format!(" ({error})")).unwrap_or_default()
}
