//! Ten thousand times connected, read and dropped: tasks, connections and memory are what they were.
//!
//! In a process of its own, so that what others allocate is not counted.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use downspout::client::{Cluster, Item, StartOffset};
use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use downspout::records::{Magic, NewRecord, RecordSetWriter};
use downspout::testing::{EmbeddedBroker, InMemoryConnector, Release};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn brokers() -> EmbeddedBroker {
    let brokers = EmbeddedBroker::builder().release(Release::V4_4).brokers(3).topic("t", 3).in_memory();
    for partition in 0..3 {
        let mut set = RecordSetWriter::new(Magic::V2);
        set.push(NewRecord::value(&[b'x'; 1_000])).unwrap();
        brokers.append("t", partition, &set.finish().unwrap()).unwrap();
    }
    brokers
}

fn open(brokers: &EmbeddedBroker) -> usize {
    brokers.with(|core| core.requests().filter(|seen| core.is_open(seen.connection)).count())
}

/// Reads a partition's record, or leaves at some earlier or later moment.
async fn read(cluster: &Cluster, turn: u64) {
    let mut stream = cluster.partition("t", (turn % 3) as i32).stream(StartOffset::Earliest).await.unwrap();
    match turn % 5 {
        0 => {}
        1 => drop(tokio::time::timeout(Duration::ZERO, stream.next()).await),
        _ => {
            let Some(Item::Batch(batch)) = stream.next().await.unwrap() else { panic!() };
            assert_eq!(batch.records().count(), 1);
            if turn.is_multiple_of(2) {
                // The batch outlives its stream.
                drop(stream);
            }
        }
    }
}

/// A way to brokers that can be taken away, and what they remember with it.
#[derive(Debug, Clone)]
struct Way(Arc<Mutex<Option<InMemoryConnector>>>);

impl Connector for Way {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let way = self.0.lock().unwrap().clone();
        Box::pin(async move { way.ok_or(io::ErrorKind::NotFound)?.connect(broker).await })
    }
}

async fn connect(brokers: &EmbeddedBroker) -> (Cluster, Way) {
    let way = Way(Arc::new(Mutex::new(Some(brokers.connector()))));
    let cluster = Cluster::builder([brokers.addr()]).connector(way.clone()).connect().await.unwrap();
    (cluster, way)
}

/// So many clients, one after the other.
fn clients(runtime: &Runtime, count: u64) {
    runtime.block_on(async {
        let brokers = brokers();
        for turn in 0..count {
            let (cluster, _) = connect(&brokers).await;
            read(&cluster, turn).await;
        }
        sleep(Duration::from_millis(1)).await;
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
        assert_eq!(open(&brokers), 0);
    });
}

/// So many streams of one client.
fn streams(runtime: &Runtime, count: u64) -> Cluster {
    runtime.block_on(async {
        let brokers = brokers();
        let (cluster, way) = connect(&brokers).await;
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let mut settled = 0;
        for turn in 0..count {
            read(&cluster, turn).await;
            // Timers of fetches run out as time goes by.
            sleep(Duration::from_millis(10)).await;
            if turn == 100 {
                sleep(Duration::from_secs(60)).await;
                settled = alive();
            }
        }
        sleep(Duration::from_secs(60)).await;
        assert!(alive() <= settled, "{} tasks, {settled} at first", alive());
        let usage = cluster.memory();
        assert_eq!((usage.used, usage.buffered, usage.lent, usage.pinned), (0, 0, 0, 0));
        // What the brokers remember of requests goes with them.
        cluster.close();
        way.0.lock().unwrap().take();
        sleep(Duration::from_millis(1)).await;
        cluster
    })
}

#[test]
fn ten_thousand_clients_leave_nothing_behind() {
    let runtime = runtime();
    clients(&runtime, 200);
    let all = allocation_counter::measure(|| clients(&runtime, 10_000));
    assert!(all.count_total > 100_000, "{all:?}: they did something");
    assert!(all.bytes_current.abs() < 16 << 10, "{all:?}");
}

#[test]
fn ten_thousand_streams_of_one_client_leave_nothing_behind() {
    let runtime = runtime();
    drop(streams(&runtime, 200));
    let mut kept = None;
    let few = allocation_counter::measure(|| kept = Some(streams(&runtime, 1_000)));
    let mut kept_too = None;
    let many = allocation_counter::measure(|| kept_too = Some(streams(&runtime, 10_000)));
    let more = many.bytes_current - few.bytes_current;
    assert!(more.abs() < 16 << 10, "a client holds {more} bytes more after 10,000 streams than after 1,000");
    drop((kept, kept_too));
}
