use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::WeakConnection;
use super::{Backoff, BrokerAddress, Connection, Dialer, Link, WhenDown};
use crate::error::{Error, Result};

/// The connections to the brokers of one cluster: a [`Link`] for each, and those that somebody has
/// opened beside it.
#[derive(Debug)]
pub(crate) struct Links {
    dialer: Dialer,
    backoff: Backoff,
    links: Mutex<BTreeMap<BrokerAddress, Arc<Link>>>,
    opened: Arc<Opened>,
}

impl Links {
    pub(crate) fn new(dialer: Dialer, backoff: Backoff) -> Self {
        Links { dialer, backoff, links: Mutex::default(), opened: Arc::default() }
    }

    /// The link to a broker; it connects when it is asked something.
    pub(crate) fn link(&self, address: &BrokerAddress) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.entry(address.clone()).or_insert_with(|| {
            let link = Link::new(self.dialer.clone(), address.clone(), self.backoff, WhenDown::Fail);
            Arc::new(link.opened_into(&self.opened))
        });
        Arc::clone(link)
    }

    /// Whether the link to a broker has an open connection.
    pub(crate) fn is_open(&self, address: &BrokerAddress) -> bool {
        let link = self.links.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        link.is_some_and(|link| link.is_open())
    }

    /// Opens a connection of the caller's own.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) async fn open(&self, address: &BrokerAddress) -> Result<Connection> {
        self.opened.dial(&self.dialer, address).await
    }

    /// Lets go of the links to brokers that are not among these: a connection closes when nobody
    /// waits for an answer on it any more.
    pub(crate) fn retain(&self, brokers: &BTreeSet<&BrokerAddress>) {
        self.links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|address, _| brokers.contains(address));
    }

    /// Closes all connections; whoever waits on one gets this error.
    pub(crate) fn close_all(&self, why: &Error) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.opened.close_all(why, false);
    }

    /// Closes all connections for good: there will be no new ones.
    pub(crate) fn end(&self, why: &Error) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.opened.close_all(why, true);
    }
}

/// Connections that were opened, so that they can be closed from here.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<Register>);

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
        let connection = dialer.dial(address).await?;
        let mut register = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = register.why.clone().filter(|_| register.era != era) {
            connection.close(why.clone());
            return Err(why);
        }
        register.connections.retain(|connection| !connection.is_gone());
        register.connections.push(connection.downgrade());
        Ok(connection)
    }

    fn era(&self) -> Result<u64> {
        let register = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &register.why {
            Some(why) if register.is_over => Err(why.clone()),
            _ => Ok(register.era),
        }
    }

    fn close_all(&self, why: &Error, is_over: bool) {
        let mut register = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        register.era += 1;
        register.is_over |= is_over;
        register.why = Some(why.clone());
        for connection in register.connections.drain(..) {
            connection.close(why.clone());
        }
    }
}
