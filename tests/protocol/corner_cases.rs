//! What brokers and clients got wrong once, as a rule each. Numbers and letters are those of the
//! project's lists of cases.

use bytes::Bytes;
use downspout::protocol::*;
use downspout::wire::{DecodeError, Problem};

use crate::vectors::hex;

/// A response body behind a correlation id of 7.
fn answer(body: &[u8]) -> Bytes {
    [&7i32.to_be_bytes(), body].concat().into()
}

fn api_versions(asked: i16, body: &[u8]) -> Result<ApiVersionsResponse, DecodeError> {
    decode_response::<ApiVersionsRequest>(&answer(body), asked).map(|(_, response)| response)
}

#[test]
fn case_43_an_api_versions_response_has_no_tag_buffer_in_its_header() {
    for version in 3..=5 {
        // Error 0, one entry (compact count 2), no throttling, no tags: right after the correlation id.
        let response = api_versions(version, &hex("0000 02 0012 0000 0005 00 00000000 00")).unwrap();
        assert_eq!(response.api_keys.len(), 1, "version {version}");
        let bytes = encode_response::<ApiVersionsRequest>(&response, version, 7).unwrap();
        assert_eq!(&bytes[8..], &hex("0000 02 0012 0000 0005 00 00000000 00")[..]);
    }
    // Every other flexible response has one.
    let response = HeartbeatResponse::default();
    let bytes = encode_response::<HeartbeatRequest>(&response, 4, 7).unwrap();
    assert_eq!(&bytes[4..], &hex("00000007 00 00000000 0000 00")[..]);
}

#[test]
fn case_44_error_35_comes_in_version_0_whatever_was_asked() {
    for asked in 0..=5 {
        // From 2.4 on the answer lists ApiVersions itself, with the range to choose from (KIP-511).
        let response = api_versions(asked, &hex("0023 00000001 0012 0000 0004")).unwrap();
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
        assert_eq!(response.api_keys, [ApiVersionRange { api_key: 18, min_version: 0, max_version: 4 }]);
        // Older ones list nothing.
        assert!(api_versions(asked, &hex("002300000000")).unwrap().api_keys.is_empty());
    }
}

#[test]
fn case_78_other_errors_come_in_the_version_asked_for() {
    for error in [ErrorCode::INVALID_REQUEST, ErrorCode::REBOOTSTRAP_REQUIRED] {
        let body = [&error.0.to_be_bytes()[..], &hex("010000000000")].concat();
        assert_eq!(api_versions(3, &body).unwrap().error_code, error);
        assert!(api_versions(0, &body).is_err());
    }
}

#[test]
fn case_45_unknown_tagged_fields_are_skipped_by_their_size() {
    // Tag 0 with a known feature, then tag 99 with three bytes that nobody knows.
    let known = hex("0000 01 00000000 02 0008 02 0266 0001 0003 00 63 03 616263");
    let response = api_versions(3, &known).unwrap();
    let feature = &response.supported_features[0];
    assert_eq!((&*feature.name, feature.min_version, feature.max_version), ("f", 1, 3));

    // In a header as well.
    let heartbeat = hex("01 07 02 abcd 00000000 001b 01 05 00");
    let (_, response) = decode_response::<HeartbeatRequest>(&answer(&heartbeat), 4).unwrap();
    assert_eq!(response.error_code, ErrorCode::REBALANCE_IN_PROGRESS);

    // A size above what is left is an error, and a known tag fills its size exactly.
    assert!(api_versions(3, &hex("0000 01 00000000 01 63 7f 616263")).is_err());
    let long = hex("0000 01 00000000 01 01 09 0000000000000001 ff");
    let problem = api_versions(3, &long).unwrap_err();
    assert_eq!(
        (problem.field, problem.problem),
        ("finalized_features_epoch", Problem::Trailing { bytes: 1 })
    );
}

#[test]
fn case_54_all_topics_and_no_topics_are_said_differently_in_metadata_0() {
    let none = MetadataRequest { topics: Some(vec![]), ..Default::default() };
    let all = MetadataRequest { topics: None, ..Default::default() };
    let body = |request: &MetadataRequest, version| {
        encode_request(request, version, 1, "c").map(|frame| frame.slice(15..))
    };
    // Version 0 has one way, which means all; it cannot say null.
    assert_eq!(&body(&none, 0).unwrap()[..], [0, 0, 0, 0]);
    let error = body(&all, 0).unwrap_err();
    assert_eq!(error.to_string(), "topics is null, but version 0 of the message has no null for it");
    for version in 1..=8 {
        assert!(body(&none, version).unwrap().starts_with(&[0, 0, 0, 0]), "version {version}");
        assert!(body(&all, version).unwrap().starts_with(&[0xff; 4]), "version {version}");
    }
    for version in 9..=13 {
        // The header's empty tag buffer, then the compact count.
        assert!(body(&none, version).unwrap().starts_with(&[0, 1]), "version {version}");
        assert!(body(&all, version).unwrap().starts_with(&[0, 0]), "version {version}");
    }
    let null = hex("0003000000000001000163ffffffff");
    let error = decode_request::<MetadataRequest>(&null).unwrap_err();
    assert_eq!((error.field, error.problem), ("topics", Problem::Null));
}

#[test]
fn case_59_list_offsets_0_answers_with_as_many_offsets_as_there_are() {
    let with = |offsets: &[i64]| {
        let mut body = hex("00000001 0001 74 00000001 00000000 0000").to_vec();
        body.extend((offsets.len() as i32).to_be_bytes());
        body.extend(offsets.iter().flat_map(|offset| offset.to_be_bytes()));
        let (_, mut response) = decode_response::<ListOffsetsRequest>(&answer(&body), 0).unwrap();
        response.topics.remove(0).partitions.remove(0)
    };
    for offsets in [&[42, 0][..], &[42], &[]] {
        let partition = with(offsets);
        assert_eq!(partition.old_style_offsets, offsets);
        assert_eq!((partition.offset, partition.timestamp), (-1, -1), "not in this version");
    }
}

#[test]
fn case_11_null_records_and_null_aborted_transactions_are_no_error() {
    let body = hex(
        "00000000 00000001 0001 74 00000001 00000000 0000 0000000000000001 0000000000000001 ffffffff ffffffff",
    );
    let (_, response) = decode_response::<FetchRequest>(&answer(&body), 4).unwrap();
    let partition = &response.responses[0].partitions[0];
    assert_eq!((&partition.aborted_transactions, &partition.records), (&None, &None));
}

#[test]
fn a_null_where_the_version_has_none_names_the_field() {
    // A broker's host.
    let body = hex("00000001 00000000 ffff 00002384");
    let error = decode_response::<MetadataRequest>(&answer(&body), 0).unwrap_err();
    assert_eq!(error.to_string(), "host at byte 14 is null where null is not allowed");
    // A topic's name, which may be null from version 12 on only.
    let topic = |version| {
        let body = hex("00 00000000 01 00 ffffffff 02 0003 00");
        let rest = match version {
            12 => hex("00112233445566778899aabbccddeeff 00 01 80000000 00 00"),
            _ => hex("00112233445566778899aabbccddeeff 00 01 80000000 00 80000000 00"),
        };
        let body = [&body[..], &rest].concat();
        decode_response::<MetadataRequest>(&answer(&body), version).map(|(_, response)| response)
    };
    assert_eq!(topic(12).unwrap().topics[0].name, None);
    let error = topic(10).unwrap_err();
    assert_eq!((error.field, error.problem), ("name", Problem::Null));
}

#[test]
fn g1_g3_a_count_that_cannot_be_there_is_refused_before_memory_is_set_aside() {
    // Eight bytes: a correlation id and a count of two thousand million.
    for count in [i32::MAX, 1_000_000, 2] {
        let error = decode_response::<MetadataRequest>(&answer(&count.to_be_bytes()), 0).unwrap_err();
        let problem = Problem::Length { declared: count.into(), left: 0 };
        assert_eq!((error.field, error.problem), ("brokers", problem));
    }
    // A broker takes ten bytes at least: two of them do not fit in nineteen.
    let mut body = 2i32.to_be_bytes().to_vec();
    body.extend([0; 19]);
    let error = decode_response::<MetadataRequest>(&answer(&body), 0).unwrap_err();
    assert_eq!(error.to_string(), "brokers at byte 8 declares a length of 2, but 19 bytes are left");
    // Compact counts of a flexible version.
    let error = decode_response::<ListGroupsRequest>(&answer(&hex("00000000000000ffffffff0f")), 3);
    let problem = Problem::Length { declared: i64::from(u32::MAX) - 1, left: 0 };
    assert_eq!(error.unwrap_err().problem, problem);
}

#[test]
fn g4_lengths_that_cannot_be_are_errors_with_the_field_and_the_byte() {
    let table: &[(i16, &str, &str)] = &[
        // Heartbeat: ErrorCode missing.
        (0, "", "error_code at byte 4 needs 2 bytes, but 0 are left"),
        (0, "00", "error_code at byte 4 needs 2 bytes, but 1 are left"),
        (0, "000000", "HeartbeatResponse at byte 6 is followed by 1 bytes that belong to nothing"),
        (4, "", "_tagged_fields at byte 4 needs 1 bytes, but 0 are left"),
        (4, "ffffffffff", "_tagged_fields at byte 4 is a varint without an end"),
        (4, "ffffffff10", "_tagged_fields at byte 4 is a varint without an end"),
        (4, "000000000000000200010000", "_tagged_fields at byte 16 is 0, expected tags in ascending order"),
        (4, "0000000000000001000561", "_tagged_fields at byte 14 needs 5 bytes, but 1 are left"),
        (4, "00000000000000ffffffff0f", "_tagged_fields at byte 16 needs 1 bytes, but 0 are left"),
    ];
    for (version, body, expected) in table {
        let error = decode_response::<HeartbeatRequest>(&answer(&hex(body)), *version).unwrap_err();
        assert_eq!(error.to_string(), *expected, "{body}");
    }
    let handshake: &[(&str, &str)] = &[
        ("000000000001fffe", "mechanisms at byte 12 declares a negative length, -2 (0 bytes are left)"),
        ("0000fffffffe", "mechanisms at byte 10 declares a negative length, -2 (0 bytes are left)"),
        ("0000ffffffff", "mechanisms at byte 10 is null where null is not allowed"),
        ("00000000000100056162", "mechanisms at byte 12 declares a length of 5, but 2 bytes are left"),
        ("0000000000010002fffe", "mechanisms at byte 12 is not UTF-8"),
    ];
    for (body, expected) in handshake {
        let error = decode_response::<SaslHandshakeRequest>(&answer(&hex(body)), 1).unwrap_err();
        let found = error.to_string();
        assert_eq!(found, *expected, "{body}");
    }
}

#[test]
fn a_version_or_an_api_that_nobody_knows_is_an_error() {
    let frame = hex("0001 0063 00000001 0001 63");
    let error = any::decode_request(&frame).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request_api_version at byte 2 is 99, expected a version that this crate speaks"
    );
    assert_eq!(decode_request::<FetchRequest>(&frame).unwrap_err(), error);
    assert!(decode_response::<FetchRequest>(&frame, -1).is_err());
    assert!(encode_request(&FetchRequest::default(), 19, 1, "c").is_err());
    let frame = hex("7fff 0000 00000001 0001 63");
    let error = any::decode_request(&frame).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request_api_key at byte 0 is 32767, expected an API that this crate speaks"
    );
}

#[test]
fn a_value_that_a_version_cannot_carry_is_an_error_unless_it_is_ignorable() {
    let mut request = ListOffsetsRequest { isolation_level: 1, ..Default::default() };
    let error = encode_request(&request, 1, 1, "c").unwrap_err();
    assert_eq!(error.to_string(), "isolation_level is set, but version 1 of the message cannot carry it");
    request.isolation_level = 0;
    request.timeout_ms = 500;
    assert!(encode_request(&request, 1, 1, "c").is_ok(), "ignorable");
}
