//! `-X name=value` and `--config FILE`: settings under the names that other clients use.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use downspout::client::ResetPolicy;
use downspout::net::Secret;
use downspout::records::{Codec, Isolation};

use crate::exit::Failure;
use crate::security::values;
use crate::{near, properties_file, security};

/// What was set; `None` where nothing was said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) brokers: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) max_bytes: Option<i32>,
    pub(crate) partition_max_bytes: Option<i32>,
    pub(crate) min_bytes: Option<i32>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) check_crcs: Option<bool>,
    pub(crate) offset_reset: Option<OffsetReset>,
    pub(crate) rack: Option<String>,
    /// Set by `--memory` alone.
    pub(crate) memory: Option<usize>,
    pub(crate) acks: Option<i16>,
    pub(crate) codec: Option<Codec>,
    pub(crate) retries: Option<u32>,
    pub(crate) retry_backoff: Option<Duration>,
    pub(crate) batch_bytes: Option<usize>,
    pub(crate) zookeeper_session: Option<Duration>,
    pub(crate) security: security::Settings,
    /// Names in a file that are other programs' business, or mean nothing here.
    pub(crate) passed_over: Vec<String>,
}

/// What to do when the offset that comes next is not in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OffsetReset {
    /// Stop, with exit code 5.
    #[default]
    Fail,
    /// Say what is lost, and go on at the start of the log; exit code 1 at the end.
    Earliest,
    /// Likewise, at its end.
    Latest,
    /// Likewise, at the end that is nearer.
    Nearest,
}

impl From<OffsetReset> for ResetPolicy {
    fn from(reset: OffsetReset) -> ResetPolicy {
        match reset {
            OffsetReset::Fail => ResetPolicy::Fail,
            OffsetReset::Earliest => ResetPolicy::Earliest,
            OffsetReset::Latest => ResetPolicy::Latest,
            OffsetReset::Nearest => ResetPolicy::Nearest,
        }
    }
}

type Setter = fn(&mut Properties, &str) -> Result<(), String>;

/// Every name, with what it sets.
const NAMES: &[(&str, Setter)] = &[
    ("bootstrap.servers", |p, v| set(&mut p.brokers, Ok(v.to_owned()))),
    ("metadata.broker.list", |p, v| set(&mut p.brokers, Ok(v.to_owned()))),
    ("client.id", |p, v| set(&mut p.client_id, client_id(v))),
    ("request.timeout.ms", |p, v| set(&mut p.request_timeout, ms(v))),
    ("socket.timeout.ms", |p, v| set(&mut p.request_timeout, ms(v))),
    ("socket.connection.setup.timeout.ms", |p, v| set(&mut p.connect_timeout, ms(v))),
    ("fetch.max.bytes", |p, v| set(&mut p.max_bytes, number(v, 1))),
    ("max.partition.fetch.bytes", |p, v| set(&mut p.partition_max_bytes, number(v, 1))),
    ("fetch.message.max.bytes", |p, v| set(&mut p.partition_max_bytes, number(v, 1))),
    ("fetch.min.bytes", |p, v| set(&mut p.min_bytes, number(v, 0))),
    ("fetch.max.wait.ms", |p, v| set(&mut p.max_wait, ms(v))),
    ("fetch.wait.max.ms", |p, v| set(&mut p.max_wait, ms(v))),
    ("isolation.level", |p, v| set(&mut p.isolation, isolation(v))),
    ("check.crcs", |p, v| set(&mut p.check_crcs, boolean(v))),
    ("auto.offset.reset", |p, v| set(&mut p.offset_reset, offset_reset(v))),
    ("client.rack", |p, v| set(&mut p.rack, Ok(v.to_owned()))),
    ("acks", |p, v| set(&mut p.acks, acks(v))),
    ("request.required.acks", |p, v| set(&mut p.acks, acks(v))),
    ("compression.type", |p, v| set(&mut p.codec, v.parse())),
    ("compression.codec", |p, v| set(&mut p.codec, v.parse())),
    ("retries", |p, v| set(&mut p.retries, number(v, 0))),
    ("message.send.max.retries", |p, v| set(&mut p.retries, number(v, 0))),
    ("retry.backoff.ms", |p, v| set(&mut p.retry_backoff, ms(v))),
    ("zookeeper.session.timeout.ms", |p, v| set(&mut p.zookeeper_session, ms(v))),
    ("batch.size", |p, v| set(&mut p.batch_bytes, number(v, 1))),
];

impl Properties {
    /// Reads a properties file, and what was given with `-X`, which weighs more.
    pub(crate) fn read(file: Option<&Path>, given: &[String]) -> Result<Properties, Failure> {
        let mut properties = Properties::default();
        if let Some(file) = file {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|why| Failure::usage(format_args!("--config {shown}: {why}")))?;
            for (name, value) in properties_file::parse(&text) {
                properties
                    .set_from_file(&name, &value)
                    .map_err(|why| Failure::usage(format_args!("--config {shown}: {why}")))?;
            }
        }
        for property in given {
            let shown = values::shown(property);
            let Some((name, value)) = property.split_once('=') else {
                return Err(Failure::usage(format_args!("-X {shown}: expected name=value")));
            };
            // Where other clients keep the settings of topics apart.
            let name = name.strip_prefix("topic.").unwrap_or(name);
            match properties.set(name, value) {
                Some(Ok(())) => {}
                Some(Err(why)) => return Err(Failure::usage(format_args!("-X {shown}: {why}"))),
                None => {
                    let hint = near::hint(name, names());
                    return Err(Failure::usage(format_args!(
                        "-X {shown}: there is no setting {name}.{hint}"
                    )));
                }
            }
        }
        Ok(properties)
    }

    /// A setting of a file, which may be one that other clients share.
    fn set_from_file(&mut self, name: &str, value: &str) -> Result<(), String> {
        match self.set(name, value) {
            Some(set) => set.map_err(|why| format!("{name}: {why}")),
            // One that is misspelt must not go unheard.
            None if ["ssl.", "sasl.", "security."].iter().any(|prefix| name.starts_with(prefix))
                && !is_idle(name) =>
            {
                let hint = near::hint(name, names());
                Err(format!("there is no setting {name}.{hint}"))
            }
            None if name.starts_with("-----") => {
                Err("each line of a key or certificate but the last has to end with \\n\\, or name a file (ssl.key.location)".to_owned())
            }
            None => {
                // What else looks like part of a key is not shown.
                let is_shown = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
                if name.len() < 60 && name.chars().all(is_shown) {
                    self.passed_over.push(name.to_owned());
                }
                Ok(())
            }
        }
    }

    /// `None` if there is no such setting.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let value = match values::resolve(value) {
            Ok(value) => Secret::new(value),
            Err(why) => return Some(Err(why)),
        };
        if security::is_name(name) {
            self.security.set(name, value);
            return Some(Ok(()));
        }
        let (_, setter) = NAMES.iter().find(|(known, _)| *known == name)?;
        Some(setter(self, value.expose()))
    }
}

/// All names.
fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(known, _)| *known).chain(security::NAMES.iter().copied())
}

/// Settings of Java's and librdkafka's clients that change nothing about who trusts whom.
fn is_idle(name: &str) -> bool {
    let idle = [
        "sasl.kerberos.",
        "sasl.login.",
        "sasl.client.callback.handler.class",
        "sasl.oauthbearer.",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.provider",
        "ssl.providers",
        "ssl.secure.random.implementation",
        "security.providers",
    ];
    idle.iter().any(|known| name == *known || (known.ends_with('.') && name.starts_with(known)))
}

fn set<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *place = Some(value?);
    Ok(())
}

fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(text: &str, least: T) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|value| *value >= least)
        .ok_or_else(|| format!("expected a number from {least} on"))
}

fn ms(text: &str) -> Result<Duration, String> {
    number::<u32>(text, 0).map(|ms| Duration::from_millis(ms.into()))
}

/// A number of bytes, with K, M or G behind it for powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.to_ascii_uppercase().chars().last() {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "expected a number of bytes, as in 64M".into())
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "expected true or false".into())
}

/// Brokers of 0.9 break on an empty one (KAFKA-3088).
fn client_id(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a client id must not be empty".into()) } else { Ok(text.into()) }
}

/// As `--isolation` takes it.
pub(crate) fn isolation(text: &str) -> Result<Isolation, String> {
    match text {
        "read_committed" => Ok(Isolation::ReadCommitted),
        "read_uncommitted" => Ok(Isolation::ReadUncommitted),
        _ => Err("expected read_committed or read_uncommitted".into()),
    }
}

fn offset_reset(text: &str) -> Result<OffsetReset, String> {
    match text {
        "earliest" | "beginning" | "smallest" => Ok(OffsetReset::Earliest),
        "latest" | "end" | "largest" => Ok(OffsetReset::Latest),
        "nearest" => Ok(OffsetReset::Nearest),
        "error" | "none" | "fail" => Ok(OffsetReset::Fail),
        _ => Err("expected earliest, latest, nearest or error".into()),
    }
}

/// As `--acks` takes it.
pub(crate) fn acks(text: &str) -> Result<i16, String> {
    match text {
        "all" | "-1" => Ok(-1),
        "1" => Ok(1),
        "0" => Ok(0),
        _ => Err("expected all, 1 or 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<Properties, String> {
        let given: Vec<String> = given.iter().map(|text| text.to_string()).collect();
        Properties::read(None, &given).map_err(|failure| failure.message.unwrap())
    }

    #[test]
    fn the_names_of_java_and_of_librdkafka_set_the_same() {
        let java = parse(&["max.partition.fetch.bytes=5", "fetch.max.wait.ms=7", "acks=all"]).unwrap();
        let other = ["fetch.message.max.bytes=5", "fetch.wait.max.ms=7", "topic.request.required.acks=-1"];
        assert_eq!(java, parse(&other).unwrap());
        assert_eq!(java.max_wait, Some(Duration::from_millis(7)));
    }

    #[test]
    fn bytes_are_counted_in_powers_of_1024() {
        for (text, count) in [("1", 1), ("3k", 3 << 10), ("64M", 64 << 20), ("2G", 2 << 30)] {
            assert_eq!(bytes(text), Ok(count), "{text}");
        }
        for text in ["", "0", "M", "-1", "1.5M", "1T", "20000000000G"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_of_another_client_is_understood_and_what_was_passed_over_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.properties");
        let read = |text: &str, given: &[&str]| {
            std::fs::write(&path, text).unwrap();
            let given: Vec<String> = given.iter().map(|text| text.to_string()).collect();
            Properties::read(Some(&path), &given).map_err(|failure| failure.message.unwrap())
        };
        let text = "bootstrap.servers=a:1\nclient.id=file\nkey.deserializer=x\nsecurity.protocol=SSL\nsasl.kerberos.service.name=kafka\n";
        let properties = read(text, &["client.id=argument"]).unwrap();
        assert_eq!(properties.client_id.as_deref(), Some("argument"));
        assert_eq!(properties.security.protocol_name().as_deref(), Some("SSL"));
        assert_eq!(properties.passed_over, ["key.deserializer", "sasl.kerberos.service.name"]);
        let error = read("sasl.pasword=s3cret\n", &[]).unwrap_err();
        assert!(error.contains("there is no setting sasl.pasword. Did you mean sasl.password"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        // As it is pasted: its lines are names of settings to Java.
        let key = "client.id=a\nssl.keystore.key=-----BEGIN PRIVATE KEY-----\n";
        let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1+fWIcPm==\n";
        let error = read(&format!("{key}{lines}-----END PRIVATE KEY-----\n"), &[]).unwrap_err();
        assert!(
            error.contains("ssl.key.location") && !error.contains("MIIE") && !error.contains("MzEf"),
            "{error}"
        );
        let cut = read(&format!("{key}{lines}"), &[]).unwrap();
        assert!(cut.passed_over.is_empty(), "{:?}", cut.passed_over);
    }

    #[test]
    fn a_wrong_setting_says_what_was_expected() {
        let table = [
            ("fetch.max.bytes", "-X fetch.max.bytes: expected name=value"),
            (
                "sasl.pasword=s3cret",
                "-X sasl.pasword=***: there is no setting sasl.pasword. Did you mean sasl.password",
            ),
            ("sasl.password=${env:}", "-X sasl.password=${env:}: expected ${env:NAME}"),
            (
                "fetch.max.byte=1",
                "-X fetch.max.byte=1: there is no setting fetch.max.byte. Did you mean fetch.max.bytes",
            ),
            ("fetch.max.bytes=x", "-X fetch.max.bytes=x: expected a number from 1 on"),
            ("isolation.level=x", "-X isolation.level=x: expected read_committed or read_uncommitted"),
            ("client.id=", "-X client.id=: a client id must not be empty"),
        ];
        for (given, message) in table {
            let error = parse(&[given]).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
