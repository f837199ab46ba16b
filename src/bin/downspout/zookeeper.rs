//! Sessions with ZooKeeper: one for each place, ended before the command is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use downspout::Error;
use downspout::zookeeper::{Session, ZooKeeper};

/// What names in front of servers mean ZooKeeper.
pub(crate) const SCHEME: &str = "zk://";

static OPEN: Mutex<BTreeMap<String, Arc<Session>>> = Mutex::new(BTreeMap::new());

/// The session with these servers: `host:port,host:port/chroot`.
pub(crate) async fn session(servers: &str, timeout: Option<Duration>) -> Result<Arc<dyn ZooKeeper>, Error> {
    let open = || OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = open().get(servers).cloned();
    let session = match found {
        Some(session) => session,
        None => {
            let builder = Session::builder(servers)?;
            let builder = timeout.into_iter().fold(builder, |builder, timeout| builder.timeout(timeout));
            let session = Arc::new(builder.connect().await?);
            open().insert(servers.to_owned(), Arc::clone(&session));
            session
        }
    };
    Ok(session)
}

/// Ends them all, so that none stays until it expires.
pub(crate) async fn close_all() {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for session in open.into_values() {
        session.close().await;
    }
}
