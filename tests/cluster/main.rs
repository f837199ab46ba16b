//! `Cluster` and the readers below it, against embedded clusters of every release, in memory, with a
//! clock that the test turns.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod discovery;
mod groups;
mod leaders;
mod lifecycle;
mod produce;
mod rebootstrap;
mod topics;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use downspout::client::*;
use downspout::discovery::*;
use downspout::error::*;
use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use downspout::protocol::{ApiKey, ErrorCode};
use downspout::records::NewRecord;
use downspout::testing::{EmbeddedBroker, Fault, Release};
use tokio::time::{Instant, sleep};

/// Three brokers with topic `clicks` of three partitions, each led by another. They create what is
/// asked for, so that a test sees it.
fn brokers(release: Release) -> EmbeddedBroker {
    EmbeddedBroker::builder()
        .release(release)
        .brokers(3)
        .topic("clicks", 3)
        .auto_create_topics(true)
        .in_memory()
}

/// Settings of a client that knows the first broker.
fn builder(brokers: &EmbeddedBroker) -> ClusterBuilder {
    Cluster::builder([brokers.addr()]).connector(brokers.connector())
}

async fn cluster(brokers: &EmbeddedBroker) -> Cluster {
    builder(brokers).connect().await.unwrap()
}

/// How many requests of an API a broker got.
fn asked(brokers: &EmbeddedBroker, node: i32, api: ApiKey) -> usize {
    brokers.with(|cluster| cluster.requests().filter(|seen| seen.node == node && seen.api == api).count())
}

/// Connections that are open at a broker's side, after what is on its way has come.
async fn open(brokers: &EmbeddedBroker) -> Vec<i32> {
    sleep(Duration::from_millis(1)).await;
    brokers.with(|core| {
        let seen = core.requests().filter(|seen| core.is_open(seen.connection));
        let open: BTreeMap<_, _> = seen.map(|seen| (seen.connection, seen.node)).collect();
        open.into_values().collect()
    })
}

/// Connects to the addresses of several clusters, and counts the attempts.
#[derive(Debug, Clone, Default)]
struct Network(Arc<Mutex<Routes>>);

#[derive(Debug, Default)]
struct Routes {
    /// Where an address leads to; an address that is missing takes no connection and refuses none.
    routes: BTreeMap<String, (downspout::testing::InMemoryConnector, String)>,
    attempts: BTreeMap<String, usize>,
}

impl Network {
    /// From now on, this address leads to that broker.
    fn route(&self, address: &str, brokers: &EmbeddedBroker, broker: &str) {
        let to = (brokers.connector(), broker.to_owned());
        self.0.lock().unwrap().routes.insert(address.to_owned(), to);
    }

    /// All brokers of a cluster under their own addresses.
    fn route_all(&self, brokers: &EmbeddedBroker) {
        for address in brokers.addrs() {
            self.route(address, brokers, address);
        }
    }

    /// Packets to it vanish.
    fn black_hole(&self, address: &str) {
        self.0.lock().unwrap().routes.remove(address);
    }

    fn attempts(&self, address: &str) -> usize {
        self.0.lock().unwrap().attempts.get(address).copied().unwrap_or(0)
    }
}

impl Connector for Network {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let mut routes = self.0.lock().unwrap();
        *routes.attempts.entry(broker.to_string()).or_default() += 1;
        let route = routes.routes.get(&broker.to_string()).cloned();
        Box::pin(async move {
            let Some((connector, to)) = route else { return std::future::pending().await };
            connector.connect(&to.parse().unwrap()).await
        })
    }
}

#[test]
fn a_cluster_and_its_calls_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_shared<T: Send + Sync + Clone>() {}
    is_shared::<Cluster>();
    let cluster = Cluster::builder(["localhost:1"]).build().unwrap();
    is_send(&cluster.partitions("t"));
    is_send(&cluster.list_offsets(&[]));
    is_send(&cluster.commit_offsets("g", &[]));
    is_send(&cluster.fetch_offsets("g", &[]));
    is_send(&cluster.produce("t", 0, &[]));
    is_send(&cluster.offset_for_leader_epoch("t", 0, 0));
    is_send(&cluster.metadata(&[]));
    is_send(&cluster.wait_for_topic("t", Duration::ZERO));
}
