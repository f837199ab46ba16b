//! Our decoder on what a broker serves, without our client: Fetch, pinned to the newest version, and record sets.

use downspout::protocol::*;
use downspout::records::{Isolation, ReadOptions, RecordSet};
use downspout::wire::Uuid;

use crate::harness::{Result, Seen};
use crate::reads;
use crate::stage::Stage;
use crate::versions::{self, Pinned, fine, only};

/// What our decoder finds in `from..end` of partition 0.
pub fn read(stage: &Stage, topic: &str, from: i64, end: i64, isolation: Isolation) -> Result<Vec<Seen>> {
    let mut connection = Pinned::connect(stage.kafka.address(), stage.release)?;
    let ranges = versions::ranges(stage.release, &mut connection)?;
    let newest = |key: ApiKey| ranges.get(&key).map(|range| range.max).ok_or("not in the broker's range");
    let version = newest(ApiKey::FETCH)?;
    let topic_id =
        if version < 13 { Uuid::ZERO } else { id_of(&mut connection, topic, newest(ApiKey::METADATA)?)? };
    let (mut seen, mut offset) = (Vec::new(), from);
    while offset < end {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: 16 << 20,
            ..FetchPartition::default()
        };
        let name = if version < 13 { topic.to_owned() } else { String::new() };
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            isolation_level: i8::from(isolation == Isolation::ReadCommitted && version >= 4),
            topics: vec![FetchTopic { topic: name, topic_id, partitions: vec![partition] }],
            ..FetchRequest::default()
        };
        let response = connection.answer(&request, version)?;
        let found = only(&only(&response.responses)?.partitions)?;
        fine("fetch", found.error_code)?;
        let set = RecordSet::new(found.records.clone().unwrap_or_default());
        let aborted = found.aborted_transactions.clone().unwrap_or_default();
        let options = ReadOptions { from_offset: offset, isolation, aborted, ..ReadOptions::default() };
        for batch in set.batches(options) {
            let batch = batch.map_err(|e| e.to_string())?;
            for record in batch.records() {
                seen.push(reads::seen(&record.map_err(|e| e.to_string())?)?);
            }
        }
        offset = set.next_offset().ok_or_else(|| format!("{topic}: nothing at {offset} of {end}"))?;
    }
    seen.retain(|record| record.offset < end);
    Ok(seen)
}

pub fn id_of(connection: &mut Pinned, topic: &str, version: i16) -> Result<Uuid> {
    let asked = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![asked]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    Ok(only(&connection.answer(&request, version)?.topics)?.topic_id)
}
