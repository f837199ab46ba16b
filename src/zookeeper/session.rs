use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, No, Rights};
use super::keeper::Settings;
use super::watches::Watches;
use super::{Created, Deleted, Mode, Node, Servers, SessionId, Trouble, Written, ZooKeeper, path};
use crate::error::{Error, ErrorKind, Result};
use crate::net::BoxFuture;

/// The shortest session; below, the client does not work.
const SHORTEST: Duration = Duration::from_secs(4);

/// Before the same is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// A session with ZooKeeper that outlives its connections, and is made anew when it is lost.
///
/// - No call takes longer than a third of the session timeout, one whose outcome is looked for longer than two thirds.
/// - All servers are tried, in an order of chance; names are resolved anew for each session.
/// - After ⅔ of the timeout without an answer the session is given up, whatever the server thinks of it, and another
///   one is made: [`session`](ZooKeeper::session) then has another id.
/// - A write whose answer was lost is asked again under the same version, which tells what became of it.
/// - [`close`](ZooKeeper::close) ends it at the server. Dropping it does the same without waiting: a process that ends
///   at once may leave a session behind, until it expires.
///
/// Neither TLS nor SASL is spoken. Each session has a thread of its own.
///
/// ```no_run
/// # async fn example() -> Result<(), downspout::Error> {
/// use downspout::zookeeper::{Session, ZooKeeper};
///
/// let session = Session::connect("zk1:2181,zk2:2181,zk3:2181/kafka").await?;
/// let brokers = session.children("/brokers/ids").await?;
/// session.close().await;
/// # Ok(())
/// # }
/// ```
pub struct Session {
    servers: Servers,
    client: Client,
    watches: Watches,
}

/// How a [`Session`] is to be.
#[derive(Clone)]
pub struct SessionBuilder {
    servers: Servers,
    timeout: Duration,
    auth: Option<(String, Vec<u8>)>,
}

impl SessionBuilder {
    /// The servers, as they were named.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The session timeout to ask for; 15 s by default, at least 4 s. A server gives from 2 to 20 times its `tickTime`,
    /// with 2 s ticks 4 to 40 s; [`ZooKeeper::timeout`] then tells what it gave.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Digest authentication, given to each connection anew.
    #[must_use]
    pub fn digest(mut self, user: &str, password: &str) -> Self {
        self.auth = Some(("digest".to_owned(), format!("{user}:{password}").into_bytes()));
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a timeout below 4 s; [`ErrorKind::ZooKeeper`] if there is no session after as long as
    /// the session timeout.
    pub async fn connect(self) -> Result<Session> {
        if self.timeout < SHORTEST {
            let (asked, least) = (self.timeout, SHORTEST);
            return Err(Error::config(format!(
                "a ZooKeeper session of {asked:?} is too short: at least {least:?}"
            )));
        }
        let settings = Settings { servers: self.servers.clone(), timeout: self.timeout, auth: self.auth };
        let client = Client::start(settings)
            .map_err(|why| Error::config(format!("no thread for a session with ZooKeeper: {why}")))?;
        let session = Session { servers: self.servers, client, watches: Watches::default() };
        let mut turns = session.client.shared.turns.subscribe();
        let up = timeout(self.timeout, turns.wait_for(|turn| turn.is_up)).await.map(drop);
        up.map_err(|_| session.silent(None))?;
        Ok(session)
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionBuilder { servers, timeout, auth } = self;
        let user = auth.as_ref().map(|(scheme, _)| scheme);
        f.debug_struct("SessionBuilder")
            .field("servers", servers)
            .field("timeout", timeout)
            .field("auth", &user)
            .finish()
    }
}

/// Until when to ask, and whether an answer was lost.
struct Attempt {
    until: Instant,
    in_doubt: bool,
}

impl Session {
    /// Connects with the default settings: see [`Servers`] for how they are named.
    ///
    /// # Errors
    ///
    /// As [`builder`](Self::builder) and [`SessionBuilder::connect`].
    pub async fn connect(servers: &str) -> Result<Session> {
        Session::builder(servers)?.connect().await
    }

    /// Settings, for these servers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if the string names none.
    pub fn builder(servers: &str) -> Result<SessionBuilder> {
        Ok(SessionBuilder { servers: servers.parse()?, timeout: Duration::from_secs(15), auth: None })
    }

    fn attempt(&self) -> Attempt {
        Attempt { until: Instant::now() + self.client.shared.times().call(), in_doubt: false }
    }

    fn trouble(&self, why: Trouble) -> Error {
        Error::new(ErrorKind::ZooKeeper { at: self.servers.to_string(), why })
    }

    fn silent(&self, attempt: Option<&Attempt>) -> Error {
        if self.client.is_closed() {
            return Error::new(ErrorKind::ClientClosed);
        }
        let call = self.client.shared.times().call();
        let failures = self.client.shared.failures();
        self.trouble(match attempt {
            Some(Attempt { in_doubt: true, .. }) => Trouble::Unknown(call * 2),
            _ if failures.is_empty() => Trouble::Silent(call),
            _ => Trouble::Unreachable(failures),
        })
    }

    /// The path below the chroot.
    fn full(&self, path: &str) -> Result<String> {
        path::check(path)?;
        let chroot = self.servers.chroot();
        Ok(match path {
            "/" if !chroot.is_empty() => chroot.to_owned(),
            path => format!("{chroot}{path}"),
        })
    }

    /// After a call without an answer: whether, and when, to ask again.
    async fn again(&self, attempt: &mut Attempt, asked: bool) -> Result<()> {
        if asked && !attempt.in_doubt {
            attempt.in_doubt = true;
            attempt.until = Instant::now() + self.client.shared.times().call();
        }
        if self.client.is_closed() || Instant::now() + PAUSE >= attempt.until {
            return Err(self.silent(Some(attempt)));
        }
        sleep(PAUSE).await;
        Ok(())
    }

    /// Asks until there is an answer; `None` for no such node.
    async fn read<T, A>(&self, ask: impl Fn(Instant) -> A) -> Result<Option<T>>
    where
        A: Future<Output = Result<T, No>>,
    {
        let mut attempt = self.attempt();
        loop {
            match ask(attempt.until).await {
                Ok(found) => return Ok(Some(found)),
                Err(No::Node) => return Ok(None),
                Err(No::Lost { .. }) => self.again(&mut attempt, false).await?,
                Err(No::Denied) => return Err(self.trouble(Trouble::Denied)),
                Err(other) => return Err(self.refused(other)),
            }
        }
    }

    fn refused(&self, why: No) -> Error {
        self.trouble(Trouble::Refused(match why {
            No::Other(why) => why,
            why => format!("{why:?}"),
        }))
    }

    async fn node(&self, full: &str) -> Result<Option<Node>> {
        self.read(|until| self.client.get(full, until)).await
    }

    async fn set_node(&self, path: &str, data: Vec<u8>, version: i32) -> Result<Written> {
        let full = self.full(path)?;
        let mut attempt = self.attempt();
        loop {
            match self.client.set(&full, &data, version, attempt.until).await {
                Ok(version) => return Ok(Written::Stored { version }),
                Err(No::Version) if attempt.in_doubt => {
                    return Ok(match self.node(&full).await.map_err(|_| self.silent(Some(&attempt)))? {
                        Some(node) if node.version == version.wrapping_add(1) && node.data == data => {
                            Written::Stored { version: node.version }
                        }
                        Some(node) => Written::Conflict(Some(node)),
                        None => Written::Missing,
                    });
                }
                Err(No::Version) => return Ok(Written::Conflict(self.node(&full).await.unwrap_or(None))),
                Err(No::Node) => return Ok(Written::Missing),
                Err(No::Denied) => return Ok(Written::Denied),
                Err(No::Lost { asked }) => self.again(&mut attempt, asked).await?,
                Err(other) => return Err(self.refused(other)),
            }
        }
    }

    async fn create_node(&self, path: &str, data: Vec<u8>, mode: Mode) -> Result<Created> {
        let full = self.full(path)?;
        let session = self.session();
        // What an earlier session of ours left behind must not be taken for what this one made.
        if mode == Mode::Ephemeral && self.node(&full).await?.is_some() {
            return Ok(Created::Exists);
        }
        let mut attempt = self.attempt();
        loop {
            let rights = match self.parents(&full, &mut attempt).await? {
                Some(rights) => rights,
                None => return Ok(Created::Denied),
            };
            let outcome = self.client.create(&full, &data, &rights, mode, attempt.until).await;
            if mode == Mode::Ephemeral && self.session() != session {
                return Err(self.trouble(Trouble::SessionLost));
            }
            match outcome {
                Ok(()) => return Ok(Created::Made),
                Err(No::Exists) if attempt.in_doubt => {
                    let found = self.node(&full).await.map_err(|_| self.silent(Some(&attempt)))?;
                    let ours = Node { data, version: 0, is_ephemeral: mode == Mode::Ephemeral };
                    return Ok(if found == Some(ours) { Created::Made } else { Created::Exists });
                }
                Err(No::Exists) => return Ok(Created::Exists),
                Err(No::Denied) => return Ok(Created::Denied),
                Err(No::Node) => self.again(&mut attempt, false).await?, // a parent went meanwhile
                Err(No::Lost { asked }) => self.again(&mut attempt, asked).await?,
                Err(other) => return Err(self.refused(other)),
            }
        }
    }

    /// Makes the nodes above that are missing. What a new node's rights are: those of the nearest one that was there;
    /// `None` if they may not be seen, or nothing may be made there.
    async fn parents(&self, full: &str, attempt: &mut Attempt) -> Result<Option<Rights>> {
        let mut missing = Vec::new();
        let mut above = path::parent(full).unwrap_or("/");
        let rights = loop {
            match self.client.rights(above, attempt.until).await {
                Ok(rights) if rights.is_masked() => {
                    tracing::warn!(
                        path = above,
                        "its ACL is not shown in full, so that no node below can be given the same"
                    );
                    return Ok(None);
                }
                Ok(rights) => break rights,
                Err(No::Node) => {
                    missing.push(above);
                    above = path::parent(above).unwrap_or("/");
                }
                Err(No::Denied) => return Ok(None),
                Err(No::Lost { .. }) => self.again(attempt, false).await?,
                Err(other) => return Err(self.refused(other)),
            }
        };
        while let Some(path) = missing.pop() {
            match self.client.create(path, &[], &rights, Mode::Persistent, attempt.until).await {
                Ok(()) | Err(No::Exists) => {}
                Err(No::Denied) => return Ok(None),
                Err(No::Lost { .. }) => {
                    missing.push(path);
                    self.again(attempt, false).await?;
                }
                Err(No::Node) => break, // one above it went meanwhile: the caller begins again
                Err(other) => return Err(self.refused(other)),
            }
        }
        Ok(Some(rights))
    }

    async fn delete_node(&self, path: &str, version: i32) -> Result<Deleted> {
        let full = self.full(path)?;
        let mut attempt = self.attempt();
        loop {
            match self.client.delete(&full, version, attempt.until).await {
                Ok(()) | Err(No::Node) => return Ok(Deleted::Gone),
                Err(No::Version) => return Ok(Deleted::Conflict),
                Err(No::NotEmpty) => return Ok(Deleted::NotEmpty),
                Err(No::Denied) => return Ok(Deleted::Denied),
                Err(No::Lost { asked }) => self.again(&mut attempt, asked).await?,
                Err(other) => return Err(self.refused(other)),
            }
        }
    }
}

impl ZooKeeper for Session {
    fn describe(&self) -> String {
        self.servers.to_string()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>>> {
        Box::pin(async move { self.node(&self.full(path)?).await })
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>>> {
        Box::pin(async move {
            let full = self.full(path)?;
            let mut children = self.read(|until| self.client.children(&full, until)).await?;
            children.iter_mut().for_each(|names| names.sort_unstable());
            Ok(children)
        })
    }

    fn set<'a>(&'a self, path: &'a str, data: Vec<u8>, version: i32) -> BoxFuture<'a, Result<Written>> {
        Box::pin(self.set_node(path, data, version))
    }

    fn create<'a>(&'a self, path: &'a str, data: Vec<u8>, mode: Mode) -> BoxFuture<'a, Result<Created>> {
        Box::pin(self.create_node(path, data, mode))
    }

    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<Deleted>> {
        Box::pin(self.delete_node(path, version))
    }

    fn changed<'a>(&'a self, path: &'a str, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let until = Instant::now() + at_most;
            match self.full(path) {
                Ok(full) => {
                    self.watches.changed(&self.client, &full, until, self.client.shared.times().call()).await
                }
                Err(_) => tokio::time::sleep_until(until).await,
            }
        })
    }

    fn session(&self) -> SessionId {
        SessionId(self.client.shared.session())
    }

    fn silence(&self) -> Duration {
        self.client.shared.heard().elapsed()
    }

    fn timeout(&self) -> Duration {
        self.client.shared.times().session
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A server that does not answer is not waited for: the session then ends by itself.
            let _ = timeout(self.client.shared.times().call() + Duration::from_secs(1), self.client.close())
                .await;
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.client.close());
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("servers", &self.servers)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
