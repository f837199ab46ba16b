//! The documents that Kafka keeps in ZooKeeper. Keys count, never their order, nor the version: some releases
//! could not read what the next one wrote because they looked at that (KAFKA-3100).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::net::BrokerAddress;
use crate::wire::Uuid;

type Read<T> = Result<T, String>;

/// `/brokers/ids/N`, all layouts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broker {
    pub address: BrokerAddress,
    pub rack: Option<String>,
}

/// `/brokers/topics/T`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topic {
    pub id: Option<Uuid>,
    /// The replicas of each partition, the preferred leader first.
    pub partitions: BTreeMap<i32, Vec<i32>>,
}

/// `/brokers/topics/T/partitions/P/state`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub leader: Option<i32>,
    pub leader_epoch: Option<i32>,
    pub in_sync: Vec<i32>,
}

struct Endpoint {
    listener: String,
    address: BrokerAddress,
}

impl Broker {
    /// `listener`: the name of the one to connect to, or its security protocol; `None` for what clients without
    /// a choice are meant to use.
    pub(super) fn read(bytes: &[u8], listener: Option<&str>) -> Read<Self> {
        let document = object(bytes)?;
        let rack = document.get("rack").and_then(Value::as_str).map(str::to_owned);
        let endpoints = match document.get("endpoints") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => list.iter().map(endpoint).collect::<Read<_>>()?,
            Some(_) => return Err("\"endpoints\" is no list".to_owned()),
        };
        let address = match listener {
            None => match plain(&document)? {
                Some(address) => address,
                // No listener is a plain one: then host is null, and port -1.
                None => endpoints.into_iter().next().ok_or("it names no address")?.address,
            },
            Some(wanted) => chosen(&document, endpoints, wanted)?,
        };
        Ok(Broker { address, rack })
    }
}

/// The address of the first plain listener, where there is one.
fn plain(document: &Map<String, Value>) -> Read<Option<BrokerAddress>> {
    match (document.get("host"), document.get("port")) {
        (None | Some(Value::Null), _) => Ok(None),
        (Some(Value::String(host)), Some(port)) => address(host, port.as_u64()).map(Some),
        _ => Err("\"host\" is no name, or \"port\" is missing".to_owned()),
    }
}

fn chosen(document: &Map<String, Value>, endpoints: Vec<Endpoint>, wanted: &str) -> Read<BrokerAddress> {
    // Layouts 1 and 2 have no map: their listeners are called as their protocols are.
    let protocols = document.get("listener_security_protocol_map").and_then(Value::as_object);
    let protocol =
        |listener: &str| protocols.and_then(|map| map.get(listener)).and_then(Value::as_str).unwrap_or("");
    let is_wanted = |name: &str| name.eq_ignore_ascii_case(wanted);
    let named = endpoints.iter().find(|endpoint| is_wanted(&endpoint.listener));
    let found = named.or_else(|| endpoints.iter().find(|endpoint| is_wanted(protocol(&endpoint.listener))));
    if let Some(endpoint) = found {
        return Ok(endpoint.address.clone());
    }
    if endpoints.is_empty() && is_wanted("PLAINTEXT") {
        return plain(document)?.ok_or_else(|| "it names no address".to_owned());
    }
    let names: Vec<String> = endpoints.into_iter().map(|endpoint| endpoint.listener).collect();
    let names = if names.is_empty() { "PLAINTEXT".to_owned() } else { names.join(", ") };
    Err(format!("it has no listener {wanted}, only {names}"))
}

fn endpoint(value: &Value) -> Read<Endpoint> {
    let wrong = || format!("{value} is no endpoint");
    let (listener, rest) = value.as_str().and_then(|text| text.split_once("://")).ok_or_else(wrong)?;
    let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address = address(host, port.parse().ok()).map_err(|why| format!("{}: {why}", wrong()))?;
    Ok(Endpoint { listener: listener.to_owned(), address })
}

fn address(host: &str, port: Option<u64>) -> Read<BrokerAddress> {
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    match port {
        Some(port) if !host.is_empty() => Ok(BrokerAddress::new(host, port)),
        Some(_) => Err("its host is empty".to_owned()),
        None => Err(format!("the port of {host} is not within 1 to 65535")),
    }
}

impl Topic {
    pub(super) fn read(bytes: &[u8]) -> Read<Self> {
        let document = object(bytes)?;
        let partitions = document.get("partitions").and_then(Value::as_object);
        let partitions = partitions.ok_or("\"partitions\" is missing")?.iter().map(|(number, replicas)| {
            let id = number.parse().ok().filter(|id: &i32| *id >= 0);
            let id = id.ok_or_else(|| format!("{number:?} is no number of a partition"))?;
            Ok((id, ids(replicas)?))
        });
        let id = document.get("topic_id").and_then(Value::as_str).map(uuid).transpose()?;
        Ok(Topic { id, partitions: partitions.collect::<Read<_>>()? })
    }
}

impl State {
    pub(super) fn read(bytes: &[u8]) -> Read<Self> {
        let document = object(bytes)?;
        let leader = document.get("leader").ok_or("\"leader\" is missing").and_then(|leader| {
            leader.as_i64().and_then(|id| i32::try_from(id).ok()).ok_or("\"leader\" is no id")
        })?;
        let epoch = document.get("leader_epoch").and_then(Value::as_i64);
        Ok(State {
            leader: Some(leader).filter(|id| *id >= 0),
            leader_epoch: epoch.and_then(|epoch| i32::try_from(epoch).ok()).filter(|epoch| *epoch >= 0),
            in_sync: document.get("isr").map(ids).transpose()?.unwrap_or_default(),
        })
    }
}

/// `/cluster/id`.
pub(super) fn cluster_id(bytes: &[u8]) -> Read<String> {
    let document = object(bytes)?;
    document
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| "\"id\" is missing".to_owned())
}

/// `/controller`.
pub(super) fn controller(bytes: &[u8]) -> Read<i32> {
    let id = object(bytes)?.get("brokerid").and_then(Value::as_i64);
    id.and_then(|id| i32::try_from(id).ok()).ok_or_else(|| "\"brokerid\" is missing".to_owned())
}

fn object(bytes: &[u8]) -> Read<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(why) => Err(format!("it is no JSON object: {why}")),
    }
}

fn ids(value: &Value) -> Read<Vec<i32>> {
    let id = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok());
    let list = value.as_array().and_then(|list| list.iter().map(id).collect::<Option<Vec<_>>>());
    list.ok_or_else(|| "a list of brokers is none".to_owned())
}

fn uuid(text: &str) -> Read<Uuid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok();
    let bytes = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    bytes.map(Uuid).ok_or_else(|| format!("{text:?} is no id of a topic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = r#"{"jmx_port":-1,"timestamp":"1388533200000","host":"h1","version":1,"port":9092}"#;
    const V2: &str = r#"{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h2:9092","SSL://h2:9093"],"host":"h2","version":2,"port":9092}"#;
    const V3: &str = r#"{"endpoints":["SASL_SSL://h3:9094"],"rack":"r1","jmx_port":-1,"host":null,"timestamp":"1","port":-1,"version":3}"#;
    const V4: &str = r#"{"listener_security_protocol_map":{"INSIDE":"PLAINTEXT","OUTSIDE":"SSL"},"endpoints":["OUTSIDE://[::1]:9093","INSIDE://h4:9092"],"jmx_port":-1,"host":"h4","timestamp":"1","port":9092,"version":4}"#;
    const V5: &str = r#"{"features":{"x":{"min_version":1}},"listener_security_protocol_map":{"A":"SASL_SSL","B":"SSL"},"endpoints":["A://h5:1","B://h5:2"],"rack":"r5","jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"1"}"#;

    #[test]
    fn a_broker_is_found_in_every_layout_by_the_listener_that_is_wanted() {
        for (document, listener, expected) in [
            (V1, None, Ok("h1:9092")),
            (V1, Some("PLAINTEXT"), Ok("h1:9092")),
            (V1, Some("SSL"), Err("no listener SSL, only PLAINTEXT")),
            (V2, None, Ok("h2:9092")),
            (V2, Some("ssl"), Ok("h2:9093")),
            (V2, Some("OUTSIDE"), Err("no listener OUTSIDE, only PLAINTEXT, SSL")),
            (V3, None, Ok("h3:9094")),
            (V3, Some("PLAINTEXT"), Err("only SASL_SSL")),
            (V4, None, Ok("h4:9092")),
            (V4, Some("INSIDE"), Ok("h4:9092")),
            (V4, Some("OUTSIDE"), Ok("[::1]:9093")),
            (V4, Some("SSL"), Ok("[::1]:9093")),
            (V5, None, Ok("h5:1")),
            (V5, Some("B"), Ok("h5:2")),
        ] {
            let broker = Broker::read(document.as_bytes(), listener).map(|broker| broker.address.to_string());
            match (&broker, expected) {
                (Ok(address), Ok(expected)) => assert_eq!(address, expected, "{document} {listener:?}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}: {expected}"),
                _ => panic!("{document} {listener:?}: {broker:?}, not {expected:?}"),
            }
        }
        assert_eq!(Broker::read(V3.as_bytes(), None).unwrap().rack.as_deref(), Some("r1"));
        assert_eq!(Broker::read(V1.as_bytes(), None).unwrap().rack, None);
    }

    #[test]
    fn a_topic_has_the_partitions_that_its_document_lists() {
        for (document, id, partitions) in [
            (r#"{"version":1,"partitions":{"1":[2,0],"0":[1]}}"#, None, &[(0, &[1][..]), (1, &[2, 0])][..]),
            (
                r#"{"removing_replicas":{},"partitions":{"10":[3]},"topic_id":"ABEiM0RVZneImaq7zN3u_w","adding_replicas":{},"version":3}"#,
                Some("ABEiM0RVZneImaq7zN3u_w"),
                &[(10, &[3])],
            ),
            (r#"{"version":1,"partitions":{}}"#, None, &[]),
        ] {
            let topic = Topic::read(document.as_bytes()).unwrap();
            assert_eq!(topic.id.map(|id| id.to_string()).as_deref(), id);
            let expected = partitions.iter().map(|(id, replicas)| (*id, replicas.to_vec())).collect();
            assert_eq!(topic.partitions, expected, "{document}");
        }
    }

    #[test]
    fn a_partition_without_a_leader_is_a_normal_state() {
        for (document, leader, leader_epoch, in_sync) in [
            (
                r#"{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":7,"isr":[2,1]}"#,
                Some(2),
                Some(7),
                &[2, 1][..],
            ),
            (
                r#"{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":8,"isr":[1]}"#,
                None,
                Some(8),
                &[1],
            ),
            (r#"{"leader":0,"leader_recovery_state":1}"#, Some(0), None, &[]),
        ] {
            let in_sync = in_sync.to_vec();
            assert_eq!(State::read(document.as_bytes()).unwrap(), State { leader, leader_epoch, in_sync });
        }
    }

    #[test]
    fn cut_and_hostile_documents_are_refused_with_a_reason() {
        for document in [V1, V2, V3, V4, V5] {
            for end in 0..document.len() {
                Broker::read(&document.as_bytes()[..end], None).unwrap_err();
            }
        }
        let deep = "[".repeat(100_000);
        for (document, why) in [
            ("", "no JSON object"),
            ("creator:h:9092", "no JSON object"), // 0.7
            ("[1]", "no JSON object"),
            (deep.as_str(), "no JSON object"),
            (r#"{"host":"h","port":0}"#, "not within"),
            (r#"{"host":"h","port":70000}"#, "not within"),
            (r#"{"host":"h","port":"9092"}"#, "not within"),
            (r#"{"host":"","port":9092}"#, "empty"),
            (r#"{"host":7,"port":9092}"#, "no name"),
            (r#"{"host":null,"port":-1}"#, "no address"),
            (r#"{"host":null,"endpoints":[]}"#, "no address"),
            (r#"{"host":null,"endpoints":{}}"#, "no list"),
            (r#"{"host":null,"endpoints":["h:1"]}"#, "no endpoint"),
            (r#"{"host":null,"endpoints":["A://h"]}"#, "no endpoint"),
            (r#"{"host":null,"endpoints":["A://:1"]}"#, "empty"),
            (r#"{"host":null,"endpoints":[7]}"#, "no endpoint"),
        ] {
            let error = Broker::read(document.as_bytes(), None).unwrap_err();
            assert!(error.contains(why), "{}: {error}", &document[..document.len().min(80)]);
        }
        for document in [
            r#"{"partitions":[]}"#,
            r#"{"partitions":{"-1":[]}}"#,
            r#"{"partitions":{"x":[]}}"#,
            r#"{"partitions":{"99999999999":[]}}"#,
            r#"{"partitions":{"0":7}}"#,
            r#"{"partitions":{"0":["a"]}}"#,
            r#"{"partitions":{"0":[1e99]}}"#,
            r#"{"partitions":{},"topic_id":"short"}"#,
        ] {
            Topic::read(document.as_bytes()).unwrap_err();
        }
        for document in
            [r#"{"isr":[]}"#, r#"{"leader":"1"}"#, r#"{"leader":99999999999}"#, r#"{"leader":1,"isr":1}"#]
        {
            State::read(document.as_bytes()).unwrap_err();
        }
        cluster_id(b"{}").unwrap_err();
        controller(br#"{"brokerid":"x"}"#).unwrap_err();
    }
}
