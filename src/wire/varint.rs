//! Zigzag varints of the record format (VARINT, VARLONG), read from a plain slice.
//!
//! The one- to three-byte cases are unrolled: they are nearly all there are, and a byte loop
//! doubles the cost of a record.

/// Takes a zigzag VARINT off the front; `None`, and nothing taken, if it does not fit.
#[inline(always)]
pub fn take_varint(bytes: &mut &[u8]) -> Option<i32> {
    let (value, rest) = match *bytes {
        [a, rest @ ..] if *a < 0x80 => (u32::from(*a), rest),
        [a, b, rest @ ..] if *b < 0x80 => (u32::from(*a & 0x7f) | u32::from(*b) << 7, rest),
        [a, b, c, rest @ ..] if *c < 0x80 => {
            (u32::from(*a & 0x7f) | u32::from(*b & 0x7f) << 7 | u32::from(*c) << 14, rest)
        }
        _ => long_varint(bytes)?,
    };
    *bytes = rest;
    Some(unzigzag32(value))
}

/// Takes a zigzag VARLONG off the front; `None`, and nothing taken, if it does not fit.
#[inline(always)]
pub fn take_varlong(bytes: &mut &[u8]) -> Option<i64> {
    let (value, rest) = match *bytes {
        [a, rest @ ..] if *a < 0x80 => (u64::from(*a), rest),
        [a, b, rest @ ..] if *b < 0x80 => (u64::from(*a & 0x7f) | u64::from(*b) << 7, rest),
        [a, b, c, rest @ ..] if *c < 0x80 => {
            (u64::from(*a & 0x7f) | u64::from(*b & 0x7f) << 7 | u64::from(*c) << 14, rest)
        }
        _ => long_varlong(bytes)?,
    };
    *bytes = rest;
    Some(unzigzag64(value))
}

#[cold]
fn long_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (bits, size) = unsigned(bytes, 5)?;
    // The fifth byte has room for the top four bits only.
    Some((u32::try_from(bits).ok()?, &bytes[size..]))
}

#[cold]
fn long_varlong(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (bits, size) = unsigned(bytes, 10)?;
    Some((bits, &bytes[size..]))
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

    /// The number at the start, and its size.
    fn varint(bytes: &[u8]) -> Option<(i32, usize)> {
        let mut rest = bytes;
        take_varint(&mut rest).map(|value| (value, bytes.len() - rest.len()))
    }

    fn varlong(bytes: &[u8]) -> Option<(i64, usize)> {
        let mut rest = bytes;
        take_varlong(&mut rest).map(|value| (value, bytes.len() - rest.len()))
    }

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
            assert_eq!(varlong(bytes), Some((*value, bytes.len())), "{value}");
            let mut writer = Writer::new();
            writer.varlong(*value);
            assert_eq!(writer.as_slice(), *bytes, "{value}");
            if let Ok(value) = i32::try_from(*value) {
                assert_eq!(varint(bytes), Some((value, bytes.len())), "{value}");
            }
            for cut in 0..bytes.len() {
                assert_eq!(varlong(&bytes[..cut]), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn case_32_a_varint_without_an_end_is_refused() {
        assert_eq!(varint(&[0xff; 16]), None);
        assert_eq!(varint(&[0x80, 0x80, 0x80, 0x80, 0x10]), None, "33 bits");
        assert_eq!(varlong(&[0xff; 16]), None);
        let past_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(varlong(&past_64_bits), None);
    }

    #[test]
    fn every_length_of_varint_round_trips() {
        for shift in 0..64 {
            for near in [-1i64, 0, 1] {
                let power = 1i64 << shift;
                for value in [power.wrapping_add(near), power.wrapping_neg().wrapping_add(near)] {
                    let mut writer = Writer::new();
                    writer.varlong(value);
                    assert_eq!(varlong(writer.as_slice()), Some((value, writer.len())));
                    if let Ok(small) = i32::try_from(value) {
                        let mut writer = Writer::new();
                        writer.varint(small);
                        assert_eq!(varint(writer.as_slice()), Some((small, writer.len())));
                    }
                }
            }
        }
    }
}
