//! Record sets. The first byte chooses how they are read; with its top bit the checksums are set
//! right first, so that what lies behind them is reached.

#![no_main]

use bytes::Bytes;
use downspout::records::{CrcCheck, Isolation, Magic, ReadOptions, RecordSet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, set @ ..] = input else { return };
    let mut set = set.to_vec();
    if how & 0x80 != 0 {
        mend_checksums(&mut set);
    }
    let set = RecordSet::new(set.into());
    let options = ReadOptions {
        from_offset: i64::MIN,
        crc: [CrcCheck::Verify, CrcCheck::Skip, CrcCheck::Report][usize::from(how & 3) % 3],
        isolation: if how & 4 == 0 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted },
        control_batches: how & 8 != 0,
        max_inflated: 1 << 20,
        ..ReadOptions::default()
    };
    let mut batches = set.batches(options);
    let mut records = 0usize;
    for mut batch in batches.by_ref().flatten() {
        batch.detach();
        for record in batch.records().flatten() {
            records += 1;
            let owned = record.to_owned();
            assert_eq!((owned.key(), owned.value()), (record.key(), record.value()));
            assert!(owned.headers().eq(record.headers()));
        }
    }
    // The smallest record takes 7 bytes, inflated.
    assert!(records <= set.bytes().len() / 7 + (1 << 20) / 7 * set.entries().count());
    assert!(batches.tail().bytes <= set.bytes().len());
    assert!(set.next_offset() <= batches.next_offset());
});

fn mend_checksums(set: &mut [u8]) {
    let entries: Vec<_> = RecordSet::new(Bytes::copy_from_slice(set)).entries().flatten().collect();
    for entry in entries {
        let bytes = &mut set[entry.position()..][..entry.bytes().len()];
        if entry.magic() == Magic::V2 {
            let crc = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        } else {
            let crc = crc32fast::hash(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_be_bytes());
        }
    }
}
