//! TLS: a front with certificates of its own before embedded brokers, in memory, with a clock that the test turns.

#![allow(clippy::unwrap_used, clippy::panic)]

mod authority;
mod files;
mod front;
mod handshakes;
mod reading;
mod wrong;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use downspout::client::{Cluster, ClusterBuilder, Item, PartitionStream, StartOffset};
use downspout::error::*;
use downspout::net::*;
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::EmbeddedBroker;

use authority::{Authority, Issued, Valid};
use front::{Front, Server, Then};

/// An authority, a broker, and the broker's certificate.
struct Scene {
    ca: Authority,
    broker: Arc<EmbeddedBroker>,
    issued: Issued,
}

impl Scene {
    fn new() -> Self {
        let broker = Arc::new(EmbeddedBroker::builder().topic("t", 1).in_memory());
        let ca = Authority::new("ca");
        let issued = ca.issue("broker", &[host(&broker)], Valid::Now);
        Scene { ca, broker, issued }
    }

    fn front(&self) -> Front {
        Front::before(&self.broker, &Server::with(&self.issued))
    }

    fn tls(&self) -> Tls {
        Tls::new().ca_pem(&self.ca.pem)
    }

    fn cluster(&self, front: &Front, tls: Tls) -> ClusterBuilder {
        Cluster::builder([self.broker.addr()])
            .connector(front.clone())
            .security(Security::plaintext().tls(tls))
    }

    /// What comes of connecting, which must take less than a minute.
    async fn connect(&self, front: &Front, tls: Tls) -> Result<Cluster> {
        let connecting = self.cluster(front, tls).connect();
        tokio::time::timeout(Duration::from_secs(60), connecting).await.unwrap()
    }

    /// Why connecting fails.
    async fn trouble(&self, front: &Front, tls: Tls) -> TlsTrouble {
        tls_trouble(&self.connect(front, tls).await.unwrap_err()).clone()
    }
}

fn host(broker: &EmbeddedBroker) -> &str {
    broker.addr().rsplit_once(':').unwrap().0
}

fn cause(error: &Error) -> &Error {
    match error.kind() {
        ErrorKind::NoBroker(errors) => cause(&errors[0]),
        _ => error,
    }
}

fn tls_trouble(error: &Error) -> &TlsTrouble {
    match cause(error).kind() {
        ErrorKind::Tls(trouble) => trouble,
        other => panic!("{other:?}"),
    }
}

fn set(values: Range<u32>, size: usize) -> Bytes {
    let mut set = RecordSetWriter::new(Magic::V2);
    for value in values {
        set.push(NewRecord::value(format!("{value:0size$}").as_bytes())).unwrap();
    }
    set.finish().unwrap()
}

/// Reads so many records, and checks that they are in order from 0.
async fn read(stream: &mut PartitionStream, count: u32) {
    let mut next = 0;
    while next < count {
        match stream.next().await.unwrap().unwrap() {
            Item::Batch(batch) => {
                for record in batch.records() {
                    let text = String::from_utf8(record.unwrap().value().unwrap().to_vec()).unwrap();
                    assert_eq!(text.parse::<u32>().unwrap(), next);
                    next += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn stream(cluster: &Cluster) -> PartitionStream {
    cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap()
}
