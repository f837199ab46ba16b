//! Every way in that a release has.

use std::net::SocketAddr;

use downspout::client::{EndOffset, Fetch, Item, StartOffset};
use downspout::net::{Sasl, Security, Tls, TlsVersion, UnsecuredJwt};
use downspout::records::NewRecord;

use crate::harness::{Certificates, Listener, Result, SecureKafka};

use super::{block_on, cluster, consumer, text};

/// One way in.
pub struct Way {
    pub name: String,
    pub address: SocketAddr,
    pub security: Security,
}

impl Way {
    fn new(name: &str, address: SocketAddr, security: Security) -> Self {
        Self { name: name.to_owned(), address, security }
    }
}

/// Trusts the CA of the test.
pub fn tls(certificates: &Certificates) -> Tls {
    Tls::new().ca_file(certificates.pem("ca"))
}

/// The same, and shows a certificate.
pub fn mutual_tls(certificates: &Certificates, who: &str) -> Tls {
    tls(certificates).client_certificate_files(certificates.pem(who), certificates.key(who))
}

/// Somebody's login, by the name of the mechanism. A token needs no password.
pub fn login(mechanism: &str, user: &str, password: &str) -> Sasl {
    match mechanism {
        "PLAIN" => Sasl::plain(user, password),
        "SCRAM-SHA-256" => Sasl::scram_sha_256(user, password),
        "SCRAM-SHA-512" => Sasl::scram_sha_512(user, password),
        "OAUTHBEARER" => Sasl::oauth_bearer(UnsecuredJwt::new(user)),
        other => panic!("{other}"),
    }
}

pub fn all(kafka: &SecureKafka) -> Vec<Way> {
    let mut ways = vec![Way::new("PLAINTEXT", kafka.kafka.address(), Security::plaintext())];
    let certificates = &kafka.certificates;
    let plain_tls = Security::plaintext().tls(tls(certificates));
    if let Some(address) = kafka.address(Listener::Tls) {
        ways.push(Way::new("SSL", address, plain_tls.clone()));
        if kafka.kafka.release().since(&[2, 6]) {
            let newest = tls(certificates).min_version(TlsVersion::V1_3);
            ways.push(Way::new("SSL, TLS 1.3", address, Security::plaintext().tls(newest)));
        }
        let name = tls(certificates).server_name("localhost");
        ways.push(Way::new("SSL, by another name of its", address, Security::plaintext().tls(name)));
    }
    // Before it has a listener of its own, a certificate may be shown where none is needed.
    if let Some(address) = kafka.address(Listener::MutualTls).or(kafka.address(Listener::Tls)) {
        let mutual = Security::plaintext().tls(mutual_tls(certificates, "client"));
        ways.push(Way::new("SSL with a certificate", address, mutual));
    }
    for (listener, security, name) in [
        (Listener::SaslPlaintext, Security::plaintext(), "SASL_PLAINTEXT"),
        (Listener::SaslTls, plain_tls.clone(), "SASL_SSL"),
        (Listener::OAuth, plain_tls, "SASL_SSL"),
    ] {
        let Some(address) = kafka.address(listener) else { continue };
        for mechanism in kafka.mechanisms(listener) {
            let security = security.clone().sasl(login(mechanism, "alice", "alice-secret"));
            ways.push(Way::new(&format!("{name}, {mechanism}"), address, security));
        }
    }
    ways
}

/// Each way writes, and reads what it wrote: as a stream, and by hand.
pub fn write_and_read(kafka: &SecureKafka) -> Result<()> {
    each(all(kafka))
}

/// After [`SecureKafka::require_certificates`].
pub fn with_certificates_only(kafka: &SecureKafka) -> Result<()> {
    let with = all(kafka).into_iter().filter(|way| way.name == "SSL with a certificate");
    each(with.collect())
}

fn each(ways: Vec<Way>) -> Result<()> {
    assert!(!ways.is_empty());
    block_on(async {
        let mut failures = Vec::new();
        for way in ways {
            if let Err(why) = round_trip(&way).await {
                failures.push(format!("{}: {why}", way.name));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
    })
}

async fn round_trip(way: &Way) -> Result<()> {
    let cluster = cluster(way.address, &way.security).await.map_err(text)?;
    let values: Vec<String> = (0..5).map(|i| format!("{} {i}", way.name)).collect();
    let records: Vec<_> = values.iter().map(|value| NewRecord::value(value.as_bytes())).collect();
    let first = cluster.produce("secured", 0, &records).await.map_err(text)?;

    let stream = cluster.partition("secured", 0).stream(StartOffset::At(first));
    let mut stream = stream.until(EndOffset::At(first + 5)).open().await.map_err(text)?;
    let mut seen = Vec::new();
    while let Some(item) = stream.next().await.map_err(text)? {
        match item {
            Item::Batch(batch) => values_of(&batch, &mut seen)?,
            other => return Err(format!("{other:?}")),
        }
    }
    if seen != values {
        return Err(format!("the stream reads {seen:?}"));
    }

    let consumer = consumer(way.address, &way.security).await.map_err(text)?;
    let fetched = consumer.fetch(Fetch::new("secured", 0, first)).await.map_err(text)?;
    seen.clear();
    for batch in fetched.batches() {
        values_of(&batch.map_err(text)?, &mut seen)?;
    }
    if seen == values { Ok(()) } else { Err(format!("SimpleConsumer reads {seen:?}")) }
}

fn values_of(batch: &downspout::records::Batch, seen: &mut Vec<String>) -> Result<()> {
    for record in batch.records() {
        let record = record.map_err(text)?;
        seen.push(String::from_utf8_lossy(record.value().unwrap_or_default()).into_owned());
    }
    Ok(())
}
