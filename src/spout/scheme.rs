//! From bytes to what a program works with.
//!
//! A [`Scheme`] makes tuples of a record: none, one or several. Most need only the value and make one
//! thing of it: those are a [`Decode`], and every one of these is a scheme. [`Spout::tuples`] puts a
//! scheme over a spout.
//!
//! | Scheme | A record becomes | storm-kafka's |
//! |---|---|---|
//! | [`Raw`] | its bytes | `RawMultiScheme` |
//! | [`Utf8`] | a `String`; other bytes are an error | `StringScheme` |
//! | [`Json<T>`](Json) | whatever `T` is read from JSON | |
//! | [`KeyValue`]`(k, v)` | the pair of key, if there is one, and value | `KeyValueScheme` |
//! | [`EachLine`]`(s)` | a tuple per line that is not empty | a `MultiScheme` |
//! | [`WithMetadata`]`(s)` | the tuple, and where it was | `MessageMetadataScheme` |
//! | [`Nullable`]`(s)` | `None` for null, else `Some` | |
//!
//! A null value (a tombstone) is handed to the scheme like any other; those given here make no tuple of
//! it, so that the record is done (STORM-476), unless it is wrapped in [`Nullable`]. An error is a record
//! that cannot be read: [`OnPoison`](super::OnPoison) decides. A panic is a failure of the record.
//!
//! [`Spout::tuples`]: super::Spout::tuples

use std::fmt;
use std::marker::PhantomData;

use serde_core::de::DeserializeOwned;

use crate::records::Record;

/// Why a scheme could not read a record. Any error will do, and any text.
pub type SchemeError = Box<dyn std::error::Error + Send + Sync>;

/// A record as a scheme sees it, and where it comes from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Source<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The record: offset, timestamp, key, value, headers.
    pub record: Record<'a>,
}

/// Makes tuples of a record.
#[doc(alias = "MultiScheme")]
#[doc(alias = "MessageMetadataScheme")]
#[doc(alias = "KeyValueSchemeAsMultiScheme")]
#[doc(alias = "RecordTranslator")]
pub trait Scheme {
    /// What it makes.
    type Tuple;

    /// Puts the record's tuples into `tuples`, which is empty. None at all means that the record is done
    /// (STORM-1094, STORM-2994).
    ///
    /// # Errors
    ///
    /// Why the record cannot be read. What was put into `tuples` by then is thrown away.
    fn read(&self, source: &Source<'_>, tuples: &mut Vec<Self::Tuple>) -> Result<(), SchemeError>;
}

/// Makes one value of a byte string.
#[doc(alias = "Scheme")]
#[doc(alias = "Deserializer")]
pub trait Decode {
    /// What it makes.
    type Value;

    /// That byte string's value.
    ///
    /// # Errors
    ///
    /// Why it has none.
    fn decode(&self, bytes: &[u8]) -> Result<Self::Value, SchemeError>;

    /// The value of null, if that has one; it has none unless said otherwise.
    fn null(&self) -> Option<Self::Value> {
        None
    }
}

impl<D: Decode> Scheme for D {
    type Tuple = D::Value;

    fn read(&self, source: &Source<'_>, tuples: &mut Vec<D::Value>) -> Result<(), SchemeError> {
        tuples.extend(nullable(self, source.record.value())?);
        Ok(())
    }
}

fn nullable<D: Decode>(decode: &D, bytes: Option<&[u8]>) -> Result<Option<D::Value>, SchemeError> {
    match bytes {
        Some(bytes) => decode.decode(bytes).map(Some),
        None => Ok(decode.null()),
    }
}

/// The bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "RawScheme")]
#[doc(alias = "RawMultiScheme")]
pub struct Raw;

impl Decode for Raw {
    type Value = Vec<u8>;

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, SchemeError> {
        Ok(bytes.to_vec())
    }
}

/// Text in UTF-8, always (STORM-2467). Bytes that are none are an error: nothing is replaced.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "StringScheme")]
pub struct Utf8;

impl Decode for Utf8 {
    type Value = String;

    fn decode(&self, bytes: &[u8]) -> Result<String, SchemeError> {
        Ok(str::from_utf8(bytes)?.to_owned())
    }
}

/// JSON, read into anything that serde can read: [`serde_json::Value`], or a type of your own.
pub struct Json<T>(PhantomData<fn() -> T>);

impl<T> Json<T> {
    /// Reads a `T`.
    pub fn new() -> Self {
        Json(PhantomData)
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Json::new()
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

impl<T: DeserializeOwned> Decode for Json<T> {
    type Value = T;

    fn decode(&self, bytes: &[u8]) -> Result<T, SchemeError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// `None` for null, else `Some` of what the inner one makes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nullable<D>(pub D);

impl<D: Decode> Decode for Nullable<D> {
    type Value = Option<D::Value>;

    fn decode(&self, bytes: &[u8]) -> Result<Option<D::Value>, SchemeError> {
        self.0.decode(bytes).map(Some)
    }

    fn null(&self) -> Option<Option<D::Value>> {
        Some(None)
    }
}

/// Key and value, each by its own; the key is `None` for a record without one. A null value makes no
/// tuple: `KeyValue(Utf8, Nullable(Utf8))` makes one of it too.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "KeyValueScheme")]
#[doc(alias = "StringKeyValueScheme")]
pub struct KeyValue<K, V>(pub K, pub V);

impl<K: Decode, V: Decode> Scheme for KeyValue<K, V> {
    type Tuple = (Option<K::Value>, V::Value);

    fn read(&self, source: &Source<'_>, tuples: &mut Vec<Self::Tuple>) -> Result<(), SchemeError> {
        let KeyValue(key, value) = self;
        if let Some(value) = nullable(value, source.record.value())? {
            let key = source.record.key().map(|bytes| key.decode(bytes)).transpose();
            tuples.push((key.map_err(|why| format!("its key: {why}"))?, value));
        }
        Ok(())
    }
}

/// A tuple for each line of the value that is not empty, each by the inner one.
#[derive(Debug, Clone, Copy, Default)]
pub struct EachLine<D>(pub D);

impl<D: Decode> Scheme for EachLine<D> {
    type Tuple = D::Value;

    fn read(&self, source: &Source<'_>, tuples: &mut Vec<D::Value>) -> Result<(), SchemeError> {
        let lines = source.record.value().unwrap_or_default().split(|byte| *byte == b'\n');
        for (number, line) in (1..).zip(lines) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                tuples.push(self.0.decode(line).map_err(|why| format!("line {number}: {why}"))?);
            }
        }
        Ok(())
    }
}

/// Each tuple of the inner one, and where its record was.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "MessageMetadataSchemeAsMultiScheme")]
#[doc(alias = "StringMessageAndMetadataScheme")]
#[doc(alias = "StringMultiSchemeWithTopic")]
pub struct WithMetadata<S>(pub S);

/// Where a record was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordMetadata {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The timestamp, in ms since 1970; `None` for message format 0, which has none.
    pub timestamp: Option<i64>,
}

impl<S: Scheme> Scheme for WithMetadata<S> {
    type Tuple = (S::Tuple, RecordMetadata);

    fn read(&self, source: &Source<'_>, tuples: &mut Vec<Self::Tuple>) -> Result<(), SchemeError> {
        let mut inner = Vec::new();
        self.0.read(source, &mut inner)?;
        let metadata = || RecordMetadata {
            topic: source.topic.to_owned(),
            partition: source.partition,
            offset: source.record.offset(),
            timestamp: source.record.timestamp(),
        };
        tuples.extend(inner.into_iter().map(|tuple| (tuple, metadata())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::records::{Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

    /// What a scheme makes of a record at `clicks/3`, offset 17.
    fn read<S: Scheme>(
        scheme: &S,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Vec<S::Tuple>, String> {
        let mut set = RecordSetWriter::new(Magic::V2).base_offset(17);
        set.push(NewRecord { key, value, timestamp: Some(5), ..NewRecord::default() }).unwrap();
        let set = RecordSet::new(set.finish().unwrap());
        let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
        let record = batch.records().next().unwrap().unwrap();
        let mut tuples = Vec::new();
        let source = Source { topic: "clicks", partition: 3, record };
        scheme.read(&source, &mut tuples).map_err(|why| why.to_string()).map(|()| tuples)
    }

    fn text(text: &str) -> Option<&[u8]> {
        Some(text.as_bytes())
    }

    #[test]
    fn raw_gives_the_bytes_and_utf8_only_what_is_utf8() {
        assert_eq!(read(&Raw, None, Some(b"\xff\x00")).unwrap(), [b"\xff\x00"]);
        assert_eq!(read(&Utf8, None, text("grün")).unwrap(), ["grün"]);
        assert_eq!(read(&Utf8, None, Some(b"")).unwrap(), [""]);
        assert!(read(&Utf8, None, Some(b"gr\xfcn")).unwrap_err().contains("utf-8"));
    }

    #[test]
    fn storm_476_null_makes_no_tuple_unless_it_is_said_to() {
        assert_eq!(read(&Raw, None, None).unwrap(), [] as [Vec<u8>; 0]);
        assert_eq!(read(&Json::<Value>::new(), None, None).unwrap(), [] as [Value; 0]);
        assert_eq!(read(&EachLine(Utf8), None, None).unwrap(), [] as [String; 0]);
        assert_eq!(read(&KeyValue(Utf8, Utf8), text("k"), None).unwrap(), []);
        assert_eq!(read(&Nullable(Utf8), None, None).unwrap(), [None]);
        assert_eq!(read(&Nullable(Utf8), None, text("v")).unwrap(), [Some("v".to_owned())]);
        let pair = read(&KeyValue(Utf8, Nullable(Utf8)), text("k"), None).unwrap();
        assert_eq!(pair, [(Some("k".to_owned()), None)]);
    }

    #[test]
    fn json_is_read_into_any_type_and_an_error_says_where() {
        assert_eq!(read(&Json::<Value>::new(), None, text("{\"a\":[1]}")).unwrap(), [json!({"a":[1]})]);
        assert_eq!(
            read(&Json::<(u8, String)>::new(), None, text("[7,\"x\"]")).unwrap(),
            [(7, "x".to_owned())]
        );
        assert!(read(&Json::<u8>::new(), None, text("300")).unwrap_err().contains("line 1"));
        assert!(read(&Json::<Value>::new(), None, text("{\"a\":1} x")).is_err());
    }

    #[test]
    fn a_record_without_a_key_is_a_pair_without_one() {
        let pair = |key| read(&KeyValue(Utf8, Raw), key, Some(b"v"));
        assert_eq!(pair(None).unwrap(), [(None, b"v".to_vec())]);
        assert_eq!(pair(Some(b"")).unwrap(), [(Some(String::new()), b"v".to_vec())]);
        assert!(pair(Some(b"\xff")).unwrap_err().starts_with("its key: "));
    }

    #[test]
    fn every_line_is_a_tuple_and_empty_ones_are_none() {
        assert_eq!(read(&EachLine(Utf8), None, text("a\r\n\nb\n")).unwrap(), ["a", "b"]);
        assert_eq!(read(&EachLine(Utf8), None, text("\n\n")).unwrap(), [] as [String; 0]);
        assert!(
            read(&EachLine(Json::<u8>::new()), None, text("1\n2\nx")).unwrap_err().starts_with("line 3: ")
        );
    }

    #[test]
    fn storm_1209_metadata_tells_topic_partition_offset_and_time() {
        let tuples = read(&WithMetadata(EachLine(Utf8)), None, text("a\nb")).unwrap();
        let here = RecordMetadata { topic: "clicks".into(), partition: 3, offset: 17, timestamp: Some(5) };
        assert_eq!(tuples, [("a".to_owned(), here.clone()), ("b".to_owned(), here)]);
    }
}
