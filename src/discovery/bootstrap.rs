use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::{BrokerReader, Metadata, TopicSelection, about, about_all};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Backoff, BoxFuture, BrokerAddress, BrokerVersions, Dialer, Links};
use crate::protocol::{ErrorCode, MetadataRequest, Versions};

/// How long a broker may take before another one is asked as well.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks brokers, with Metadata requests, which all releases from 0.8.0 on answer.
///
/// It is given a few addresses to begin with, and learns the others. One broker is asked, as long as
/// it answers; one that fails is asked last from then on, and one that takes longer than a second
/// gets company. When none of the brokers known can be reached, the first addresses are tried again
/// (KIP-899); names are resolved anew at each connect. No request creates a topic.
#[derive(Debug)]
pub struct Bootstrap {
    links: Arc<Links>,
    addresses: Vec<BrokerAddress>,
    versions: Versions,
    request_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The brokers that the last answer named.
    known: Vec<BrokerAddress>,
    /// The one that gave it.
    source: Option<BrokerAddress>,
    /// Those that failed, with a number that is larger the later it was.
    failed: BTreeMap<BrokerAddress, u64>,
    failures: u64,
}

impl Bootstrap {
    /// Begins with these brokers, over connections of its own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if there are none.
    pub fn new(dialer: Dialer, addresses: impl IntoIterator<Item = BrokerAddress>) -> Result<Self> {
        let links = Arc::new(Links::new(dialer, Backoff::default()));
        Self::over(links, addresses.into_iter().collect())
    }

    /// Begins with these brokers, over connections that others use too.
    pub(crate) fn over(links: Arc<Links>, mut addresses: Vec<BrokerAddress>) -> Result<Self> {
        let mut seen = std::collections::BTreeSet::new();
        addresses.retain(|address| seen.insert(address.clone()));
        if addresses.is_empty() {
            return Err(Error::config("no brokers to begin with: name at least one as host:port"));
        }
        let state = Mutex::default();
        let request_timeout = Duration::from_secs(30);
        Ok(Bootstrap {
            links,
            addresses,
            versions: Versions { min: 0, max: i16::MAX },
            request_timeout,
            state,
        })
    }

    /// How long an answer may take; 30 s by default.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// The versions of Metadata that may be spoken.
    pub(crate) fn versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to ask, best first.
    fn candidates(&self) -> Vec<BrokerAddress> {
        let state = self.state();
        let mut candidates: Vec<&BrokerAddress> = Vec::new();
        let known = state.known.iter();
        for address in state.source.iter().chain(known).chain(&self.addresses) {
            if !candidates.contains(&address) {
                candidates.push(address);
            }
        }
        let is_known = |address: &BrokerAddress| state.known.contains(address);
        // The sort is stable: the source stays in front of its equals.
        candidates.sort_by_key(|address| {
            let failed = state.failed.get(address).copied();
            (failed, !is_known(address), !self.links.is_open(address))
        });
        candidates.into_iter().cloned().collect()
    }

    async fn read_any(&self, topics: &TopicSelection) -> Result<Metadata> {
        let mut waiting = self.candidates().into_iter().peekable();
        let mut asked: Vec<(BrokerAddress, BoxFuture<'_, Result<Metadata>>)> = Vec::new();
        let mut errors = Vec::new();
        loop {
            if let Some(address) = waiting.next() {
                asked.push((address.clone(), Box::pin(self.ask(address, topics))));
            } else if asked.is_empty() {
                return Err(none_answered(errors));
            }
            let patience = waiting.peek().map(|_| PATIENCE);
            match first(&mut asked, patience).await {
                Some((address, Ok(metadata))) => {
                    self.succeeded(&address, &metadata);
                    return Ok(metadata);
                }
                Some((address, Err(why))) => {
                    self.failed(&address);
                    // It speaks for the cluster, and others would say the same or worse.
                    if why.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) {
                        return Err(why);
                    }
                    errors.push(why);
                }
                None => {
                    for (slow, _) in &asked {
                        self.failed(slow);
                    }
                }
            }
        }
    }

    async fn ask(&self, address: BrokerAddress, topics: &TopicSelection) -> Result<Metadata> {
        let names: Option<Vec<&str>> = match topics {
            TopicSelection::All => None,
            TopicSelection::Named(names) => Some(names.iter().map(String::as_str).collect()),
        };
        let plan = |versions: &BrokerVersions| {
            let version = versions.choose_within::<MetadataRequest>(self.versions)?;
            let request = match &names {
                None => about_all(version),
                Some(names) => about(names, version),
            };
            Ok((request, version))
        };
        let link = self.links.link(&address);
        let exchange = link.exchange(plan, self.request_timeout, 0).await?;
        Metadata::understand(exchange.version, exchange.response, names.as_deref(), &address)
    }

    fn succeeded(&self, source: &BrokerAddress, metadata: &Metadata) {
        let mut state = self.state();
        state.failed.remove(source);
        state.known = metadata.brokers.iter().map(|broker| broker.address.clone()).collect();
        // One that the cluster names otherwise was a way in, and is not kept.
        state.source = Some(source.clone()).filter(|source| state.known.contains(source));
        let State { known, failed, .. } = &mut *state;
        failed.retain(|address, _| known.contains(address) || self.addresses.contains(address));
    }

    fn failed(&self, address: &BrokerAddress) {
        let mut state = self.state();
        state.failures += 1;
        let now = state.failures;
        state.failed.insert(address.clone(), now);
        state.source.take_if(|source| source == address);
    }
}

impl BrokerReader for Bootstrap {
    fn read<'a>(&'a self, topics: &'a TopicSelection) -> BoxFuture<'a, Result<Metadata>> {
        Box::pin(self.read_any(topics))
    }

    fn rotate(&self) {
        let source = self.state().source.clone();
        if let Some(source) = source {
            self.failed(&source);
        }
    }

    fn restart(&self) {
        *self.state() = State::default();
    }
}

/// The first answer that comes; `None` if none does for so long.
async fn first<K: Clone, T>(
    asked: &mut Vec<(K, BoxFuture<'_, T>)>,
    patience: Option<Duration>,
) -> Option<(K, T)> {
    let mut time_is_up = pin!(patience.map(sleep));
    poll_fn(|cx| {
        for i in 0..asked.len() {
            if let Poll::Ready(answer) = asked[i].1.as_mut().poll(cx) {
                let (key, _) = asked.remove(i);
                return Poll::Ready(Some((key, answer)));
            }
        }
        match time_is_up.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

fn none_answered(mut errors: Vec<Error>) -> Error {
    match errors.len() {
        1 => errors.remove(0),
        _ => Error::new(ErrorKind::NoBroker(errors)),
    }
}
