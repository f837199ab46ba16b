//! `decode records`: every format and codec, damage, and inputs made to hurt.

use serde_json::{Value, json};

use crate::vectors::{RECORD_SETS, vector};
use crate::{Run, downspout, hex};

fn decode(input: &[u8]) -> Run {
    downspout(&["decode", "records"], input)
}

/// The records and the last line of a sound set.
fn sound(input: &[u8]) -> (Vec<Value>, Value) {
    let run = decode(input);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let mut lines = run.lines();
    let last = lines.pop().unwrap();
    (lines, last)
}

fn pick(record: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| record[name].clone()).collect()
}

#[test]
fn a_record_line_has_its_fields_in_order() {
    let run = decode(vector("F12").as_bytes());
    assert_eq!(
        run.out,
        concat!(
            r#"{"offset":10,"timestamp":1000,"timestamp_type":"CreateTime","key":null,"value":"a","headers":[],"#,
            r#""magic":2,"codec":"none","transactional":false,"producer_id":null}"#,
            "\n",
            r#"{"offset":11,"timestamp":1001,"timestamp_type":"CreateTime","key":null,"value":"b","headers":[],"#,
            r#""magic":2,"codec":"none","transactional":false,"producer_id":null}"#,
            "\n",
            r#"{"next_offset":12,"partial_bytes":0}"#,
            "\n"
        )
    );
}

#[test]
fn every_format_and_codec_gives_the_same_records() {
    for (name, magic, codec) in [
        ("F01", 0, "none"),
        ("F02", 0, "gzip"),
        ("F03", 0, "snappy"),
        ("F04", 0, "snappy"),
        ("F05", 0, "lz4"),
        ("F07", 1, "gzip"),
        ("F11", 1, "lz4"),
        ("F12", 2, "none"),
        ("F13", 2, "gzip"),
        ("F14", 2, "snappy"),
        ("F16", 2, "lz4"),
        ("F17", 2, "zstd"),
    ] {
        let (records, last) = sound(vector(name).as_bytes());
        assert_eq!(last, json!({"next_offset": 12, "partial_bytes": 0}), "{name}");
        assert_eq!(records.len(), 2, "{name}");
        for (i, (record, value)) in records.iter().zip(["a", "b"]).enumerate() {
            assert_eq!(record["offset"], 10 + i, "{name}");
            assert_eq!(record["value"], value, "{name}");
            assert_eq!(record["magic"], magic, "{name}");
            assert_eq!(record["codec"], codec, "{name}");
            let timestamp = if magic == 0 { Value::Null } else { json!(1000 + i) };
            assert_eq!(record["timestamp"], timestamp, "{name}");
            let kind = if magic == 0 { Value::Null } else { json!("CreateTime") };
            assert_eq!(record["timestamp_type"], kind, "{name}");
        }
    }
}

#[test]
fn hex_and_binary_are_told_apart() {
    for (name, text) in RECORD_SETS {
        let from_hex = decode(text.as_bytes());
        let from_binary = decode(&hex(text));
        assert_eq!((from_hex.code, from_hex.out), (from_binary.code, from_binary.out), "{name}");
    }
    let spaced: String =
        vector("F12").as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two) + " ").collect();
    assert_eq!(decode(format!("0x{spaced}\n").as_bytes()).code, 0);
    let odd = decode(b"000");
    assert_eq!(odd.code, 2);
    assert!(odd.err.contains("odd number of digits"), "{}", odd.err);
    let said = downspout(&["decode", "records", "--input", "hex"], b"00 zz");
    assert_eq!(said.code, 2);
    assert!(said.err.contains("the character at byte 3 is no hex digit"), "{}", said.err);
}

#[test]
fn log_append_time_is_the_wrappers_or_the_batchs() {
    for name in ["F08", "F24"] {
        let (records, _) = sound(vector(name).as_bytes());
        for record in records {
            assert_eq!(
                pick(&record, &["timestamp", "timestamp_type"]),
                json!([5000, "LogAppendTime"]),
                "{name}"
            );
        }
    }
}

#[test]
fn keys_headers_null_and_empty() {
    let (records, _) = sound(vector("F06").as_bytes());
    assert_eq!(pick(&records[0], &["offset", "key", "value"]), json!([10, "k", "a"]));
    let (records, _) = sound(vector("F27").as_bytes());
    assert_eq!(
        records[0]["headers"],
        json!([{"key": "h1", "value": null}, {"key": "h2", "value": ""}, {"key": "h1", "value": "x"}])
    );
}

#[test]
fn case_13_an_empty_batch_still_moves_the_position() {
    assert_eq!(sound(vector("F19").as_bytes()), (vec![], json!({"next_offset": 15, "partial_bytes": 0})));
}

#[test]
fn control_records_are_shown_with_their_type() {
    for (name, kind) in [("F21", "abort"), ("F22", "commit")] {
        let (records, last) = sound(vector(name).as_bytes());
        assert_eq!(records.len(), 1, "{name}");
        let names = ["offset", "control", "transactional", "producer_id"];
        assert_eq!(pick(&records[0], &names), json!([12, kind, true, 7]), "{name}");
        assert_eq!(last["next_offset"], 13, "{name}");
    }
    let (records, _) = sound(vector("F23").as_bytes());
    assert_eq!(pick(&records[1], &["transactional", "producer_id", "control"]), json!([true, 7, null]));
}

#[test]
fn formats_may_be_mixed_in_one_set() {
    let (records, last) = sound(vector("F29").as_bytes());
    let magics: Vec<_> = records.iter().map(|record| record["magic"].as_i64().unwrap()).collect();
    assert_eq!(magics, [0, 1, 2]);
    assert_eq!(last, json!({"next_offset": 13, "partial_bytes": 0}));
}

#[test]
fn a_cut_last_entry_is_no_damage() {
    let (records, last) = sound(vector("F30").as_bytes());
    assert_eq!(records.len(), 1);
    assert_eq!(last, json!({"next_offset": 11, "partial_bytes": 16}));
    assert_eq!(sound(b""), (vec![], json!({"next_offset": null, "partial_bytes": 0})));
    assert_eq!(sound(&[0; 11]).1, json!({"next_offset": null, "partial_bytes": 11}));
    for cut in 0..hex(vector("F12")).len() {
        let (records, last) = sound(&hex(vector("F12"))[..cut]);
        assert_eq!((records, last), (vec![], json!({"next_offset": null, "partial_bytes": cut})));
    }
}

#[test]
fn damage_is_told_after_the_good_records() {
    let mut set = hex(vector("F12"));
    set.extend(hex(vector("F12")));
    let value = set.len() - 2;
    set[value] ^= 1;
    let run = decode(&set);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let lines = run.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["offset"], 11);
    assert_eq!(pick(&lines[2], &["field", "position", "offset"]), json!(["crc", 77 + 17, 10]));
    assert!(lines[2]["error"].as_str().unwrap().contains("checksum"), "{}", lines[2]);
}

#[test]
fn a_flipped_bit_anywhere_ends_with_0_or_1() {
    for name in ["F01", "F07", "F13", "F17", "F27", "F29"] {
        let sound = hex(vector(name));
        for at in 0..sound.len() {
            let mut set = sound.clone();
            set[at] ^= 1 << (at % 8);
            let run = downspout(&["decode", "records", "--input", "binary"], &set);
            assert!(matches!(run.code, 0 | 1), "{name} at {at}: {} {}", run.code, run.err);
            assert_eq!(run.err, "", "{name} at {at}");
            let last = run.lines().pop().unwrap();
            assert_eq!(run.code == 1, last.get("error").is_some(), "{name} at {at}: {last}");
        }
    }
}

#[test]
fn a_segment_set_aside_before_it_was_written_ends_in_zeros() {
    let mut segment = hex(vector("F12"));
    segment.resize(segment.len() + 3_000_000, 0);
    let (records, last) = sound(&segment);
    assert_eq!(records.len(), 2);
    assert_eq!(last, json!({"next_offset": 12, "partial_bytes": 3_000_000}));
}

#[test]
fn a_segment_larger_than_what_is_looked_at_together_has_no_seams() {
    let batch = hex(vector("F12"));
    let batches = (9 << 20) / batch.len();
    let file =
        std::env::temp_dir().join(format!("downspout-{}-00000000000000000000.log", std::process::id()));
    std::fs::write(&file, batch.repeat(batches)).unwrap();
    let run = downspout(&["decode", "records", file.to_str().unwrap()], b"");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run.code, 0);
    assert_eq!(run.out.lines().count(), 2 * batches + 1);
}

#[test]
fn bytes_can_be_had_as_base64_or_hex() {
    let run = downspout(&["decode", "records", "--bytes", "hex"], vector("F06").as_bytes());
    assert_eq!(run.lines()[0]["value"], json!({"hex": "61"}));
    let run = downspout(&["decode", "records", "--bytes", "base64"], vector("F06").as_bytes());
    assert_eq!(run.lines()[0]["key"], json!({"base64": "aw=="}));
}
