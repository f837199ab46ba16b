//! An embedded Kafka cluster, for tests without Kafka.

mod api;
mod append;
mod cluster;
mod convert;
mod core;
mod embedded;
mod endless;
mod entry;
mod fault;
mod log;
mod release;
mod shell;
mod state;

pub use self::core::{ConnectionId, Core, Reaction, Seen};
pub use cluster::LogOffsets;
pub use embedded::{Builder, EmbeddedBroker};
pub use fault::Fault;
use log::Log;
pub use release::{Release, UnknownRelease};
pub use state::Settings;

#[cfg(test)]
pub(crate) fn hex(text: &str) -> bytes::Bytes {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
