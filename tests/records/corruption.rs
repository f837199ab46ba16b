//! Damage: what is reported, and what is still read.

use downspout::records::{
    Cause, Codec, CodecError, CrcCheck, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter,
};

use crate::support::{
    OddBatch, hex, message, only_error, pairs, read_all, record_bytes, set, uncommitted, varint,
};
use crate::vectors::{F, F30_CUT, f};

fn flip(set: &RecordSet, at: usize) -> RecordSet {
    let mut bytes = set.bytes().to_vec();
    bytes[at] ^= 0x40;
    RecordSet::new(bytes.into())
}

fn texts(records: &[crate::support::Seen]) -> Vec<(i64, String)> {
    records
        .iter()
        .map(|r| (r.offset, String::from_utf8_lossy(r.value.as_deref().unwrap_or_default()).into_owned()))
        .collect()
}

#[test]
fn case_01_case_03_d2_d4_d23_a_cut_last_entry_is_no_error() {
    for (name, bytes) in F {
        let whole = hex(bytes);
        for cut in 0..whole.len() {
            let set = RecordSet::new(whole.slice(..cut));
            let (records, errors, next) = read_all(&set, ReadOptions::default());
            assert_eq!(errors, [], "{name} cut at {cut}");
            // Only the plain magic-0 set has two entries.
            let kept = usize::from(name.starts_with("f01") && cut >= 27);
            assert_eq!(records.len(), kept, "{name} cut at {cut}");
            assert_eq!(next, (kept == 1).then_some(11), "{name} cut at {cut}");
            assert_eq!(set.tail().bytes, cut - 27 * kept, "{name} cut at {cut}");
        }
    }
}

#[test]
fn case_04_s1_the_size_needed_for_a_cut_message_is_told() {
    let set = RecordSet::new(hex(F30_CUT).slice(27..));
    assert_eq!(set.next_offset(), None);
    assert_eq!(set.tail().needed, Some(27));
}

#[test]
fn case_05_a_cut_magic_2_batch_in_an_old_answer_is_partial_and_a_whole_one_is_read() {
    let whole = hex(F.iter().find(|(name, _)| name.starts_with("f12")).unwrap().1);
    let cut = RecordSet::new(whole.slice(..40));
    assert_eq!((cut.next_offset(), cut.tail().needed), (None, Some(77)));
    assert_eq!(RecordSet::new(whole).next_offset(), Some(12));
}

#[test]
fn case_09_case_71_filler_after_a_down_conversion_is_a_cut_entry() {
    let only = set("ffffffffffffffff0000003d");
    let (records, errors, next) = read_all(&only, ReadOptions::default());
    assert_eq!((records.len(), errors.len(), next), (0, 0, None));
    let mut padded = hex(F[0].1).to_vec();
    padded.extend(hex("ffffffffffffffff00000020"));
    padded.extend([0; 19]);
    let (records, errors, next) = read_all(&RecordSet::new(padded.into()), ReadOptions::default());
    assert_eq!((records.len(), errors.len(), next), (2, 0, Some(12)), "its offset is never used");
    let mut five = hex(F[0].1).to_vec();
    five.extend([0xff; 5]);
    assert_eq!(RecordSet::new(five.into()).tail().bytes, 5);
}

#[test]
fn case_10_case_32_g4_sizes_and_magics_that_cannot_be() {
    let good = hex(F[0].1);
    for (declared, what) in [(0i32, "zero"), (13, "13"), (-1, "negative"), (i32::MIN, "the least")] {
        let mut bytes = good.to_vec();
        bytes[27 + 8..27 + 12].copy_from_slice(&declared.to_be_bytes());
        let (records, errors, next) = read_all(&RecordSet::new(bytes.into()), ReadOptions::default());
        assert_eq!(texts(&records), pairs(&[(10, "a")]), "{what}: what came before is kept");
        assert_eq!((errors.len(), next), (1, Some(11)), "{what}");
        let error = &errors[0];
        assert_eq!(
            (error.field(), error.position(), error.first_offset, error.next_offset),
            ("length", 35, 11, None)
        );
    }
    for magic in [3u8, 77, 0x80, 0xff] {
        let mut bytes = good.to_vec();
        bytes[27 + 16] = magic;
        let error = only_error(&RecordSet::new(bytes.into()));
        assert_eq!((error.field(), error.position(), error.first_offset), ("magic", 43, 11), "{magic}");
    }
    let mut short = OddBatch::default().bytes();
    short[8..12].copy_from_slice(&20i32.to_be_bytes());
    assert_eq!(only_error(&RecordSet::new(short.into())).field(), "length");
}

#[test]
fn case_80_a_size_that_overflows_is_a_cut_entry_and_no_panic() {
    let mut bytes = hex(F[0].1).to_vec();
    bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let set = RecordSet::new(bytes.into());
    assert_eq!(set.tail().needed, Some(i32::MAX as usize + 12));
    let (records, errors, _) = read_all(&set, ReadOptions::default());
    assert_eq!((records.len(), errors.len()), (0, 0));
}

#[test]
fn case_42_d21_a_bad_checksum_is_told_with_its_exact_offsets_and_can_be_passed() {
    for (name, bytes) in F {
        let sound = set(bytes);
        let mut two = sound.bytes().to_vec();
        let mut more = RecordSetWriter::new(Magic::V2).base_offset(50);
        more.push(NewRecord::value(b"after")).unwrap();
        two.extend(more.finish().unwrap());
        let damaged = flip(&RecordSet::new(two.into()), sound.bytes().len() - 1);
        let (records, errors, next) = read_all(&damaged, ReadOptions::default());
        assert_eq!((errors.len(), next), (1, Some(51)), "{name}");
        let error = &errors[0];
        assert!(matches!(error.cause, Cause::Crc { .. }), "{name}: {error}");
        assert_eq!(error.field(), "crc");
        assert_eq!(error.next_offset, Some(12), "{name}");
        assert_eq!(texts(&records).last().unwrap(), &(50, "after".to_owned()), "{name}");
        // A batch or plain message says what it takes with it; a wrapper only where it ends.
        let first = match &name[4..6] {
            "v2" => 10,
            _ => 11,
        };
        assert_eq!(error.first_offset, first, "{name}");
    }
}

#[test]
fn a_damaged_wrapper_begins_where_the_entry_before_it_ended() {
    let mut bytes = message(Magic::V1, 4, 0, 0, None, Some(b"a"));
    bytes.extend(flip(&f("f07"), 80).bytes());
    let (_, errors, next) = read_all(&RecordSet::new(bytes.into()), ReadOptions::default());
    assert_eq!((errors[0].first_offset, errors[0].next_offset, next), (5, Some(12), Some(12)));
    let asked = ReadOptions { from_offset: 10, ..ReadOptions::default() };
    let (_, errors, _) = read_all(&flip(&f("f07"), 80), asked);
    assert_eq!((errors[0].first_offset, errors[0].next_offset), (10, Some(12)));
}

#[test]
fn p4_checksums_can_be_skipped_or_only_reported() {
    for name in ["f01", "f12", "f06"] {
        let sound = if name == "f06" {
            set("000000000000000a000000186730a47b010000000000000003e8000000016b0000000161")
        } else {
            f(name)
        };
        let damaged = flip(&sound, sound.bytes().len() - if name == "f12" { 2 } else { 1 });
        let skip = ReadOptions { crc: CrcCheck::Skip, ..uncommitted() };
        let (records, errors, _) = read_all(&damaged, skip);
        assert!(!records.is_empty() && errors.is_empty(), "{name}");
        let report = ReadOptions { crc: CrcCheck::Report, ..uncommitted() };
        let mismatches =
            damaged.batches(report).filter(|b| b.as_ref().unwrap().crc_mismatch().is_some()).count();
        assert_eq!(mismatches, 1, "{name}");
    }
}

#[test]
fn a_bad_inner_message_takes_only_itself() {
    let good = |offset: i64, value: &[u8]| message(Magic::V0, offset, 0, 0, None, Some(value));
    let mut bad = good(11, b"b");
    *bad.last_mut().unwrap() ^= 1;
    let inner = [good(10, b"a"), bad, good(12, b"c")].concat();
    let set = RecordSet::new(gzip_wrapper(Magic::V0, 12, &inner));
    let (records, errors, next) = read_all(&set, ReadOptions::default());
    assert_eq!(texts(&records), pairs(&[(10, "a"), (12, "c")]));
    assert_eq!((errors.len(), next), (1, Some(13)));
    assert_eq!((errors[0].first_offset, errors[0].next_offset), (11, Some(12)));
}

#[test]
fn d4_case_80_a_cut_message_in_a_whole_wrapper_is_corruption() {
    let inner = |magic| {
        [message(magic, 10, 0, 5, None, Some(b"a")), message(magic, 11, 0, 5, None, Some(b"b"))].concat()
    };
    for cut in 28..54 {
        let set = RecordSet::new(gzip_wrapper(Magic::V0, 11, &inner(Magic::V0)[..cut]));
        let (records, errors, next) = read_all(&set, ReadOptions::default());
        assert_eq!(texts(&records), pairs(&[(10, "a")]), "cut at {cut}");
        assert_eq!((errors.len(), next), (1, Some(12)), "cut at {cut}");
        assert_eq!((errors[0].first_offset, errors[0].next_offset), (11, Some(12)));
        let set = RecordSet::new(gzip_wrapper(Magic::V1, 11, &inner(Magic::V1)[..cut + 8]));
        let (records, errors, next) = read_all(&set, ReadOptions::default());
        assert_eq!(
            (records.len(), errors.len(), next),
            (0, 1, Some(12)),
            "relative offsets need their last one"
        );
    }
}

#[test]
fn case_41_wrappers_that_hold_nothing() {
    for magic in [Magic::V0, Magic::V1] {
        let null = RecordSet::new(message(magic, 5, 1, 0, None, None).into());
        assert_eq!(only_error(&null).field(), "value");
        let empty = RecordSet::new(gzip_wrapper(magic, 5, b""));
        let error = only_error(&empty);
        assert_eq!(error.cause, Cause::Codec(CodecError::Empty));
        assert_eq!((error.first_offset, error.next_offset), (5, Some(6)));
    }
}

#[test]
fn an_inner_message_of_another_magic_is_corrupt() {
    let inner = message(Magic::V0, 0, 0, 0, None, Some(b"a"));
    assert_eq!(only_error(&RecordSet::new(gzip_wrapper(Magic::V1, 5, &inner))).field(), "magic");
}

#[test]
fn d22_codecs_that_do_not_exist_are_told_by_number() {
    for codec in 5..8u8 {
        let batch =
            OddBatch { attributes: codec.into(), records: vec![1, 2, 3], ..OddBatch::default() }.set();
        let wrapper = RecordSet::new(message(Magic::V1, 10, codec, 0, None, Some(b"x")).into());
        for set in [batch, wrapper] {
            let error = only_error(&set);
            assert_eq!(error.cause, Cause::Codec(CodecError::Unknown(codec)));
            assert_eq!((error.first_offset, error.next_offset), (10, Some(11)));
        }
    }
    let zstd_wrapper = RecordSet::new(message(Magic::V1, 10, 4, 0, None, Some(b"x")).into());
    assert_eq!(only_error(&zstd_wrapper).cause, Cause::Codec(CodecError::Unknown(4)));
}

#[test]
fn case_32_case_80_g2_g4_records_that_do_not_fit_say_which_field() {
    let ok = record_bytes(&[&[0], &varint(0), &varint(0), &varint(-1), &varint(1), b"a", &varint(0)]);
    let table: &[(&str, Vec<u8>, &str)] = &[
        ("length beyond the end", varint(100), "length"),
        ("negative length", varint(-5), "length"),
        ("varint without end", vec![0xff; 12], "length"),
        ("empty record", varint(0), "attributes"),
        ("key beyond the record", record_bytes(&[&[0], &varint(0), &varint(1), &varint(50)]), "key"),
        (
            "key length −2",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-2), &varint(-1), &varint(0)]),
            "key",
        ),
        (
            "value beyond",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(9), b"x", &varint(0)]),
            "value",
        ),
        (
            "value length −7",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(-7), &varint(0)]),
            "value",
        ),
        (
            "no header count",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(-1)]),
            "headers_count",
        ),
        (
            "negative header count",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(-1), &varint(-1)]),
            "headers_count",
        ),
        (
            "two billion headers",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(-1), &varint(i32::MAX.into())]),
            "header_key",
        ),
        (
            "null header key",
            record_bytes(&[
                &[0],
                &varint(0),
                &varint(1),
                &varint(-1),
                &varint(-1),
                &varint(1),
                &varint(-1),
                &varint(-1),
            ]),
            "header_key",
        ),
        (
            "header value beyond",
            record_bytes(&[
                &[0],
                &varint(0),
                &varint(1),
                &varint(-1),
                &varint(-1),
                &varint(1),
                &varint(0),
                &varint(4),
            ]),
            "header_value",
        ),
        (
            "bytes after the headers",
            record_bytes(&[&[0], &varint(0), &varint(1), &varint(-1), &varint(-1), &varint(0), b"xx"]),
            "record",
        ),
        ("varlong of 11 bytes", record_bytes(&[&[0], &[0xff; 11], &[0; 8]]), "timestamp_delta"),
        ("varint of 6 bytes", record_bytes(&[&[0], &varint(0), &[0xff; 6], &[0; 8]]), "offset_delta"),
    ];
    for (what, bad, field) in table {
        for codec in [0i16, 1] {
            let records = [&ok[..], bad].concat();
            let records = if codec == 1 { gzip(&records) } else { records };
            let batch = OddBatch {
                attributes: codec,
                count: 2,
                last_offset_delta: 7,
                records,
                ..OddBatch::default()
            };
            let (records, errors, next) = read_all(&batch.set(), ReadOptions::default());
            assert_eq!(texts(&records), pairs(&[(10, "a")]), "{what}: the good record before it");
            assert_eq!((errors.len(), next), (1, Some(18)), "{what}");
            assert_eq!(errors[0].field(), *field, "{what}: {}", errors[0]);
            assert_eq!((errors[0].first_offset, errors[0].next_offset), (11, Some(18)), "{what}");
        }
    }
}

#[test]
fn case_32_counts_that_do_not_match_the_records() {
    let ok = record_bytes(&[&[0], &varint(0), &varint(0), &varint(-1), &varint(1), b"a", &varint(0)]);
    for (count, field) in [
        (2, "length"),
        (i32::MAX, "length"),
        (-1, "records_count"),
        (i32::MIN, "records_count"),
        (0, "records"),
    ] {
        let set = OddBatch { count, records: ok.clone(), ..OddBatch::default() }.set();
        let error = only_error(&set);
        assert_eq!(error.field(), field, "{count}");
        assert_eq!(set.next_offset(), Some(11));
    }
}

#[test]
fn an_offset_or_delta_that_leads_nowhere_is_told() {
    let negative = OddBatch { last_offset_delta: -1, count: 0, ..OddBatch::default() }.set();
    assert_eq!(only_error(&negative).field(), "last_offset_delta");
    let last = OddBatch { base_offset: i64::MAX, count: 0, ..OddBatch::default() }.set();
    assert_eq!(only_error(&last).field(), "offset");
    let message = RecordSet::new(message(Magic::V0, i64::MAX, 0, 0, None, None).into());
    assert_eq!(only_error(&message).field(), "offset");
}

#[test]
fn d8_a_batch_never_reads_into_the_one_after_it() {
    let liar = record_bytes(&[&[0], &varint(0), &varint(0), &varint(-1), &varint(40), b"a", &varint(0)]);
    let mut bytes = OddBatch { records: liar, ..OddBatch::default() }.bytes();
    bytes.extend(
        OddBatch {
            base_offset: 11,
            records: record_bytes(&[&[0], &varint(0), &varint(0), &varint(-1), &varint(1), b"b", &varint(0)]),
            ..OddBatch::default()
        }
        .bytes(),
    );
    let (records, errors, _) = read_all(&RecordSet::new(bytes.into()), ReadOptions::default());
    assert_eq!((texts(&records), errors.len()), (pairs(&[(11, "b")]), 1));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn gzip_wrapper(magic: Magic, offset: i64, inner: &[u8]) -> bytes::Bytes {
    message(magic, offset, Codec::Gzip.number(), 0, None, Some(&gzip(inner))).into()
}
