//! The `downspout` command against real brokers.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::harness::{Process, Result, Seen};
use crate::stage::Stage;

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the command with `-b` of the stage's broker; gives its exit code and what it printed.
pub fn run(stage: &Stage, args: &[&str], input: Option<&[u8]>) -> Result<(i32, String, String)> {
    let brokers = stage.kafka.bootstrap();
    downspout(&[&[args[0], "-b", &brokers], &args[1..]].concat(), input)
}

/// Runs the command; gives its exit code and what it printed.
pub fn downspout(args: &[&str], input: Option<&[u8]>) -> Result<(i32, String, String)> {
    let text = |e: std::io::Error| e.to_string();
    let dir = tempfile::tempdir().map_err(text)?;
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_downspout"));
    command.args(args);
    command.stdout(File::create(&out).map_err(text)?).stderr(File::create(&err).map_err(text)?);
    match input {
        Some(bytes) => {
            let file = dir.path().join("in");
            std::fs::write(&file, bytes).map_err(text)?;
            command.stdin(File::open(file).map_err(text)?);
        }
        None => {
            command.stdin(Stdio::null());
        }
    }
    let name = format!("downspout {}", args.join(" "));
    let status = Process::started(&name, &mut command, &err)?.wait_exit(LIMIT)?;
    let read = |path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let code = status.code().ok_or_else(|| format!("{name}: {status}"))?;
    Ok((code, read(out).map_err(text)?, read(err).map_err(text)?))
}

/// As [`run`], and anything but success is an error.
pub fn succeed(stage: &Stage, args: &[&str], input: Option<&[u8]>) -> Result<String> {
    let (code, out, err) = run(stage, args, input)?;
    if code == 0 { Ok(out) } else { Err(format!("downspout {}: exit code {code}\n{err}", args.join(" "))) }
}

/// What `downspout consume -e --json` prints of a topic, by partition.
pub fn consume(stage: &Stage, topic: &str, more: &[&str]) -> Result<BTreeMap<i64, Vec<Seen>>> {
    let mut args = vec!["consume", "-t", topic, "-e", "--json", "-q"];
    args.extend(more);
    let mut partitions: BTreeMap<i64, Vec<Seen>> = BTreeMap::new();
    for line in succeed(stage, &args, None)?.lines() {
        let json: Value = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
        let partition = json["partition"].as_i64().ok_or_else(|| format!("no partition: {line}"))?;
        partitions
            .entry(partition)
            .or_default()
            .push(seen(&json).ok_or_else(|| format!("odd line: {line}"))?);
    }
    Ok(partitions)
}

fn seen(json: &Value) -> Option<Seen> {
    let header = |header: &Value| {
        let key = String::from_utf8(bytes(&header["key"])??).ok()?;
        Some((key, bytes(&header["value"])?))
    };
    Some(Seen {
        offset: json["offset"].as_i64()?,
        timestamp: json["timestamp"].as_i64(),
        timestamp_type: json["timestamp_type"].as_str().map(str::to_owned),
        key: bytes(&json["key"])?,
        value: bytes(&json["value"])?,
        headers: json["headers"].as_array()?.iter().map(header).collect::<Option<_>>()?,
    })
}

/// Null, text, or `{"base64": …}`.
#[allow(clippy::option_option)] // the outer one: whether it is any of these
fn bytes(json: &Value) -> Option<Option<Vec<u8>>> {
    match json {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone().into_bytes())),
        other => Some(Some(BASE64.decode(other["base64"].as_str()?).ok()?)),
    }
}

/// The corpus, byte for byte.
pub fn corpus(stage: &Stage) -> Result<()> {
    for topic in &stage.topics {
        let seen = consume(stage, &topic.name, &[])?;
        for (partition, entries) in topic.partitions.iter().enumerate() {
            let place = format!("downspout consume, {} {partition}", topic.name);
            let none = Vec::new();
            crate::reads::compare(&place, entries, seen.get(&(partition as i64)).unwrap_or(&none))?;
        }
    }
    Ok(())
}

/// What one partition gives is what its own consumer gave.
pub fn same(stage: &Stage, topic: &str, expected: &[Seen], more: &[&str]) -> Result<()> {
    let seen = consume(stage, topic, more)?.remove(&0).unwrap_or_default();
    crate::reads::same_records(&format!("downspout consume, {topic}"), expected, &seen)
}
