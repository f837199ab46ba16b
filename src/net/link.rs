use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::dialer::Identity;
use super::links::Opened;
use super::{Backoff, BrokerAddress, BrokerVersions, Connection, Dialer, RequestOptions};
use crate::error::{Error, ErrorKind, Result, Speaks};
use crate::protocol::{ApiKey, Request};

/// One broker: connects when something is to be asked, and again after the connection was lost.
#[derive(Debug)]
pub(crate) struct Link {
    dialer: Dialer,
    address: BrokerAddress,
    backoff: Backoff,
    when_down: WhenDown,
    state: Mutex<State>,
    opened: Arc<Opened>,
    /// Connections that failed, or were closed before they answered anything, since the last answer.
    failures: AtomicU32,
}

/// What a caller meets while the link waits before it connects again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    /// The call waits too: callers in a loop do not hammer a broker that is down.
    Wait,
    /// The call fails with the last error at once: callers that have something else to do can.
    Fail,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Connection>,
    /// Until when not to connect again, and why.
    down: Option<(Instant, Error)>,
}

/// What was asked in which version, and the answer.
pub(crate) struct Exchange<R: Request> {
    pub(crate) version: i16,
    pub(crate) response: R::Response,
}

impl Link {
    pub(crate) fn new(dialer: Dialer, address: BrokerAddress, backoff: Backoff, when_down: WhenDown) -> Self {
        let (state, opened, failures) = Default::default();
        Link { dialer, address, backoff, when_down, state, opened, failures }
    }

    /// Registers its connections there.
    pub(crate) fn opened_into(mut self, opened: &Arc<Opened>) -> Self {
        self.opened = Arc::clone(opened);
        self
    }

    pub(super) fn identity(&self) -> Option<&Arc<Identity>> {
        self.dialer.identity()
    }

    pub(crate) fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// Whether a connection is open now, as far as can be seen without waiting.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| state.connection.as_ref().is_some_and(|open| !open.is_closed()))
    }

    /// The connection, made anew if there is none or it was lost; and whether it is new.
    pub(crate) async fn connection(&self) -> Result<(Connection, bool)> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok((connection.clone(), false));
        }
        state.connection = None;
        if let Some((instant, why)) = &state.down {
            match self.when_down {
                WhenDown::Wait => sleep_until(*instant).await,
                WhenDown::Fail if Instant::now() < *instant => return Err(why.clone()),
                WhenDown::Fail => {}
            }
        }
        match self.opened.dial(&self.dialer, &self.address).await {
            Ok(connection) => {
                state.connection = Some(connection.clone());
                state.down = None;
                Ok((connection, true))
            }
            Err(why) => {
                state.down = Some((Instant::now() + self.after_failure(), why.clone()));
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
            let (connection, is_new) = match self.connection().await {
                Ok(connection) => connection,
                // Down since the first try, and no second one is waited for.
                Err(why) if tries == 2 && matches!(why.kind(), ErrorKind::Closed) => {
                    return Err(self.explain_close(why).await);
                }
                Err(why) => return Err(why),
            };
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
                self.state.lock().await.down = Some((Instant::now() + pause, why.clone()));
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
