//! ApiVersions, Metadata, ListOffsets, OffsetForLeaderEpoch and Fetch.

use std::collections::BTreeSet;

use downspout::protocol::*;
use downspout::records::{Isolation, ReadOptions, RecordSet};

use super::{Pins, fine, only};
use crate::corpus::{Entry, THEN};
use crate::harness::Result;
use crate::{offsets, reads, record, transactions};

pub fn all(pins: &mut Pins<'_>) -> Result<()> {
    pins.each::<ApiVersionsRequest>(api_versions)?;
    pins.each::<MetadataRequest>(metadata)?;
    pins.each::<ListOffsetsRequest>(list_offsets)?;
    pins.each::<OffsetForLeaderEpochRequest>(leader_epoch)?;
    pins.each::<FetchRequest>(fetch)?;
    pins.each::<FetchRequest>(fetch_transactions)
}

fn api_versions(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let request = ApiVersionsRequest {
        client_software_name: "downspout".to_owned(),
        client_software_version: "0.1".to_owned(),
        ..ApiVersionsRequest::default()
    };
    let told = pins.connection.answer(&request, version)?;
    fine("answer", told.error_code)?;
    // Later versions leave nothing out that version 0 tells.
    let keys: BTreeSet<ApiKey> = told.api_keys.iter().map(|api| ApiKey(api.api_key)).collect();
    match pins.ranges.keys().find(|key| !keys.contains(key)) {
        Some(missing) => Err(format!("key {missing} is missing")),
        None => Ok(()),
    }
}

fn metadata(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let stage = &pins.stage;
    // Names that are there: versions 0 to 3 would create others.
    let mut names: Vec<String> = stage.topics.iter().map(|topic| topic.name.clone()).collect();
    names.push(offsets::TOPIC.to_owned());
    if stage.release.has_transactions() {
        names.push(transactions::TOPIC.to_owned());
    }
    let topics =
        names.iter().map(|name| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() });
    let request = MetadataRequest {
        topics: Some(topics.collect()),
        allow_auto_topic_creation: version < 4,
        include_topic_authorized_operations: version >= 8,
        include_cluster_authorized_operations: (8..=10).contains(&version),
    };
    let told = pins.connection.answer(&request, version)?;
    let broker = only(&told.brokers)?;
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(stage.kafka.address().port())));
    assert_eq!(told.topics.len(), names.len());
    for topic in &stage.topics {
        let found = told.topics.iter().find(|found| found.name.as_ref() == Some(&topic.name));
        let found = found.ok_or_else(|| format!("{} is missing", topic.name))?;
        fine(&topic.name, found.error_code)?;
        assert!(!found.is_internal);
        assert_eq!(found.partitions.len(), topic.partitions.len());
        for partition in &found.partitions {
            assert_eq!(partition.leader_id, broker.node_id);
            assert_eq!(partition.replica_nodes, [broker.node_id]);
            assert!(version < 7 || partition.leader_epoch >= 0);
        }
    }
    let has_ids = version >= 10 && stage.release.since(&[2, 8]);
    assert!(told.topics.iter().all(|topic| topic.topic_id.is_zero() != has_ids), "topic ids in {told:?}");

    // All topics: an empty list in version 0, null later.
    let every = MetadataRequest {
        topics: (version == 0).then(Vec::new),
        allow_auto_topic_creation: version < 4,
        ..MetadataRequest::default()
    };
    let all = pins.connection.answer(&every, version)?;
    assert!(all.topics.len() >= told.topics.len());
    pins.ids =
        told.topics.into_iter().map(|topic| (topic.name.unwrap_or_default(), topic.topic_id)).collect();
    Ok(())
}

/// Against the topic of `offsets`: records from `first` to 19, one second apart.
fn list_offsets(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let first = offsets::first(pins.stage.release);
    let by_time = pins.stage.release.has_timestamps();
    let mut expected: Vec<(i64, i64, i64)> = vec![(-1, -1, 20), (-2, -1, first)]; // asked time, its time, its offset
    if version >= 1 && by_time {
        expected.extend([
            (THEN + 9500, THEN + 10_000, 10),
            (THEN + 19_000, THEN + 19_000, 19),
            (THEN + 19_001, -1, -1),
        ]);
    }
    if version >= 7 {
        expected.push((-3, THEN + 19_000, 19)); // KIP-734
    }
    if version >= 8 {
        expected.push((-4, -1, first)); // KIP-405: nothing is tiered, so all of the log is local
    }
    for (timestamp, time, offset) in expected {
        let partition =
            ListOffsetsPartition { timestamp, max_num_offsets: 10, ..ListOffsetsPartition::default() };
        let partition =
            if version == 0 { partition } else { ListOffsetsPartition { max_num_offsets: 1, ..partition } };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic { name: offsets::TOPIC.to_owned(), partitions: vec![partition] }],
            ..ListOffsetsRequest::default()
        };
        let told = pins.connection.answer(&request, version)?;
        let told = only(&only(&told.topics)?.partitions)?;
        fine("answer", told.error_code)?;
        if version == 0 {
            assert_eq!(told.old_style_offsets.first(), Some(&offset), "{timestamp}");
            let falling = told.old_style_offsets.is_sorted_by(|a, b| a > b);
            assert!(falling, "{timestamp}: {:?}", told.old_style_offsets);
        } else {
            assert_eq!((told.timestamp, told.offset), (time, offset), "{timestamp}");
        }
    }
    Ok(())
}

/// A topic that had one leader only: its first epoch ends where the log does.
fn leader_epoch(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let partition = OffsetForLeaderPartition::default(); // epoch 0
    let request = OffsetForLeaderEpochRequest {
        replica_id: if version < 3 { -2 } else { -1 },
        topics: vec![OffsetForLeaderTopic { topic: offsets::TOPIC.to_owned(), partitions: vec![partition] }],
    };
    let told = pins.connection.answer(&request, version)?;
    let told = only(&only(&told.topics)?.partitions)?;
    fine("answer", told.error_code)?;
    assert_eq!(told.end_offset, 20);
    assert_eq!(told.leader_epoch, if version < 1 { -1 } else { 0 });
    Ok(())
}

fn fetch(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    let newest_magic = match version {
        0 | 1 => 0,
        2 | 3 => 1,
        _ => 2,
    };
    let magic = pins.stage.release.magic().min(newest_magic);
    let newest = pins.newest::<FetchRequest>();
    for at in 0..pins.stage.topics.len() {
        let name = pins.stage.topics[at].name.clone();
        if name.ends_with("zstd") && version < 4 {
            continue; // see below
        }
        // 0.11's down-conversion fails on records with headers, which stand in partition 0.
        for partition in if version < 4 { 1..2 } else { 0..2 } {
            let request = fetch_request(pins, &name, partition, 0, version);
            let response = pins.connection.answer(&request, version)?;
            let found = only(&only(&response.responses)?.partitions)?;
            let entries = &pins.stage.topics[at].partitions[partition as usize];
            fetched(found, entries, magic).map_err(|e| format!("{name} {partition}: {e}"))?;
            if let Some(codec) =
                name.strip_prefix("small-").filter(|_| partition == 0 && Some(version) == newest)
            {
                let set = found.records.as_deref().unwrap_or_default();
                record::records(pins.stage.release, &format!("magic-{magic}-{codec}"), set)?;
            }
        }
    }
    // Down-conversion refuses zstd (KIP-110). From Fetch 4 on zstd comes as it is, also before 10, the first version
    // that is said to have it: error 76 is then given only where the topic's own compression.type is zstd.
    if version < 4 && pins.stage.release.codecs().contains(&"zstd") {
        let request = fetch_request(pins, "corpus-zstd", 1, 0, version);
        let response = pins.connection.answer(&request, version)?;
        let found = only(&only(&response.responses)?.partitions)?;
        assert_eq!(found.error_code.0, 76, "zstd in a down-converted answer");
    }
    Ok(())
}

/// The records of an answer are those written, without what its format has no place for.
fn fetched(found: &FetchedPartition, entries: &[Entry], magic: u8) -> Result<()> {
    fine("answer", found.error_code)?;
    assert_eq!(found.high_watermark, entries.last().map_or(0, |last| last.offset + 1), "high watermark");
    let records = found.records.as_ref().ok_or("null records")?;
    assert_eq!(records.get(16), Some(&magic), "magic");
    let mut next = 0;
    for batch in RecordSet::new(records.clone()).batches(ReadOptions::default()) {
        let batch = batch.map_err(|e| e.to_string())?;
        for record in batch.records() {
            let record = record.map_err(|e| e.to_string())?;
            let entry = entries.get(next).ok_or("more records than were written")?;
            let entry = Entry { timestamp: entry.timestamp.filter(|_| magic > 0), ..entry.clone() };
            reads::same(&entry, &reads::seen(&record)?)?;
            next += 1;
        }
    }
    if next == 0 { Err(format!("no records in {} bytes", records.len())) } else { Ok(()) }
}

/// Under read_committed, until the last stable offset. A broker may give less than asked at once.
fn fetch_transactions(pins: &mut Pins<'_>, version: i16) -> Result<()> {
    if !pins.stage.release.has_transactions() || version < 4 {
        return Ok(());
    }
    let (mut seen, mut aborted, mut offset) = (Vec::new(), BTreeSet::new(), 0);
    loop {
        let mut request = fetch_request(pins, transactions::TOPIC, 0, offset, version);
        request.isolation_level = 1;
        let response = pins.connection.answer(&request, version)?;
        let found = only(&only(&response.responses)?.partitions)?;
        fine("answer", found.error_code)?;
        let list = found.aborted_transactions.clone().unwrap_or_default();
        aborted.extend(list.iter().map(|entry| (entry.producer_id, entry.first_offset)));
        let set = RecordSet::new(found.records.clone().unwrap_or_default());
        let isolation = Isolation::ReadCommitted;
        for batch in set.batches(ReadOptions { isolation, aborted: list, ..ReadOptions::default() }) {
            let batch = batch.map_err(|e| e.to_string())?;
            for record in batch.records() {
                seen.push(reads::seen(&record.map_err(|e| e.to_string())?)?);
            }
        }
        assert!(found.last_stable_offset < found.high_watermark, "a transaction is open");
        let Some(next) = set.next_offset() else {
            return Err(format!("nothing at {offset} before {}", found.last_stable_offset));
        };
        offset = next;
        if offset >= found.last_stable_offset {
            break;
        }
    }
    assert_eq!(aborted.len(), 3, "aborted transactions: {aborted:?}");
    let expected = pins.stage.transactions.as_ref().ok_or("no transactions were written")?;
    reads::compare("read_committed", &expected.committed, &seen)
}

fn fetch_request(pins: &Pins<'_>, topic: &str, partition: i32, offset: i64, version: i16) -> FetchRequest {
    let partition = FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let (topic, topic_id) = pins.topic(topic, version, 13);
    FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        topics: vec![FetchTopic { topic, topic_id, partitions: vec![partition] }],
        ..FetchRequest::default()
    }
}
