//! What cannot be written says so.

use downspout::records::{
    Codec, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter, TimestampType, WriteError,
};

use crate::support::{hex, read, read_all};
use crate::vectors::{F, f};

#[test]
fn formats_that_cannot_keep_what_is_asked_refuse_it() {
    for magic in [Magic::V0, Magic::V1] {
        let mut writer = RecordSetWriter::new(magic);
        let headers = [(&b"k"[..], None)];
        let refused = writer.push(NewRecord { headers: &headers, ..NewRecord::value(b"v") });
        assert_eq!(refused, Err(WriteError::HeadersNeedMagic2));
        let mut writer = RecordSetWriter::new(magic).codec(Codec::Zstd);
        writer.push(NewRecord::value(b"v")).unwrap();
        assert!(matches!(writer.finish(), Err(WriteError::Codec(_))));
        let mut writer = RecordSetWriter::new(magic).producer(1, 0, 0);
        writer.push(NewRecord::value(b"v")).unwrap();
        assert_eq!(writer.finish(), Err(WriteError::ProducerNeedsMagic2));
    }
}

#[test]
fn offsets_must_ascend_and_fit_a_batch() {
    let at = |offset| NewRecord { offset: Some(offset), ..NewRecord::value(b"v") };
    let mut writer = RecordSetWriter::new(Magic::V2);
    writer.push(at(5)).unwrap();
    assert_eq!(writer.push(at(5)), Err(WriteError::Offsets));
    assert_eq!(writer.push(at(4)), Err(WriteError::Offsets));
    assert_eq!(writer.push(at(6 + (1 << 32))), Err(WriteError::Offsets));
    let mut below = RecordSetWriter::new(Magic::V1).codec(Codec::Gzip).base_offset(10);
    assert_eq!(below.push(at(9)), Err(WriteError::Offsets));
    writer.push(at(7)).unwrap();
    let offsets: Vec<_> = read(&RecordSet::new(writer.finish().unwrap())).iter().map(|r| r.offset).collect();
    assert_eq!(offsets, [5, 7]);
}

#[test]
fn log_append_time_is_written_in_both_formats_that_have_it() {
    for (magic, codec) in [
        (Magic::V1, Codec::None),
        (Magic::V1, Codec::Gzip),
        (Magic::V2, Codec::None),
        (Magic::V2, Codec::Lz4),
    ] {
        let mut writer = RecordSetWriter::new(magic).codec(codec).log_append_time(7777);
        for timestamp in [1, 2] {
            writer.push(NewRecord { timestamp: Some(timestamp), ..NewRecord::value(b"v") }).unwrap();
        }
        for record in read(&RecordSet::new(writer.finish().unwrap())) {
            assert_eq!(
                (record.timestamp, record.timestamp_type),
                (Some(7777), Some(TimestampType::LogAppendTime)),
                "{magic:?} {codec}"
            );
        }
    }
}

#[test]
fn plain_sets_are_the_bytes_that_others_write() {
    for (name, magic, start) in [("f01", Magic::V0, None), ("f12", Magic::V2, Some(1000))] {
        let mut writer = RecordSetWriter::new(magic).base_offset(10);
        for (i, value) in ["a", "b"].iter().enumerate() {
            let timestamp = start.map(|start| start + i as i64);
            writer.push(NewRecord { timestamp, ..NewRecord::value(value.as_bytes()) }).unwrap();
        }
        let mut bytes = writer.finish().unwrap().to_vec();
        if magic == Magic::V2 {
            // The vector was written under leader epoch 0.
            bytes[12..16].fill(0);
        }
        assert_eq!(bytes, f(name).bytes()[..], "{name}");
    }
}

#[test]
fn nothing_written_is_an_empty_set_or_for_magic_2_an_empty_batch() {
    for magic in [Magic::V0, Magic::V1] {
        assert!(RecordSetWriter::new(magic).codec(Codec::Gzip).finish().unwrap().is_empty());
    }
    let set = RecordSet::new(RecordSetWriter::new(Magic::V2).base_offset(3).finish().unwrap());
    let (records, errors, next) = read_all(&set, ReadOptions::default());
    assert_eq!((records.len(), errors.len(), next), (0, 0, Some(4)));
}

#[test]
fn raw_entries_are_untouched_bytes_with_a_view_of_the_header() {
    let all: Vec<u8> = F.iter().flat_map(|(_, bytes)| hex(bytes)).collect();
    let set = RecordSet::new(all.clone().into());
    let mut again = Vec::new();
    for entry in set.entries() {
        let entry = entry.unwrap();
        entry.check_crc().unwrap();
        assert_eq!(entry.batch_header().is_some(), entry.magic() == Magic::V2);
        assert_eq!(entry.position(), again.len());
        again.extend_from_slice(entry.bytes());
    }
    assert_eq!(again, all);
}
