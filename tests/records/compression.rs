//! Codecs: what writers really write, and what hostile data claims.

use std::io::Write;

use downspout::records::{
    Cause, Codec, CodecError, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter,
};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use crate::support::{OddBatch, message, only_error, read, read_all, record_bytes, varint};
use crate::vectors::f;

/// `n` records of magic 2 that compress moderately, as they lie in a batch.
fn records(n: i64) -> Vec<u8> {
    (0..n)
        .flat_map(|i| {
            let value = format!("record number {i}, {}", "abc".repeat(i as usize % 17));
            record_bytes(&[
                &[0],
                &varint(0),
                &varint(i),
                &varint(-1),
                &varint(value.len() as i64),
                value.as_bytes(),
                &varint(0),
            ])
        })
        .collect()
}

fn batch(codec: Codec, count: i64, data: Vec<u8>) -> RecordSet {
    OddBatch {
        attributes: codec.number().into(),
        count: count as i32,
        last_offset_delta: count as i32 - 1,
        records: data,
        ..OddBatch::default()
    }
    .set()
}

fn same_as_plain(codec: Codec, data: Vec<u8>, what: &str) {
    let plain = read(&batch(Codec::None, 300, records(300)));
    let (found, errors, _) = read_all(&batch(codec, 300, data), ReadOptions::default());
    assert_eq!(errors, [], "{what}");
    assert!(found == plain, "{what}: other records came out");
}

fn xerial(blocks: &[&[u8]], versions: [u8; 8]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0".to_vec();
    out.extend(versions);
    for block in blocks {
        let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    out
}

const ONE_ONE: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

#[test]
fn case_35_case_76_d5_xerial_blocks_of_any_size_are_put_together_first() {
    let data = records(300);
    for size in [1, 7, 854, 1024, 4096, 32 << 10, data.len()] {
        let blocks: Vec<_> = data.chunks(size).collect();
        same_as_plain(Codec::Snappy, xerial(&blocks, ONE_ONE), &format!("blocks of {size}"));
    }
}

#[test]
fn case_36_the_version_words_of_xerial_are_not_looked_at() {
    let data = records(300);
    for versions in [[1, 0, 0, 0, 1, 0, 0, 0], [0; 8], [0xff; 8]] {
        same_as_plain(Codec::Snappy, xerial(&[&data], versions), "version words");
    }
}

#[test]
fn a_second_xerial_header_inside_the_stream_is_passed() {
    let data = records(300);
    let (a, b) = data.split_at(1000);
    let both = [xerial(&[a], ONE_ONE), xerial(&[b], ONE_ONE)].concat();
    same_as_plain(Codec::Snappy, both, "two streams");
}

#[test]
fn case_35_case_37_d10_raw_snappy_also_when_it_starts_like_xerial() {
    let data = records(300);
    same_as_plain(Codec::Snappy, snap::raw::Encoder::new().compress_vec(&data).unwrap(), "raw");
    // A raw block opens with its size as a varint: 0x82 0x53 is one of 10,626 bytes.
    let value = vec![b'x'; 10_626 - 13];
    let record = record_bytes(&[
        &[0],
        &varint(0),
        &varint(0),
        &varint(-1),
        &varint(value.len() as i64),
        &value,
        &varint(0),
    ]);
    let mut record = record;
    while record.len() != 10_626 {
        let value = vec![b'x'; value.len() + 10_626 - record.len()];
        record = record_bytes(&[
            &[0],
            &varint(0),
            &varint(0),
            &varint(-1),
            &varint(value.len() as i64),
            &value,
            &varint(0),
        ]);
    }
    let raw = snap::raw::Encoder::new().compress_vec(&record).unwrap();
    assert_eq!(raw[..2], [0x82, 0x53]);
    let (found, errors, _) = read_all(&batch(Codec::Snappy, 1, raw), ReadOptions::default());
    assert_eq!((found.len(), errors), (1, vec![]));
}

#[test]
fn case_37_damage_inside_xerial_is_an_error_and_never_read_as_raw() {
    let sound = xerial(&[&records(300)], ONE_ONE);
    let mut tables = vec![
        ("cut in the header", sound[..12].to_vec()),
        ("cut in a block", sound[..sound.len() - 1].to_vec()),
        ("three bytes after the last block", [&sound[..], &[0, 0, 0]].concat()),
        ("a block of 4 GiB", [&sound[..], &[0xff; 4]].concat()),
    ];
    let mut flipped = sound.clone();
    flipped[20] ^= 0xff;
    tables.push(("a flipped byte", flipped));
    for (what, data) in tables {
        let error = only_error(&batch(Codec::Snappy, 300, data));
        assert!(
            matches!(&error.cause, Cause::Codec(CodecError::Damaged { codec: Codec::Snappy, .. })),
            "{what}: {error}"
        );
    }
}

#[test]
fn case_80_g6_snappy_that_claims_gigabytes_is_refused_before_anything_is_allocated() {
    for data in [vec![0xff, 0xff, 0xff, 0xff, 0x0f], vec![0x80, 0x80, 0x80, 0x20, 0x00]] {
        let error = only_error(&batch(Codec::Snappy, 1, data));
        assert!(matches!(error.cause, Cause::Codec(CodecError::Damaged { .. })), "{error}");
    }
}

fn lz4(info: FrameInfo, data: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn case_34_d7_lz4_frames_with_every_option() {
    let data = records(300);
    for block_checksums in [false, true] {
        for content_checksum in [false, true] {
            for size in [None, Some(data.len() as u64)] {
                for mode in [BlockMode::Independent, BlockMode::Linked] {
                    let info = FrameInfo::new()
                        .block_size(BlockSize::Max64KB)
                        .block_mode(mode)
                        .block_checksums(block_checksums)
                        .content_checksum(content_checksum)
                        .content_size(size);
                    let what = format!("{info:?}");
                    same_as_plain(Codec::Lz4, lz4(info, &data), &what);
                }
            }
        }
    }
}

#[test]
fn case_34_case_77_lz4_stored_blocks() {
    let data = records(300);
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    for block in data.chunks(29) {
        frame.extend((block.len() as u32 | 1 << 31).to_le_bytes());
        frame.extend(block);
    }
    frame.extend([0; 4]);
    same_as_plain(Codec::Lz4, frame, "stored blocks of 29 bytes");
}

#[test]
fn several_lz4_frames_in_a_row() {
    let data = records(300);
    let frames: Vec<u8> = data.chunks(3000).flat_map(|part| lz4(FrameInfo::new(), part)).collect();
    same_as_plain(Codec::Lz4, frames, "several frames");
}

/// A quarter of a million frames that each declare blocks of 4 MiB: a block size is a promise, not
/// what is set aside.
#[test]
fn g6_an_lz4_frame_costs_what_is_in_it_and_not_the_block_size_it_declares() {
    let frame = lz4(FrameInfo::new().block_size(BlockSize::Max4MB), b"x");
    let begun = std::time::Instant::now();
    let set = batch(Codec::Lz4, 1, frame.repeat(250_000));
    let (records, errors, _) = read_all(&set, ReadOptions::default());
    assert_eq!((records.len(), errors.len()), (0, 1), "x is no record");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn an_lz4_frame_that_says_what_it_does_not_hold_is_an_error() {
    let sound = lz4(FrameInfo::new().content_size(Some(9)), b"123456789");
    assert!(sound[4] & 0x08 != 0, "the content size is there");
    let header = |bytes: &mut Vec<u8>| {
        let end = if bytes[4] & 0x08 == 0 { 6 } else { 14 };
        bytes[end] = (twox_hash::XxHash32::oneshot(0, &bytes[4..end]) >> 8) as u8;
    };
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        header(&mut bytes);
        let (records, errors, _) = read_all(&batch(Codec::Lz4, 1, bytes), ReadOptions::default());
        assert_eq!((records.len(), errors.len()), (0, 1));
        errors[0].to_string()
    };
    assert!(changed(&|bytes| bytes[6] = 8).contains("declares another size"));
    assert!(changed(&|bytes| bytes[4] |= 0x02).contains("mean nothing"), "a reserved flag");
    assert!(changed(&|bytes| bytes[4] ^= 0xc0).contains("mean nothing"), "version 2");
    assert!(changed(&|bytes| bytes[5] = 0x30).contains("mean nothing"), "a block size that is none");
    assert!(changed(&|bytes| bytes[4] |= 0x01).contains("lz4"), "a dictionary");
    assert!(changed(&|bytes| bytes[17] = 1).contains("larger than its frame allows"), "16 MiB in a block");
}

#[test]
fn lz4_damage_is_an_error() {
    let sound = lz4(FrameInfo::new().block_checksums(true).content_checksum(true), &records(300));
    for cut in [0, 3, 4, 5, 6, 7, 10, 40, sound.len() - 4, sound.len() - 1] {
        let error = only_error(&batch(Codec::Lz4, 300, sound[..cut].to_vec()));
        assert!(matches!(error.cause, Cause::Codec(CodecError::Damaged { .. })), "cut at {cut}: {error}");
    }
    for at in [0, 4, 6, 9, 30, sound.len() - 2] {
        let mut flipped = sound.clone();
        flipped[at] ^= 0x10;
        let error = only_error(&batch(Codec::Lz4, 300, flipped));
        assert!(matches!(error.cause, Cause::Codec(_)), "flipped at {at}: {error}");
    }
    let garbage = [&sound[..], b"garbage"].concat();
    assert!(matches!(only_error(&batch(Codec::Lz4, 300, garbage)).cause, Cause::Codec(_)));
}

#[test]
fn case_33_d6_kafka_3160_the_lz4_header_checksum_by_magic() {
    let checksum_at = |magic| 12 + 4 + 2 + if magic == Magic::V1 { 8 } else { 0 } + 8 + 6;
    for magic in [Magic::V0, Magic::V1] {
        let mut writer = RecordSetWriter::new(magic).codec(Codec::Lz4).base_offset(10);
        writer.push(NewRecord::value(b"a")).unwrap();
        let bytes = writer.finish().unwrap();
        let written = bytes[checksum_at(magic)];
        assert_eq!(written, if magic == Magic::V0 { 0x1a } else { 0x82 }, "{magic:?} is written");
        for checksum in [0x1au8, 0x82, 0x00] {
            let mut value = bytes[checksum_at(magic) - 6..].to_vec();
            value[6] = checksum;
            let set = RecordSet::new(message(magic, 10, 3, 0, None, Some(&value)).into());
            let (records, errors, _) = read_all(&set, ReadOptions::default());
            let readable = magic == Magic::V0 || checksum == 0x82;
            assert_eq!(
                (records.len(), errors.len()),
                if readable { (1, 0) } else { (0, 1) },
                "{magic:?} {checksum:x}"
            );
        }
    }
    // With a content size the descriptor is longer; the checksum stands after it.
    let value = lz4(FrameInfo::new().content_size(Some(27)), &message(Magic::V0, 10, 0, 0, None, Some(b"a")));
    let mut wrong = value.clone();
    wrong[14] = (twox_hash::XxHash32::oneshot(0, &value[..14]) >> 8) as u8;
    for value in [value, wrong] {
        assert_eq!(read(&RecordSet::new(message(Magic::V0, 10, 3, 0, None, Some(&value)).into())).len(), 1);
    }
}

#[test]
fn case_38_zstd_without_content_size_and_in_several_frames() {
    let data = records(300);
    let frames: Vec<u8> = data
        .chunks(2500)
        .flat_map(|part| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
            encoder.write_all(part).unwrap();
            encoder.flush().unwrap();
            encoder.finish().unwrap()
        })
        .collect();
    same_as_plain(Codec::Zstd, frames, "streamed frames");
    same_as_plain(Codec::Zstd, zstd::bulk::compress(&data, 3).unwrap(), "one frame");
    assert_eq!(read(&f("f17")).len(), 2);
}

#[test]
fn case_75_a_window_of_128_mib_for_a_small_batch_is_read() {
    let data = records(300);
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&data).unwrap();
    same_as_plain(Codec::Zstd, encoder.finish().unwrap(), "window of 2^27");
}

#[test]
fn gzip_members_in_a_row_are_one_stream() {
    let members: Vec<u8> = records(300)
        .chunks(2000)
        .flat_map(|part| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap()
        })
        .collect();
    same_as_plain(Codec::Gzip, members, "members");
}

#[test]
fn s4_g6_what_inflates_beyond_the_limit_is_an_error_that_says_so() {
    let zeros = vec![0u8; 4 << 20];
    let options = ReadOptions { max_inflated: 1 << 20, ..ReadOptions::default() };
    for codec in Codec::ALL.into_iter().skip(1) {
        let mut writer = RecordSetWriter::new(Magic::V2).codec(codec).base_offset(10);
        writer.push(NewRecord::value(&zeros)).unwrap();
        let set = RecordSet::new(writer.finish().unwrap());
        let (records, errors, next) = read_all(&set, options.clone());
        assert_eq!((records.len(), next), (0, Some(11)), "{codec}");
        assert_eq!(errors[0].cause, Cause::Codec(CodecError::OverLimit { codec, limit: 1 << 20 }), "{codec}");
        assert!(errors[0].is_our_limit());
        assert_eq!(
            read(&set)[0].value.as_ref().unwrap().len(),
            zeros.len(),
            "{codec} under the default limit"
        );
        let exact = ReadOptions {
            max_inflated: set.batches(ReadOptions::default()).next().unwrap().unwrap().size(),
            ..ReadOptions::default()
        };
        assert_eq!(read_all(&set, exact).0.len(), 1, "{codec}: the limit itself is allowed");
    }
}

#[test]
fn garbage_for_every_codec_is_an_error_and_no_panic() {
    for codec in Codec::ALL.into_iter().skip(1) {
        for data in [
            vec![],
            vec![0],
            vec![0xff; 3],
            b"not compressed at all".to_vec(),
            vec![0x1f, 0x8b],
            vec![0x28, 0xb5, 0x2f, 0xfd],
        ] {
            let (records, errors, next) = read_all(&batch(codec, 3, data.clone()), ReadOptions::default());
            assert_eq!((records.len(), errors.len(), next), (0, 1, Some(13)), "{codec} {data:?}");
        }
    }
}
