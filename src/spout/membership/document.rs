//! A deal as it is kept in ZooKeeper.
//!
//! ```json
//! {"v":1,"members":[["m-9f3c-1","billing-1","9f3c"],…],"partitions":{"clicks":[0,0,null,0]},"from":{"clicks":{"3":[1]}}}
//! ```
//!
//! Each partition has the place of its owner among the members, and those of the members that it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::deal::{Deal, Identity};
use crate::client::TopicPartition;

const VERSION: u64 = 1;
/// Partitions of one topic, beyond which a document is not believed.
const MOST: usize = 1_000_000;

pub(super) fn write(deal: &Deal) -> Vec<u8> {
    let members: Vec<Value> =
        deal.members.iter().map(|(name, identity)| json!([name, identity.instance, identity.run])).collect();
    let places: BTreeMap<&str, usize> =
        deal.members.keys().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    let mut topics: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (partition, owner) in &deal.owners {
        let Ok(number) = usize::try_from(partition.partition) else { continue };
        let places_of = topics.entry(&partition.topic).or_default();
        if places_of.len() <= number {
            places_of.resize(number + 1, Value::Null);
        }
        if let Some(place) = places_of.get_mut(number) {
            *place = places.get(owner.as_str()).map_or(Value::Null, |place| json!(place));
        }
    }
    let mut from: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for partition in deal.from.keys() {
        let places: Vec<_> = deal.waits_for(partition).filter_map(|name| places.get(name)).collect();
        from.entry(&partition.topic).or_default().insert(partition.partition.to_string(), json!(places));
    }
    json!({"v": VERSION, "members": members, "partitions": topics, "from": from}).to_string().into_bytes()
}

/// A deal out of a document; else what is wrong with it.
pub(super) fn read(document: &[u8]) -> Result<Deal, String> {
    let document: Value = serde_json::from_slice(document).map_err(|why| why.to_string())?;
    match document.get("v").and_then(Value::as_u64) {
        Some(VERSION) => {}
        other => return Err(format!("its version is {other:?}, and this program knows {VERSION}")),
    }
    let mut deal = Deal::default();
    let mut names = Vec::new();
    for member in document.get("members").and_then(Value::as_array).ok_or("it has no members")? {
        let text = |at: usize| member.get(at).and_then(Value::as_str).map(str::to_owned);
        let (Some(name), Some(instance), Some(run)) = (text(0), text(1), text(2)) else {
            return Err("a member of it has no name".to_owned());
        };
        names.push(name.clone());
        deal.members.insert(name, Identity { instance, run });
    }
    let topics = document.get("partitions").and_then(Value::as_object).ok_or("it has no partitions")?;
    for (topic, places) in topics {
        let topic: Arc<str> = topic.as_str().into();
        let places =
            places.as_array().filter(|places| places.len() <= MOST).ok_or("a topic of it has none")?;
        for (number, place) in (0..).zip(places) {
            if place.is_null() {
                continue;
            }
            let owner = member(&names, place)?;
            deal.owners.insert(TopicPartition::new(Arc::clone(&topic), number), owner.clone());
        }
    }
    for (topic, partitions) in document.get("from").and_then(Value::as_object).into_iter().flatten() {
        let topic: Arc<str> = topic.as_str().into();
        for (number, places) in partitions.as_object().ok_or("what is waited for is none")? {
            let number = number.parse().map_err(|_| "what is waited for is no partition")?;
            let places = places.as_array().ok_or("what is waited for is none")?;
            let names: Result<_, String> =
                places.iter().map(|place| member(&names, place).cloned()).collect();
            deal.from.insert(TopicPartition::new(Arc::clone(&topic), number), names?);
        }
    }
    Ok(deal)
}

fn member<'a>(names: &'a [String], place: &Value) -> Result<&'a String, String> {
    let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
    place.and_then(|place| names.get(place)).ok_or_else(|| "it names somebody who is no member".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_damaged_is_told() {
        let mut deal = Deal::default();
        for (name, run) in [("m-a", "a"), ("m-b", "b")] {
            let identity = Identity { instance: format!("{run}\"é"), run: run.to_owned() };
            deal.members.insert(name.to_owned(), identity);
        }
        for (topic, number, owner) in [("clicks", 0, "m-b"), ("clicks", 3, "m-a"), ("orders", 1, "m-b")] {
            deal.owners.insert(TopicPartition::new(topic, number), owner.to_owned());
        }
        deal.from.insert(TopicPartition::new("clicks", 3), ["m-b".to_owned()].into());
        let text = write(&deal);
        assert_eq!(read(&text), Ok(deal));
        for cut in 0..text.len() {
            assert!(read(&text[..cut]).is_err());
        }
        for other in [
            r#"{"v":2,"members":[],"partitions":{}}"#,
            r#"{"v":1,"members":[["a"]],"partitions":{}}"#,
            r#"{"v":1,"members":[],"partitions":{"t":[0]}}"#,
            r#"{"v":1,"members":[],"partitions":{"t":1}}"#,
            r#"{"v":1,"members":[]}"#,
            r#"{"v":1,"members":[],"partitions":{},"from":{"t":{"0":[0]}}}"#,
            r#"{"v":1,"members":[],"partitions":{},"from":{"t":{"x":[]}}}"#,
            "7",
        ] {
            assert!(read(other.as_bytes()).is_err(), "{other}");
        }
    }
}
