use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::autopsy;
use super::connection::{Connection, ConnectionOptions};
use super::connector::{BoxFuture, BrokerAddress, Connector, TcpConnector, connect_error};
use super::ladder::{Heard, Ladder, Outcome, Patience, Probe, Step};
use super::memory::{Beginning, Memory};
use super::negotiation::ask_versions;
#[cfg(feature = "sasl")]
use super::sasl::{Sasl, keep_logged_in, log_in};
use super::security::Security;
use super::versions::{BrokerVersions, LegacyRelease, VersionSource};
use crate::error::{Error, ErrorKind, Result, TlsTrouble};
#[cfg(feature = "sasl")]
use crate::error::{LoginTrouble, Retry};
use crate::protocol::ApiKey;
use crate::wire::Writer;

/// Makes connections to the brokers of one cluster, their versions negotiated.
#[derive(Clone)]
pub struct Dialer {
    connector: Arc<dyn Connector>,
    security: Security,
    client_id: Arc<str>,
    frame_limit: usize,
    connect_timeout: Duration,
    release: Option<LegacyRelease>,
    patience: Patience,
    memory: Arc<Memory>,
    identity: Option<Arc<Identity>>,
}

/// Who is expected at an address (KIP-1242): told to brokers from 4.4 on, which answer error 129 if
/// they are somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster_id: String,
    pub(crate) node_id: i32,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("connector", &self.connector)
            .field("client_id", &self.client_id)
            .finish()
    }
}

impl Default for Dialer {
    fn default() -> Self {
        let options = ConnectionOptions::default();
        Dialer {
            connector: Arc::new(TcpConnector::default()),
            security: Security::plaintext(),
            client_id: options.client_id,
            frame_limit: options.frame_limit,
            connect_timeout: Duration::from_secs(10),
            release: None,
            patience: Patience::default(),
            memory: Arc::default(),
            identity: None,
        }
    }
}

impl Dialer {
    /// How streams are opened; plain TCP by default.
    #[must_use]
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// How connections are protected; plain by default. An error if a file of a certificate or key cannot be
    /// used.
    pub fn security(mut self, security: Security) -> Result<Self> {
        security.check()?;
        self.security = security;
        Ok(self)
    }

    /// Names the client in the brokers' logs and quotas; `downspout` by default.
    pub fn client_id(mut self, client_id: &str) -> Result<Self> {
        // 0.9.0 crashes in Produce on an empty one (KAFKA-3088).
        if client_id.is_empty() || client_id.len() > i16::MAX as usize {
            return Err(Error::config("the client id must have 1 to 32767 bytes"));
        }
        self.client_id = client_id.into();
        Ok(self)
    }

    /// The largest answer that is accepted, in bytes; 100,000,000 by default.
    #[must_use]
    pub fn frame_limit(mut self, bytes: usize) -> Self {
        self.frame_limit = bytes;
        self
    }

    /// How long opening a stream may take, all addresses of a name together; 10 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a broker that answers nothing is waited for once connected; 10 s by default.
    #[must_use]
    pub fn negotiation_timeout(mut self, timeout: Duration) -> Self {
        self.patience.total = timeout;
        self
    }

    /// Takes all brokers for this release, instead of asking them.
    #[must_use]
    pub fn assume_release(mut self, release: LegacyRelease) -> Self {
        self.release = Some(release);
        self
    }

    /// Expects this broker behind the addresses that are dialed.
    pub(crate) fn expecting(mut self, identity: Option<Arc<Identity>>) -> Self {
        self.identity = identity;
        self
    }

    pub(super) fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Forgets what was concluded about a broker that did not tell its versions.
    pub(crate) fn forget_verdict(&self, broker: &BrokerAddress) {
        self.memory.forget(broker);
    }

    /// The mechanisms of a listener that wants SASL; `None` if it does not.
    pub(crate) async fn wants_sasl(&self, broker: &BrokerAddress) -> Option<Vec<String>> {
        #[cfg(feature = "sasl")]
        if self.security.sasl.is_some() {
            return None;
        }
        autopsy::wants_sasl(self, broker).await
    }

    /// Opens a connection, without a word about versions.
    pub(super) async fn open(&self, broker: &BrokerAddress) -> Result<Connection> {
        match self.open_once(broker).await {
            // A broker that is killed in a handshake does so too, but not twice.
            Err(why) if matches!(why.kind(), ErrorKind::Tls(TlsTrouble::ClosedOnCertificate { .. })) => {
                self.open_once(broker).await
            }
            outcome => outcome,
        }
    }

    async fn open_once(&self, broker: &BrokerAddress) -> Result<Connection> {
        let mut is_connected = false;
        let open = async {
            let stream = self.connector.connect(broker).await.map_err(|why| connect_error(broker, why))?;
            is_connected = true;
            self.security.secure(broker, stream).await
        };
        let stream = match timeout(self.connect_timeout, open).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(why)) if matches!(why.kind(), ErrorKind::Tls(TlsTrouble::NotTls(None))) => {
                let speaks = autopsy::without_tls(self, broker).await;
                return Err(why.with_kind(ErrorKind::Tls(TlsTrouble::NotTls(speaks))));
            }
            Ok(Err(why)) => return Err(why),
            Err(_) if is_connected => {
                let why = format!("the TLS handshake did not end within {:?}", self.connect_timeout);
                return Err(connect_error(broker, std::io::Error::new(std::io::ErrorKind::TimedOut, why)));
            }
            Err(_) => return Err(connect_error(broker, std::io::ErrorKind::TimedOut.into())),
        };
        let options = ConnectionOptions {
            client_id: Arc::clone(&self.client_id),
            frame_limit: self.frame_limit,
            broker: broker.to_string().into(),
        };
        Ok(Connection::start(stream, options))
    }

    /// Opens a stream alone, for what is no Kafka.
    pub(super) async fn open_stream(&self, broker: &BrokerAddress) -> Option<Box<dyn super::ByteStream>> {
        timeout(self.connect_timeout, self.connector.connect(broker)).await.ok()?.ok()
    }

    /// Opens a connection and finds out which versions the broker speaks.
    ///
    /// A broker from 0.10 on costs one exchange, or two; 0.8 a few, 0.9 three seconds, and nothing
    /// more for the next five minutes.
    pub async fn dial(&self, broker: &BrokerAddress) -> Result<Connection> {
        #[cfg(feature = "sasl")]
        if let Some(sasl) = &self.security.sasl {
            return self.dial_and_log_in(broker, sasl).await;
        }
        if let Some(release) = self.release {
            let source = VersionSource::Configured(release);
            return Ok(self.open(broker).await?.with_versions(BrokerVersions::legacy(release, source)));
        }
        let may_be_legacy = match self.memory.beginning(broker, now()) {
            Beginning::Known(release) => return self.open_legacy(broker, release).await,
            Beginning::Ask { may_be_legacy } => may_be_legacy,
        };
        let mut climb = Climb {
            dialer: self,
            broker,
            asks: Vec::new(),
            latest_closed: false,
            alive: None,
            connected: None,
        };
        let mut ladder = Ladder::new(may_be_legacy, self.patience);
        let outcome = loop {
            match ladder.step() {
                Step::Done(outcome) => break outcome,
                step => {
                    let heard = climb.take(step).await?;
                    tracing::debug!(%broker, ?step, ?heard, "negotiation");
                    ladder.heard(heard);
                }
            }
        };
        match (outcome, climb.connected) {
            (Outcome::Modern, Some(connection)) => {
                self.memory.told_versions(broker, now());
                Ok(connection)
            }
            (Outcome::Legacy(release), _) => {
                tracing::info!(%broker, %release, "the broker cannot tell its versions; it behaves as this release");
                self.memory.verdict(broker, release, now());
                self.open_legacy(broker, release).await
            }
            (Outcome::Closes, _) if may_be_legacy && !self.security.is_tls() => {
                Err(Error::new(ErrorKind::WrongProtocol(autopsy::what_is_there(self, broker).await))
                    .with_broker(broker))
            }
            (Outcome::Closes, _) => Err(Error::new(ErrorKind::Closed).with_broker(broker)),
            _ => Err(Error::new(ErrorKind::Unresponsive(self.patience.total)).with_broker(broker)),
        }
    }

    /// Brokers that have a mechanism of ours tell their versions, before the login.
    #[cfg(feature = "sasl")]
    async fn dial_and_log_in(&self, broker: &BrokerAddress, sasl: &Sasl) -> Result<Connection> {
        if let Some(release) = self.release {
            let why =
                format!("brokers of {release} have no SASL but GSSAPI: use their PLAINTEXT or SSL listener");
            return Err(Error::config(why).with_broker(broker));
        }
        if let Some(why) = self.memory.refusal(broker, now()) {
            return Err(why);
        }
        let patience = self.patience.total;
        let mut tries = 0;
        loop {
            tries += 1;
            let connection = self.open(broker).await?;
            let versions = match ask_versions(&connection, patience, self.identity.as_deref()).await {
                Ok(answer) => BrokerVersions::advertised(&answer),
                Err(why) => return Err(self.explain_silence(broker, why).await),
            };
            self.memory.told_versions(broker, now());
            let connection = connection.with_versions(versions);
            let (Some(versions), lane) = (connection.versions(), connection.login_lane()) else { continue };
            match log_in(sasl, versions, &lane, patience).await {
                Ok(None) => return Ok(connection),
                Ok(Some(lifetime)) => {
                    keep_logged_in(sasl.clone(), Arc::clone(versions), lane, lifetime, patience);
                    return Ok(connection);
                }
                // Without a word it may be a broker that is being stopped.
                Err(why)
                    if tries == 1
                        && matches!(
                            why.kind(),
                            ErrorKind::Login(LoginTrouble::Refused { message: None, .. })
                        ) => {}
                Err(why) => {
                    if why.retry() == Retry::Human {
                        self.memory.refused(broker, &why, now());
                    }
                    return Err(why);
                }
            }
        }
    }

    /// Why a listener that should want a login does not tell its versions.
    #[cfg(feature = "sasl")]
    async fn explain_silence(&self, broker: &BrokerAddress, why: Error) -> Error {
        let kind = match why.kind() {
            ErrorKind::Closed | ErrorKind::Io(_) if !self.security.is_tls() => {
                ErrorKind::WrongProtocol(autopsy::what_is_there(self, broker).await)
            }
            ErrorKind::Timeout(after) => ErrorKind::Unresponsive(*after),
            _ => return why,
        };
        Error::new(kind).with_broker(broker)
    }

    async fn open_legacy(&self, broker: &BrokerAddress, release: LegacyRelease) -> Result<Connection> {
        let source = VersionSource::Detected(release);
        Ok(self.open(broker).await?.with_versions(BrokerVersions::legacy(release, source)))
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// One negotiation with its open connections.
struct Climb<'a> {
    dialer: &'a Dialer,
    broker: &'a BrokerAddress,
    /// ApiVersions that were sent and not answered yet.
    asks: Vec<BoxFuture<'static, Result<Connection>>>,
    /// The connection of the last of them was closed; it is not among them any more.
    latest_closed: bool,
    /// The connection that answered Metadata 0.
    alive: Option<Connection>,
    /// The connection whose broker told its versions.
    connected: Option<Connection>,
}

impl Climb<'_> {
    async fn take(&mut self, step: Step) -> Result<Heard> {
        match step {
            Step::AskVersions(patience) => {
                let connection = self.dialer.open(self.broker).await?;
                self.ask(connection);
                self.listen(patience, None).await
            }
            Step::AskMetadata(patience) => {
                let connection = self.dialer.open(self.broker).await?;
                let asked = ask_old(connection.clone(), Old::Metadata, self.dialer.patience.total);
                let heard = self.listen(patience, Some(Box::pin(asked))).await?;
                self.alive = Some(connection);
                Ok(heard)
            }
            Step::AskVersionsThere(patience) => {
                let Some(connection) = self.alive.take() else { return Ok(Heard::Dead) };
                self.ask(connection);
                self.listen(patience, None).await
            }
            Step::Probe(probe, patience) => {
                let connection = self.dialer.open(self.broker).await?;
                let total = self.dialer.patience.total;
                let asked = async move {
                    match ask_old(connection.clone(), Old::ListOffsets, total).await? {
                        Heard::Answer => ask_old(connection, Old::Probe(probe), total).await,
                        _ => Ok(Heard::Dead),
                    }
                };
                self.listen(patience, Some(Box::pin(asked))).await
            }
            Step::Wait(patience) => self.listen(patience, None).await,
            Step::Done(_) => Ok(Heard::Silence),
        }
    }

    fn ask(&mut self, connection: Connection) {
        // Longer than all steps together: a late answer counts to the end.
        let timeout = self.dialer.patience.total * 2;
        self.latest_closed = false;
        let identity = self.dialer.identity.clone();
        self.asks.push(Box::pin(async move {
            let answer = ask_versions(&connection, timeout, identity.as_deref()).await?;
            let versions = BrokerVersions::advertised(&answer);
            Ok(connection.with_versions(versions))
        }));
    }

    /// Waits for the probe or, without one, for the latest ApiVersions; and for earlier ones anyway.
    async fn listen(
        &mut self,
        patience: Duration,
        mut probe: Option<BoxFuture<'static, Result<Heard>>>,
    ) -> Result<Heard> {
        let mut time_is_up = std::pin::pin!(sleep(patience));
        let (heard, connected) = poll_fn(|cx| -> Poll<Result<_>> {
            let mut i = 0;
            while i < self.asks.len() {
                let answer = match self.asks[i].as_mut().poll(cx) {
                    Poll::Pending => {
                        i += 1;
                        continue;
                    }
                    Poll::Ready(answer) => answer,
                };
                let was_latest = i + 1 == self.asks.len() && !self.latest_closed;
                drop(self.asks.remove(i));
                match answer {
                    Ok(connection) => return Poll::Ready(Ok((Heard::Versions, Some(connection)))),
                    Err(why) => {
                        let closed = closed_or_silent(why)? == Heard::Closed;
                        self.latest_closed |= closed && was_latest;
                    }
                }
            }
            if self.latest_closed && probe.is_none() {
                return Poll::Ready(Ok((Heard::Closed, None)));
            }
            if let Some(probe) = &mut probe
                && let Poll::Ready(heard) = probe.as_mut().poll(cx)
            {
                return Poll::Ready(heard.map(|heard| (heard, None)));
            }
            time_is_up.as_mut().poll(cx).map(|()| Ok((Heard::Silence, None)))
        })
        .await?;
        self.connected = connected.or(self.connected.take());
        Ok(heard)
    }
}

/// A request in a layout that brokers before 0.10 understand.
#[derive(Clone, Copy)]
enum Old {
    Metadata,
    ListOffsets,
    Probe(Probe),
}

/// Sends an old request; any answer with the right correlation id will do.
async fn ask_old(connection: Connection, old: Old, timeout: Duration) -> Result<Heard> {
    let (api, version, request) = old_request(old);
    let answer = match connection.request_raw(api, version, &request, timeout) {
        Ok(answer) => answer.await,
        Err(why) => Err(why),
    };
    match answer {
        Ok(_) => Ok(Heard::Answer),
        Err(why) => closed_or_silent(why),
    }
}

/// What an error says about the broker; other errors end the negotiation.
fn closed_or_silent(why: Error) -> Result<Heard> {
    match why.kind() {
        ErrorKind::Closed | ErrorKind::Io(_) => Ok(Heard::Closed),
        ErrorKind::Timeout(_) => Ok(Heard::Silence),
        _ => Err(why),
    }
}

/// Header and body of an old request; its correlation id is filled in later.
fn old_request(old: Old) -> (ApiKey, i16, Vec<u8>) {
    const GROUP: &str = "downspout-probe";
    let (key, version) = match old {
        Old::ListOffsets => (2, 0),
        Old::Metadata => (3, 0),
        Old::Probe(Probe::OffsetCommit2) => (8, 2),
        Old::Probe(Probe::OffsetFetch0) => (9, 0),
        Old::Probe(Probe::ListGroups0) => (16, 0),
    };
    let mut request = Writer::new();
    let string = |request: &mut Writer, text: &str| {
        request.i16(text.len() as i16);
        request.raw(text.as_bytes());
    };
    request.i16(key);
    request.i16(version);
    request.i32(0);
    string(&mut request, GROUP);
    match old {
        Old::ListOffsets => {
            request.i32(-1); // replica
            request.i32(0); // no topics
        }
        // All topics: naming one would create it.
        Old::Metadata => request.i32(0),
        Old::Probe(Probe::OffsetCommit2) => {
            string(&mut request, GROUP);
            request.i32(-1); // generation; 0.8.1 takes it for the number of topics: none
            string(&mut request, ""); // member
            request.i64(-1); // retention
            request.i32(0); // no topics
        }
        Old::Probe(Probe::OffsetFetch0) => {
            string(&mut request, GROUP);
            request.i32(0); // no topics
        }
        Old::Probe(Probe::ListGroups0) => {}
    }
    (ApiKey(key), version, request.into_vec())
}
