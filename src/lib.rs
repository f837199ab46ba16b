//! Downspout: a Kafka client written from scratch that reads every broker from 0.8.0 to 4.4.
//!
//! - [`SimpleConsumer`] for programs that keep their own offsets: fetch, offsets by time, metadata,
//!   a group's committed offsets, any other request, over one connection to one broker. Versions are
//!   chosen for the caller. [`client::blocking`] has the same without a runtime.
//! - [`records`] reads and writes record sets in all three formats; [`protocol`] has the requests and
//!   responses in every version. Both stand alone.
//! - [`net`] is the connection: pipelined requests with deadlines, and what it takes to find out what
//!   a broker speaks.
//! - With the feature `testing`, an embedded broker of any release for tests.
//!
//! Errors say what went wrong, where, whose fault it is and whether a retry helps: [`Error`].

pub mod checkpoint;
pub mod client;
pub mod discovery;
pub mod error;
pub mod net;
pub mod protocol;
pub mod records;
pub mod spout;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wire;
pub mod zookeeper;

pub use client::SimpleConsumer;
pub use error::{Error, ErrorKind, Fault, Result, Retry};

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the page about security, compiled.
#[cfg(all(doctest, feature = "tls"))]
#[doc = include_str!("../docs/security.md")]
struct SecurityPage;
