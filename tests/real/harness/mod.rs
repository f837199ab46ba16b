//! Real servers for tests: each Kafka release from 0.8.0 to 4.4.0 and ZooKeeper, started from their Maven
//! artifacts on free ports of 127.0.0.1 with their data in a temporary directory.
//!
//! * [`Release`] is a row of the table of releases: how it is had, how it is run, what it can do.
//! * [`Kafka`] is a running cluster of one release: start, stop, kill, freeze, resume, restart.
//! * [`ZooKeeper`] is a ZooKeeper server alone, [`Ensemble`] three of them; [`Proxy`] is a way to a server that can be
//!   cut, delayed and blocked.
//! * [`SecureKafka`] is a broker that also has every secure listener of its release, with [`Certificates`] made for it.
//! * [`Driver`] is a JVM with that release's own producer, consumer and tools.
//!
//! Every process hangs on its handle: dropping the handle kills it, and it ends by itself when this process is gone,
//! because it watches its standard input (`java/Launch.java`). Nothing is ever looked for or killed by name.

mod broker;
mod certificates;
mod driver;
mod ensemble;
mod java;
mod libs;
mod process;
mod proxy;
mod release;
mod secure;
mod wire;
mod zookeeper;

pub use broker::{Kafka, Options, Prepared};
pub use certificates::{Certificates, ELSEWHERE};
pub use driver::{Driver, Produced, Seen, Send};
pub use ensemble::Ensemble;
pub use java::Java;
pub use libs::{Libs, cache_root};
pub use process::{LeftOut, Process, Result, wait_for};
pub use proxy::Proxy;
pub use release::{Mode, RELEASES, Release};
pub use secure::{Listener, SecureKafka, Trouble as SecureTrouble};
pub use zookeeper::{ZOOKEEPER, ZOOKEEPERS, ZooKeeper};
