//! Properties: whatever is written is read back; no damage panics, hangs, or takes much memory.

use downspout::records::{
    Codec, CrcCheck, Isolation, Magic, NewHeader, NewRecord, ReadOptions, RecordSet, RecordSetWriter,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::support::{Seen, read, read_all};

#[derive(Debug, Clone)]
struct Draft {
    gap: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..most),
        (any::<u8>(), 0..most * 4).prop_map(|(byte, size)| vec![byte; size])
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let headers = vec((bytes(8), option::of(bytes(8))), 0..4);
    let timestamp = prop_oneof![any::<i64>(), 0..2_000_000_000_000i64];
    (0..3i64, timestamp, option::of(bytes(20)), option::of(bytes(300)), headers)
        .prop_map(|(gap, timestamp, key, value, headers)| Draft { gap, timestamp, key, value, headers })
}

fn format() -> impl Strategy<Value = (Magic, Codec)> {
    let magic = prop_oneof![Just(Magic::V0), Just(Magic::V1), Just(Magic::V2)];
    (magic, proptest::sample::select(&Codec::ALL[..])).prop_map(|(magic, codec)| match (magic, codec) {
        (Magic::V0 | Magic::V1, Codec::Zstd) => (magic, Codec::Gzip),
        other => other,
    })
}

/// Writes drafts as a set; gives what must come out.
fn write(magic: Magic, codec: Codec, base: i64, drafts: &[Draft]) -> (RecordSet, Vec<Seen>) {
    let mut writer = RecordSetWriter::new(magic).codec(codec).base_offset(base);
    let mut offset = base - 1;
    let mut expected = Vec::new();
    for draft in drafts {
        offset += 1 + draft.gap;
        let headers: Vec<NewHeader<'_>> = match magic {
            Magic::V2 => draft.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect(),
            _ => Vec::new(),
        };
        let record = NewRecord {
            offset: Some(offset),
            timestamp: Some(draft.timestamp),
            key: draft.key.as_deref(),
            value: draft.value.as_deref(),
            headers: &headers,
        };
        writer.push(record).unwrap();
        expected.push(Seen {
            offset,
            timestamp: (magic != Magic::V0).then_some(draft.timestamp),
            timestamp_type: (magic != Magic::V0).then_some(downspout::records::TimestampType::CreateTime),
            key: draft.key.clone(),
            value: draft.value.clone(),
            headers: if magic == Magic::V2 { draft.headers.clone() } else { Vec::new() },
        });
    }
    (RecordSet::new(writer.finish().unwrap()), expected)
}

/// A set of several entries in several formats.
fn sets() -> impl Strategy<Value = RecordSet> {
    vec((format(), vec(draft(), 1..8)), 1..4).prop_map(|parts| {
        let mut bytes = Vec::new();
        for (i, ((magic, codec), drafts)) in parts.into_iter().enumerate() {
            bytes.extend_from_slice(write(magic, codec, 1000 * i as i64, &drafts).0.bytes());
        }
        RecordSet::new(bytes.into())
    })
}

fn every_way(set: &RecordSet) {
    for crc in [CrcCheck::Verify, CrcCheck::Skip, CrcCheck::Report] {
        for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
            let options = ReadOptions {
                crc,
                isolation,
                control_batches: true,
                max_inflated: 1 << 20,
                ..ReadOptions::default()
            };
            let (_, errors, next) = read_all(set, options);
            assert!(set.next_offset() <= next, "{errors:?}");
        }
    }
    for entry in set.entries().flatten() {
        let _ = (entry.check_crc(), entry.batch_header(), entry.codec(), entry.timestamp_type());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read_back(
        (magic, codec) in format(), base in 0..i64::MAX / 2, drafts in vec(draft(), 1..40),
    ) {
        let (set, expected) = write(magic, codec, base, &drafts);
        prop_assert_eq!(read(&set), expected);
    }

    #[test]
    fn owned_records_equal_lent_ones((magic, codec) in format(), drafts in vec(draft(), 1..10)) {
        let (set, expected) = write(magic, codec, 5, &drafts);
        let batches: Vec<_> = set.batches(ReadOptions::default()).map(Result::unwrap).collect();
        drop(set);
        let mut owned = Vec::new();
        for mut batch in batches {
            batch.detach();
            owned.extend(batch.records().map(|record| record.unwrap().to_owned()));
        }
        for (owned, expected) in owned.iter().zip(&expected) {
            prop_assert_eq!((owned.offset(), owned.timestamp()), (expected.offset, expected.timestamp));
            prop_assert_eq!(owned.key(), expected.key.as_deref());
            prop_assert_eq!(owned.value(), expected.value.as_deref());
            let shared = owned.value_bytes();
            prop_assert_eq!(shared.as_deref(), expected.value.as_deref());
            let headers: Vec<_> = owned.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(&headers, &expected.headers);
        }
        prop_assert_eq!(owned.len(), expected.len());
    }

    #[test]
    fn a_set_cut_anywhere_gives_a_prefix_and_no_error(set in sets(), at in any::<proptest::sample::Index>()) {
        let whole = read(&set);
        let cut = RecordSet::new(set.bytes().slice(..at.index(set.bytes().len())));
        let (records, errors, _) = read_all(&cut, ReadOptions::default());
        prop_assert_eq!(errors, []);
        prop_assert!(whole.starts_with(&records));
    }

    #[test]
    fn g7_a_flipped_byte_never_panics_and_never_changes_a_record_unseen(
        set in sets(), at in any::<proptest::sample::Index>(), flip in 1..=255u8,
    ) {
        let mut bytes = set.bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let damaged = RecordSet::new(bytes.into());
        every_way(&damaged);
        // The checksum covers all but offset, size and leader epoch; damage to those moves
        // offsets or hides entries, but what is handed out has the values that were written.
        let sound: Vec<_> = read(&set).into_iter().map(|record| (record.key, record.value)).collect();
        let (records, _, _) = read_all(&damaged, ReadOptions::default());
        for record in records {
            prop_assert!(sound.contains(&(record.key, record.value)));
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in vec(any::<u8>(), 0..400)) {
        every_way(&RecordSet::new(bytes.into()));
    }

    #[test]
    fn a_record_area_of_any_bytes_under_a_right_checksum(
        records in vec(any::<u8>(), 0..200), attributes in 0..128i16, count in any::<i32>(), delta in any::<i32>(),
    ) {
        let odd = crate::support::OddBatch {
            attributes, count, last_offset_delta: delta, records, ..Default::default()
        };
        every_way(&odd.set());
    }

    #[test]
    fn an_inner_set_of_any_bytes_under_a_right_checksum(inner in vec(any::<u8>(), 0..200), magic in 0..2u8) {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&inner).unwrap();
        let value = encoder.finish().unwrap();
        let magic = if magic == 0 { Magic::V0 } else { Magic::V1 };
        every_way(&RecordSet::new(crate::support::message(magic, 5, 1, 0, None, Some(&value)).into()));
    }
}
