//! How a record looks in a dead-letter topic, both ways.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::Form;
use crate::records::{Header, NewHeader, NewRecord, OwnedRecord, Record};

/// A record on its way to a dead-letter topic, and why.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// How often it was tried.
    pub(crate) attempts: u32,
    pub(crate) reason: String,
    /// When it was given up, in ms since 1970.
    pub(crate) at_ms: i64,
    pub(crate) record: OwnedRecord,
}

/// A record that was found in a dead-letter topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The topic that it was read from.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it failed last; cut after 1,000 bytes.
    pub reason: String,
    /// When it was given up, in ms since 1970.
    pub time: i64,
    /// Its own timestamp, in ms; `None` where it had none.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` as well if it was too large (see `value_dropped`).
    pub value: Option<Vec<u8>>,
    /// Its own headers, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Bytes of the value, if that was left out because it was too large.
    pub value_dropped: Option<u64>,
}

const PREFIX: &[u8] = b"downspout.";
const TOPIC: &str = "downspout.topic";
const PARTITION: &str = "downspout.partition";
const OFFSET: &str = "downspout.offset";
const ATTEMPTS: &str = "downspout.attempts";
const REASON: &str = "downspout.reason";
const TIME: &str = "downspout.time";
const VALUE_DROPPED: &str = "downspout.value_dropped";

/// Stands first in an envelope; its value is the layout's version.
const MARK: &str = "downspout_dead_letter";
const LAYOUT: u64 = 1;

const MOST_REASON: usize = 1_000;

/// A record as it looks in the dead-letter topic.
pub(super) struct Written<'a> {
    timestamp: Option<i64>,
    key: Option<&'a [u8]>,
    value: Option<Cow<'a, [u8]>>,
    own_headers: Vec<NewHeader<'a>>,
    provenance: Vec<(&'static str, String)>,
}

impl Letter {
    /// In that form, with or without its value.
    pub(super) fn written(&self, form: Form, drop_value: bool) -> Written<'_> {
        let value = self.record.value().filter(|_| !drop_value);
        let dropped = drop_value.then(|| self.record.value().map_or(0, <[u8]>::len));
        let (timestamp, key) = (self.record.timestamp(), self.record.key());
        match form {
            Form::Headers => {
                let own_headers = self.record.headers().map(|header| (header.key, header.value)).collect();
                let value = value.map(Cow::Borrowed);
                Written { timestamp, key, value, own_headers, provenance: self.provenance(dropped) }
            }
            Form::Envelope => {
                let envelope = Cow::Owned(self.envelope(value, dropped).to_string().into_bytes());
                let (own_headers, provenance) = (Vec::new(), Vec::new());
                Written { timestamp, key, value: Some(envelope), own_headers, provenance }
            }
        }
    }

    fn provenance(&self, dropped: Option<usize>) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            (TOPIC, self.topic.to_string()),
            (PARTITION, self.partition.to_string()),
            (OFFSET, self.offset.to_string()),
            (ATTEMPTS, self.attempts.to_string()),
            (REASON, cut(&self.reason).to_owned()),
            (TIME, self.at_ms.to_string()),
        ];
        headers.extend(dropped.map(|bytes| (VALUE_DROPPED, bytes.to_string())));
        headers
    }

    fn envelope(&self, value: Option<&[u8]>, dropped: Option<usize>) -> Value {
        let header =
            |header: Header<'_>| json!({ "key": bytes(Some(header.key)), "value": bytes(header.value) });
        let mut envelope = json!({
            MARK: LAYOUT,
            "topic": &*self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "attempts": self.attempts,
            "reason": cut(&self.reason),
            "time": self.at_ms,
            "timestamp": self.record.timestamp(),
            "key": bytes(self.record.key()),
            "value": bytes(value),
            "headers": self.record.headers().map(header).collect::<Vec<_>>(),
        });
        if let (Some(dropped), Some(envelope)) = (dropped, envelope.as_object_mut()) {
            envelope.insert("value_dropped".to_owned(), dropped.into());
        }
        envelope
    }
}

impl Written<'_> {
    pub(super) fn headers(&self) -> Vec<NewHeader<'_>> {
        let added = self.provenance.iter().map(|(key, value)| (key.as_bytes(), Some(value.as_bytes())));
        self.own_headers.iter().copied().chain(added).collect()
    }

    pub(super) fn record<'a>(&'a self, headers: &'a [NewHeader<'a>]) -> NewRecord<'a> {
        NewRecord {
            offset: None,
            timestamp: self.timestamp,
            key: self.key,
            value: self.value.as_deref(),
            headers,
        }
    }
}

impl DeadLetter {
    /// What a record of a dead-letter topic tells; `None` if it is none of this crate's, in either form.
    pub fn read(record: &Record<'_>) -> Option<Self> {
        DeadLetter::from_headers(record).or_else(|| DeadLetter::from_envelope(record))
    }

    fn from_headers(record: &Record<'_>) -> Option<Self> {
        let headers: Vec<Header<'_>> = record.headers().collect();
        // Provenance stands behind the record's own headers, and those may be another letter's.
        let start = headers.iter().rposition(|header| header.key == TOPIC.as_bytes())?;
        let (own, added) = headers.split_at(start);
        if !added.iter().all(|header| header.key.starts_with(PREFIX)) {
            return None;
        }
        let text = |key: &str| {
            let header = added.iter().find(|header| header.key == key.as_bytes())?;
            std::str::from_utf8(header.value?).ok()
        };
        Some(DeadLetter {
            topic: text(TOPIC)?.to_owned(),
            partition: text(PARTITION)?.parse().ok()?,
            offset: text(OFFSET)?.parse().ok()?,
            attempts: text(ATTEMPTS)?.parse().ok()?,
            reason: text(REASON)?.to_owned(),
            time: text(TIME)?.parse().ok()?,
            timestamp: record.timestamp(),
            key: record.key().map(<[u8]>::to_vec),
            value: record.value().map(<[u8]>::to_vec),
            headers: own.iter().map(|it| (it.key.to_vec(), it.value.map(<[u8]>::to_vec))).collect(),
            value_dropped: text(VALUE_DROPPED).and_then(|bytes| bytes.parse().ok()),
        })
    }

    fn from_envelope(record: &Record<'_>) -> Option<Self> {
        let envelope: Map<String, Value> = serde_json::from_slice(record.value()?).ok()?;
        if envelope.get(MARK)?.as_u64()? != LAYOUT {
            return None;
        }
        let integer = |key: &str| envelope.get(key)?.as_i64();
        let text = |key: &str| envelope.get(key)?.as_str().map(str::to_owned);
        let header = |it: &Value| Some((unbytes(it.get("key")?).flatten()?, unbytes(it.get("value")?)?));
        Some(DeadLetter {
            topic: text("topic")?,
            partition: integer("partition")?.try_into().ok()?,
            offset: integer("offset")?,
            attempts: integer("attempts")?.try_into().ok()?,
            reason: text("reason")?,
            time: integer("time")?,
            timestamp: integer("timestamp"),
            key: unbytes(envelope.get("key")?)?,
            value: unbytes(envelope.get("value")?)?,
            headers: envelope.get("headers")?.as_array()?.iter().map(header).collect::<Option<_>>()?,
            value_dropped: envelope.get("value_dropped").and_then(Value::as_u64),
        })
    }
}

/// As much of a reason as travels along.
fn cut(reason: &str) -> &str {
    let end = (0..=MOST_REASON.min(reason.len())).rev().find(|at| reason.is_char_boundary(*at));
    &reason[..end.unwrap_or(0)]
}

/// A byte string as JSON: a string where it is UTF-8, else `{"base64": …}`; null stays null.
fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(std::str::from_utf8) {
        None => Value::Null,
        Some(Ok(text)) => text.into(),
        Some(Err(_)) => json!({ "base64": BASE64_STANDARD.encode(bytes.unwrap_or_default()) }),
    }
}

/// The way back; `None` for what `bytes` never gives.
#[allow(clippy::option_option)]
fn unbytes(value: &Value) -> Option<Option<Vec<u8>>> {
    match value {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone().into_bytes())),
        Value::Object(object) => {
            let encoded = object.get("base64")?.as_str()?;
            Some(Some(BASE64_STANDARD.decode(encoded).ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Magic, ReadOptions, RecordSet, RecordSetWriter};

    fn as_read(record: NewRecord<'_>, magic: Magic) -> OwnedRecord {
        let mut set = RecordSetWriter::new(magic);
        set.push(record).unwrap();
        let set = RecordSet::new(set.finish().unwrap());
        let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
        batch.records().next().unwrap().unwrap().to_owned()
    }

    fn letter(record: NewRecord<'_>, magic: Magic) -> Letter {
        Letter {
            topic: "clicks".into(),
            partition: 7,
            offset: 1 << 40,
            attempts: 3,
            reason: "ätsch: it broke".into(),
            at_ms: 1_700_000_000_123,
            record: as_read(record, magic),
        }
    }

    /// Writes it, and reads what is in the log then.
    fn through(letter: &Letter, form: Form, drop_value: bool) -> DeadLetter {
        let magic = if form == Form::Headers { Magic::V2 } else { Magic::V0 };
        let written = letter.written(form, drop_value);
        let headers = written.headers();
        let owned = as_read(written.record(&headers), magic);
        let mut set = RecordSetWriter::new(magic);
        let again: Vec<_> = owned.headers().map(|header| (header.key, header.value)).collect();
        let record = NewRecord {
            offset: None,
            timestamp: owned.timestamp(),
            key: owned.key(),
            value: owned.value(),
            headers: &again,
        };
        set.push(record).unwrap();
        let set = RecordSet::new(set.finish().unwrap());
        let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
        DeadLetter::read(&batch.records().next().unwrap().unwrap()).unwrap()
    }

    const BINARY: &[u8] = b"\xff\x00{";

    #[test]
    fn key_value_headers_and_timestamp_come_back_byte_for_byte_in_both_forms() {
        let headers: Vec<NewHeader<'_>> =
            vec![(b"h", Some(b"1")), (b"h", None), (b"", Some(BINARY)), (b"downspout.topic", Some(b"older"))];
        for form in [Form::Headers, Form::Envelope] {
            for key in [None, Some(&b""[..]), Some(b"key"), Some(BINARY)] {
                for value in [None, Some(&b""[..]), Some(b"{\"base64\":\"/wA=\"}"), Some(BINARY)] {
                    for timestamp in [Some(-1), Some(0), Some(1_500_000_000_000)] {
                        let record = NewRecord { offset: None, timestamp, key, value, headers: &headers };
                        let found = through(&letter(record, Magic::V2), form, false);
                        assert_eq!(found.key.as_deref(), key, "{form:?}");
                        assert_eq!(found.value.as_deref(), value, "{form:?}");
                        assert_eq!(found.timestamp, timestamp, "{form:?}");
                        let own: Vec<NewHeader<'_>> =
                            found.headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
                        assert_eq!(own, headers, "{form:?}");
                        assert_eq!((&*found.topic, found.partition, found.offset), ("clicks", 7, 1 << 40));
                        assert_eq!((found.attempts, found.time), (3, 1_700_000_000_123));
                        assert_eq!((&*found.reason, found.value_dropped), ("ätsch: it broke", None));
                    }
                }
            }
        }
    }

    #[test]
    fn a_record_without_a_timestamp_keeps_none_in_an_envelope() {
        let found = through(&letter(NewRecord::value(b"v"), Magic::V0), Form::Envelope, false);
        assert_eq!(found.timestamp, None);
    }

    #[test]
    fn a_dropped_value_says_how_large_it_was() {
        for form in [Form::Headers, Form::Envelope] {
            let record = NewRecord { key: Some(b"k"), ..NewRecord::value(&[7; 5000]) };
            let found = through(&letter(record, Magic::V2), form, true);
            assert_eq!((found.value, found.value_dropped), (None, Some(5000)));
            assert_eq!(found.key.as_deref(), Some(&b"k"[..]));
        }
    }

    #[test]
    fn a_reason_travels_up_to_a_thousand_bytes_and_is_cut_between_characters() {
        let long = Letter { reason: "ä".repeat(600), ..letter(NewRecord::value(b"v"), Magic::V2) };
        assert_eq!(through(&long, Form::Headers, false).reason, "ä".repeat(500));
        let odd = Letter { reason: format!("x{}", "ä".repeat(600)), ..long };
        assert_eq!(through(&odd, Form::Envelope, false).reason.len(), 999);
    }

    #[test]
    fn what_is_no_letter_is_none_whatever_it_looks_like() {
        let none = |record: NewRecord<'_>| {
            let owned = as_read(record, Magic::V2);
            let mut set = RecordSetWriter::new(Magic::V2);
            let headers: Vec<_> = owned.headers().map(|header| (header.key, header.value)).collect();
            set.push(NewRecord { value: owned.value(), headers: &headers, ..NewRecord::default() }).unwrap();
            let set = RecordSet::new(set.finish().unwrap());
            let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
            assert_eq!(DeadLetter::read(&batch.records().next().unwrap().unwrap()), None, "{record:?}");
        };
        for value in ["", "{", "[1]", "{\"downspout_dead_letter\":2}", "{\"downspout_dead_letter\":1}"] {
            none(NewRecord::value(value.as_bytes()));
        }
        none(NewRecord::default());
        let headers: [NewHeader<'_>; 2] = [(b"downspout.topic", Some(b"t")), (b"mine", None)];
        none(NewRecord { headers: &headers, ..NewRecord::value(b"v") });
        none(NewRecord { headers: &headers[..1], ..NewRecord::value(b"v") });
        none(NewRecord { headers: &[(b"downspout.topic", None)], ..NewRecord::value(b"v") });
    }
}
