//! `downspout checkpoint list` and `get`.

use std::fmt::Write as _;
use std::io;

use clap::Args;
use downspout::checkpoint::{Access, Checkpoint, Extras, Loaded};
use downspout::client::TopicPartition;
use serde_json::{Value, json};

use super::place::{Place, load};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// List the positions of a spout; without --id, of all that a store in ZooKeeper has
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object a line
    #[arg(short = 'J', long)]
    json: bool,
}

/// Show the position of a partition with all that is kept beside it
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    place: Place,
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// The partition; may be repeated
    #[arg(short, long = "partition", value_name = "N", required = true)]
    partitions: Vec<i32>,
    /// Print one JSON object a line
    #[arg(short = 'J', long)]
    json: bool,
}

pub(super) async fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let mut text = String::new();
    for id in args.place.ids().await? {
        let checkpoints = args.place.open_id(&id, None, Access::Read).await?;
        let partitions = checkpoints.list().await?;
        let loaded = load(&*checkpoints, &partitions).await?;
        checkpoints.close().await;
        for (partition, loaded) in partitions.iter().zip(&loaded) {
            let Some(checkpoint) = &loaded.checkpoint else { continue };
            let all = args.place.has_no_id();
            if args.json {
                let mut object = object(partition, loaded);
                if all {
                    object["id"] = json!(id);
                }
                text.push_str(&format!("{object}\n"));
            } else {
                let id = if all { format!("{id} ") } else { String::new() };
                text.push_str(&format!("{id}{}", line(partition, checkpoint)));
            }
        }
    }
    let mut output = Output::new(io::stdout().lock());
    output.raw(text.as_bytes());
    output.flush().map_err(Failure::output)?;
    Ok(Exit::Ok)
}

pub(super) async fn get(args: &GetArgs) -> Result<Exit, Failure> {
    let checkpoints = args.place.open(None, Access::Read).await?;
    let partitions: Vec<TopicPartition> =
        args.partitions.iter().map(|partition| TopicPartition::new(&*args.topic, *partition)).collect();
    let loaded = load(&*checkpoints, &partitions).await?;
    let mut output = Output::new(io::stdout().lock());
    let mut exit = Exit::Ok;
    for (partition, loaded) in partitions.iter().zip(&loaded) {
        if loaded.checkpoint.is_none() {
            exit = Exit::Found;
        }
        if args.json {
            output.raw(format!("{}\n", object(partition, loaded)).as_bytes());
        } else {
            output.raw(text(partition, loaded).as_bytes());
        }
    }
    output.flush().map_err(Failure::output)?;
    Ok(exit)
}

fn line(partition: &TopicPartition, checkpoint: &Checkpoint) -> String {
    let mut line = format!("{} {} offset {}", partition.topic, partition.partition, checkpoint.offset);
    // Writing to a string does not fail.
    if let Some(extras) = &checkpoint.extras {
        let _ = write!(line, " done {}", done(extras));
    }
    if let Some(owner) = &checkpoint.owner {
        let _ = write!(line, " owner {} instance {}", owner.name, owner.instance);
    }
    line.push('\n');
    line
}

/// With a line for each thing.
fn text(partition: &TopicPartition, loaded: &Loaded) -> String {
    let Some(checkpoint) = &loaded.checkpoint else {
        return format!("{partition}: no checkpoint\n");
    };
    let mut text = format!("{partition}: offset {}\n", checkpoint.offset);
    let mut say = |line: String| text.push_str(&format!("  {line}\n"));
    if let Some(owner) = &checkpoint.owner {
        say(format!("owner {}, instance {}, run {}", owner.name, owner.instance, owner.run));
    }
    if let Some((host, port)) = &checkpoint.broker {
        say(format!("leader then {host}:{port}"));
    }
    if let Some(why) = &loaded.discarded {
        say(format!("what stands beside it is not used: {why}"));
    }
    if let Some(extras) = &checkpoint.extras {
        say(match extras.clean {
            true => "its owner has closed".to_owned(),
            false => "its owner has not closed".to_owned(),
        });
        say(format!("done beyond it: {} in {} runs", done(extras), extras.done.len()));
        if let Some(last) = extras.done.last() {
            say(format!("the last of them is {}", last.end - 1));
        }
        for record in &extras.unfinished {
            say(format!(
                "unfinished {}: attempts {}, deaths {}",
                record.offset, record.attempts, record.deaths
            ));
        }
        if let Some(epoch) = extras.leader_epoch {
            say(format!("leader epoch {epoch}"));
        }
    }
    text
}

/// Records that are done beyond the position.
pub(crate) fn done(extras: &Extras) -> i64 {
    extras.done.iter().map(|run| run.end - run.start).sum()
}

fn object(partition: &TopicPartition, loaded: &Loaded) -> Value {
    let checkpoint = loaded.checkpoint.as_ref();
    let owner = checkpoint.and_then(|checkpoint| checkpoint.owner.as_ref());
    let broker = checkpoint.and_then(|checkpoint| checkpoint.broker.as_ref());
    let extras = checkpoint.and_then(|checkpoint| checkpoint.extras.as_ref());
    json!({
        "topic": &*partition.topic,
        "partition": partition.partition,
        "offset": checkpoint.map(|checkpoint| checkpoint.offset),
        "owner": owner.map(|owner| json!({"instance": owner.instance, "name": owner.name, "run": owner.run})),
        "broker": broker.map(|(host, port)| json!({"host": host, "port": port})),
        "discarded": loaded.discarded,
        "extras": extras.map(|extras| json!({
            "serial": extras.serial,
            "topic_id": extras.topic_id.map(|id| id.to_string()),
            "leader_epoch": extras.leader_epoch,
            "cluster_id": extras.cluster_id,
            "done": extras.done.iter().map(|run| json!([run.start, run.end - 1])).collect::<Vec<_>>(),
            "unfinished": extras.unfinished.iter().map(|record| json!({
                "offset": record.offset, "attempts": record.attempts, "deaths": record.deaths,
            })).collect::<Vec<_>>(),
            "deaths": extras.deaths,
            "clean": extras.clean,
            "idle": extras.idle,
            "intake": extras.intake,
        })),
    })
}
