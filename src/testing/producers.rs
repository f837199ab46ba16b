//! What a partition knows of idempotent producers (KIP-98): the sequence numbers of their last
//! batches, so that none is stored twice and none is missing.

use std::collections::{BTreeMap, VecDeque};

use super::entry::Entry;
use crate::protocol::ErrorCode;
use crate::records::BatchHeader;

/// Batches of a producer whose duplicates are recognised, as in the Java broker.
const REMEMBERED: usize = 5;

/// By producer id.
#[derive(Debug, Default)]
pub(crate) struct Producers(BTreeMap<i64, Producer>);

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Numbered>,
}

#[derive(Debug, Clone, Copy)]
struct Numbered {
    first: i32,
    last: i32,
    offset: i64,
}

impl Producers {
    /// Whether a produced batch may be appended; `Some(offset)` for one that was before, at that offset.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<Option<i64>, ErrorCode> {
        if header.producer_id < 0 || header.base_sequence < 0 || header.is_control() {
            return Ok(None);
        }
        let Some(known) = self.0.get(&header.producer_id) else { return Ok(None) };
        if header.producer_epoch < known.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > known.epoch {
            let starts_over = header.base_sequence == 0;
            return if starts_over { Ok(None) } else { Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) };
        }
        let (first, last) = (header.base_sequence, last_sequence(header));
        let same = known.batches.iter().find(|batch| (batch.first, batch.last) == (first, last));
        if let Some(same) = same {
            return Ok(Some(same.offset));
        }
        let Some(newest) = known.batches.back() else { return Ok(None) };
        if first == following(newest.last, 1) {
            Ok(None)
        } else if known.batches.front().is_some_and(|oldest| last < oldest.first) {
            Err(ErrorCode::DUPLICATE_SEQUENCE_NUMBER)
        } else {
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        }
    }

    /// An entry has been appended.
    pub(crate) fn follow(&mut self, entry: &Entry) {
        let Some(header) = entry.header.filter(|header| header.producer_id >= 0) else { return };
        let epoch = header.producer_epoch;
        let known = self.0.entry(header.producer_id).or_insert(Producer { epoch, batches: VecDeque::new() });
        if known.epoch != epoch {
            *known = Producer { epoch, batches: VecDeque::new() };
        }
        if header.is_control() || header.base_sequence < 0 {
            return;
        }
        if known.batches.len() == REMEMBERED {
            known.batches.pop_front();
        }
        let (first, last) = (header.base_sequence, last_sequence(&header));
        known.batches.push_back(Numbered { first, last, offset: entry.offset });
    }
}

fn last_sequence(header: &BatchHeader) -> i32 {
    following(header.base_sequence, header.last_offset_delta)
}

/// Sequence numbers go from 2³¹−1 to 0.
fn following(sequence: i32, steps: i32) -> i32 {
    ((i64::from(sequence) + i64::from(steps)) & i64::from(i32::MAX)) as i32
}
