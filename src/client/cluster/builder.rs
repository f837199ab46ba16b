use std::sync::Arc;
use std::time::Duration;

use super::{Cluster, Settings, Shared};
use crate::client::{OffsetStorage, simple_consumer::Settings as ClientSettings};
use crate::discovery::{Bootstrap, BrokerReader};
use crate::error::Result;
use crate::net::{Backoff, BrokerAddress, Connector, Dialer, LegacyRelease, Links, Security};
use crate::protocol::{ApiKey, Versions};
use crate::records::{CrcCheck, Isolation};

/// Settings of a [`Cluster`]; all have defaults.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClusterBuilder {
    bootstrap: Vec<String>,
    dialer: Dialer,
    security: Security,
    client_id: Option<String>,
    backoff: Backoff,
    reader: Option<Arc<dyn BrokerReader>>,
    settings: Settings,
}

impl ClusterBuilder {
    pub(super) fn new(bootstrap: Vec<String>) -> Self {
        ClusterBuilder {
            bootstrap,
            dialer: Dialer::default(),
            security: Security::plaintext(),
            client_id: None,
            backoff: Backoff::default(),
            reader: None,
            settings: Settings {
                client: ClientSettings::default(),
                metadata_max_age: Duration::from_secs(300),
                rack: None,
                rebootstrap_after: Duration::from_secs(300),
                api_timeout: Duration::from_secs(60),
                memory: 256 << 20,
                answer_bytes: 1 << 20,
            },
        }
    }

    /// Connects to the first broker that answers, and learns the others.
    pub async fn connect(self) -> Result<Cluster> {
        let cluster = self.build()?;
        cluster.shared.refresh(0).await?;
        Ok(cluster)
    }

    /// A cluster that connects when it is asked something.
    pub fn build(self) -> Result<Cluster> {
        let ClusterBuilder { bootstrap, mut dialer, security, client_id, backoff, reader, mut settings } =
            self;
        if let Some(client_id) = client_id {
            dialer = dialer.client_id(&client_id)?;
        }
        let dialer = dialer.security(security.clone())?;
        settings.client.principal = security.principal().map(Arc::from);
        let links = Arc::new(Links::new(dialer.frame_limit(settings.client.frame_limit), backoff));
        let reader = match reader {
            Some(reader) => reader,
            None => {
                let addresses = bootstrap.iter().map(|address| address.parse());
                let addresses = addresses.collect::<Result<Vec<BrokerAddress>>>()?;
                let pinned = settings.client.pinned.get(&ApiKey::METADATA);
                let versions = pinned.map_or(Versions { min: 0, max: i16::MAX }, |&version| Versions {
                    min: version,
                    max: version,
                });
                let bootstrap = Bootstrap::over(Arc::clone(&links), addresses)?
                    .request_timeout(settings.client.request_timeout)
                    .versions(versions);
                Arc::new(bootstrap)
            }
        };
        let shared = Arc::new(Shared::new(settings, reader, links));
        Ok(Cluster { shared, fetcher: Arc::default() })
    }

    /// Names this client in the brokers' logs and quotas; `downspout` by default, never empty.
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

    /// How long one answer may take, beyond what a fetch may wait for data; 30 s by default.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.client.request_timeout = timeout;
        self
    }

    /// For how long a call tries again what fails for a reason that passes; 60 s by default.
    pub fn api_timeout(mut self, timeout: Duration) -> Self {
        self.settings.api_timeout = timeout;
        self
    }

    /// How long a broker that cannot be reached is left alone; 50 ms to 1 s by default.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The largest answer that is accepted, in bytes; 100,000,000 by default.
    pub fn frame_limit(mut self, bytes: usize) -> Self {
        self.settings.client.frame_limit = bytes;
        self
    }

    /// How far a fetch limit may grow for a record that does not fit, in bytes, on brokers whose
    /// limit is hard (Fetch 0–2, before 0.10.1); 64 MiB by default.
    pub fn fetch_limit(mut self, bytes: i32) -> Self {
        self.settings.client.fetch_limit = bytes.max(1);
        self
    }

    /// Bytes that one compressed batch may inflate to; 128 MiB by default.
    pub fn max_inflated(mut self, bytes: usize) -> Self {
        self.settings.client.max_inflated = bytes;
        self
    }

    /// Whether records of aborted and open transactions are read; read_committed by default, where
    /// the broker can say (0.11 on).
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.client.isolation = isolation;
        self
    }

    /// What to do about checksums; verified by default.
    pub fn crc(mut self, crc: CrcCheck) -> Self {
        self.settings.client.crc = crc;
        self
    }

    /// Always speaks that version of an API; an error where a broker does not.
    pub fn pin(mut self, api: ApiKey, version: i16) -> Self {
        self.settings.client.pinned.insert(api, version);
        self
    }

    /// Takes all brokers for that release instead of finding out. Only brokers before 0.10 need it,
    /// and only to save the seconds that finding out takes on 0.9.
    pub fn assume_release(mut self, release: LegacyRelease) -> Self {
        self.dialer = self.dialer.assume_release(release);
        self
    }

    /// Where groups' offsets are kept; in Kafka where the brokers can by default.
    pub fn offset_storage(mut self, storage: OffsetStorage) -> Self {
        self.settings.client.offset_storage = storage;
        self
    }

    /// Bytes for all that is in flight, buffered and inflated for streams; 256 MiB by default.
    ///
    /// Batches count until they are dropped. Each partition may always ask for a little when it holds
    /// nothing, and one batch may always be larger: a tight budget slows streams and stops none.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.settings.memory = bytes;
        self
    }

    /// Bytes that one answer with records of several partitions is to hold (Kafka's `fetch.max.bytes`);
    /// 1 MiB by default, which suits the caches of a processor. More pays over long distances, where
    /// each answer takes its time: up to two are on their way from each broker.
    pub fn fetch_bytes(mut self, bytes: usize) -> Self {
        self.settings.answer_bytes = bytes.max(1);
        self
    }

    /// How old metadata may grow before it is read again; 5 minutes by default.
    pub fn metadata_max_age(mut self, age: Duration) -> Self {
        self.settings.metadata_max_age = age;
        self
    }

    /// The rack (`client.rack`) that this client is in, for reading from replicas near by (KIP-392).
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.settings.rack = Some(rack.into());
        self
    }

    /// Where brokers and leaders are read from; by default from the bootstrap addresses
    /// ([`Bootstrap`]), which are not used with another reader.
    pub fn reader(mut self, reader: impl BrokerReader + 'static) -> Self {
        self.reader = Some(Arc::new(reader));
        self
    }

    /// After how long without metadata all connections are closed and the bootstrap addresses are
    /// resolved and tried anew (KIP-1102); 5 minutes by default.
    pub fn rebootstrap_after(mut self, time: Duration) -> Self {
        self.settings.rebootstrap_after = time;
        self
    }
}
