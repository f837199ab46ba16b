//! Logins with SASL, before embedded brokers of each era and servers that lie, in memory, with a clock that the test
//! turns.

#![cfg(all(feature = "testing", feature = "sasl"))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod gate;
mod lies;
mod logins;
mod renewal;
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use downspout::client::*;
use downspout::error::*;
use downspout::net::*;
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, Release};

use gate::{Gate, Lie};
use server::{PASSWORD, TOKEN, USER};

fn brokers(release: Release) -> Arc<EmbeddedBroker> {
    Arc::new(EmbeddedBroker::builder().release(release).topic("t", 1).in_memory())
}

fn set(values: std::ops::Range<u32>, magic: Magic) -> Bytes {
    let mut set = RecordSetWriter::new(magic);
    for value in values {
        set.push(NewRecord::value(value.to_string().as_bytes())).unwrap();
    }
    set.finish().unwrap()
}

fn magic(release: Release) -> Magic {
    if release.magic() < 2 { Magic::V1 } else { Magic::V2 }
}

#[derive(Debug)]
struct Token(&'static str);

impl TokenProvider for Token {
    fn token(&self) -> BoxFuture<'_, std::result::Result<BearerToken, TokenError>> {
        Box::pin(std::future::ready(Ok(BearerToken::new(self.0))))
    }
}

/// Every mechanism, with these secrets.
fn mechanisms(password: &str, token: &'static str) -> [Sasl; 4] {
    [
        Sasl::plain(USER, password),
        Sasl::scram_sha_256(USER, password),
        Sasl::scram_sha_512(USER, password),
        Sasl::oauth_bearer(Token(token)),
    ]
}

fn right() -> [Sasl; 4] {
    mechanisms(PASSWORD, TOKEN)
}

fn cluster(gate: &Gate, broker: &EmbeddedBroker, sasl: Sasl) -> ClusterBuilder {
    Cluster::builder([broker.addr()]).connector(gate.clone()).security(Security::plaintext().sasl(sasl))
}

async fn read(stream: &mut PartitionStream, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    while found.len() < count {
        match stream.next().await.unwrap().unwrap() {
            Item::Batch(batch) => {
                for record in batch.records() {
                    found.push(String::from_utf8(record.unwrap().value().unwrap().to_vec()).unwrap());
                }
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn login_trouble(error: &Error) -> &LoginTrouble {
    match error.kind() {
        ErrorKind::Login(trouble) => trouble,
        ErrorKind::NoBroker(errors) => login_trouble(&errors[0]),
        other => panic!("{other:?}"),
    }
}
