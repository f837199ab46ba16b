use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorKind, Result, Speaks};
use crate::net::{Backoff, BrokerAddress, BrokerVersions, Connection, Dialer, RequestOptions};
use crate::protocol::{ApiKey, Request};

/// One broker: connects when something is to be asked, and again after the connection was lost.
#[derive(Debug)]
pub(crate) struct Broker {
    dialer: Dialer,
    address: BrokerAddress,
    backoff: Backoff,
    link: Mutex<Link>,
    /// Connections that failed, or were closed before they answered anything, since the last answer.
    failures: AtomicU32,
}

#[derive(Debug, Default)]
struct Link {
    connection: Option<Connection>,
    not_before: Option<Instant>,
}

/// What was asked in which version, and the answer.
pub(crate) struct Exchange<R: Request> {
    pub(crate) version: i16,
    pub(crate) response: R::Response,
}

impl Broker {
    pub(crate) fn new(dialer: Dialer, address: BrokerAddress, backoff: Backoff) -> Self {
        Broker { dialer, address, backoff, link: Mutex::default(), failures: AtomicU32::new(0) }
    }

    pub(crate) fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// The connection, made anew if there is none or it was lost; and whether it is new.
    ///
    /// Waits out the back-off first, so that callers in a loop do not hammer a broker that is down.
    pub(crate) async fn connection(&self) -> Result<(Connection, bool)> {
        let mut link = self.link.lock().await;
        if let Some(connection) = link.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok((connection.clone(), false));
        }
        link.connection = None;
        if let Some(instant) = link.not_before {
            sleep_until(instant).await;
        }
        match self.dialer.dial(&self.address).await {
            Ok(connection) => {
                link.connection = Some(connection.clone());
                link.not_before = None;
                Ok((connection, true))
            }
            Err(why) => {
                link.not_before = Some(Instant::now() + self.after_failure());
                Err(why)
            }
        }
    }

    fn after_failure(&self) -> Duration {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        self.backoff.after(failures)
    }

    /// Asks: `plan` makes the request for the versions that the broker speaks.
    ///
    /// A connection that turns out to be lost is replaced and the request sent once more, unless it
    /// is of a kind that must not be done twice.
    pub(crate) async fn exchange<R: Request>(
        &self,
        plan: impl Fn(&BrokerVersions) -> Result<(R, i16)>,
        timeout: Duration,
        asked: usize,
    ) -> Result<Exchange<R>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (connection, is_new) = self.connection().await?;
            let Some(versions) = connection.versions() else {
                return Err(Error::new(ErrorKind::Closed).with_broker(&self.address));
            };
            let (request, version) = plan(versions).map_err(|why| why.with_broker(&self.address))?;
            let options = RequestOptions { timeout: Some(timeout), asked, permit: None };
            let answer = match connection.request(&request, version, options) {
                Ok(answer) => answer.await,
                Err(why) => Err(why),
            };
            let why = match answer {
                Ok(response) => {
                    self.failures.store(0, Ordering::Relaxed);
                    return Ok(Exchange { version, response });
                }
                Err(why) => why,
            };
            let lost = matches!(why.kind(), ErrorKind::Closed | ErrorKind::Io(_));
            if lost && is_new {
                // The first thing asked on a new connection: an old verdict may be wrong.
                self.dialer.forget_verdict(&self.address);
                let pause = self.after_failure();
                self.link.lock().await.not_before = Some(Instant::now() + pause);
            }
            if !lost || !may_be_repeated(R::KEY) {
                return Err(why);
            }
            if tries == 2 {
                return Err(if is_new { self.explain_close(why).await } else { why });
            }
        }
    }

    /// A listener that wants SASL answers ApiVersions, then closes on the first request.
    async fn explain_close(&self, why: Error) -> Error {
        match self.dialer.wants_sasl(&self.address).await {
            Some(mechanisms) => {
                Error::new(ErrorKind::WrongProtocol(Speaks::Sasl(mechanisms))).with_broker(&self.address)
            }
            None => why,
        }
    }
}

/// Whether doing it twice is the same as doing it once.
fn may_be_repeated(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::FETCH
            | ApiKey::LIST_OFFSETS
            | ApiKey::METADATA
            | ApiKey::OFFSET_COMMIT
            | ApiKey::OFFSET_FETCH
            | ApiKey::FIND_COORDINATOR
            | ApiKey::LIST_GROUPS
            | ApiKey::DESCRIBE_GROUPS
            | ApiKey::DESCRIBE_CONFIGS
            | ApiKey::API_VERSIONS
            | ApiKey::OFFSET_FOR_LEADER_EPOCH
    )
}
