//! An embedded Kafka cluster, for tests without Kafka.
//!
//! [`EmbeddedBroker`] serves it: over TCP on a thread of its own, for any client, or in memory under
//! a clock that a test may pause. It stores record sets as the bytes they came as, and it *is* a
//! [`Release`]: the versions it speaks are those that real brokers of that release advertise, and
//! what they do with requests they do not know, it does too.
//!
//! ```
//! # use downspout::protocol::{ApiKey, ErrorCode};
//! use downspout::records::{Magic, NewRecord, RecordSetWriter};
//! use downspout::testing::{EmbeddedBroker, Fault, Release};
//!
//! let broker = EmbeddedBroker::builder().release(Release::V2_8).topic("clicks", 3).start()?;
//!
//! // Records to read: a client may produce them, or the test puts them there.
//! let mut set = RecordSetWriter::new(Magic::V2);
//! set.push(NewRecord::value(b"hello"))?;
//! assert_eq!(broker.append("clicks", 0, &set.finish()?)?, 0);
//!
//! // What may go wrong: the leader has moved, the first time that somebody fetches.
//! broker.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::FETCH).once());
//!
//! // And all the rest: logs that are cut or compacted, brokers that go down, what was asked so far.
//! broker.with(|cluster| cluster.delete_before("clicks", 0, 1))?;
//! println!("bootstrap from {}; fetches so far: {}", broker.addr(), broker.request_count(ApiKey::FETCH));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Underneath, [`Core`] is a plain state machine: a request and a time go in, a [`Reaction`] comes
//! out. `shell` gives it a lock, a clock and byte streams.
//!
//! Everything of a run in memory is the same in every run: nothing depends on a hash map's order, a
//! random number or the machine's clock.
//!
//! [`MemoryZooKeeper`] stands in for a ZooKeeper in the same way.
//!
//! Not built in: transactions by request (markers can be stored), what administers a cluster (`with`
//! does that here), TLS and SASL. A release advertises its APIs as it really does; asking for one that is
//! not built in closes the connection.

mod action;
mod api;
mod append;
mod chaos;
mod cluster;
mod compaction;
mod convert;
mod core;
mod embedded;
mod endless;
mod entry;
mod fault;
mod groups;
mod log;
mod modern_groups;
mod producers;
mod random;
mod release;
mod sessions;
mod shell;
mod state;
mod zookeeper;

pub use self::core::{ConnectionId, Core, Reaction, Seen};
pub use self::zookeeper::{MemoryZooKeeper, ZooKeeperCall, ZooKeeperFault, ZooKeeperOperation};
pub use action::{Action, Happening};
pub use chaos::{Chaos, Event};
pub use cluster::LogOffsets;
pub use embedded::{Builder, EmbeddedBroker, InMemoryConnector};
pub use fault::Fault;
use log::Log;
pub use release::{Release, UnknownRelease};
pub use state::Settings;

#[cfg(test)]
pub(crate) fn hex(text: &str) -> bytes::Bytes {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
