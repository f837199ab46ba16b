//! Messages of magic 0 and 1, and the rules of their wrappers.

use bytes::Bytes;

use super::batch::{Batch, Info, Layout};
use super::corruption::layout;
use super::entry::{PREFIX, Span, be_i32, be_i64};
use super::record::{Headers, Record};
use super::{Cause, Codec, CodecError, Corruption, Entry, Magic, TimestampType, compression};
use crate::wire::{DecodeError, Problem};

/// Wrappers in wrappers that are opened: 0.8's own reader recursed, newer ones refuse.
const DEPTH: usize = 4;

/// A message of magic 0 or 1, in place.
pub(super) struct Message<'a> {
    pub(super) offset: i64,
    pub(super) attributes: u8,
    /// −1 for none; magic 0 has none.
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads the message that fills `bytes` from its offset field on.
    #[inline]
    pub(super) fn read(bytes: &'a [u8], magic: Magic, position: usize) -> Result<Self, DecodeError> {
        let (timestamp, at) = match magic {
            Magic::V0 => (-1, 18),
            _ => (be_i64(bytes, 18), 26),
        };
        let (key, at) = field(bytes, at, "key", position)?;
        let (value, at) = field(bytes, at, "value", position)?;
        if at != bytes.len() {
            let problem = Problem::Trailing { bytes: bytes.len() - at };
            return Err(layout("value", position + at, problem));
        }
        Ok(Message { offset: be_i64(bytes, 0), attributes: bytes[17], timestamp, key, value })
    }
}

/// A key or value: a 4-byte length, −1 for null, and as many bytes.
#[inline]
fn field<'a>(
    bytes: &'a [u8],
    at: usize,
    name: &'static str,
    position: usize,
) -> Result<(Option<&'a [u8]>, usize), DecodeError> {
    let Some(length) = bytes.get(at..at + 4) else {
        let problem = Problem::CutShort { needed: 4, left: bytes.len().saturating_sub(at) };
        return Err(layout(name, position + at, problem));
    };
    let declared = be_i32(length, 0);
    let start = at + 4;
    match usize::try_from(declared) {
        Ok(length) if length <= bytes.len() - start => {
            Ok((Some(&bytes[start..start + length]), start + length))
        }
        Err(_) if declared == -1 => Ok((None, start)),
        _ => {
            let problem = Problem::Length { declared: declared.into(), left: bytes.len() - start };
            Err(layout(name, position + at, problem))
        }
    }
}

/// The message at the start of `data`, as a record, and where the next one starts.
///
/// `shift` is added to its offset; `append_time` replaces its timestamp. Only for data that was cut
/// into whole messages before.
#[inline]
pub(super) fn record<'a>(
    data: &'a [u8],
    at: usize,
    magic: Magic,
    rules: &MessageRules,
) -> (usize, Result<Record<'a>, Cause>) {
    let size = PREFIX + be_i32(data, at + 8) as usize;
    let bytes = &data[at..at + size];
    let end = at + size;
    if rules.verify {
        let (stored, computed) = (be_i32(bytes, 12) as u32, crc32fast::hash(&bytes[16..]));
        if stored != computed {
            return (end, Err(Cause::Crc { stored, computed }));
        }
    }
    let message = match Message::read(bytes, magic, rules.position + at) {
        Ok(message) => message,
        Err(error) if rules.inflated => return (end, Err(Cause::InflatedLayout(error))),
        Err(error) => return (end, Err(Cause::Layout(error))),
    };
    let stamp = match (magic, rules.append_time) {
        (Magic::V0, _) => (0, None),
        (_, Some(time)) => (time, Some(TimestampType::LogAppendTime)),
        // Inside a wrapper of create times the inner bit says nothing (KIP-32).
        (_, None) if rules.inflated => (message.timestamp, Some(TimestampType::CreateTime)),
        (_, None) => (message.timestamp, Some(TimestampType::of(message.attributes))),
    };
    let offset = message.offset.wrapping_add(rules.shift);
    (end, Ok(Record::new(offset, stamp, message.key, message.value, Headers::default())))
}

/// How the messages of a batch become records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageRules {
    /// Added to each offset: a wrapper's relative offsets become absolute.
    pub(super) shift: i64,
    /// The wrapper's timestamp, where it is the broker's and so the inner ones do not count.
    pub(super) append_time: Option<i64>,
    /// Whether checksums are still to be checked.
    pub(super) verify: bool,
    /// Whether the data came out of a wrapper.
    pub(super) inflated: bool,
    /// Where the data starts in the set, for errors; 0 when inflated.
    pub(super) position: usize,
}

/// Opens a wrapper: one message whose value is a whole compressed set.
pub(super) fn open_wrapper(entry: &Entry, verify: bool, limit: usize) -> Result<Batch, Corruption> {
    let layout_error = |error| entry.corrupt(Cause::Layout(error));
    let magic = entry.magic();
    let wrapper = Message::read(entry.bytes(), magic, entry.position()).map_err(layout_error)?;
    let codec = wrapper_codec(entry.attributes()).map_err(|error| entry.corrupt(Cause::Codec(error)))?;
    let Some(value) = wrapper.value else {
        let at = entry.position() + entry.bytes().len() - 4;
        return Err(layout_error(layout("value", at, Problem::Null)));
    };
    let mut budget = Budget { limit, left: limit };
    let inner = budget.inflate(codec, magic, value).map_err(|cause| entry.corrupt(cause))?;
    let inner = flatten(inner, magic, &mut budget, DEPTH).map_err(|cause| entry.corrupt(cause))?;

    let last = inner.last_offset;
    let (shift, damage) = match magic {
        // Wrappers from librdkafka carried offset 0 whatever they held (KAFKA-5365).
        Magic::V1 if wrapper.offset == 0 => (0, inner.damage),
        // Without its end, nothing tells what the others count from.
        Magic::V1 if inner.damage.is_some() => {
            return Err(
                entry.corrupt(inner.damage.map_or(Cause::Codec(CodecError::Empty), Cause::InflatedLayout))
            );
        }
        Magic::V1 if wrapper.offset < last => {
            let problem =
                Problem::Value { found: wrapper.offset, expected: "at least the last relative offset" };
            return Err(layout_error(layout("offset", entry.position(), problem)));
        }
        Magic::V1 => (wrapper.offset.wrapping_sub(last), None),
        _ => (0, inner.damage),
    };
    let append_time =
        (entry.timestamp_type() == Some(TimestampType::LogAppendTime)).then_some(wrapper.timestamp);
    let first_offset = inner.first_offset.wrapping_add(shift);
    // A wrapper of offset 0 ends where its messages do.
    let next_offset = entry.next_offset().max(last.wrapping_add(shift).saturating_add(1));
    Ok(Batch {
        info: Info {
            magic,
            codec,
            base_offset: first_offset,
            next_offset,
            timestamp_type: entry.timestamp_type(),
            max_timestamp: (magic != Magic::V0).then_some(wrapper.timestamp),
            entry_position: entry.position(),
            count: inner.count,
            inflated: budget.spent(),
            ..Info::default()
        },
        layout: Layout::Messages(MessageRules { shift, append_time, verify, inflated: true, position: 0 }),
        data: inner.data,
        from_offset: i64::MIN,
        last_wanted: i64::MAX,
        damage: damage.map(Cause::InflatedLayout),
        crc_mismatch: None,
    })
}

/// What a wrapper may inflate to, all the wrappers in it together: each of many could otherwise
/// inflate to the limit, for a message or two that are kept.
struct Budget {
    limit: usize,
    left: usize,
}

impl Budget {
    fn inflate(&mut self, codec: Codec, magic: Magic, value: &[u8]) -> Result<Vec<u8>, Cause> {
        let inner = compression::inflate(codec, magic, value, self.left).map_err(|error| match error {
            CodecError::OverLimit { codec, .. } => {
                Cause::Codec(CodecError::OverLimit { codec, limit: self.limit })
            }
            other => Cause::Codec(other),
        })?;
        self.left -= inner.len();
        Ok(inner)
    }

    fn spent(&self) -> usize {
        self.limit - self.left
    }
}

/// An inner set, cut into whole messages.
struct Inner {
    data: Bytes,
    first_offset: i64,
    last_offset: i64,
    count: usize,
    /// What stands after the last good message, if not the end.
    damage: Option<DecodeError>,
}

/// Walks the messages of an inner set; opens wrappers among them (magic 0 only).
fn flatten(data: Vec<u8>, magic: Magic, budget: &mut Budget, depth: usize) -> Result<Inner, Cause> {
    let mut first_offset = None;
    let mut last_offset = 0;
    let mut count = 0;
    let mut flat: Option<Vec<u8>> = None;
    let mut at = 0;
    let mut damage = None;
    while at < data.len() {
        let span = match Span::cut(&data, at) {
            Ok(Ok(span)) => span,
            // In a complete wrapper there is no such thing as a cut last message.
            Ok(Err(tail)) => {
                let needed = tail.needed.unwrap_or(PREFIX);
                damage = Some(layout("length", at, Problem::CutShort { needed, left: tail.bytes }));
                break;
            }
            Err(corruption) => match corruption.cause {
                Cause::Layout(error) => {
                    damage = Some(error);
                    break;
                }
                other => return Err(other),
            },
        };
        if span.magic != magic {
            let problem =
                Problem::Value { found: span.magic.number().into(), expected: "the wrapper's own magic" };
            damage = Some(layout("magic", at + 16, problem));
            break;
        }
        let bytes = &data[at..at + span.size];
        let attributes = bytes[17];
        if attributes & 0x07 != 0 {
            if magic != Magic::V0 || depth == 0 {
                let problem = Problem::Value {
                    found: attributes.into(),
                    expected: "an inner message that is not compressed again",
                };
                damage = Some(layout("attributes", at + 17, problem));
                break;
            }
            let flat = flat.get_or_insert_with(|| data[..at].to_vec());
            let inner = nested(bytes, at, budget, depth - 1)?;
            flat.extend_from_slice(&inner.data);
            first_offset = first_offset.or(Some(inner.first_offset));
            last_offset = inner.last_offset;
            count += inner.count;
            if inner.damage.is_some() {
                damage = inner.damage;
                break;
            }
        } else {
            if let Some(flat) = &mut flat {
                flat.extend_from_slice(bytes);
            }
            first_offset = first_offset.or(Some(be_i64(bytes, 0)));
            last_offset = be_i64(bytes, 0);
            count += 1;
        }
        at += span.size;
    }
    let Some(first_offset) = first_offset else {
        return Err(damage.map_or(Cause::Codec(CodecError::Empty), Cause::InflatedLayout));
    };
    let data = match flat {
        Some(flat) => Bytes::from(flat),
        None => Bytes::from(data).slice(..at),
    };
    Ok(Inner { data, first_offset, last_offset, count, damage })
}

fn nested(bytes: &[u8], at: usize, budget: &mut Budget, depth: usize) -> Result<Inner, Cause> {
    let wrapper = Message::read(bytes, Magic::V0, at).map_err(Cause::InflatedLayout)?;
    let codec = wrapper_codec(wrapper.attributes).map_err(Cause::Codec)?;
    let Some(value) = wrapper.value else {
        return Err(Cause::InflatedLayout(layout("value", at + bytes.len() - 4, Problem::Null)));
    };
    let inner = budget.inflate(codec, Magic::V0, value)?;
    flatten(inner, Magic::V0, budget, depth)
}

/// The codec of a wrapper: zstd came after wrappers and is none for them (KIP-110).
fn wrapper_codec(attributes: u8) -> Result<Codec, CodecError> {
    match Codec::of(attributes) {
        Some(Codec::Zstd) | None => Err(CodecError::Unknown(attributes & 0x07)),
        Some(codec) => Ok(codec),
    }
}
