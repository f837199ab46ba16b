//! Vectors made by one implementation and read by another.

use downspout::records::{Codec, ControlKind, Magic, ReadOptions, RecordSet, TimestampType};

use crate::support::{hex, pairs, read, read_all, set, uncommitted, values};

pub(crate) const F: &[(&str, &str)] = &[
    (
        "f01 v0 plain",
        "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff0000000162",
    ),
    (
        "f02 v0 gzip",
        "000000000000000b0000005b2713e0130001ffffffff0000004d1f8b08000000000000ff013600c9ff000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff000000016229d62eec36000000",
    ),
    (
        "f03 v0 snappy raw",
        "000000000000000b00000046c1ad5ee20002ffffffff0000003836d4000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff0000000162",
    ),
    (
        "f04 v0 snappy xerial",
        "000000000000000b000000600d336e8f0002ffffffff0000005282534e4150505900000000010000000100000016144c000000000000000a0000000f51df3a320000ffff000000242284ffff0000000161000000000000000b0000000fc8d66b880000ffffffff0000000162",
    ),
    (
        "f05 v0 lz4, broken header checksum",
        "000000000000000b00000053800310130003ffffffff0000004504224d1860401a36000080000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b880000ffffffff000000016200000000",
    ),
    (
        "f07 v1 gzip",
        "000000000000000b00000073263f7526010100000000000003e9ffffffff0000005d1f8b08000000000000ff014600b9ff0000000000000000000000178a65e96d010000000000000003e8ffffffff0000000161000000000000000100000017fcaed3e9010000000000000003e9ffffffff000000016250ffca7646000000",
    ),
    (
        "f08 v1 gzip, LogAppendTime",
        "000000000000000b00000073aff94c8c01090000000000001388ffffffff0000005d1f8b08000000000000ff014600b9ff0000000000000000000000178a65e96d010000000000000003e8ffffffff0000000161000000000000000100000017fcaed3e9010000000000000003e9ffffffff000000016250ffca7646000000",
    ),
    (
        "f11 v1 lz4",
        "000000000000000b0000006b27a69c1d010300000000000003e9ffffffff0000005504224d18604082460000800000000000000000000000178a65e96d010000000000000003e8ffffffff0000000161000000000000000100000017fcaed3e9010000000000000003e9ffffffff000000016200000000",
    ),
    (
        "f12 v2 plain",
        "000000000000000a000000410000000002541f3f8000000000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff000000020e000000010261000e00020201026200",
    ),
    (
        "f13 v2 gzip",
        "000000000000000a000000580000000002da5e7a6600010000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff000000021f8b08000000000000ff011000efff0e000000010261000e00020201026200697da4ff10000000",
    ),
    (
        "f14 v2 snappy xerial",
        "000000000000000a000000570000000002a75913d000020000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff0000000282534e4150505900000000010000000100000012103c0e000000010261000e00020201026200",
    ),
    (
        "f16 v2 lz4",
        "000000000000000a00000050000000000299c01c0300030000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff0000000204224d18604082100000800e000000010261000e0002020102620000000000",
    ),
    (
        "f17 v2 zstd",
        "000000000000000a0000004a000000000238a8300600040000000100000000000003e800000000000003e9ffffffffffffffffffffffffffff0000000228b52ffd00588100000e000000010261000e00020201026200",
    ),
    (
        "f23 v2 transactional",
        "000000000000000a00000041000000000261de474800100000000100000000000003e800000000000003e90000000000000007000000000000000000020e000000010261000e00020201026200",
    ),
    (
        "f24 v2 LogAppendTime",
        "000000000000000a000000410000000002fd76815a00080000000100000000000003e80000000000001388ffffffffffffffffffffffffffff000000020e000000010261000e00020201026200",
    ),
];

pub(crate) const F19_EMPTY: &str = "000000000000000a0000003100000000021b544766000000000004ffffffffffffffff00000000000003e9000000000000000700000000000000000000";
pub(crate) const F21_ABORT: &str = "000000000000000c0000004200000000023f29eeef00300000000000000000000003e800000000000003e800000000000000070000ffffffff000000012000000008000000000c00000000000300";
pub(crate) const F22_COMMIT: &str = "000000000000000c000000420000000002cb1738a700300000000000000000000003e800000000000003e800000000000000070000ffffffff000000012000000008000000010c00000000000300";
pub(crate) const F29_MIXED: &str = "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b00000017fcaed3e9010000000000000003e9ffffffff0000000162000000000000000c000000390000000002928a2a0500000000000000000000000003e800000000000003e9ffffffffffffffffffffffffffff000000010e00000001026300";
pub(crate) const F30_CUT: &str =
    "000000000000000a0000000f51df3a320000ffffffff0000000161000000000000000b0000000fc8d66b88";

pub(crate) fn f(name: &str) -> RecordSet {
    let found = F.iter().find(|(known, _)| known.starts_with(name));
    set(found.unwrap_or_else(|| panic!("no vector {name}")).1)
}

#[test]
fn b5_every_codec_of_every_format_gives_a_at_10_and_b_at_11() {
    for (name, bytes) in F {
        let set = set(bytes);
        assert_eq!(values(&set), pairs(&[(10, "a"), (11, "b")]), "{name}");
        assert_eq!(set.next_offset(), Some(12), "{name}");
        assert_eq!(set.tail().bytes, 0, "{name}");
        let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
        let magic = [Magic::V0, Magic::V1, Magic::V2][usize::from(name.as_bytes()[5] - b'0')];
        assert_eq!(batch.magic(), magic, "{name}");
        let codec = Codec::ALL.into_iter().skip(1).find(|codec| name.contains(codec.name()));
        assert_eq!(batch.codec(), codec.unwrap_or(Codec::None), "{name}");
    }
}

#[test]
fn case_27_case_28_d13_timestamps_of_every_format() {
    let times = |set: &RecordSet| read(set).iter().map(|record| record.timestamp).collect::<Vec<_>>();
    let kinds = |set: &RecordSet| read(set).iter().map(|record| record.timestamp_type).collect::<Vec<_>>();
    for name in ["f01", "f02", "f03", "f04", "f05"] {
        assert_eq!(times(&f(name)), [None, None], "{name}: magic 0 has no timestamps");
        assert_eq!(kinds(&f(name)), [None, None], "{name}");
    }
    for name in ["f07", "f11", "f12", "f13", "f14", "f16", "f17"] {
        assert_eq!(times(&f(name)), [Some(1000), Some(1001)], "{name}");
        assert_eq!(kinds(&f(name)), [Some(TimestampType::CreateTime); 2], "{name}");
    }
    for name in ["f08", "f24"] {
        assert_eq!(times(&f(name)), [Some(5000), Some(5000)], "{name}: case_27 case_28 D13");
        assert_eq!(kinds(&f(name)), [Some(TimestampType::LogAppendTime); 2], "{name}");
    }
}

#[test]
fn f06_v1_plain_with_a_key() {
    let set = set("000000000000000a000000186730a47b010000000000000003e8000000016b0000000161");
    let [record] = &read(&set)[..] else { panic!() };
    assert_eq!((record.offset, record.timestamp), (10, Some(1000)));
    assert_eq!((record.key.as_deref(), record.value.as_deref()), (Some(&b"k"[..]), Some(&b"a"[..])));
}

#[test]
fn case_19_d17_f19_an_empty_batch_gives_nothing_and_moves_on() {
    let set = set(F19_EMPTY);
    assert_eq!(read(&set), []);
    assert_eq!(set.next_offset(), Some(15));
}

#[test]
fn case_20_d1_f21_f22_control_batches_are_not_handed_out_but_use_up_their_offset() {
    for (bytes, kind) in [(F21_ABORT, ControlKind::Abort), (F22_COMMIT, ControlKind::Commit)] {
        let set = set(bytes);
        for options in [ReadOptions::default(), uncommitted()] {
            let (records, errors, next) = read_all(&set, options);
            assert_eq!((records, errors, next), (vec![], vec![], Some(13)));
        }
        let wanted = ReadOptions { control_batches: true, ..ReadOptions::default() };
        let batch = set.batches(wanted).next().unwrap().unwrap();
        assert!(batch.is_control() && batch.is_transactional());
        assert_eq!(batch.producer_id(), Some(7));
        let record = batch.records().next().unwrap().unwrap();
        assert_eq!(downspout::records::Control::of(&record).unwrap().kind, kind);
    }
}

#[test]
fn case_31_d11_d12_f27_headers_keep_order_duplicates_null_and_empty() {
    let set = set(
        "000000000000000a0000004700000000025dcd2a8e00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000012a000000026b02760604683101046832000468310278",
    );
    let [record] = &read(&set)[..] else { panic!() };
    let h = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    assert_eq!(record.headers, [h(b"h1", None), h(b"h2", Some(b"")), h(b"h1", Some(b"x"))]);
}

#[test]
fn case_06_case_07_f29_each_entry_has_a_format_of_its_own() {
    let set = set(F29_MIXED);
    assert_eq!(values(&set), pairs(&[(10, "a"), (11, "b"), (12, "c")]));
    let magics: Vec<_> = set.batches(ReadOptions::default()).map(|batch| batch.unwrap().magic()).collect();
    assert_eq!(magics, [Magic::V0, Magic::V1, Magic::V2]);
}

#[test]
fn case_02_f30_a_cut_before_the_magic_keeps_what_came_before() {
    let set = set(F30_CUT);
    assert_eq!(values(&set), pairs(&[(10, "a")]));
    assert_eq!(set.next_offset(), Some(11));
    assert_eq!((set.tail().bytes, set.tail().needed), (16, Some(27)));
}

#[test]
fn b4_g1_to_g5_messages_captured_from_brokers() {
    let table = [
        ("g1", "000000000000000000000011feb01dbf0000ffffffff00000003313233", 0, None, Some("123")),
        (
            "g2",
            "000000000000000000000019478628c201000000015e1867abaeffffffff00000003313233",
            0,
            Some(1503648000942),
            Some("123"),
        ),
        (
            "g3",
            "00000000000000000000003b00000001020318a2700000000000000000015dff7b063c0000015dff7b063cffffffffffffffffffffffffffff0000000112000000010631323300",
            0,
            Some(1503229838908),
            Some("123"),
        ),
    ];
    for (name, bytes, offset, timestamp, value) in table {
        let [record] = &read(&set(bytes))[..] else { panic!("{name}") };
        assert_eq!((record.offset, record.timestamp), (offset, timestamp), "{name}");
        assert_eq!(record.value.as_deref(), value.map(str::as_bytes), "{name}");
    }
    let g4 = set(
        "0000000000000001000000400000000202c85cbd230000000000010000015dff7cdd6c0000015dff7cde14ffffffffffffffffffffffffffff000000020c0000000100000e00d00202010000",
    );
    let times: Vec<_> = read(&g4)
        .iter()
        .map(|record| (record.offset, record.timestamp.unwrap(), record.value.clone()))
        .collect();
    assert_eq!(times, [(1, 1503229959532, Some(vec![])), (2, 1503229959532 + 168, Some(vec![]))]);
    let g5 = set(
        "00000000000000000000004500000000025cd8ef520000000000000000016585b6f3c10000016585b6f3c1ffffffffffffffffffffffffffff000000012600000001066864720208686b6579086876616c",
    );
    let [record] = &read(&g5)[..] else { panic!("g5") };
    assert_eq!(record.headers, [(b"hkey".to_vec(), Some(b"hval".to_vec()))]);
}

#[test]
fn case_11_an_empty_set_is_no_error() {
    let set = RecordSet::new(hex(""));
    assert_eq!(read(&set), []);
    assert_eq!(set.next_offset(), None);
}
