//! storm-kafka's document of a partition's position, byte for byte, with our extras as one last key
//! that others pass over.
//!
//! ```json
//! {"topology":{"id":"top-1","name":"top"},"offset":4,"partition":0,"broker":{"host":"h","port":9092},"topic":"t"}
//! ```
//!
//! Order and escapes are those of json-simple 1.1, which the Java spout writes with: `/` as `\/`, and
//! U+0000–001F, U+007F–009F and U+2000–20FF as `\uXXXX`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::extras::{self, Signature};
use super::{Checkpoint, Loaded, Owner};
use crate::client::TopicPartition;

/// Larger documents are not read.
pub(super) const LARGEST: usize = extras::LONGEST + (64 << 10);

/// The key of our extras.
const EXTRAS: &str = "downspout";

/// A document, and which extras are in it.
#[derive(Debug, PartialEq)]
pub(super) struct Document {
    pub(super) text: String,
    /// Runs of done offsets are in it as far as they end here or below.
    pub(super) done_until: i64,
}

/// The document of a checkpoint. Without extras it is exactly what storm-kafka writes.
pub(super) fn write(partition: &TopicPartition, checkpoint: &Checkpoint, limit: usize) -> Document {
    let Checkpoint { offset, owner, broker, extras } = checkpoint;
    let (instance, name) = owner.as_ref().map_or(("", ""), |owner| (&owner.instance, &owner.name));
    let (host, port) = broker.as_ref().map_or(("", 0), |(host, port)| (host, *port));
    let mut text = String::with_capacity(256);
    text.push_str("{\"topology\":{\"id\":");
    string(&mut text, instance);
    text.push_str(",\"name\":");
    string(&mut text, name);
    // Writing to a string does not fail.
    let _ =
        write!(text, "}},\"offset\":{offset},\"partition\":{},\"broker\":{{\"host\":", partition.partition);
    string(&mut text, host);
    let _ = write!(text, ",\"port\":{port}}},\"topic\":");
    string(&mut text, &partition.topic);
    let mut done_until = *offset;
    if let Some(extras) = extras
        && let Some(encoded) = extras::encode(*offset, &Signature::run(owner.as_ref()), extras, limit)
    {
        let _ = write!(text, ",\"{EXTRAS}\":{}", encoded.text);
        done_until = encoded.done_until;
    }
    text.push('}');
    Document { text, done_until }
}

/// What a document says of this partition; else what is wrong with it.
///
/// As the Java spout does, it passes over order, spaces and other keys; unlike there, what cannot be
/// read is an error and not "no checkpoint", and 0 is an offset like any other.
pub(super) fn read(document: &[u8], partition: &TopicPartition) -> Result<Loaded, String> {
    let object = parse(document)?;
    if let Some(topic) = topic(&object)
        && topic != &*partition.topic
    {
        return Err(format!("it is about another topic, {topic:?}"));
    }
    if let Some(number) = object.get("partition").and_then(Value::as_i64)
        && number != i64::from(partition.partition)
    {
        return Err(format!("it is about another partition, {number}"));
    }
    let offset = match object.get("offset") {
        None => return Err("it has no offset".to_owned()),
        Some(offset) => offset.as_i64().filter(|offset| *offset >= 0),
    };
    let offset = offset.ok_or("its offset is no whole number from 0 on")?;
    let text = |object: Option<&Value>, key: &str| {
        let text = object.and_then(|object| object.get(key)).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (topology, broker) = (object.get("topology"), object.get("broker"));
    let (mut run, mut discarded, mut kept) = (None, None, None);
    match object.get(EXTRAS) {
        None => {}
        Some(Value::Object(found)) => match extras::decode(found, offset) {
            Ok((signature, extras)) => (run, kept) = (signature.run, Some(extras)),
            Err(why) => discarded = Some(why),
        },
        Some(_) => discarded = Some("it is no JSON object".to_owned()),
    }
    let owner = text(topology, "id").map(|instance| Owner {
        instance,
        name: text(topology, "name").unwrap_or_default(),
        run: run.unwrap_or_default(),
    });
    let port = broker.and_then(|broker| broker.get("port")).and_then(Value::as_u64);
    let port = port.and_then(|port| u16::try_from(port).ok());
    let broker = text(broker, "host").zip(port);
    Ok(Loaded { checkpoint: Some(Checkpoint { offset, owner, broker, extras: kept }), discarded })
}

/// Whether a document has extras of ours, of whatever kind: then storm-kafka did not write it last.
#[cfg(feature = "zookeeper")]
pub(super) fn is_ours(document: &[u8]) -> bool {
    parse(document).is_ok_and(|object| object.contains_key(EXTRAS))
}

/// The topic that a document names.
pub(super) fn topic_of(document: &[u8]) -> Result<Option<String>, String> {
    parse(document).map(|object| topic(&object).map(str::to_owned))
}

fn topic(object: &Map<String, Value>) -> Option<&str> {
    object.get("topic").and_then(Value::as_str)
}

fn parse(document: &[u8]) -> Result<Map<String, Value>, String> {
    if document.len() > LARGEST {
        return Err(format!("it has {} bytes, more than any that is written", document.len()));
    }
    if document.is_empty() {
        return Err("it is empty".to_owned());
    }
    match serde_json::from_slice(document) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(why) => Err(format!("it is no JSON: {why}")),
    }
}

fn string(text: &mut String, value: &str) {
    text.push('"');
    for char in value.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '/' => text.push_str("\\/"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2000}'..='\u{20ff}' => {
                let _ = write!(text, "\\u{:04X}", u32::from(char));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::Extras;

    fn partition() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    fn owner(instance: &str, name: &str) -> Option<Owner> {
        Some(Owner { instance: instance.to_owned(), name: name.to_owned(), run: String::new() })
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            offset: 4,
            owner: owner("top-1-1700000000", "top"),
            broker: Some(("127.0.0.1".to_owned(), 29092)),
            extras: None,
        }
    }

    /// The bytes that the Java spout 1.2.4 was seen to write.
    const JAVA: &str = r#"{"topology":{"id":"top-1-1700000000","name":"top"},"offset":4,"partition":0,"broker":{"host":"127.0.0.1","port":29092},"topic":"t"}"#;

    #[test]
    fn without_extras_it_is_what_the_java_spout_writes_byte_for_byte() {
        assert_eq!(write(&partition(), &checkpoint(), 4096).text, JAVA);
        assert_eq!(JAVA.len(), 131);
        let odd = Checkpoint {
            owner: owner(
                "a/b\"c\\d-1-2",
                "né中\u{2028}😀\u{7f}\tx/y\u{8}\u{c}\n\r\u{1}\u{9f}\u{20ac}\u{2100}",
            ),
            ..checkpoint()
        };
        let text = write(&partition(), &odd, 4096).text;
        let begins = r#"{"topology":{"id":"a\/b\"c\\d-1-2","name":"né中\u2028😀\u007F\tx\/y\b\f\n\r\u0001\u009F\u20AC"#;
        assert!(text.starts_with(&(begins.to_owned() + "\u{2100}\"},\"offset\":4,")), "{text}");
        assert_eq!(read(text.as_bytes(), &partition()).unwrap().checkpoint, Some(odd));
    }

    #[test]
    fn what_the_java_spout_wrote_is_read() {
        let loaded = read(JAVA.as_bytes(), &partition()).unwrap();
        assert_eq!(loaded, Loaded { checkpoint: Some(checkpoint()), discarded: None });
    }

    #[test]
    fn order_spaces_and_other_keys_are_passed_over_and_the_last_of_two_counts() {
        for text in [
            r#"{"offset":7}"#,
            "\n{ \"x\" : [1,{}], \"offset\" : 3, \"topology\" : null, \"broker\" : 5, \"offset\" : 7 }\n",
            r#"{"topology":{"id":null,"name":1},"offset":7,"partition":"0","topic":5,"broker":{"port":-1}}"#,
        ] {
            let loaded = read(text.as_bytes(), &partition()).unwrap();
            assert_eq!(loaded, Loaded { checkpoint: Some(Checkpoint::at(7)), discarded: None }, "{text}");
        }
        let id = read(br#"{"topology":{"id":"rust-1"},"offset":7}"#, &partition()).unwrap();
        assert_eq!(id.checkpoint.unwrap().owner, owner("rust-1", ""));
    }

    #[test]
    fn an_offset_of_0_is_an_offset() {
        let loaded = read(br#"{"topology":{"id":"a"},"offset":0}"#, &partition()).unwrap();
        assert_eq!(loaded.checkpoint.unwrap().offset, 0);
    }

    #[test]
    fn what_java_takes_for_no_checkpoint_is_an_error_that_says_why() {
        for (text, why) in [
            ("", "empty"),
            ("x", "no JSON"),
            ("[]", "no JSON object"),
            ("{}", "no offset"),
            ("\u{feff}{\"offset\":7}", "no JSON"),
            ("{\"offset\":7} x", "no JSON"),
            ("{\"offset\":7", "no JSON"),
            ("{\"offset\":\"7\"}", "no whole number"),
            ("{\"offset\":7.0}", "no whole number"),
            ("{\"offset\":-5}", "no whole number"),
            ("{\"offset\":9223372036854775808}", "no whole number"),
            ("{\"offset\":null}", "no whole number"),
            ("{\"offset\":7,\"topic\":\"other\"}", "another topic, \"other\""),
            ("{\"offset\":7,\"topic\":\"t\",\"partition\":1}", "another partition, 1"),
        ] {
            let error = read(text.as_bytes(), &partition()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let large = format!("{{\"offset\":7}}{}", " ".repeat(LARGEST));
        assert!(read(large.as_bytes(), &partition()).unwrap_err().contains("more than any"));
    }

    #[test]
    fn extras_are_one_last_key_that_may_be_lost_or_stale_and_breaks_nothing() {
        let mut with = checkpoint();
        with.owner.as_mut().unwrap().run = "9f3c".to_owned();
        with.extras = Some(Extras { serial: 3, done: vec![6..9, 11..12], ..Extras::default() });
        let Document { text, done_until } = write(&partition(), &with, 4096);
        assert_eq!(done_until, 12);
        assert!(text.starts_with(&format!("{},\"downspout\":{{\"v\":1,\"o\":4,", &JAVA[..JAVA.len() - 1])));
        assert_eq!(read(text.as_bytes(), &partition()).unwrap().checkpoint, Some(with.clone()));

        let moved = text.replacen("\"offset\":4", "\"offset\":8", 1);
        let loaded = read(moved.as_bytes(), &partition()).unwrap();
        assert_eq!(loaded.checkpoint.unwrap(), Checkpoint { offset: 8, ..checkpoint() });
        assert!(loaded.discarded.unwrap().contains("belongs to offset 4"));

        let Document { text, done_until } = write(&partition(), &with, 10);
        assert_eq!((text.as_str(), done_until), (JAVA, 4));
        let foreign = JAVA.replacen(",\"topic\"", ",\"downspout\":[7],\"topic\"", 1);
        assert!(read(foreign.as_bytes(), &partition()).unwrap().discarded.is_some(), "{foreign}");
    }

    proptest! {
        #[test]
        fn any_names_are_read_back(topic in ".{0,20}", id in ".{1,20}", name in ".{0,20}", host in ".{1,9}", port: u16) {
            let partition = TopicPartition::new(&*topic, 3);
            let checkpoint = Checkpoint {
                offset: i64::MAX,
                owner: owner(&id, &name),
                broker: Some((host, port)),
                extras: None,
            };
            let text = write(&partition, &checkpoint, 4096).text;
            prop_assert_eq!(read(text.as_bytes(), &partition).unwrap().checkpoint, Some(checkpoint));
        }

        #[test]
        fn any_bytes_are_a_document_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes, &partition());
        }
    }
}
