use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fetch_limits::FetchLimits;
use super::metadata::TopicIds;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{
    Backoff, BrokerAddress, BrokerVersions, Connector, Dialer, Exchange, LegacyRelease, Link, Security,
    WhenDown,
};
use crate::protocol::{
    ApiKey, FetchRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, Request, Versions,
};
use crate::records::{CrcCheck, Isolation, ReadOptions};

/// A consumer that keeps its own offsets, over one connection to one broker: fetch, offsets by time,
/// metadata, a group's committed offsets, and any other request.
///
/// It does what Kafka 0.8's class of that name does, on every broker from 0.8.0 on: versions are
/// chosen for the caller. It does not follow leaders: a partition that another broker leads is an
/// error that names that broker. No call creates a topic.
///
/// The connection is made anew when it was lost, with back-off. Calls may run at the same time and
/// share the connection, on which a broker works on one request at a time: a fetch that waits for
/// data keeps those behind it waiting. Cheap to clone.
///
/// ```no_run
/// # async fn example() -> downspout::Result<()> {
/// use downspout::client::{Fetch, SimpleConsumer};
///
/// let consumer = SimpleConsumer::connect("127.0.0.1:9092").await?;
/// let offset = consumer.earliest_offset("clicks", 0).await?;
/// let fetched = consumer.fetch(Fetch::new("clicks", 0, offset).max_bytes(1 << 20)).await?;
/// for batch in fetched.batches() {
///     for record in batch?.records() {
///         let record = record?;
///         println!("{} {:?}", record.offset(), record.value());
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SimpleConsumer {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) broker: Arc<Link>,
    pub(super) settings: Settings,
    pub(super) topic_ids: Arc<Mutex<TopicIds>>,
    pub(super) limits: Mutex<FetchLimits>,
    /// Whether to ask the broker what its errors are about.
    pub(super) explains: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) request_timeout: Duration,
    pub(crate) isolation: Isolation,
    pub(crate) crc: CrcCheck,
    pub(crate) max_inflated: usize,
    pub(crate) fetch_limit: i32,
    pub(crate) frame_limit: usize,
    pub(crate) pinned: BTreeMap<ApiKey, i16>,
    pub(crate) offset_storage: OffsetStorage,
    /// Who connects, for refusals.
    pub(crate) principal: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            request_timeout: Duration::from_secs(30),
            isolation: Isolation::default(),
            crc: CrcCheck::default(),
            max_inflated: ReadOptions::DEFAULT_MAX_INFLATED,
            fetch_limit: 64 << 20,
            frame_limit: 100_000_000,
            pinned: BTreeMap::new(),
            offset_storage: OffsetStorage::default(),
            principal: None,
        }
    }
}

/// Where the offsets of a group are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OffsetStorage {
    /// In Kafka where the broker can (0.8.2 on), else in ZooKeeper (0.8.1).
    #[default]
    Newest,
    /// In Kafka: version 1 on of OffsetCommit and OffsetFetch.
    Kafka,
    /// In ZooKeeper, by the broker: version 0 (0.8.1 to 3.9).
    ZooKeeper,
}

/// Settings of a [`SimpleConsumer`]; all have defaults.
#[derive(Debug, Clone)]
#[must_use]
pub struct SimpleConsumerBuilder {
    address: String,
    dialer: Dialer,
    security: Security,
    client_id: Option<String>,
    backoff: Backoff,
    settings: Settings,
}

impl SimpleConsumer {
    /// Connects to a broker (`host`, `host:port`, `[v6]:port`) and learns its versions.
    pub async fn connect(address: &str) -> Result<Self> {
        Self::builder(address).connect().await
    }

    /// Settings, before connecting.
    pub fn builder(address: &str) -> SimpleConsumerBuilder {
        SimpleConsumerBuilder {
            address: address.to_owned(),
            dialer: Dialer::default(),
            security: Security::plaintext(),
            client_id: None,
            backoff: Backoff::default(),
            settings: Settings::default(),
        }
    }

    /// The same calls over a link that others use too. Does not explain errors to a caller that knows
    /// more of the cluster than this broker.
    pub(super) fn over(
        link: Arc<Link>,
        settings: Settings,
        topic_ids: Arc<Mutex<TopicIds>>,
        explains: bool,
    ) -> Self {
        let inner = Inner { broker: link, settings, topic_ids, limits: Mutex::default(), explains };
        SimpleConsumer { inner: Arc::new(inner) }
    }

    /// The broker.
    pub fn broker(&self) -> &BrokerAddress {
        self.inner.broker.address()
    }

    /// The versions that the broker speaks, from the current connection.
    pub async fn versions(&self) -> Result<Arc<BrokerVersions>> {
        let (connection, _) = self.inner.broker.connection().await?;
        let versions = connection.versions().cloned();
        versions.ok_or_else(|| Error::new(ErrorKind::Closed).with_broker(self.broker()))
    }

    /// Sends any request, in the newest version that both sides speak (or the pinned one).
    ///
    /// It is sent as it is: a Metadata request of version 0–3 that names a topic creates it where
    /// the broker allows that. Requests that name topics but not their ids are kept below the
    /// versions that need ids.
    pub async fn send<R: Request + 'static>(&self, request: R) -> Result<R::Response> {
        let most = Versions { min: 0, max: most_for_names(&request) };
        let exchange = self.ask(most, |_| Ok(request.clone())).await?;
        Ok(exchange.response)
    }

    /// Sends any request in that version; an error that names both ranges if the broker or this
    /// crate does not have it.
    pub async fn send_version<R: Request>(&self, request: R, version: i16) -> Result<R::Response> {
        let only = Versions { min: version, max: version };
        let plan = |versions: &BrokerVersions| {
            versions.choose_within::<R>(only).map(|version| (request.clone(), version))
        };
        let exchange = self.inner.broker.exchange(plan, self.inner.settings.request_timeout, 0).await?;
        Ok(exchange.response)
    }

    /// Asks with what `make` gives for the version chosen within `allowed` and the pinned one.
    pub(super) async fn ask<R: Request>(
        &self,
        allowed: Versions,
        make: impl Fn(i16) -> Result<R>,
    ) -> Result<Exchange<R>> {
        self.ask_within(allowed, self.inner.settings.request_timeout, 0, make).await
    }

    pub(super) async fn ask_within<R: Request>(
        &self,
        allowed: Versions,
        timeout: Duration,
        asked: usize,
        make: impl Fn(i16) -> Result<R>,
    ) -> Result<Exchange<R>> {
        let plan = |versions: &BrokerVersions| {
            let version = self.choose::<R>(versions, allowed)?;
            Ok((make(version)?, version))
        };
        self.inner.broker.exchange(plan, timeout, asked).await
    }

    pub(super) fn choose<R: Request>(&self, versions: &BrokerVersions, allowed: Versions) -> Result<i16> {
        self.inner.settings.choose::<R>(versions, allowed)
    }

    /// An error about a partition, with its place.
    pub(super) fn place<R: Request>(&self, why: Error, version: i16, topic: &str, partition: i32) -> Error {
        self.blame(why.with_api(R::KEY, version)).with_topic(topic).with_partition(partition)
    }

    /// An error in an answer of this broker.
    pub(super) fn blame(&self, why: Error) -> Error {
        why.with_broker(self.broker()).with_principal(self.inner.settings.principal.as_ref())
    }
}

impl Settings {
    /// The version of `R` to speak, within `allowed` and the pinned one.
    pub(crate) fn choose<R: Request>(&self, versions: &BrokerVersions, allowed: Versions) -> Result<i16> {
        let allowed = match self.pinned.get(&R::KEY) {
            Some(&pinned) => {
                let pinned = Versions { min: pinned, max: pinned };
                allowed.intersection(pinned).unwrap_or(Versions::NONE)
            }
            None => allowed,
        };
        versions.choose_within::<R>(allowed)
    }
}

impl SimpleConsumerBuilder {
    /// Connects, and learns the broker's versions.
    pub async fn connect(self) -> Result<SimpleConsumer> {
        let consumer = self.build()?;
        consumer.versions().await?;
        Ok(consumer)
    }

    /// A consumer that connects when it is asked something.
    pub fn build(self) -> Result<SimpleConsumer> {
        let SimpleConsumerBuilder { address, mut dialer, security, client_id, backoff, mut settings } = self;
        if let Some(client_id) = client_id {
            dialer = dialer.client_id(&client_id)?;
        }
        let dialer = dialer.security(security.clone())?;
        settings.principal = security.principal().map(Arc::from);
        let dialer = dialer.frame_limit(settings.frame_limit);
        let inner = Inner {
            broker: Arc::new(Link::new(dialer, address.parse()?, backoff, WhenDown::Wait)),
            settings,
            topic_ids: Arc::default(),
            limits: Mutex::default(),
            explains: true,
        };
        Ok(SimpleConsumer { inner: Arc::new(inner) })
    }

    /// Names this client in the broker's logs and quotas; `downspout` by default, never empty.
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// TLS and SASL; neither by default.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// How streams are opened: an address map, a proxy, memory. TCP by default.
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.dialer = self.dialer.connector(Arc::new(connector));
        self
    }

    /// How long opening a stream may take; 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.dialer = self.dialer.connect_timeout(timeout);
        self
    }

    /// How long an answer may take, beyond what a fetch may wait for data; 30 s by default.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// Waits between attempts to connect; 50 ms to 1 s by default.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The largest answer that is accepted, in bytes; 100,000,000 by default.
    pub fn frame_limit(mut self, bytes: usize) -> Self {
        self.settings.frame_limit = bytes;
        self
    }

    /// How far a fetch limit may grow for a record that does not fit, in bytes, on brokers whose
    /// limit is hard (Fetch 0–2, before 0.10.1); 64 MiB by default.
    pub fn fetch_limit(mut self, bytes: i32) -> Self {
        self.settings.fetch_limit = bytes.max(1);
        self
    }

    /// Bytes that one compressed batch may inflate to; 128 MiB by default.
    pub fn max_inflated(mut self, bytes: usize) -> Self {
        self.settings.max_inflated = bytes;
        self
    }

    /// Whether records of aborted and open transactions are read; read_committed by default, where
    /// the broker can say (0.11 on).
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// What to do about checksums; verified by default.
    pub fn crc(mut self, crc: CrcCheck) -> Self {
        self.settings.crc = crc;
        self
    }

    /// Always speaks that version of an API; an error where the broker does not.
    pub fn pin(mut self, api: ApiKey, version: i16) -> Self {
        self.settings.pinned.insert(api, version);
        self
    }

    /// Takes the broker for that release instead of finding out. Only brokers before 0.10 need it,
    /// and only to save the seconds that finding out takes on 0.9.
    pub fn assume_release(mut self, release: LegacyRelease) -> Self {
        self.dialer = self.dialer.assume_release(release);
        self
    }

    /// Where groups' offsets are kept; in Kafka where the broker can by default.
    pub fn offset_storage(mut self, storage: OffsetStorage) -> Self {
        self.settings.offset_storage = storage;
        self
    }
}

/// The newest version in which this request can be sent without topic ids, if it has none.
fn most_for_names(request: &dyn Any) -> i16 {
    if let Some(fetch) = request.downcast_ref::<FetchRequest>() {
        if fetch.topics.iter().any(|topic| topic.topic_id.is_zero()) {
            return LAST_FETCH_BY_NAME;
        }
    } else if let Some(commit) = request.downcast_ref::<OffsetCommitRequest>() {
        if commit.topics.iter().any(|topic| topic.topic_id.is_zero()) {
            return LAST_OFFSETS_BY_NAME;
        }
    } else if let Some(fetch) = request.downcast_ref::<OffsetFetchRequest>() {
        if fetch.groups.is_empty() {
            // Written in the layout of one group.
            return 7;
        }
        if fetch
            .groups
            .iter()
            .flat_map(|group| group.topics.iter().flatten())
            .any(|topic| topic.topic_id.is_zero())
        {
            return LAST_OFFSETS_BY_NAME;
        }
    } else if let Some(produce) = request.downcast_ref::<ProduceRequest>()
        && produce.topic_data.iter().any(|topic| topic.topic_id.is_zero())
    {
        return 12;
    }
    i16::MAX
}

/// Fetch names topics up to this version, and has their ids from the next on (KIP-516).
pub(super) const LAST_FETCH_BY_NAME: i16 = 12;
/// Likewise OffsetCommit and OffsetFetch (KIP-848).
pub(super) const LAST_OFFSETS_BY_NAME: i16 = 9;
