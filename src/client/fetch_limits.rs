//! Limits of Fetch 0–2 that had to grow for a record larger than what was asked for.

use std::collections::HashMap;

use bytes::Bytes;

use crate::records::RecordSet;

/// Limits that were raised, per partition; they go down again once smaller ones would do.
#[derive(Debug, Default)]
pub(super) struct FetchLimits(HashMap<(String, i32), i32>);

/// What to do about a set without a complete entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Oversize {
    /// Ask again with this limit.
    Grow(i32),
    /// The record needs so many bytes, which is more than allowed.
    TooLarge(u64),
}

impl FetchLimits {
    /// The limit for a partition of which `wanted` bytes are wanted.
    pub(super) fn limit(&self, topic: &str, partition: i32, wanted: i32) -> i32 {
        if self.0.is_empty() {
            return wanted;
        }
        self.0.get(&(topic.to_owned(), partition)).map_or(wanted, |raised| wanted.max(*raised))
    }

    /// A fetch with `limit` gave something: keep the limit if it was needed, else halve it.
    pub(super) fn succeeded(
        &mut self,
        topic: &str,
        partition: i32,
        wanted: i32,
        limit: i32,
        set: &RecordSet,
    ) {
        let key = (topic.to_owned(), partition);
        if limit <= wanted {
            self.0.remove(&key);
            return;
        }
        let needed = set.entries().flatten().next().map_or(0, |entry| entry.bytes().len());
        let next = if needed > limit as usize / 2 { limit } else { limit / 2 };
        if next > wanted {
            self.0.insert(key, next);
        } else {
            self.0.remove(&key);
        }
    }
}

/// How to go on where a set of Fetch 0–2, asked for with `limit`, holds bytes but no complete entry:
/// its first one is larger than the limit (KIP-74 ended that).
pub(super) fn oversize(bytes: &Bytes, limit: i32, most: i32) -> Oversize {
    let doubled = limit.saturating_mul(2).max(64);
    let needed = match needed(bytes) {
        Some(needed) if needed > u64::from(most.unsigned_abs()) => return Oversize::TooLarge(needed),
        Some(needed) => needed as i32,
        None => 0,
    };
    if limit >= most {
        return Oversize::TooLarge(u64::from(limit.unsigned_abs()) + 1);
    }
    Oversize::Grow(needed.max(doubled).min(most))
}

/// The size of the first entry, if it can be told: not so where a down-conversion has left filling
/// with offset −1 (KIP-283).
fn needed(bytes: &Bytes) -> Option<u64> {
    let (offset, rest) = bytes.split_first_chunk::<8>()?;
    let length = i32::from_be_bytes(*rest.first_chunk::<4>()?);
    if i64::from_be_bytes(*offset) < 0 {
        return None;
    }
    u64::try_from(length).ok().map(|length| 12 + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Magic, NewRecord, RecordSetWriter};

    fn cut(offset: i64, length: i32, size: usize) -> Bytes {
        let mut bytes = [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat();
        bytes.resize(size, 0);
        bytes.into()
    }

    #[test]
    fn s1_case_4_the_size_of_the_cut_entry_tells_the_limit() {
        let bytes = cut(5, 5_000, 1000);
        assert_eq!(oversize(&bytes, 1000, 1 << 20), Oversize::Grow(5012));
        assert_eq!(oversize(&bytes, 4000, 1 << 20), Oversize::Grow(8000), "at least doubled");
        assert_eq!(oversize(&bytes, 1000, 5012), Oversize::Grow(5012), "exactly");
        assert_eq!(oversize(&bytes, 1000, 5011), Oversize::TooLarge(5012));
        assert_eq!(oversize(&cut(5, i32::MAX, 100), 100, i32::MAX), Oversize::TooLarge(12 + i32::MAX as u64));
    }

    #[test]
    fn s2_without_a_size_the_limit_doubles_and_stops() {
        let mut limit = 5;
        let mut turns = 0;
        while let Oversize::Grow(next) = oversize(&Bytes::from_static(b"12345"), limit, 1 << 20) {
            assert!(next > limit);
            (limit, turns) = (next, turns + 1);
        }
        assert_eq!((limit, turns), (1 << 20, 15));
    }

    #[test]
    fn case_9_a_filling_of_a_down_conversion_tells_no_size() {
        assert_eq!(oversize(&cut(-1, 1 << 30, 500), 500, 1 << 20), Oversize::Grow(1000));
    }

    #[test]
    fn s2_a_raised_limit_is_kept_while_needed_and_shrinks_then() {
        let set = |size: usize| {
            let mut writer = RecordSetWriter::new(Magic::V0);
            writer.push(NewRecord::value(&vec![0; size])).unwrap();
            RecordSet::new(writer.finish().unwrap())
        };
        let mut limits = FetchLimits::default();
        assert_eq!(limits.limit("t", 0, 1000), 1000);
        limits.succeeded("t", 0, 1000, 8000, &set(7000));
        assert_eq!((limits.limit("t", 0, 1000), limits.limit("t", 1, 1000)), (8000, 1000));
        limits.succeeded("t", 0, 1000, 8000, &set(10));
        assert_eq!(limits.limit("t", 0, 1000), 4000);
        limits.succeeded("t", 0, 1000, 4000, &set(10));
        limits.succeeded("t", 0, 1000, 2000, &set(10));
        assert_eq!(limits.limit("t", 0, 1000), 1000);
        assert!(limits.0.is_empty());
    }
}
