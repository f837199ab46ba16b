//! The blocking twin of [`SimpleConsumer`](super::SimpleConsumer), for programs without a runtime.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};

use super::{
    Committed, CommittedOffset, Coordinator, Fetch, Fetched, GroupOffset, ListedOffset, Metadata, OffsetSpec,
    SimpleConsumerBuilder,
};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{BrokerAddress, BrokerVersions};
use crate::protocol::Request;

/// A consumer that keeps its own offsets, over one connection to one broker; every call waits for its
/// answer. See [`SimpleConsumer`](super::SimpleConsumer) for what each one does.
///
/// It has a runtime of its own, on the calling thread. Inside an async runtime every call is an error
/// ([`ErrorKind::InsideRuntime`]): there, use the async type.
///
/// ```no_run
/// use downspout::client::{Fetch, blocking::SimpleConsumer};
///
/// let consumer = SimpleConsumer::connect("127.0.0.1:9092")?;
/// let offset = consumer.earliest_offset("clicks", 0)?;
/// for batch in consumer.fetch(Fetch::new("clicks", 0, offset))?.batches() {
///     for record in batch?.records() {
///         println!("{:?}", record?.value());
///     }
/// }
/// # Ok::<(), downspout::Error>(())
/// ```
#[derive(Debug)]
pub struct SimpleConsumer {
    consumer: super::SimpleConsumer,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl SimpleConsumer {
    /// Connects to a broker (`host`, `host:port`, `[v6]:port`) and learns its versions.
    pub fn connect(address: &str) -> Result<Self> {
        Self::with(super::SimpleConsumer::builder(address))
    }

    /// Connects with the settings of `builder`
    /// ([`SimpleConsumer::builder`](super::SimpleConsumer::builder)).
    pub fn with(builder: SimpleConsumerBuilder) -> Result<Self> {
        refuse_inside_runtime()?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|why| Error::config(format!("no runtime can be made: {why}")))?;
        let consumer = runtime.block_on(builder.connect())?;
        Ok(SimpleConsumer { consumer, runtime: Some(runtime) })
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        refuse_inside_runtime()?;
        match &self.runtime {
            Some(runtime) => runtime.block_on(answer),
            None => Err(Error::new(ErrorKind::Closed)),
        }
    }

    /// The broker.
    pub fn broker(&self) -> &BrokerAddress {
        self.consumer.broker()
    }

    /// The versions that the broker speaks, from the current connection.
    pub fn versions(&self) -> Result<Arc<BrokerVersions>> {
        self.wait(self.consumer.versions())
    }

    /// Fetches records, of several partitions at once if asked to.
    pub fn fetch(&self, fetch: Fetch) -> Result<Fetched> {
        self.wait(self.consumer.fetch(fetch))
    }

    /// Where a partition's log starts.
    pub fn earliest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.wait(self.consumer.earliest_offset(topic, partition))
    }

    /// Where a partition's log ends.
    pub fn latest_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        self.wait(self.consumer.latest_offset(topic, partition))
    }

    /// The first record with this timestamp (ms since 1970) or a later one.
    pub fn offset_for_time(&self, topic: &str, partition: i32, time: i64) -> Result<Option<i64>> {
        self.wait(self.consumer.offset_for_time(topic, partition, time))
    }

    /// Offsets of several partitions, in the order of asking.
    pub fn list_offsets(&self, wanted: &[(&str, i32, OffsetSpec)]) -> Result<Vec<ListedOffset>> {
        self.wait(self.consumer.list_offsets(wanted))
    }

    /// Offsets before a time, descending, at most `most`.
    pub fn offsets_before(
        &self,
        topic: &str,
        partition: i32,
        before: OffsetSpec,
        most: usize,
    ) -> Result<Vec<i64>> {
        self.wait(self.consumer.offsets_before(topic, partition, before, most))
    }

    /// Brokers, and the topics named.
    pub fn metadata(&self, topics: &[&str]) -> Result<Metadata> {
        self.wait(self.consumer.metadata(topics))
    }

    /// Brokers and all topics.
    pub fn all_topics(&self) -> Result<Metadata> {
        self.wait(self.consumer.all_topics())
    }

    /// Keeps positions for a group.
    pub fn commit_offsets(&self, group: &str, offsets: &[GroupOffset]) -> Result<Vec<Committed>> {
        self.wait(self.consumer.commit_offsets(group, offsets))
    }

    /// Positions kept for a group, in the order of asking.
    pub fn fetch_offsets(&self, group: &str, partitions: &[(&str, i32)]) -> Result<Vec<CommittedOffset>> {
        self.wait(self.consumer.fetch_offsets(group, partitions))
    }

    /// All positions kept for a group in Kafka (0.10.2 on).
    pub fn fetch_all_offsets(&self, group: &str) -> Result<Vec<CommittedOffset>> {
        self.wait(self.consumer.fetch_all_offsets(group))
    }

    /// The broker that keeps a group's offsets (0.8.2 on).
    pub fn find_coordinator(&self, group: &str) -> Result<Coordinator> {
        self.wait(self.consumer.find_coordinator(group))
    }

    /// Sends any request, in the newest version that both sides speak.
    pub fn send<R: Request + 'static>(&self, request: R) -> Result<R::Response> {
        self.wait(self.consumer.send(request))
    }

    /// Sends any request in that version.
    pub fn send_version<R: Request>(&self, request: R, version: i16) -> Result<R::Response> {
        self.wait(self.consumer.send_version(request, version))
    }
}

impl Drop for SimpleConsumer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A plain drop would wait, and panics inside an async context.
            runtime.shutdown_background();
        }
    }
}

fn refuse_inside_runtime() -> Result<()> {
    match Handle::try_current() {
        Ok(_) => Err(Error::new(ErrorKind::InsideRuntime)),
        Err(_) => Ok(()),
    }
}
