//! Produce: which offsets are assigned, what is refused, and what older clients get back.

use downspout::records::{Codec, Isolation, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

use super::*;

fn set(magic: Magic, codec: Codec, values: &[&str]) -> Bytes {
    let mut writer = RecordSetWriter::new(magic).codec(codec);
    for (value, timestamp) in values.iter().zip(1_000..) {
        let timestamp = Some(timestamp);
        writer.push(NewRecord { timestamp, ..NewRecord::value(value.as_bytes()) }).unwrap();
    }
    writer.finish().unwrap()
}

fn produce(set: &Bytes, acks: i16) -> ProduceRequest {
    let partition_data = vec![ProducePartition { index: 0, records: Some(set.clone()) }];
    let topic = ProduceTopic { name: "t".to_owned(), partition_data, ..Default::default() };
    ProduceRequest { acks, timeout_ms: 1_000, topic_data: vec![topic], ..Default::default() }
}

fn outcome(response: &ProduceResponse) -> (ErrorCode, i64) {
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

/// Offset and value of every record of a set.
fn contents(set: &[u8]) -> Vec<(i64, String)> {
    let options = ReadOptions { isolation: Isolation::ReadUncommitted, ..Default::default() };
    let batches: Vec<_> =
        RecordSet::new(Bytes::copy_from_slice(set)).batches(options).map(Result::unwrap).collect();
    let records = batches.iter().flat_map(|batch| batch.records());
    records
        .map(|record| {
            let record = record.unwrap();
            (record.offset(), String::from_utf8_lossy(record.value().unwrap()).into_owned())
        })
        .collect()
}

fn numbered(values: &[&str]) -> Vec<(i64, String)> {
    (0..).zip(values.iter().map(|value| (*value).to_owned())).collect()
}

#[test]
fn records_of_every_format_and_codec_get_the_next_offsets() {
    let by_format = [
        (Release::V0_8_2, 0, Magic::V0, 4),
        (Release::V0_10_2, 2, Magic::V1, 4),
        (Release::V2_4, 7, Magic::V2, 5),
    ];
    for (release, version, magic, codecs) in by_format {
        let broker = broker(release);
        let mut client = Client::to(&broker);
        for codec in &Codec::ALL[..codecs] {
            broker.create_topic("t", 1);
            assert_eq!(
                outcome(&client.ask(version, produce(&set(magic, *codec, &["a", "b", "c"]), 1))),
                (ErrorCode::NONE, 0)
            );
            assert_eq!(
                outcome(&client.ask(version, produce(&set(magic, *codec, &["d", "e"]), -1))),
                (ErrorCode::NONE, 3)
            );
            let answer = client.ask(if version == 7 { 4 } else { version }, fetch(&[(0, 0)], 10_000));
            assert_eq!(
                contents(records(&answer, 0)),
                numbered(&["a", "b", "c", "d", "e"]),
                "{release} {codec}"
            );
        }
    }
}

#[test]
fn acks_0_is_never_answered_and_an_error_then_closes_the_connection() {
    let broker = broker(Release::V2_4);
    let mut client = Client::to(&broker);
    client.send(&encode_request(&produce(&hex(F12), 0), 7, 1, "test").unwrap());
    assert_eq!(records(&client.ask(4, fetch(&[(0, 0)], 10_000)), 0).len(), 77);
    client.send(&encode_request(&produce(&hex(F01), 0), 7, 1, "test").unwrap());
    assert!(client.is_closed());
}

#[test]
fn what_a_producer_may_not_send_is_refused() {
    let old = broker(Release::V0_9_0);
    assert_eq!(outcome(&Client::to(&old).ask(1, produce(&hex(F01), 2))).0, ErrorCode::INVALID_REQUIRED_ACKS);
    let broker = broker(Release::V2_4);
    let mut client = Client::to(&broker);
    assert_eq!(outcome(&client.ask(7, produce(&hex(F01), 1))).0, ErrorCode::INVALID_RECORD);
    let two = [hex(F12), hex(F12)].concat().into();
    assert_eq!(outcome(&client.ask(7, produce(&two, 1))).0, ErrorCode::INVALID_RECORD);
    let zstd = set(Magic::V2, Codec::Zstd, &["a"]);
    assert_eq!(outcome(&client.ask(6, produce(&zstd, 1))).0, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    let mut request = produce(&hex(F12), 1);
    request.topic_data[0].name = "nowhere".to_owned();
    assert_eq!(outcome(&client.ask(7, request)).0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn kafka_18659_produce_2_is_offered_by_4_0_and_refused() {
    let broker = broker(Release::V4_0);
    let mut client = Client::to(&broker);
    let listed = client.ask(0, ApiVersionsRequest::default());
    assert_eq!((listed.api_keys[0].api_key, listed.api_keys[0].min_version), (0, 0));
    client.send(&encode_request(&produce(&hex(F01), 1), 2, 1, "test").unwrap());
    assert!(client.is_closed());
}

#[test]
fn an_old_fetch_gets_converted_records() {
    let broker = broker(Release::V2_4);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        broker.create_topic("t", 1);
        broker.append("t", 0, &set(Magic::V2, codec, &["a", "b"])).unwrap();
        broker.append("t", 0, &set(Magic::V2, codec, &["c"])).unwrap();
        for (version, magic) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
            let answer = Client::to(&broker).ask(version, fetch(&[(0, 1)], 10_000));
            let set = records(&answer, 0);
            assert_eq!(set[16], magic, "Fetch {version}");
            assert_eq!(contents(set), numbered(&["a", "b", "c"]), "Fetch {version} {codec}");
        }
    }
    broker.append("t", 0, &set(Magic::V2, Codec::Zstd, &["d"])).unwrap();
    let answer = Client::to(&broker).ask(2, fetch(&[(0, 3)], 10_000));
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
}

#[test]
fn kafka_6927_a_range_of_nothing_but_markers_is_converted_to_a_filler() {
    let broker = broker(Release::V2_4);
    broker
        .with(|cluster| cluster.reset_log("t", 0, 12).and_then(|()| cluster.store("t", 0, &hex(F21))))
        .unwrap();
    let answer = Client::to(&broker).ask(2, fetch(&[(0, 12)], 10_000));
    assert_eq!(records(&answer, 0), &*hex("ffffffffffffffff0000003d"));
}

#[test]
fn an_old_fetch_below_the_first_batch_gets_its_cut_beginning_unconverted() {
    let broker = broker(Release::V2_4);
    broker.append("t", 0, &hex(F12)).unwrap();
    let answer = Client::to(&broker).ask(0, fetch(&[(0, 0)], 40));
    assert_eq!((records(&answer, 0).len(), records(&answer, 0)[16]), (40, 2));
}

#[test]
fn kip_516_produce_13_names_topics_by_id() {
    let broker = broker(Release::V4_4);
    let mut client = Client::to(&broker);
    let mut request = produce(&hex(F12), 1);
    assert_eq!(outcome(&client.ask(13, request.clone())).0, ErrorCode::UNKNOWN_TOPIC_ID);
    request.topic_data[0].topic_id = client.ask(12, metadata_of("t")).topics[0].topic_id;
    assert_eq!(outcome(&client.ask(13, request)), (ErrorCode::NONE, 0));
}

#[test]
fn every_producer_gets_an_id_of_its_own() {
    let broker = broker(Release::V2_4);
    let request = || InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let mut client = Client::to(&broker);
    let first = client.ask(1, request());
    let second = client.ask(1, request());
    assert!(first.producer_id >= 0 && first.producer_id != second.producer_id);
    assert_eq!(first.producer_epoch, 0);
}

mod numbered {
    //! Idempotent producers (KIP-98).

    use super::super::direct::Direct;
    use super::super::*;
    use downspout::records::{Magic, NewRecord, RecordSetWriter};

    /// Produces two records of producer 7; gives the error code and the base offset.
    fn produce(cluster: &mut Direct, epoch: i16, sequence: i32) -> (i16, i64) {
        let mut set = RecordSetWriter::new(Magic::V2).producer(7, epoch, sequence);
        set.push(NewRecord::value(b"a")).unwrap();
        set.push(NewRecord::value(b"b")).unwrap();
        let partition = ProducePartition { index: 0, records: Some(set.finish().unwrap()) };
        let topic =
            ProduceTopic { name: "t".to_owned(), partition_data: vec![partition], ..Default::default() };
        let request = ProduceRequest { acks: -1, topic_data: vec![topic], ..Default::default() };
        let at = cluster.connect(1);
        let answer = cluster.ask(at, 7, request).responses[0].partition_responses[0].clone();
        (answer.error_code.0, answer.base_offset)
    }

    #[test]
    fn a_batch_that_comes_again_is_stored_once_and_a_gap_is_refused() {
        let mut cluster = Direct::new(Release::V2_4, |_| {});
        assert_eq!(produce(&mut cluster, 0, 0), (0, 0));
        assert_eq!(produce(&mut cluster, 0, 2), (0, 2));
        assert_eq!(produce(&mut cluster, 0, 0), (0, 0));
        assert_eq!(produce(&mut cluster, 0, 6), (45, -1));
        for sequence in [4, 6, 8, 10] {
            assert_eq!(produce(&mut cluster, 0, sequence).0, 0);
        }
        // Five batches are remembered.
        assert_eq!(produce(&mut cluster, 0, 2), (0, 2));
        assert_eq!(produce(&mut cluster, 0, 0), (46, -1));
        assert_eq!(cluster.core.offsets("t", 0).unwrap().end, 12);
    }

    #[test]
    fn a_new_epoch_starts_over_and_fences_the_old_one() {
        let mut cluster = Direct::new(Release::V2_4, |_| {});
        assert_eq!(produce(&mut cluster, 0, 0), (0, 0));
        assert_eq!(produce(&mut cluster, 1, 2), (45, -1));
        assert_eq!(produce(&mut cluster, 1, 0), (0, 2));
        assert_eq!(produce(&mut cluster, 0, 2), (47, -1));
    }

    #[test]
    fn sequence_numbers_turn_over_and_are_forgotten_with_what_is_truncated() {
        let mut cluster = Direct::new(Release::V2_4, |_| {});
        assert_eq!(produce(&mut cluster, 0, i32::MAX - 1), (0, 0));
        assert_eq!(produce(&mut cluster, 0, 0), (0, 2));
        cluster.core.truncate("t", 0, 2).unwrap();
        assert_eq!(produce(&mut cluster, 0, 0), (0, 2));
    }
}
