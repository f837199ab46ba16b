//! Topics without an end: the same entries for ever, at ever new offsets, so that a client's own
//! speed can be measured. A connection keeps the answers that it has given and overwrites only the
//! offsets in them.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use super::entry::{Entry, entries};
use crate::protocol::{
    ApiKey, FetchRequest, FetchResponse, FetchedPartition, FetchedTopic, RequestHeader, decode_request,
    encode_response,
};
use crate::records::{Codec, Magic};
use crate::wire::{Reader, Uuid};

/// Where such a log ends, as it says.
pub(crate) const END: i64 = 1 << 60;

/// The entries of one topic.
#[derive(Debug, Clone)]
pub(crate) struct Endless(Vec<(Bytes, Step)>);

/// How the offsets of an entry are overwritten.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Offsets it takes.
    span: i64,
    /// Its offset field is that of its last record, not of its first.
    names_last: bool,
}

impl Endless {
    /// Takes a set of whole entries. Wrappers of magic 0 are none: their offsets are compressed.
    pub(crate) fn new(set: &Bytes) -> io::Result<Self> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let found = entries(set).map_err(|_| invalid("the set holds an entry that is not whole"))?;
        let entries = found.iter().map(|entry| {
            let step = step(entry).ok_or_else(|| invalid("a wrapper of magic 0 cannot get other offsets"))?;
            Ok((entry.bytes.clone(), step))
        });
        let entries: Vec<_> = entries.collect::<io::Result<_>>()?;
        if entries.is_empty() { Err(invalid("the set is empty")) } else { Ok(Endless(entries)) }
    }

    /// Entries up to `limit` bytes, over and over; a first one in any case if `whole`.
    fn fill(&self, limit: usize, whole: bool) -> (Bytes, Vec<(usize, Step)>) {
        let mut set = Vec::new();
        let mut steps = Vec::new();
        for (bytes, step) in self.0.iter().cycle() {
            if !(whole && steps.is_empty()) && set.len() + bytes.len() > limit {
                break;
            }
            steps.push((set.len(), *step));
            set.extend_from_slice(bytes);
        }
        (set.into(), steps)
    }
}

fn step(entry: &Entry) -> Option<Step> {
    match (&entry.header, entry.codec) {
        (Some(header), _) => Some(Step { span: i64::from(header.last_offset_delta) + 1, names_last: false }),
        (None, Some(Codec::None)) => Some(Step { span: 1, names_last: true }),
        (None, _) if entry.magic == Magic::V1 => {
            let span = i64::try_from(entry.open()?.records_count()).ok()?;
            Some(Step { span, names_last: true })
        }
        (None, _) => None,
    }
}

/// Bytes of answers that a connection keeps; a client that takes its partitions in turns asks for
/// the same ones in several orders.
const KEPT: usize = 64 << 20;

/// The most records in an answer, whatever is asked (`fetch.max.bytes` of a broker, KIP-541).
const LARGEST: usize = 57_671_680;

/// The answers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Endlessly {
    prepared: Vec<Prepared>,
    bytes: usize,
}

/// An answer whose offsets are still to be written.
#[derive(Debug)]
struct Prepared {
    /// The request that it answers, without what differs from one to the next.
    request: FetchRequest,
    version: i16,
    frame: Vec<u8>,
    /// Per partition, in the order of the request: where each entry stands in the frame.
    partitions: Vec<Vec<(usize, Step)>>,
}

impl Endlessly {
    /// The answer to a fetch from topics without an end alone; `None` for anything else.
    ///
    /// No session is opened: to clients that is a broker whose cache of them is full.
    pub(crate) fn answer(
        &mut self,
        topics: &BTreeMap<String, Endless>,
        names: impl FnOnce() -> BTreeMap<Uuid, String>,
        frame: &Bytes,
    ) -> Option<&[u8]> {
        let header = RequestHeader::read(&mut Reader::new(frame, "header")).ok()?;
        if header.request_api_key != ApiKey::FETCH {
            return None;
        }
        let version = header.request_api_version;
        let (_, mut request) = decode_request::<FetchRequest>(frame).ok()?;
        if request.session_id != 0 && request.session_epoch > 0 {
            return None;
        }
        (request.session_id, request.session_epoch) = (0, -1);
        let asked = request.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        let offsets: Vec<i64> = asked.map(|it| std::mem::take(&mut it.fetch_offset)).collect();
        let same = |kept: &Prepared| kept.version == version && kept.request == request;
        let index = match self.prepared.iter().position(same) {
            Some(index) => index,
            None => {
                let prepared = Prepared::new(topics, &names(), request, version)?;
                if self.bytes + prepared.frame.len() > KEPT {
                    *self = Endlessly::default();
                }
                self.bytes += prepared.frame.len();
                self.prepared.push(prepared);
                self.prepared.len() - 1
            }
        };
        self.prepared.get_mut(index)?.at(header.correlation_id, &offsets)
    }
}

impl Prepared {
    /// The answer with its entries at these offsets.
    fn at(&mut self, correlation_id: i32, offsets: &[i64]) -> Option<&[u8]> {
        self.frame.get_mut(4..8)?.copy_from_slice(&correlation_id.to_be_bytes());
        for (entries, first) in self.partitions.iter().zip(offsets) {
            let mut next = *first;
            for (at, step) in entries {
                let offset = if step.names_last { next + step.span - 1 } else { next };
                self.frame.get_mut(*at..at + 8)?.copy_from_slice(&offset.to_be_bytes());
                next += step.span;
            }
        }
        Some(&self.frame)
    }

    fn new(
        topics: &BTreeMap<String, Endless>,
        names: &BTreeMap<Uuid, String>,
        request: FetchRequest,
        version: i16,
    ) -> Option<Self> {
        let asked = if version >= 3 { request.max_bytes.max(0) as usize } else { usize::MAX };
        let mut room = asked.min(LARGEST);
        let mut responses = Vec::new();
        let mut filled = Vec::new();
        for topic in &request.topics {
            let name = if version >= 13 { names.get(&topic.topic_id)? } else { &topic.topic };
            let endless = topics.get(name)?;
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let limit = room.min(partition.partition_max_bytes.max(0) as usize);
                // Only the first set may exceed the limits (KIP-74).
                let (set, steps) = endless.fill(limit, filled.is_empty());
                room = room.saturating_sub(set.len());
                filled.push((set.clone(), steps));
                partitions.push(FetchedPartition {
                    partition_index: partition.partition,
                    high_watermark: END,
                    last_stable_offset: END,
                    log_start_offset: 0,
                    records: Some(set),
                    ..Default::default()
                });
            }
            responses.push(FetchedTopic { topic: topic.topic.clone(), topic_id: topic.topic_id, partitions });
        }
        let answer = FetchResponse { responses, ..Default::default() };
        let frame = encode_response::<FetchRequest>(&answer, version, 0).ok()?.to_vec();
        // The sets stand in the frame in the order of the request: each is found after the last.
        let mut from = 0;
        let mut placed = Vec::new();
        for (set, steps) in filled {
            let at = from + find(&frame[from..], &set)?;
            from = at + set.len();
            placed.push(steps.into_iter().map(|(inner, step)| (at + inner, step)).collect());
        }
        Some(Prepared { request, version, frame, partitions: placed })
    }
}

fn find(frame: &[u8], set: &[u8]) -> Option<usize> {
    // An empty set stands anywhere.
    if set.is_empty() { Some(0) } else { frame.windows(set.len()).position(|window| window == set) }
}
