//! `decode request` and `decode response`: whole frames, every API.

use serde_json::json;

use crate::vectors::vector;
use crate::{Run, downspout, hex};

fn request(name: &str) -> Run {
    downspout(&["decode", "request"], vector(name).as_bytes())
}

fn response(name: &str, api: &str, version: &str) -> Run {
    downspout(&["decode", "response", "--api", api, "--version", version], vector(name).as_bytes())
}

#[test]
fn a_request_says_what_it_is() {
    let run = request("P2");
    assert_eq!(
        run.out,
        concat!(
            r#"{"size":27,"request_api_key":18,"request_api_version":3,"correlation_id":1,"client_id":"ktest","#,
            r#""client_software_name":"ktest","client_software_version":"0.1"}"#,
            "\n"
        )
    );
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn every_known_request_decodes_to_the_last_byte() {
    for name in [
        "P1", "P2", "P8", "P9", "P10", "P11", "P17", "P19", "P21", "P22", "P25", "P27", "P28", "P29", "P31",
        "P32", "P33", "P34",
    ] {
        let run = request(name);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{name}: {}", run.out);
        let frame = &run.lines()[0];
        assert_eq!(frame["client_id"], "ktest", "{name}");
        assert_eq!(frame["size"], hex(vector(name)).len() - 4, "{name}");
    }
}

#[test]
fn every_known_response_decodes_to_the_last_byte() {
    for (name, api, version) in [
        ("P4", "ApiVersions", "0"),
        ("P13", "Metadata", "0"),
        ("P14", "Metadata", "1"),
        ("P15", "metadata", "12"),
        ("P18", "ListOffsets", "0"),
        ("P23", "Fetch", "0"),
        ("P26", "1", "4"),
        ("P35", "ConsumerGroupHeartbeat", "0"),
    ] {
        let run = response(name, api, version);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{name}: {}", run.out);
        assert_eq!(run.lines()[0]["size"], hex(vector(name)).len() - 4, "{name}");
    }
}

#[test]
fn names_values_and_order_are_those_of_the_protocol_guide() {
    let run = response("P15", "Metadata", "12");
    let partition = json!({
        "error_code": 0, "partition_index": 0, "leader_id": 0, "leader_epoch": 5,
        "replica_nodes": [0], "isr_nodes": [0], "offline_replicas": []
    });
    assert_eq!(
        run.lines()[0],
        json!({
            "size": 84, "correlation_id": 2, "throttle_time_ms": 0,
            "brokers": [{"node_id": 0, "host": "h", "port": 9092, "rack": "r"}],
            "cluster_id": "c", "controller_id": 0,
            "topics": [{
                "error_code": 0, "name": "t", "topic_id": "ABEiM0RVZneImaq7zN3u_w", "is_internal": false,
                "partitions": [partition], "topic_authorized_operations": -2_147_483_648_i64
            }]
        })
    );
    let run = response("P26", "Fetch", "4");
    let partition = &run.lines()[0]["responses"][0]["partitions"][0];
    assert_eq!(partition["aborted_transactions"], json!(null));
    assert!(partition["records"]["base64"].is_string(), "{partition}");
}

#[test]
fn p6_the_answer_to_an_unknown_version_of_api_versions_is_in_version_0() {
    for version in ["0", "3", "4"] {
        let run = response("P6", "ApiVersions", version);
        assert_eq!(
            run.out, "{\"size\":10,\"correlation_id\":1,\"error_code\":35,\"api_keys\":[]}\n",
            "{version}"
        );
    }
}

#[test]
fn what_was_named_must_be_what_the_header_says() {
    let run =
        downspout(&["decode", "request", "--api", "Fetch", "--version", "12"], vector("P27").as_bytes());
    assert_eq!(run.code, 0);
    let run = downspout(&["decode", "request", "--api", "Metadata"], vector("P27").as_bytes());
    assert_eq!(run.code, 1);
    assert_eq!(run.lines()[0]["field"], "request_api_key");
    let run = downspout(&["decode", "request", "--version", "11"], vector("P27").as_bytes());
    assert_eq!((run.code, &run.lines()[0]["position"]), (1, &json!(6)));
}

#[test]
fn a_bad_frame_is_told_by_field_and_position_in_the_whole_frame() {
    let cut = &hex(vector("P27"))[..40];
    let run = downspout(&["decode", "request"], cut);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.out,
        "{\"error\":\"size at byte 0 declares a length of 82, but 36 bytes are left\",\"field\":\"size\",\"position\":0}\n"
    );
    let mut frame = hex(vector("P13"));
    frame[8..12].copy_from_slice(&1000i32.to_be_bytes());
    let run = downspout(&["decode", "response", "--api", "metadata", "--version", "0"], &frame);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let error = &run.lines()[0];
    assert_eq!(error["field"], "brokers");
    assert_eq!(error["position"], 12);
}

#[test]
fn any_cut_or_flipped_frame_ends_with_0_or_1() {
    let frame = hex(vector("P15"));
    for at in 0..frame.len() {
        let mut bad = frame.clone();
        bad[at] ^= 0x81;
        for input in [&frame[..at], &bad] {
            let args = ["decode", "response", "--api", "metadata", "--version", "12", "--input", "binary"];
            let run = downspout(&args, input);
            assert!(matches!(run.code, 0 | 1), "at {at}: {} {}", run.code, run.err);
            assert_eq!(run.code == 1, run.lines()[0].get("error").is_some(), "at {at}");
        }
    }
}
