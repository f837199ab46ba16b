//! Zigzag varints of the record format (VARINT, VARLONG), read from a plain slice.
//!
//! The one- to three-byte cases are unrolled: they are nearly all there are, and a byte loop
//! doubles the cost of a record.

/// Reads a zigzag VARINT at `at`; gives the value and the position after it.
#[inline(always)]
pub fn read_varint(data: &[u8], at: usize) -> Option<(i32, usize)> {
    let rest = data.get(at..)?;
    match rest {
        [a, ..] if *a < 0x80 => Some((unzigzag32(u32::from(*a)), at + 1)),
        [a, b, ..] if *b < 0x80 => Some((unzigzag32(u32::from(*a & 0x7f) | u32::from(*b) << 7), at + 2)),
        [a, b, c, ..] if *c < 0x80 => {
            Some((unzigzag32(u32::from(*a & 0x7f) | u32::from(*b & 0x7f) << 7 | u32::from(*c) << 14), at + 3))
        }
        _ => long_varint(rest).map(|(value, size)| (value, at + size)),
    }
}

/// Reads a zigzag VARLONG at `at`; gives the value and the position after it.
#[inline(always)]
pub fn read_varlong(data: &[u8], at: usize) -> Option<(i64, usize)> {
    let rest = data.get(at..)?;
    match rest {
        [a, ..] if *a < 0x80 => Some((unzigzag64(u64::from(*a)), at + 1)),
        [a, b, ..] if *b < 0x80 => Some((unzigzag64(u64::from(*a & 0x7f) | u64::from(*b) << 7), at + 2)),
        [a, b, c, ..] if *c < 0x80 => {
            Some((unzigzag64(u64::from(*a & 0x7f) | u64::from(*b & 0x7f) << 7 | u64::from(*c) << 14), at + 3))
        }
        _ => long_varlong(rest).map(|(value, size)| (value, at + size)),
    }
}

#[cold]
fn long_varint(rest: &[u8]) -> Option<(i32, usize)> {
    let (bits, size) = unsigned(rest, 5)?;
    // The fifth byte has room for the top four bits only.
    u32::try_from(bits).ok().map(|bits| (unzigzag32(bits), size))
}

#[cold]
fn long_varlong(rest: &[u8]) -> Option<(i64, usize)> {
    let (bits, size) = unsigned(rest, 10)?;
    Some((unzigzag64(bits), size))
}

/// An unsigned base-128 number of at most `most` bytes, and its size in bytes.
pub(super) fn unsigned(rest: &[u8], most: usize) -> Option<(u64, usize)> {
    let mut bits = 0u64;
    for (i, byte) in rest.iter().take(most).enumerate() {
        let group = u64::from(byte & 0x7f);
        if i == 9 && group > 1 {
            return None;
        }
        bits |= group << (7 * i);
        if byte & 0x80 == 0 {
            return Some((bits, i + 1));
        }
    }
    None
}

#[inline(always)]
fn unzigzag32(bits: u32) -> i32 {
    (bits >> 1) as i32 ^ -((bits & 1) as i32)
}

#[inline(always)]
fn unzigzag64(bits: u64) -> i64 {
    (bits >> 1) as i64 ^ -((bits & 1) as i64)
}

pub(super) fn zigzag32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

pub(super) fn zigzag64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    #[test]
    fn varints_match_the_published_table() {
        let table: &[(i64, &[u8])] = &[
            (0, &[0x00]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ];
        for (value, bytes) in table {
            assert_eq!(read_varlong(bytes, 0), Some((*value, bytes.len())), "{value}");
            let mut writer = Writer::new();
            writer.varlong(*value);
            assert_eq!(writer.as_slice(), *bytes, "{value}");
            if let Ok(value) = i32::try_from(*value) {
                assert_eq!(read_varint(bytes, 0), Some((value, bytes.len())), "{value}");
            }
            for cut in 0..bytes.len() {
                assert_eq!(read_varlong(&bytes[..cut], 0), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn case_32_a_varint_without_an_end_is_refused() {
        assert_eq!(read_varint(&[0xff; 16], 0), None);
        assert_eq!(read_varint(&[0x80, 0x80, 0x80, 0x80, 0x10], 0), None, "33 bits");
        assert_eq!(read_varlong(&[0xff; 16], 0), None);
        let past_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(read_varlong(&past_64_bits, 0), None);
    }

    #[test]
    fn every_length_of_varint_round_trips() {
        for shift in 0..64 {
            for near in [-1i64, 0, 1] {
                let power = 1i64 << shift;
                for value in [power.wrapping_add(near), power.wrapping_neg().wrapping_add(near)] {
                    let mut writer = Writer::new();
                    writer.varlong(value);
                    assert_eq!(read_varlong(writer.as_slice(), 0), Some((value, writer.len())));
                    if let Ok(small) = i32::try_from(value) {
                        let mut writer = Writer::new();
                        writer.varint(small);
                        assert_eq!(read_varint(writer.as_slice(), 0), Some((small, writer.len())));
                    }
                }
            }
        }
    }
}
