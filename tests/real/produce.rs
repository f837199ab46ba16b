//! The other way: what we write is read by the release's own consumers, and by its console consumer.

use std::str::FromStr;
use std::time::Duration;

use downspout::protocol::*;
use downspout::records::{Codec, Magic, NewHeader, NewRecord, RecordSetWriter};
use downspout::wire::Uuid;

use crate::corpus::{self, Entry};
use crate::harness::{Result, Send};
use crate::stage::Stage;
use crate::versions::{self, Pinned, fine};
use crate::{cli, raw, reads};

const TOPIC: &str = "written-by-us";
const SHOWN: &str = "shown";

/// Every kind of record in every codec that the release knows, in its newest format.
pub fn own_consumer(stage: &mut Stage) -> Result<()> {
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &[])?;
    let mut written = Vec::new();
    for codec in stage.release.codecs() {
        for set in
            corpus::odd(stage.release).into_iter().chain(corpus::large(stage.release).into_iter().take(2))
        {
            append(stage, TOPIC, codec, &set, &mut written)?;
        }
    }
    let seen = stage.driver.read(TOPIC, 0, 0, written.len() as i64, false)?;
    reads::compare("its own consumer", &written, &seen)
}

/// What `downspout produce` writes in every codec, as `kafka-console-consumer --from-beginning` prints it.
pub fn console_consumer(stage: &mut Stage) -> Result<()> {
    stage.driver.create_topic(&stage.kafka, SHOWN, 1, &[])?;
    let mut expected = String::new();
    for codec in stage.release.codecs() {
        let mut input = format!("key|one, {codec}\n|\ngrün \u{1f980}|{}\n", "x".repeat(2000));
        expected += &input;
        // 0.8.0's formatter fails on a record without a key.
        if stage.release.since(&[0, 8, 1]) {
            input += "no key\n";
            expected += "null|no key\n";
        }
        let args = ["produce", "-t", SHOWN, "-p", "0", "-K", "|", "-z", codec, "-q"];
        cli::succeed(stage, &args, Some(input.as_bytes()))?;
    }
    let release = stage.release;
    let zookeeper = stage.kafka.zookeeper().map(|address| address.to_string()).unwrap_or_default();
    let mut args = release.console_consumer_source(&stage.kafka.bootstrap(), &zookeeper);
    let count = expected.lines().count().to_string();
    let more = ["--topic", SHOWN, "--from-beginning", "--max-messages", &count];
    args.extend(more.map(str::to_owned));
    args.extend(["--property", "print.key=true", "--property", "key.separator=|"].map(str::to_owned));
    let printed = stage.kafka.java().run(
        stage.kafka.dir(),
        release.console_consumer(),
        &args,
        Duration::from_secs(60),
    )?;
    let printed = String::from_utf8(printed).map_err(|e| e.to_string())?;
    // Old ones add how many they have seen, new ones that --property has a new name.
    let talk = |line: &&str| line.starts_with("Consumed ") || line.starts_with("Option --property ");
    let lines: Vec<&str> = printed.lines().filter(|line| !talk(line)).collect();
    let wanted: Vec<&str> = expected.lines().collect();
    let short = |line: &str| line.chars().take(60).collect::<String>();
    for (wanted, line) in wanted.iter().zip(&lines) {
        if wanted != line {
            return Err(format!("expected {:?}, found {:?}", short(wanted), short(line)));
        }
    }
    if lines.len() != wanted.len() {
        return Err(format!("expected {} lines, found {}", wanted.len(), lines.len()));
    }
    Ok(())
}

/// Appends one set with the newest Produce that the broker takes.
fn append(stage: &Stage, topic: &str, codec: &str, records: &[Send], written: &mut Vec<Entry>) -> Result<()> {
    let magic = [Magic::V0, Magic::V1, Magic::V2][usize::from(stage.release.magic())];
    let codec = Codec::from_str(codec).map_err(|_| format!("no codec {codec}"))?;
    let mut writer = RecordSetWriter::new(magic).codec(codec);
    for record in records {
        let headers: Vec<NewHeader<'_>> =
            record.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref())).collect();
        let timestamp = record.timestamp;
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let record = NewRecord { offset: None, timestamp, key, value, headers: &headers };
        writer.push(record).map_err(|e| e.to_string())?;
    }
    let records_field = Some(writer.finish().map_err(|e| e.to_string())?);

    let mut connection = Pinned::connect(stage.kafka.address(), stage.release)?;
    let ranges = versions::ranges(stage.release, &mut connection)?;
    let newest = |key: ApiKey| ranges.get(&key).map(|range| range.max).ok_or("not in the broker's range");
    let version = newest(ApiKey::PRODUCE)?;
    let topic_id = if version < 13 {
        Uuid::ZERO
    } else {
        raw::id_of(&mut connection, topic, newest(ApiKey::METADATA)?)?
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![ProduceTopic {
            name: if version < 13 { topic.to_owned() } else { String::new() },
            topic_id,
            partition_data: vec![ProducePartition { index: 0, records: records_field }],
        }],
        ..ProduceRequest::default()
    };
    // 3, 6: a new topic is in the metadata a moment before its leader knows that it leads.
    let told = connection.answer_when(&request, version, |told| {
        let told = told.responses[0].partition_responses[0].clone();
        (![3, 6].contains(&told.error_code.0)).then_some(told)
    })?;
    fine(codec.name(), told.error_code)?;
    assert_eq!(told.base_offset, written.len() as i64);
    for (record, offset) in records.iter().zip(told.base_offset..) {
        let timestamp = record.timestamp.filter(|_| stage.release.has_timestamps());
        written.push(Entry { offset, timestamp, record: record.clone() });
    }
    Ok(())
}
