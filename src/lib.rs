//! Downspout: a Kafka client written from scratch that reads every broker from 0.8.0 to 4.4.

pub mod client;
pub mod error;
pub mod net;
pub mod protocol;
pub mod records;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wire;

pub use client::SimpleConsumer;
pub use error::{Error, ErrorKind, Fault, Result, Retry};
