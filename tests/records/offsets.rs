//! Which offsets records get, which are skipped, and where to go on.

use downspout::records::{Codec, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

use crate::support::{OddBatch, hex, message, pairs, read, read_all, record_bytes, set, values, varint};
use crate::vectors::{F, F22_COMMIT, f};

fn wrapper(magic: Magic, offset: i64, inner: &[Vec<u8>]) -> RecordSet {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&inner.concat()).unwrap();
    let value = encoder.finish().unwrap();
    RecordSet::new(message(magic, offset, 1, 2000, None, Some(&value)).into())
}

fn inner(magic: Magic, offset: i64, value: &str) -> Vec<u8> {
    message(magic, offset, 0, offset.wrapping_add(1000), None, Some(value.as_bytes()))
}

#[test]
fn case_13_d3_records_below_the_asked_offset_are_skipped_in_every_format() {
    for (name, bytes) in F {
        let options = ReadOptions { from_offset: 11, ..ReadOptions::default() };
        let (records, errors, next) = read_all(&set(bytes), options);
        let offsets: Vec<_> = records.iter().map(|record| record.offset).collect();
        assert_eq!((offsets, errors, next), (vec![11], vec![], Some(12)), "{name}");
    }
}

#[test]
fn case_14_relative_offsets_of_magic_1() {
    assert_eq!(values(&f("f07")), pairs(&[(10, "a"), (11, "b")]));
}

#[test]
fn case_15_case_68_compacted_wrappers_count_from_the_last_inner_offset() {
    let compacted = wrapper(Magic::V1, 23, &[inner(Magic::V1, 0, "a"), inner(Magic::V1, 3, "b")]);
    assert_eq!(values(&compacted), pairs(&[(20, "a"), (23, "b")]));
    let renumbered: Vec<_> = [0, 3, 6, 9].map(|offset| inner(Magic::V1, offset, "v")).into();
    let offsets: Vec<_> = read(&wrapper(Magic::V1, 5011, &renumbered)).iter().map(|r| r.offset).collect();
    assert_eq!(offsets, [5002, 5005, 5008, 5011]);
}

#[test]
fn case_16_the_offsets_in_a_magic_0_wrapper_are_absolute_whatever_the_wrapper_says() {
    let set = wrapper(Magic::V0, 11, &[inner(Magic::V0, 7, "a"), inner(Magic::V0, 11, "b")]);
    assert_eq!(values(&set), pairs(&[(7, "a"), (11, "b")]));
    let odd = wrapper(Magic::V0, 99, &[inner(Magic::V0, 7, "a")]);
    assert_eq!(values(&odd), pairs(&[(7, "a")]));
    assert_eq!(odd.next_offset(), Some(100));
}

#[test]
fn case_17_a_magic_1_wrapper_of_offset_0_counts_from_0() {
    let three: Vec<_> = [0, 1, 2].map(|offset| inner(Magic::V1, offset, "v")).into();
    let (records, errors, next) = read_all(&wrapper(Magic::V1, 0, &three), ReadOptions::default());
    assert_eq!(errors, []);
    assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(next, Some(3), "never below what was handed out");
}

#[test]
fn a_magic_1_wrapper_below_its_last_inner_offset_is_corrupt() {
    let set = wrapper(Magic::V1, 2, &[inner(Magic::V1, 0, "a"), inner(Magic::V1, 5, "b")]);
    let (records, errors, next) = read_all(&set, ReadOptions::default());
    assert_eq!((records.len(), errors.len(), next), (0, 1, Some(3)));
    assert_eq!(errors[0].field(), "offset");
}

#[test]
fn relative_offsets_that_cannot_be_wrap_around_and_never_panic() {
    for (outer, relative) in
        [(11, i64::MIN), (1, -5), (i64::MAX - 1, -5), (-3, i64::MIN), (i64::MIN, i64::MIN)]
    {
        let set = wrapper(
            Magic::V1,
            outer,
            &[inner(Magic::V1, relative.max(-1), "a"), inner(Magic::V1, relative, "b")],
        );
        let (records, errors, _) = read_all(&set, ReadOptions::default());
        assert!(records.len() + errors.len() > 0, "{outer} {relative}");
    }
}

#[test]
fn case_18_d15_kafka_5443_the_next_offset_comes_from_the_header() {
    let record = record_bytes(&[&[0], &varint(0), &varint(0), &varint(-1), &varint(1), b"a", &varint(0)]);
    let set = OddBatch { last_offset_delta: 4, records: record, ..OddBatch::default() }.set();
    assert_eq!(values(&set), pairs(&[(10, "a")]));
    assert_eq!(set.next_offset(), Some(15));
    let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
    assert_eq!((batch.base_offset(), batch.last_offset(), batch.next_offset()), (10, 14, 15));
}

#[test]
fn d16_a_batch_with_nothing_to_hand_out_still_moves_the_position() {
    for tail in [crate::vectors::F19_EMPTY, F22_COMMIT] {
        let mut bytes = hex(F[0].1).to_vec();
        bytes.extend(hex(tail));
        let (records, errors, next) = read_all(&RecordSet::new(bytes.into()), ReadOptions::default());
        assert_eq!((records.len(), errors.len()), (2, 0));
        assert!(next > Some(12), "{next:?}");
    }
}

#[test]
fn case_21_offsets_may_jump_upwards_anywhere() {
    let mut writer = RecordSetWriter::new(Magic::V2).base_offset(169_314);
    writer.push(NewRecord::value(b"far")).unwrap();
    let set = RecordSet::new(writer.finish().unwrap());
    let (records, errors, _) = read_all(&set, ReadOptions { from_offset: 8, ..ReadOptions::default() });
    assert_eq!((records[0].offset, errors), (169_314, vec![]));
}

#[test]
fn case_08_several_batches_and_case_70_mixed_entries_in_one_field() {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (i, (magic, codec)) in [
        (Magic::V1, Codec::Snappy),
        (Magic::V1, Codec::None),
        (Magic::V1, Codec::Lz4),
        (Magic::V2, Codec::Zstd),
        (Magic::V0, Codec::Gzip),
        (Magic::V2, Codec::None),
        (Magic::V2, Codec::None),
    ]
    .into_iter()
    .enumerate()
    {
        let base = 100 * (i as i64 + 1);
        let mut writer = RecordSetWriter::new(magic).codec(codec).base_offset(base);
        for value in ["x", "y"] {
            writer.push(NewRecord::value(value.as_bytes())).unwrap();
        }
        bytes.extend(writer.finish().unwrap());
        expected.extend([(base, "x"), (base + 1, "y")]);
    }
    assert_eq!(values(&RecordSet::new(bytes.into())), pairs(&expected));
}

#[test]
fn case_40_wrappers_in_wrappers_open_for_magic_0_and_are_refused_for_magic_1() {
    let deep = |magic: Magic| {
        let inside = wrapper(magic, 11, &[inner(magic, 10, "a"), inner(magic, 11, "b")]);
        wrapper(magic, 12, &[inside.bytes().to_vec(), inner(magic, 12, "c")])
    };
    assert_eq!(values(&deep(Magic::V0)), pairs(&[(10, "a"), (11, "b"), (12, "c")]));
    let (records, errors, next) = read_all(&deep(Magic::V1), ReadOptions::default());
    assert_eq!((records.len(), errors.len(), next), (0, 1, Some(13)));
    assert_eq!(errors[0].field(), "attributes");
    let mut bottomless = inner(Magic::V0, 1, "deep");
    for _ in 0..40 {
        bottomless = wrapper(Magic::V0, 1, &[bottomless]).bytes().to_vec();
    }
    let (records, errors, _) = read_all(&RecordSet::new(bottomless.into()), ReadOptions::default());
    assert_eq!((records.len(), errors.len()), (0, 1), "depth is limited");
}

/// Each of them stays below the limit: what counts is what the whole entry makes the reader inflate.
#[test]
fn case_40_g6_wrappers_in_a_wrapper_share_one_limit() {
    let large = String::from_utf8(vec![b'a'; 100_000]).unwrap();
    let one = wrapper(Magic::V0, 10, &[inner(Magic::V0, 10, &large)]).bytes().to_vec();
    let set = wrapper(Magic::V0, 10, &vec![one; 5]);
    let options = |max_inflated| ReadOptions { max_inflated, ..ReadOptions::default() };
    let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
    assert!(batch.inflated() > batch.size(), "the outer one is counted too");
    assert_eq!(read_all(&set, options(batch.inflated())).0.len(), 5, "the limit itself is allowed");
    let (records, errors, _) = read_all(&set, options(batch.inflated() - 1));
    assert_eq!((records.len(), errors.len()), (0, 1));
    assert!(errors[0].is_our_limit());
    assert!(errors[0].to_string().contains(&(batch.inflated() - 1).to_string()), "{}", errors[0]);
}

#[test]
fn case_12_null_and_empty_keys_and_values_are_different_in_every_format() {
    type Part = Option<&'static [u8]>;
    let cases: [(Part, Part); 4] =
        [(None, None), (Some(b""), None), (None, Some(b"")), (Some(b""), Some(b""))];
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        let mut writer = RecordSetWriter::new(magic);
        for (key, value) in cases {
            writer.push(NewRecord { key, value, ..NewRecord::default() }).unwrap();
        }
        let records = read(&RecordSet::new(writer.finish().unwrap()));
        let found: Vec<_> = records.iter().map(|r| (r.key.as_deref(), r.value.as_deref())).collect();
        assert_eq!(found, cases, "{magic:?}");
    }
}

#[test]
fn case_29_d9_timestamp_deltas_are_64_bits_and_case_30_d14_negative() {
    let mut writer = RecordSetWriter::new(Magic::V2);
    let times = [1_000, 1_000 + (1 << 31), 1_000 + (1 << 40), -5, i64::MAX, i64::MIN, 0];
    for timestamp in times {
        writer.push(NewRecord { timestamp: Some(timestamp), ..NewRecord::value(b"v") }).unwrap();
    }
    let found: Vec<_> =
        read(&RecordSet::new(writer.finish().unwrap())).iter().map(|r| r.timestamp.unwrap()).collect();
    assert_eq!(found, times);
}

#[test]
fn case_74_deltas_wrap_around() {
    let record = record_bytes(&[&[0], &varint(i64::MIN), &varint(0), &varint(-1), &varint(-1), &varint(0)]);
    let set = OddBatch { base_timestamp: -1, records: record, ..OddBatch::default() }.set();
    assert_eq!(read(&set)[0].timestamp, Some(i64::MAX));
}

#[test]
fn case_30_case_73_a_delete_horizon_as_base_timestamp() {
    let horizon = 2_000_000_000_000;
    let record =
        record_bytes(&[&[0], &varint(1000 - horizon), &varint(0), &varint(-1), &varint(-1), &varint(0)]);
    let batch =
        OddBatch { attributes: 0x40, base_timestamp: horizon, records: record, ..OddBatch::default() };
    assert_eq!(read(&batch.set())[0].timestamp, Some(1000));
    let entry = batch.set().entries().next().unwrap().unwrap();
    assert!(entry.batch_header().unwrap().has_delete_horizon());
}

#[test]
fn case_69_the_wrapper_decides_about_time_whatever_the_inner_bits_say() {
    let marked = message(Magic::V1, 0, 0x08, 1000, None, Some(b"a"));
    let [record] = &read(&wrapper(Magic::V1, 7, &[marked]))[..] else { panic!() };
    assert_eq!(record.timestamp_type.unwrap().name(), "CreateTime");
    assert_eq!(record.timestamp, Some(1000));
}

#[test]
fn case_72_a_batch_emptied_by_compaction_may_keep_its_codec_bits() {
    for attributes in 0..5 {
        let set = OddBatch {
            attributes,
            count: 0,
            last_offset_delta: 9,
            base_timestamp: -1,
            ..OddBatch::default()
        }
        .set();
        assert_eq!(read(&set), []);
        assert_eq!(set.next_offset(), Some(20));
    }
}
