//! Whole frames with known contents: read, looked at, and written back to the same bytes.
//!
//! Made from Kafka's definitions; all but four of them also read and written back by kafka-python.

use bytes::Bytes;
use downspout::protocol::*;
use downspout::wire::Uuid;

const TOPIC_ID: Uuid = Uuid(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());

/// Bytes from hexadecimal digits; blanks between them are for the reader.
pub(crate) fn hex(text: &str) -> Bytes {
    let digits: Vec<u32> = text.chars().filter(|c| *c != ' ').map(|c| c.to_digit(16).unwrap()).collect();
    assert!(digits.len().is_multiple_of(2), "{text}");
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Cuts off the 4-byte size, after checking it.
fn body(frame: &Bytes) -> Bytes {
    assert_eq!(i32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    frame.slice(4..)
}

/// A seed for the fuzzers: `fuzz/seeds/<target>/p27-12`. `DOWNSPOUT_REWRITE=1` writes it anew.
fn seed(target: &str, key: ApiKey, version: i16, rest: &[u8]) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let vector = test.rsplit("::").next().unwrap().split('_').next().unwrap().to_owned();
    let folder = format!("{}/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let file = format!("{folder}/{vector}-{version}");
    let seed = [&[key.0 as u8, version as u8], rest].concat();
    if std::env::var_os("DOWNSPOUT_REWRITE").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&file, &seed).unwrap();
    }
    assert_eq!(std::fs::read(&file).unwrap(), seed, "run it again with DOWNSPOUT_REWRITE=1");
}

/// Reads a request both ways, by its type and by its header, and writes it back both ways.
fn request<R: Request + 'static>(version: i16, correlation_id: i32, text: &str) -> R {
    let bytes = hex(text);
    let (header, request) = decode_request::<R>(&body(&bytes)).unwrap();
    let expected = RequestHeader {
        request_api_key: R::KEY,
        request_api_version: version,
        correlation_id,
        client_id: Some("ktest".into()),
    };
    assert_eq!(header, expected);
    assert_eq!(encode_request(&request, version, correlation_id, "ktest").unwrap(), bytes);
    let any = any::decode_request(&body(&bytes)).unwrap();
    assert_eq!(any.header, expected);
    assert_eq!(any.message.downcast_ref::<R>(), Some(&request));
    assert!(bytes.ends_with(&any.message.encode().unwrap()));
    seed("requests", R::KEY, version, &any.message.encode().unwrap());
    request
}

/// As [`request`], for a response to `asked` that is in the layout of `version`.
fn response<R: Request>(asked: i16, version: i16, correlation_id: i32, text: &str) -> R::Response
where
    R::Response: 'static,
{
    let bytes = hex(text);
    let (found, response) = decode_response::<R>(&body(&bytes), asked).unwrap();
    assert_eq!(found, correlation_id);
    assert_eq!(encode_response::<R>(&response, version, correlation_id).unwrap(), bytes);
    let any = any::decode_response(R::KEY, asked, &body(&bytes)).unwrap();
    assert_eq!((any.correlation_id, any.message.version().number), (correlation_id, version));
    assert_eq!(any.message.downcast_ref::<R::Response>(), Some(&response));
    assert!(bytes.ends_with(&any.message.encode().unwrap()));
    seed("responses", R::KEY, asked, &body(&bytes));
    response
}

#[test]
fn p1_api_versions_request_0() {
    let read: ApiVersionsRequest = request(0, 1, "0000000f001200000000000100056b74657374");
    assert_eq!(read, ApiVersionsRequest::default());
}

#[test]
fn p2_api_versions_request_3() {
    let read: ApiVersionsRequest =
        request(3, 1, "0000001b001200030000000100056b7465737400066b7465737404302e3100");
    assert_eq!((&*read.client_software_name, &*read.client_software_version), ("ktest", "0.1"));
}

#[test]
fn p4_api_versions_response_0() {
    let text = "0000001600000001000000000002000100000002001200000000";
    let read = response::<ApiVersionsRequest>(0, 0, 1, text);
    let range = |api_key, min_version, max_version| ApiVersionRange { api_key, min_version, max_version };
    assert_eq!(read.api_keys, [range(1, 0, 2), range(18, 0, 0)]);
}

#[test]
fn p6_api_versions_response_0_to_a_version_that_the_broker_does_not_know() {
    let text = "0000000a00000001002300000000";
    for asked in 0..=5 {
        let read = response::<ApiVersionsRequest>(asked, 0, 1, text);
        assert_eq!((read.error_code, read.api_keys.len()), (ErrorCode::UNSUPPORTED_VERSION, 0));
    }
}

#[test]
fn p8_metadata_request_0_for_all_topics() {
    let read: MetadataRequest = request(0, 2, "00000013000300000000000200056b7465737400000000");
    assert_eq!(read.topics, Some(vec![]));
}

#[test]
fn p9_metadata_request_1_for_all_topics() {
    let read: MetadataRequest = request(1, 2, "00000013000300010000000200056b74657374ffffffff");
    assert_eq!(read.topics, None);
}

#[test]
fn p10_metadata_request_4_for_one_topic_without_creating_it() {
    let read: MetadataRequest = request(4, 2, "00000017000300040000000200056b746573740000000100017400");
    assert_eq!(read.topics.unwrap()[0].name.as_deref(), Some("t"));
    assert!(!read.allow_auto_topic_creation);
}

#[test]
fn p11_metadata_request_9_for_one_topic() {
    let read: MetadataRequest = request(9, 2, "00000018000300090000000200056b74657374000202740000000000");
    assert_eq!(read.topics.unwrap()[0].name.as_deref(), Some("t"));
    assert!(!read.allow_auto_topic_creation && !read.include_topic_authorized_operations);
}

#[test]
fn p13_metadata_response_0() {
    let text = "0000003e0000000200000001000000000001680000238400000001000000017400000001000900000000000000000000000200000000000000010000000100000000";
    let read = response::<MetadataRequest>(0, 0, 2, text);
    assert_eq!((read.brokers[0].node_id, &*read.brokers[0].host, read.brokers[0].port), (0, "h", 9092));
    let partition = &read.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id), (ErrorCode::REPLICA_NOT_AVAILABLE, 0));
    assert_eq!((&partition.replica_nodes[..], &partition.isr_nodes[..]), (&[0, 1][..], &[0][..]));
}

#[test]
fn p14_metadata_response_1() {
    let text = "0000004100000002000000010000000000016800002384ffff0000000000000001000000017400000000010000000000000000000000000001000000000000000100000000";
    let read = response::<MetadataRequest>(1, 1, 2, text);
    assert_eq!((read.controller_id, &read.brokers[0].rack, read.topics[0].is_internal), (0, &None, false));
}

#[test]
fn p15_metadata_response_12() {
    let text = "000000540000000200000000000200000000026800002384027200026300000000020000027400112233445566778899aabbccddeeff00020000000000000000000000000005020000000002000000000100800000000000";
    let read = response::<MetadataRequest>(12, 12, 2, text);
    assert_eq!((read.cluster_id.as_deref(), read.brokers[0].rack.as_deref()), (Some("c"), Some("r")));
    assert_eq!((read.topics[0].name.as_deref(), read.topics[0].topic_id), (Some("t"), TOPIC_ID));
    assert_eq!(read.topics[0].partitions[0].leader_epoch, 5);
    assert_eq!(read.topics[0].topic_authorized_operations, i32::MIN);
}

#[test]
fn p17_list_offsets_request_0() {
    let text = "0000002e000200000000000300056b74657374ffffffff000000010001740000000100000000ffffffffffffffff00000002";
    let read: ListOffsetsRequest = request(0, 3, text);
    let partition = &read.topics[0].partitions[0];
    assert_eq!((read.replica_id, partition.timestamp, partition.max_num_offsets), (-1, -1, 2));
}

#[test]
fn p18_list_offsets_response_0() {
    let text = "0000002900000003000000010001740000000100000000000000000002000000000000002a0000000000000000";
    let read = response::<ListOffsetsRequest>(0, 0, 3, text);
    assert_eq!(read.topics[0].partitions[0].old_style_offsets, [42, 0]);
}

#[test]
fn p19_list_offsets_request_1() {
    let text = "0000002a000200010000000300056b74657374ffffffff000000010001740000000100000000fffffffffffffffe";
    let read: ListOffsetsRequest = request(1, 3, text);
    assert_eq!(read.topics[0].partitions[0].timestamp, -2);
}

#[test]
fn p21_list_offsets_request_7() {
    let text =
        "0000002c000200070000000300056b7465737400ffffffff01020274020000000000000005fffffffffffffffd000000";
    let read: ListOffsetsRequest = request(7, 3, text);
    let partition = &read.topics[0].partitions[0];
    assert_eq!((read.isolation_level, partition.current_leader_epoch, partition.timestamp), (1, 5, -3));
}

#[test]
fn p22_fetch_request_0() {
    let text = "00000036000100000000000400056b74657374ffffffff000001f400000001000000010001740000000100000000000000000000000000100000";
    let read: FetchRequest = request(0, 4, text);
    assert_eq!((read.replica_id, read.max_wait_ms, read.min_bytes), (-1, 500, 1));
    assert_eq!(read.topics[0].topic, "t");
    assert_eq!(read.topics[0].partitions[0].partition_max_bytes, 1 << 20);
}

#[test]
fn p23_fetch_response_0() {
    let text = "0000003e00000004000000010001740000000100000000000000000000000000010000001d000000000000000000000011feb01dbf0000ffffffff00000003313233";
    let read = response::<FetchRequest>(0, 0, 4, text);
    let partition = &read.responses[0].partitions[0];
    assert_eq!(partition.high_watermark, 1);
    assert!(partition.records.as_ref().unwrap().ends_with(b"123"));
}

#[test]
fn p25_fetch_request_4() {
    let text = "0000003b000100040000000400056b74657374ffffffff000001f4000000010320000001000000010001740000000100000000000000000000000000100000";
    let read: FetchRequest = request(4, 4, text);
    assert_eq!((read.max_bytes, read.isolation_level), (0x0320_0000, 1));
}

#[test]
fn p26_fetch_response_4_with_null_aborted_transactions() {
    let text = "000000780000000400000000000000010001740000000100000000000000000000000000010000000000000001ffffffff0000004700000000000000000000003b00000001020318a2700000000000000000015dff7b063c0000015dff7b063cffffffffffffffffffffffffffff0000000112000000010631323300";
    let read = response::<FetchRequest>(4, 4, 4, text);
    let partition = &read.responses[0].partitions[0];
    assert_eq!((partition.last_stable_offset, &partition.aborted_transactions), (1, &None));
    assert_eq!(partition.records.as_ref().unwrap().len(), 71);
}

#[test]
fn p27_fetch_request_12() {
    let text = "000000520001000c0000000400056b7465737400ffffffff000001f400000001032000000000000000ffffffff0202740200000000000000050000000000000000ffffffffffffffffffffffff001000000000010100";
    let read: FetchRequest = request(12, 4, text);
    let partition = &read.topics[0].partitions[0];
    assert_eq!((partition.current_leader_epoch, partition.last_fetched_epoch), (5, -1));
    assert_eq!((read.session_id, read.session_epoch), (0, -1));
}

#[test]
fn p28_fetch_request_13() {
    let text = "000000600001000d0000000400056b7465737400ffffffff000001f400000001032000000000000000ffffffff0200112233445566778899aabbccddeeff0200000000000000050000000000000000ffffffffffffffffffffffff001000000000010100";
    let read: FetchRequest = request(13, 4, text);
    assert_eq!((&*read.topics[0].topic, read.topics[0].topic_id), ("", TOPIC_ID));
}

#[test]
fn p29_fetch_request_17() {
    let text = "0000005c000100110000000400056b7465737400000001f400000001032000000000000000ffffffff0200112233445566778899aabbccddeeff0200000000000000050000000000000000ffffffffffffffffffffffff001000000000010100";
    let read: FetchRequest = request(17, 4, text);
    assert_eq!((read.replica_id, &read.replica_state), (-1, &ReplicaState::default()));
}

#[test]
fn p31_offset_for_leader_epoch_request_3() {
    let text = "0000002a001700030000000500056b74657374ffffffff0000000100017400000001000000000000000500000004";
    let read: OffsetForLeaderEpochRequest = request(3, 5, text);
    let partition = &read.topics[0].partitions[0];
    assert_eq!((read.replica_id, partition.current_leader_epoch, partition.leader_epoch), (-1, 5, 4));
}

#[test]
fn p32_sasl_handshake_request_1() {
    let read: SaslHandshakeRequest = request(1, 6, "00000016001100010000000600056b746573740005504c41494e");
    assert_eq!(read.mechanism, "PLAIN");
}

#[test]
fn p33_sasl_authenticate_request_2() {
    let read: SaslAuthenticateRequest = request(2, 7, "00000016002400020000000700056b7465737400050075007000");
    assert_eq!(&read.auth_bytes[..], b"\0u\0p");
}

#[test]
fn p34_find_coordinator_request_4() {
    let read: FindCoordinatorRequest = request(4, 8, "00000015000a00040000000800056b74657374000002026700");
    assert_eq!((read.key_type, &read.coordinator_keys[..]), (0, &["g".to_owned()][..]));
}

#[test]
fn p35_consumer_group_heartbeat_response_0_with_a_null_assignment() {
    let text = "00000018000000090000000000000000026d0000000100001388ff00";
    let read = response::<ConsumerGroupHeartbeatRequest>(0, 0, 9, text);
    assert_eq!((read.member_id.as_deref(), read.member_epoch), (Some("m"), 1));
    assert_eq!((read.heartbeat_interval_ms, read.assignment), (5000, None));
}
