//! What Confluent's Parallel Consumer (0.2 to 0.6) leaves beside a committed offset: which records beyond
//! it are done.
//!
//! Base64 of one byte that names the encoding, and a body: either bits, a count and one bit for each
//! offset from the committed one on; or runs, lengths of unfinished and finished stretches in turn. Each
//! with numbers of 16 or of 32 bits, and each plain or in a zstd frame.
//!
//! Its readers died of foreign text, invented unfinished records out of counts that were too large, and
//! skipped what lay beyond the end of the log. Here whatever is not whole and consistent is nothing at
//! all, with a reason, and the records are handed out again.

use std::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// As much as a string of the protocol holds.
const LONGEST: usize = i16::MAX as usize;
/// A body that inflates to more is not from there: its metadata was cut at 4,096 characters.
const MOST_INFLATED: usize = 1 << 20;

/// How a body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Encoding {
    is_bits: bool,
    /// Bytes of a number.
    width: usize,
    is_zstd: bool,
}

/// The records that are done beyond `base`, the committed offset, as runs in order and apart; else why
/// none are known. `end` is the end of the log.
pub(super) fn read(text: &str, base: i64, end: i64) -> Result<Vec<Range<i64>>, String> {
    if text.len() > LONGEST {
        return Err("it is longer than any metadata".to_owned());
    }
    let foreign = || "it is neither from a spout of this kind nor from Parallel Consumer".to_owned();
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| foreign())?;
    let (first, body) = bytes.split_first().ok_or_else(foreign)?;
    let encoding = Encoding::of(*first).ok_or_else(foreign)?;
    let log = usize::try_from(end.saturating_sub(base)).unwrap_or(0);
    let runs = if encoding.is_zstd {
        encoding.runs(&inflate(body, encoding.most(log))?, base)
    } else {
        encoding.runs(body, base)
    };
    let Runs { done, top } = runs.map_err(|why| format!("Parallel Consumer's map is damaged: {why}"))?;
    if top > end {
        return Err(format!(
            "Parallel Consumer's map ends at {top}, and the log at {end}: it is another log's"
        ));
    }
    Ok(done)
}

/// What a map says.
#[derive(Debug)]
struct Runs {
    done: Vec<Range<i64>>,
    /// The offset after the last one that it tells of.
    top: i64,
}

impl Encoding {
    fn of(magic: u8) -> Option<Self> {
        let (is_bits, width, is_zstd) = match magic {
            b'l' => (true, 2, false),
            b'a' => (true, 2, true),
            b'o' => (true, 4, false),
            b's' => (true, 4, true),
            b'n' => (false, 2, false),
            b'J' => (false, 2, true),
            b'e' => (false, 4, false),
            b'p' => (false, 4, true),
            _ => return None,
        };
        Some(Encoding { is_bits, width, is_zstd })
    }

    /// Bytes that a body about a log of that length may inflate to: there is one spare one.
    fn most(self, log: usize) -> usize {
        if self.is_bits { (log.div_ceil(8) + self.width + 1).min(MOST_INFLATED) } else { MOST_INFLATED }
    }

    fn runs(self, body: &[u8], base: i64) -> Result<Runs, &'static str> {
        let mut runs = Runs { done: Vec::new(), top: base };
        if self.is_bits {
            let (count, bits) = body.split_at_checked(self.width).ok_or("it has no count")?;
            let count = number(count)?;
            if bits.len() as u64 * 8 < count {
                return Err("it has fewer bits than it says");
            }
            for index in 0..count {
                let bit = bits.get((index / 8) as usize).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
                runs.push(1, bit)?;
            }
        } else {
            let numbers = body.chunks_exact(self.width);
            if !numbers.remainder().is_empty() {
                return Err("its last number is cut");
            }
            for (index, run) in numbers.enumerate() {
                runs.push(number(run)?, index % 2 == 1)?;
            }
        }
        // The commit point starts at the committed offset, whatever the map says of it.
        runs.done.retain(|run| run.start > base);
        Ok(runs)
    }
}

impl Runs {
    /// The next offsets are done, or are not.
    fn push(&mut self, count: u64, is_done: bool) -> Result<(), &'static str> {
        let start = self.top;
        self.top = start.checked_add_unsigned(count).ok_or("it goes beyond the last offset there can be")?;
        if is_done && count > 0 {
            match self.done.last_mut() {
                Some(last) if last.end == start => last.end = self.top,
                _ => self.done.push(start..self.top),
            }
        }
        Ok(())
    }
}

/// A signed number, the highest byte first.
fn number(bytes: &[u8]) -> Result<u64, &'static str> {
    let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    if value >> (bytes.len() * 8 - 1) == 0 { Ok(value) } else { Err("it has a negative number") }
}

/// The one frame that it is.
#[cfg(feature = "zstd")]
fn inflate(frame: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    use crate::records::{Codec, Magic, inflate};

    if zstd::zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len()) {
        return Err("Parallel Consumer's map is damaged: it is not one zstd frame".to_owned());
    }
    inflate(Codec::Zstd, Magic::V2, frame, limit)
        .map_err(|why| format!("Parallel Consumer's map is damaged: {why}"))
}

#[cfg(not(feature = "zstd"))]
fn inflate(_: &[u8], _: usize) -> Result<Vec<u8>, String> {
    Err("Parallel Consumer's map is compressed, and this build has no zstd: enable the feature \"zstd\""
        .to_owned())
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use std::ops::RangeInclusive;

    use proptest::prelude::*;

    use super::*;

    /// Base, top, what is missing, and all strings for it (facts/parallel-consumer.md 3.4, each seen to
    /// be written or read by 0.5.3.3).
    type Vector = (i64, i64, &'static [RangeInclusive<i64>], &'static [&'static str]);

    const VECTORS: &[Vector] = &[
        (
            100,
            110,
            &[100..=100, 103..=103],
            &[
                "bAAL9gcA",
                "YSi1L/0AWCkAAAAL9gcA",
                "bgABAAIAAQAH",
                "Sii1L/0AWEEAAAABAAIAAQAH",
                "bwAAAAv2BwA=",
                "cyi1L/0AWDkAAAAAAAv2BwA=",
                "ZQAAAAEAAAACAAAAAQAAAAc=",
                "cCi1L/0AWIEAAAAAAAEAAAACAAAAAQAAAAc=",
            ],
        ),
        (
            21,
            40,
            &[21..=23, 31..=34],
            &[
                "bAAU+MMPAA==",
                "YSi1L/0AWDEAAAAU+MMPAA==",
                "bgADAAcABAAG",
                "Sii1L/0AWEEAAAADAAcABAAG",
                "bwAAABT4ww8A",
                "cyi1L/0AWEEAAAAAABT4ww8A",
                "ZQAAAAMAAAAHAAAABAAAAAY=",
                "cCi1L/0AWIEAAAAAAAMAAAAHAAAABAAAAAY=",
            ],
        ),
        (1, 199_999, &[1..=1], &["ZQAAAAEAAw0+", "cyi1L/0AWH0AAEAAAw0//v9/AAEAouEOig=="]),
        (1, 93_979, &[1..=1, 93_907..=93_907, 93_912..=93_912], &["ZQAAAAEAAW7RAAAAAQAAAAQAAAABAAAAQw=="]),
        (1, 94_585, &[1..=1, 94_519..=94_519], &["ZQAAAAEAAXE1AAAAAQAAAEI="]),
        (100, 100, &[100..=100], &["bgAB"]),
        (100, 99, &[], &["bgAA"]),
    ];

    fn done(base: i64, top: i64, missing: &[RangeInclusive<i64>]) -> Vec<Range<i64>> {
        let mut done = Vec::new();
        let mut next = base;
        for run in missing.iter().cloned().chain([top + 1..=top + 1]) {
            if next > base && *run.start() > next {
                done.push(next..*run.start());
            }
            next = run.end() + 1;
        }
        done
    }

    #[test]
    fn pc_3_4_all_eight_encodings_are_read() {
        for (base, top, missing, texts) in VECTORS {
            for text in *texts {
                let expected = done(*base, *top, missing);
                assert_eq!(read(text, *base, top + 1), Ok(expected.clone()), "{text}");
                assert_eq!(read(text, *base, i64::MAX), Ok(expected), "{text}");
            }
        }
        assert_eq!(done(21, 40, &[21..=23, 31..=34]), [24..31, 35..41]);
    }

    #[test]
    fn pc_3_4_vector_d_every_second_one_with_a_repeat_inside() {
        let missing: Vec<_> = (1000..2000).step_by(2).map(|offset| offset..=offset).collect();
        assert_eq!(read("Sii1L/0AWE0AABAAAQEAy/c7LA==", 1000, 2000), Ok(done(1000, 1999, &missing)));
    }

    #[test]
    fn pc8_10_a_map_that_reaches_past_the_end_of_the_log_is_none() {
        for (base, top, missing, texts) in VECTORS.iter().filter(|(.., missing, _)| !missing.is_empty()) {
            for text in *texts {
                assert!(read(text, *base, *top).is_err(), "{text} {missing:?}");
                assert!(read(text, *base, base - 1).is_err(), "{text}");
                assert!(read(text, i64::MAX, i64::MAX).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn pc_3_6_foreign_and_broken_ones_are_none_with_a_reason() {
        for (text, why) in [
            ("", "neither"),
            ("kgo-1f", "neither"),
            ("{}", "neither"),
            ("abcd", "neither"),
            ("AQ==", "neither"),
            ("Ag==", "neither"),
            ("TA==", "neither"),
            ("bgAB\n", "neither"),
            ("bAAF", "fewer bits"),
            ("bwAAAAU=", "fewer bits"),
            ("bP//AA==", "negative"),
            ("bv//", "negative"),
            ("bgABAA==", "last number is cut"),
            ("bwAB", "no count"),
            ("bA==", "no count"),
            ("YQ==", "zstd frame"),
            ("YSi1L/0=", "zstd frame"),
        ] {
            let error = read(text, 100, i64::MAX).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        // A frame with something behind it, and two frames.
        let frame = BASE64_STANDARD.decode("YSi1L/0AWCkAAAAL9gcA").unwrap();
        for after in [&b"x"[..], &frame[1..]] {
            let longer = BASE64_STANDARD.encode([&frame[..], after].concat());
            assert!(read(&longer, 100, i64::MAX).unwrap_err().contains("zstd frame"));
        }
        assert!(read(&"A".repeat(40_000), 100, i64::MAX).unwrap_err().contains("longer than any"));
        // No body, or no number: nothing is known, and nothing is wrong.
        assert_eq!(read("ZQ==", 100, i64::MAX), Ok(vec![]));
    }

    #[test]
    fn pc_3_6_a_run_of_two_thousand_million_takes_no_memory() {
        let huge = BASE64_STANDARD.encode([&b"e"[..], &[0x7f, 0xff, 0xff, 0xff], &[0, 0, 0, 1]].concat());
        let end = 100 + i64::from(i32::MAX);
        assert_eq!(read(&huge, 100, i64::MAX).unwrap(), std::iter::once(end..end + 1).collect::<Vec<_>>());
        assert!(read(&huge, 100, 1000).is_err());
        assert!(read(&huge, i64::MAX - 5, i64::MAX).is_err());
    }

    #[test]
    fn a_bomb_is_not_inflated() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        assert!(bomb.len() < 16 << 10);
        for magic in *b"Jpas" {
            let text = BASE64_STANDARD.encode([&[magic][..], &bomb].concat());
            assert!(read(&text, 0, i64::MAX).unwrap_err().contains("limit"), "{magic}");
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_there_runs_are_in_order_apart_and_inside_the_log(
            magic in prop::sample::select(&b"laosnJep"[..]),
            body in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..40),
            base in 0_i64..1000,
            length in 0_i64..2000,
        ) {
            let text = BASE64_STANDARD.encode([&[magic][..], &body].concat());
            if let Ok(done) = read(&text, base, base + length) {
                let mut last = base;
                for run in done {
                    prop_assert!(run.start > last && run.end > run.start);
                    last = run.end;
                }
                prop_assert!(last <= base + length);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}", base: i64, end: i64) {
            let _ = read(&text, base, end);
        }
    }
}
