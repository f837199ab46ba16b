//! Decoding record sets: nanoseconds per record, beside another codec on the same bytes.
//!
//! `cargo bench --bench decode`. Ten batches of 1,000 records, checksums on, as in the table of the
//! README. "lazy" reads every record's offset, key and value; "owned" copies each record
//! out and drops the copy.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use downspout::records::{
    Codec, CrcCheck, Magic, NewHeader, NewRecord, ReadOptions, RecordSet, RecordSetWriter,
};

const BATCHES: usize = 10;
const RECORDS: usize = 1_000;

fn set(magic: Magic, codec: Codec, value: usize, headers: usize) -> Bytes {
    let all: [NewHeader<'_>; 2] =
        [(b"trace-id", Some(b"0123456789abcdef")), (b"content-type", Some(b"application/json"))];
    let value: Vec<u8> = (0..value).map(|i| (i * 31 % 251) as u8).collect();
    let mut bytes = Vec::new();
    for batch in 0..BATCHES {
        let mut writer = RecordSetWriter::new(magic).codec(codec).base_offset((batch * RECORDS) as i64);
        for i in 0..RECORDS {
            let timestamp = Some(1_700_000_000_000 + i as i64);
            writer
                .push(NewRecord { timestamp, headers: &all[..headers], ..NewRecord::value(&value) })
                .unwrap();
        }
        bytes.extend_from_slice(&writer.finish().unwrap());
    }
    bytes.into()
}

#[inline(never)]
fn lazy(set: &RecordSet, crc: CrcCheck) -> u64 {
    let mut sum = 0;
    for batch in set.batches(ReadOptions { crc, ..ReadOptions::default() }) {
        let batch = batch.unwrap();
        for record in batch.records() {
            let record = record.unwrap();
            sum += record.offset() as u64;
            sum += record.key().map_or(0, <[u8]>::len) as u64;
            sum += record.value().map_or(0, <[u8]>::len) as u64;
            sum += record.timestamp().unwrap_or(0) as u64;
        }
    }
    sum
}

#[inline(never)]
fn owned(set: &RecordSet) -> u64 {
    let mut sum = 0;
    for batch in set.batches(ReadOptions::default()) {
        for record in batch.unwrap().records() {
            sum += black_box(record.unwrap().to_owned()).offset() as u64;
        }
    }
    sum
}

fn ours(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, bytes: &Bytes) {
    let set = RecordSet::new(bytes.clone());
    group.bench_function(format!("{name}/downspout lazy"), |b| {
        b.iter(|| lazy(black_box(&set), CrcCheck::Verify))
    });
    group.bench_function(format!("{name}/downspout owned"), |b| b.iter(|| owned(black_box(&set))));
}

fn peer(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, bytes: &Bytes) {
    use kafka_protocol::records::RecordBatchDecoder;
    group.bench_function(format!("{name}/kafka-protocol"), |b| {
        b.iter(|| {
            let mut bytes = black_box(bytes).clone();
            let sets = RecordBatchDecoder::decode_all(&mut bytes).unwrap();
            sets.iter().map(|set| set.records.len()).sum::<usize>()
        });
    });
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements((BATCHES * RECORDS) as u64));
    for (name, size, headers) in
        [("v2 100 B", 100, 0), ("v2 100 B, 2 headers", 100, 2), ("v2 1 KiB", 1024, 0), ("v2 10 B", 10, 0)]
    {
        let bytes = set(Magic::V2, Codec::None, size, headers);
        ours(&mut group, name, &bytes);
        peer(&mut group, name, &bytes);
    }
    let plain = RecordSet::new(set(Magic::V2, Codec::None, 100, 0));
    group.bench_function("v2 100 B/downspout lazy, CRC skipped", |b| {
        b.iter(|| lazy(black_box(&plain), CrcCheck::Skip));
    });
    for (name, magic) in [("v0 100 B", Magic::V0), ("v1 100 B", Magic::V1)] {
        ours(&mut group, name, &set(magic, Codec::None, 100, 0));
    }
    for codec in Codec::ALL.into_iter().skip(1) {
        ours(&mut group, &format!("v2 100 B {codec}"), &set(Magic::V2, codec, 100, 0));
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
