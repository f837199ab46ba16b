//! Produce and InitProducerId.

use downspout::protocol::*;
use downspout::records::{Codec, Magic, NewRecord, RecordSetWriter};

use super::{Pins, fine, only};
use crate::corpus::{Entry, THEN};
use crate::harness::{Result, Send};
use crate::reads;

const TOPIC: &str = "pinned-produce";

pub fn all(pins: &mut Pins<'_>) -> Result<()> {
    let stage = &mut *pins.stage;
    stage.driver.create_topic(&stage.kafka, TOPIC, 1, &[])?;
    if let Some(version) = pins.newest::<MetadataRequest>() {
        let topic = MetadataRequestTopic { name: Some(TOPIC.to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: version < 4,
            ..MetadataRequest::default()
        };
        let id = only(&pins.connection.answer(&request, version)?.topics)?.topic_id;
        pins.ids.insert(TOPIC.to_owned(), id);
    }
    let mut written: Vec<Entry> = Vec::new();
    pins.each::<ProduceRequest>(|pins, version| produce(pins, version, &mut written))?;
    let end = written.last().map_or(0, |last| last.offset + 1);
    let seen = pins.stage.driver.read(TOPIC, 0, 0, end, false)?;
    reads::compare("its own consumer", &written, &seen)?;
    pins.each::<InitProducerIdRequest>(init_producer_id)
}

/// One plain and one gzip set, in the format that belongs to the version.
fn produce(pins: &mut Pins<'_>, version: i16, written: &mut Vec<Entry>) -> Result<()> {
    let magic = match version {
        0 | 1 => Magic::V0,
        2 => Magic::V1,
        _ => Magic::V2,
    };
    for codec in [Codec::None, Codec::Gzip] {
        let base = written.len() as i64;
        let mut writer = RecordSetWriter::new(magic).codec(codec);
        let mut entries = Vec::new();
        for i in 0..3 {
            let key = format!("{version}-{}", codec.name()).into_bytes();
            let value = format!("value {i}").into_bytes();
            let time = THEN + base + i;
            let record = NewRecord { key: Some(&key), timestamp: Some(time), ..NewRecord::value(&value) };
            writer.push(record).map_err(|e| e.to_string())?;
            // What is written in format 0 has no time in any later format.
            let timestamp = (magic != Magic::V0).then_some(time);
            let record = Send { key: Some(key), value: Some(value), ..Send::default() };
            entries.push(Entry { offset: base + i, timestamp, record });
        }
        let records = Some(writer.finish().map_err(|e| e.to_string())?);
        let (name, topic_id) = pins.topic(TOPIC, version, 13);
        let partition_data = vec![ProducePartition { index: 0, records }];
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![ProduceTopic { name, topic_id, partition_data }],
            ..ProduceRequest::default()
        };
        // 3, 6: a new topic is in the metadata a moment before its leader knows that it leads.
        let told = pins.connection.answer_when(&request, version, |told| {
            let told = told.responses[0].partition_responses[0].clone();
            (![3, 6].contains(&told.error_code.0)).then_some(told)
        })?;
        fine(codec.name(), told.error_code)?;
        assert_eq!(told.base_offset, base);
        assert_eq!(told.log_append_time_ms, -1, "the topic keeps the producer's time");
        written.extend(entries);
    }
    Ok(())
}

fn init_producer_id(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    pins.connection.answer_when(&request, version, |told| {
        // 14, 15: the broker is still getting its block of ids
        assert!([0, 14, 15].contains(&told.error_code.0), "{told:?}");
        (told.error_code.0 == 0 && told.producer_id >= 0).then_some(())
    })
}
