//! Faults on demand: what goes wrong, with which requests, and how often.

use std::fmt;
use std::time::Duration;

use crate::protocol::{ApiKey, ErrorCode};

/// Something that goes wrong with some requests.
///
/// A fault applies to every request until it is narrowed:
///
/// ```
/// # use std::time::Duration;
/// use downspout::protocol::{ApiKey, ErrorCode};
/// use downspout::testing::Fault;
///
/// // The second and third fetch find that this broker does not lead clicks/0.
/// let fault = Fault::error(ErrorCode(6)).at_partition("clicks", 0).on(ApiKey::FETCH).after(1).times(2);
/// // Every answer of broker 2 is late.
/// let slow = Fault::delay(Duration::from_millis(300)).at_node(2);
/// ```
#[derive(Debug)]
pub struct Fault {
    api: Option<ApiKey>,
    node: Option<i32>,
    skip: u32,
    left: u32,
    effect: Effect,
}

/// What goes wrong.
pub(crate) enum Effect {
    Error(ErrorCode, Place),
    Delay(Duration),
    Throttle(Duration),
    Close,
    Silence,
    Freeze,
    CorruptRecords,
    Answer(Box<dyn FnMut(Vec<u8>) -> Spoiled + Send>),
}

/// Where an error code is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In every partition; at the top where the answer has no partitions.
    Lowest,
    Top,
    Topic(String),
    Partition(String, i32),
}

/// An answer after a fault went over it.
pub(crate) struct Spoiled {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then_close: bool,
}

impl Fault {
    /// The broker answers with an error code: in every partition of the answer, or at its top if it
    /// has no partitions.
    pub fn error(code: ErrorCode) -> Self {
        Fault::new(Effect::Error(code, Place::Lowest))
    }

    /// The answer leaves later.
    pub fn delay(by: Duration) -> Self {
        Fault::new(Effect::Delay(by))
    }

    /// The answer says that the client is throttled. From some version of each API on the broker
    /// then answers at once and reads nothing from the connection for that time (KIP-219); before,
    /// its answer is late by that time. A throttled Fetch brings no records.
    pub fn throttle(time: Duration) -> Self {
        Fault::new(Effect::Throttle(time))
    }

    /// The connection is closed, and the request is not carried out.
    pub fn close() -> Self {
        Fault::new(Effect::Close)
    }

    /// The request is carried out, but never answered; later ones on its connection are.
    pub fn silence() -> Self {
        Fault::new(Effect::Silence)
    }

    /// The request is not carried out, and its connection stays open without a word from then on.
    pub fn freeze() -> Self {
        Fault::new(Effect::Freeze)
    }

    /// The connection is closed after `bytes` of the answer (its 4-byte size included); with 0 the
    /// request is carried out and its answer lost.
    pub fn cut_after(bytes: usize) -> Self {
        Fault::spoil(move |mut answer| {
            answer.truncate(bytes);
            Spoiled { bytes: answer, then_close: true }
        })
    }

    /// One byte of the answer (its 4-byte size included) is changed.
    pub fn corrupt(at: usize, xor: u8) -> Self {
        Fault::rewrite(move |answer| {
            if let Some(byte) = answer.get_mut(at) {
                *byte ^= xor;
            }
        })
    }

    /// A bit of the first record set in a Fetch answer is changed, in a place that its checksum
    /// covers.
    pub fn corrupt_records() -> Self {
        Fault::new(Effect::CorruptRecords)
    }

    /// The answer carries another correlation id.
    pub fn correlation_id(id: i32) -> Self {
        Fault::rewrite(move |answer| answer[4..8].copy_from_slice(&id.to_be_bytes()))
    }

    /// The answer declares another size.
    pub fn size(declared: i32) -> Self {
        Fault::rewrite(move |answer| answer[..4].copy_from_slice(&declared.to_be_bytes()))
    }

    /// The answer, its 4-byte size and correlation id in front, is changed in any way at all.
    pub fn rewrite(mut change: impl FnMut(&mut Vec<u8>) + Send + 'static) -> Self {
        Fault::spoil(move |mut answer| {
            change(&mut answer);
            Spoiled { bytes: answer, then_close: false }
        })
    }

    fn spoil(change: impl FnMut(Vec<u8>) -> Spoiled + Send + 'static) -> Self {
        Fault::new(Effect::Answer(Box::new(change)))
    }

    fn new(effect: Effect) -> Self {
        Fault { api: None, node: None, skip: 0, left: u32::MAX, effect }
    }

    /// Only requests of this API.
    pub fn on(self, api: ApiKey) -> Self {
        Fault { api: Some(api), ..self }
    }

    /// Only requests to this broker.
    pub fn at_node(self, node: i32) -> Self {
        Fault { node: Some(node), ..self }
    }

    /// Not the first `count` of the requests that it would apply to.
    pub fn after(self, count: u32) -> Self {
        Fault { skip: count, ..self }
    }

    /// Only so many times.
    pub fn times(self, count: u32) -> Self {
        Fault { left: count, ..self }
    }

    /// Only once.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Puts an error code at the top of the answer (Fetch 7+, Metadata 13+, OffsetFetch 2+).
    pub fn at_top(self) -> Self {
        self.placed(Place::Top)
    }

    /// Puts an error code on one topic (Metadata).
    pub fn at_topic(self, topic: &str) -> Self {
        self.placed(Place::Topic(topic.to_owned()))
    }

    /// Puts an error code on one partition.
    pub fn at_partition(self, topic: &str, partition: i32) -> Self {
        self.placed(Place::Partition(topic.to_owned(), partition))
    }

    fn placed(mut self, place: Place) -> Self {
        if let Effect::Error(_, at) = &mut self.effect {
            *at = place;
        }
        self
    }
}

/// All faults that are set.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

/// What the faults do to one request.
#[derive(Debug, Default)]
pub(crate) struct Injected {
    errors: Vec<(Place, ErrorCode)>,
    pub(crate) delay: Duration,
    pub(crate) throttle: Option<Duration>,
    pub(crate) close: bool,
    pub(crate) silence: bool,
    pub(crate) freeze: bool,
    pub(crate) corrupt_records: bool,
    /// Indices of the faults that spoil the answer's bytes.
    spoilers: Vec<usize>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// None applies any more; they keep their places for the answers still held back by them.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(|fault| fault.left = 0);
    }

    /// What happens to a request that has just come in.
    pub(crate) fn take(&mut self, node: i32, api: ApiKey) -> Injected {
        let mut injected = Injected::default();
        for (index, fault) in self.0.iter_mut().enumerate() {
            let applies = fault.api.is_none_or(|key| key == api) && fault.node.is_none_or(|id| id == node);
            if !applies || fault.left == 0 {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if fault.left != u32::MAX {
                fault.left -= 1;
            }
            match &fault.effect {
                Effect::Error(code, place) => injected.errors.push((place.clone(), *code)),
                Effect::Delay(by) => injected.delay += *by,
                Effect::Throttle(time) => injected.throttle = Some(*time),
                Effect::Close => injected.close = true,
                Effect::Silence => injected.silence = true,
                Effect::Freeze => injected.freeze = true,
                Effect::CorruptRecords => injected.corrupt_records = true,
                Effect::Answer(_) => injected.spoilers.push(index),
            }
        }
        injected
    }

    /// Spoils an answer as its request's faults say.
    pub(crate) fn spoil(&mut self, injected: &Injected, answer: Vec<u8>) -> Spoiled {
        let mut spoiled = Spoiled { bytes: answer, then_close: false };
        for index in &injected.spoilers {
            if let Some(Fault { effect: Effect::Answer(change), .. }) = self.0.get_mut(*index) {
                let next = change(spoiled.bytes);
                spoiled = Spoiled { then_close: spoiled.then_close || next.then_close, ..next };
            }
        }
        spoiled
    }
}

impl Injected {
    /// The error at the top of an answer that has codes further down as well.
    pub(crate) fn top(&self) -> Option<ErrorCode> {
        self.find(|place| *place == Place::Top)
    }

    /// The error of an answer that has no other place for one.
    pub(crate) fn only(&self) -> Option<ErrorCode> {
        self.find(|place| matches!(place, Place::Top | Place::Lowest))
    }

    pub(crate) fn topic(&self, topic: &str) -> Option<ErrorCode> {
        self.find(|place| matches!(place, Place::Topic(name) if name == topic))
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<ErrorCode> {
        self.find(|place| match place {
            Place::Lowest => true,
            Place::Partition(name, index) => name == topic && *index == partition,
            Place::Top | Place::Topic(_) => false,
        })
    }

    fn find(&self, fits: impl Fn(&Place) -> bool) -> Option<ErrorCode> {
        self.errors.iter().find(|(place, _)| fits(place)).map(|(_, code)| *code)
    }

    pub(crate) fn spoils(&self) -> bool {
        !self.spoilers.is_empty()
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Error(code, place) => write!(f, "Error({code:?}, {place:?})"),
            Effect::Delay(by) => write!(f, "Delay({by:?})"),
            Effect::Throttle(time) => write!(f, "Throttle({time:?})"),
            Effect::Close => f.write_str("Close"),
            Effect::Silence => f.write_str("Silence"),
            Effect::Freeze => f.write_str("Freeze"),
            Effect::CorruptRecords => f.write_str("CorruptRecords"),
            Effect::Answer(_) => f.write_str("Answer(..)"),
        }
    }
}
