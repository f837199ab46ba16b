//! `Cluster` and the readers below it, against embedded clusters of every release, in memory, with a
//! clock that the test turns.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod requests;

use std::sync::Arc;

use downspout::client::*;
use downspout::records::NewRecord;
use downspout::testing::{EmbeddedBroker, Release};

/// Three brokers with topic `clicks` of three partitions, each led by another.
fn brokers(release: Release) -> Arc<EmbeddedBroker> {
    let builder = EmbeddedBroker::builder().release(release).brokers(3).topic("clicks", 3);
    Arc::new(builder.auto_create_topics(true).in_memory())
}

/// Settings of a client that knows the first broker.
fn builder(brokers: &EmbeddedBroker) -> ClusterBuilder {
    Cluster::builder([brokers.addr()]).connector(brokers.connector())
}

async fn cluster(brokers: &EmbeddedBroker) -> Cluster {
    builder(brokers).connect().await.unwrap()
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
    is_send(&cluster.wait_for_topic("t", std::time::Duration::ZERO));
}
