use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::WeakConnection;
use super::{Backoff, BrokerAddress, Connection, Dialer, Identity, Link, WhenDown};
use crate::error::{Error, Result};
use crate::protocol::ErrorCode;

/// The connections to the brokers of one cluster: a [`Link`] for each, and those that somebody has
/// opened beside it.
#[derive(Debug)]
pub(crate) struct Links {
    dialer: Dialer,
    backoff: Backoff,
    links: Mutex<BTreeMap<BrokerAddress, Arc<Link>>>,
    /// The brokers that the cluster has named, where it has an id.
    brokers: Mutex<BTreeMap<BrokerAddress, Arc<Identity>>>,
    opened: Arc<Opened>,
}

impl Links {
    pub(crate) fn new(dialer: Dialer, backoff: Backoff) -> Self {
        Links { dialer, backoff, links: Mutex::default(), brokers: Mutex::default(), opened: Arc::default() }
    }

    /// The link to a broker; it connects when it is asked something.
    pub(crate) fn link(&self, address: &BrokerAddress) -> Arc<Link> {
        let identity = self.identity(address);
        let mut links = lock(&self.links);
        // An open connection is to whom it is to, whatever is expected there since.
        if let Some(link) =
            links.get(address).filter(|link| link.identity() == identity.as_ref() || link.is_open())
        {
            return Arc::clone(link);
        }
        let dialer = self.dialer.clone().expecting(identity);
        let link = Link::new(dialer, address.clone(), self.backoff, WhenDown::Fail).opened_into(&self.opened);
        let link = Arc::new(link);
        links.insert(address.clone(), Arc::clone(&link));
        link
    }

    /// Who is expected behind an address.
    fn identity(&self, address: &BrokerAddress) -> Option<Arc<Identity>> {
        lock(&self.brokers).get(address).cloned()
    }

    /// Whether the link to a broker has an open connection.
    pub(crate) fn is_open(&self, address: &BrokerAddress) -> bool {
        let link = lock(&self.links).get(address).cloned();
        link.is_some_and(|link| link.is_open())
    }

    /// Opens a connection of the caller's own.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) async fn open(&self, address: &BrokerAddress) -> Result<Connection> {
        let dialer = self.dialer.clone().expecting(self.identity(address));
        self.opened.dial(&dialer, address).await
    }

    /// Which brokers there are. Links to others are let go of: a connection closes when nobody waits
    /// for an answer on it any more.
    pub(crate) fn retain<'a>(&self, brokers: impl Iterator<Item = (&'a BrokerAddress, Option<Identity>)>) {
        let mut kept = BTreeSet::new();
        let mut expected = BTreeMap::new();
        for (address, identity) in brokers {
            kept.insert(address);
            if let Some(identity) = identity {
                expected.insert(address.clone(), Arc::new(identity));
            }
        }
        *lock(&self.brokers) = expected;
        lock(&self.links).retain(|address, _| kept.contains(address));
    }

    /// Whether a broker was found to be another one than was expected at its address, or of another
    /// cluster, since this was asked last.
    pub(crate) fn has_met_a_stranger(&self) -> bool {
        self.opened.stranger.swap(false, Ordering::Relaxed)
    }

    /// Closes all connections; whoever waits on one gets this error. Nobody is expected anywhere from
    /// then on.
    pub(crate) fn close_all(&self, why: &Error) {
        lock(&self.links).clear();
        lock(&self.brokers).clear();
        self.opened.close_all(why, false);
    }

    /// Closes all connections for good: there will be no new ones.
    pub(crate) fn end(&self, why: &Error) {
        lock(&self.links).clear();
        self.opened.close_all(why, true);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections that were opened, so that they can be closed from here.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    register: Mutex<Register>,
    /// Some broker said that it is not who it was taken for (KIP-1242).
    stranger: AtomicBool,
}

#[derive(Debug, Default)]
struct Register {
    /// How often all were closed.
    era: u64,
    connections: Vec<WeakConnection>,
    /// Why they were closed last.
    why: Option<Error>,
    is_over: bool,
}

impl Opened {
    /// Opens a connection; one that was begun before all were closed is closed as well.
    pub(crate) async fn dial(&self, dialer: &Dialer, address: &BrokerAddress) -> Result<Connection> {
        let era = self.era()?;
        let connection = dialer.dial(address).await.inspect_err(|why| {
            if why.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) {
                self.stranger.store(true, Ordering::Relaxed);
            }
        })?;
        let mut register = lock(&self.register);
        if let Some(why) = register.why.clone().filter(|_| register.era != era) {
            connection.close(why.clone());
            return Err(why);
        }
        register.connections.retain(|connection| !connection.is_gone());
        register.connections.push(connection.downgrade());
        Ok(connection)
    }

    fn era(&self) -> Result<u64> {
        let register = lock(&self.register);
        match &register.why {
            Some(why) if register.is_over => Err(why.clone()),
            _ => Ok(register.era),
        }
    }

    fn close_all(&self, why: &Error, is_over: bool) {
        let mut register = lock(&self.register);
        register.era += 1;
        register.is_over |= is_over;
        register.why = Some(why.clone());
        for connection in register.connections.drain(..) {
            connection.close(why.clone());
        }
    }
}
