//! The embedded cluster as a test sees it: over TCP on a thread of its own, or in memory.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::core::Core;
use super::endless::Endless;
use super::shell::{Clock, Shared};
use super::{Fault, Log, Release, Settings};
use crate::error::Result;
use crate::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use crate::protocol::ApiKey;

/// Bytes that an in-memory connection holds in each direction.
const DUPLEX_BYTES: usize = 64 * 1024;

/// A Kafka cluster inside this process.
///
/// It is gone, its sockets closed, once this is dropped.
///
/// ```
/// use std::io::{Read, Write};
/// use downspout::testing::{EmbeddedBroker, Release};
///
/// let broker = EmbeddedBroker::builder()
///     .release(Release::V0_8_2)
///     .topic("clicks", 3)
///     .start()?;
/// // It has no ApiVersions: it closes the connection, as 0.8 does.
/// let mut client = std::net::TcpStream::connect(broker.addr())?;
/// client.write_all(b"\0\0\0\x0b\0\x12\0\0\0\0\0\x01\0\x01x")?;
/// assert_eq!(client.read(&mut [0; 100])?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
    addresses: Vec<String>,
    /// Stops the serving thread when dropped.
    _server: Option<Server>,
}

#[derive(Debug)]
struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Sets an embedded cluster up; see [`EmbeddedBroker::builder`].
#[derive(Debug, Clone, Default)]
pub struct Builder {
    settings: Settings,
    topics: Vec<(String, i32)>,
    endless: Vec<(String, i32, Endless)>,
    host: Option<IpAddr>,
    ports: Vec<u16>,
}

impl EmbeddedBroker {
    /// A cluster of one broker of the newest release, until told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `host:port` of the first broker.
    pub fn addr(&self) -> &str {
        self.addresses.first().map_or("", String::as_str)
    }

    /// `host:port` of each broker; the first one's id is 1.
    pub fn addrs(&self) -> &[String] {
        &self.addresses
    }

    /// Creates a topic, or replaces one by a new one of the same name with a new id.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.with(|cluster| cluster.create_topic(name, partitions));
    }

    /// Appends a record set as a producer's request would; gives its first offset.
    pub fn append(&self, topic: &str, partition: i32, set: &Bytes) -> Result<i64> {
        self.with(|cluster| cluster.append(topic, partition, set))
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        self.with(|cluster| cluster.inject(fault));
    }

    /// How many requests of an API came in.
    pub fn request_count(&self, api: ApiKey) -> usize {
        self.with(|cluster| cluster.requests().filter(|seen| seen.api == api).count())
    }

    /// Works on the cluster itself: [`Core`] has everything that can be done to it. No request is
    /// answered meanwhile.
    pub fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        self.shared.with(work)
    }

    /// Connects clients to this cluster without sockets, whatever way it is served; each stream is
    /// served by a task of the runtime that connects.
    pub fn connector(&self) -> InMemoryConnector {
        InMemoryConnector { shared: self.shared.clone(), addresses: self.addresses.clone() }
    }

    /// A connection in memory to the broker with this `host:port`, served by a task of the current
    /// runtime; refused if there is no such broker or it is down.
    pub fn connect_in_memory(&self, address: &str) -> io::Result<DuplexStream> {
        connect_in_memory(&self.shared, &self.addresses, address)
    }
}

/// Connects to an embedded cluster without sockets; see [`EmbeddedBroker::connector`].
#[derive(Debug, Clone)]
pub struct InMemoryConnector {
    shared: Arc<Shared>,
    addresses: Vec<String>,
}

impl Connector for InMemoryConnector {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let stream = connect_in_memory(&self.shared, &self.addresses, &broker.to_string());
        let stream = stream.map(|stream| Box::new(stream) as Box<dyn ByteStream>);
        Box::pin(std::future::ready(stream))
    }
}

fn connect_in_memory(shared: &Arc<Shared>, addresses: &[String], address: &str) -> io::Result<DuplexStream> {
    let index = addresses.iter().position(|known| known == address);
    let node = index.and_then(|index| i32::try_from(index + 1).ok()).ok_or(io::ErrorKind::NotFound)?;
    if !shared.with(|cluster| cluster.is_up(node)) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
    tokio::spawn(shared.clone().serve(node, ours));
    Ok(theirs)
}

impl Builder {
    /// The release that the brokers are.
    pub fn release(mut self, release: Release) -> Self {
        self.settings.release = release;
        self
    }

    /// How many brokers there are.
    pub fn brokers(mut self, count: i32) -> Self {
        self.settings.brokers = count;
        self
    }

    /// A topic that is there from the start.
    pub fn topic(mut self, name: &str, partitions: i32) -> Self {
        self.topics.push((name.to_owned(), partitions));
        self
    }

    /// A topic whose every partition holds the entries of `set` over and over, from offset 0 to
    /// 2⁶⁰, for measuring how fast a client is.
    ///
    /// Fetches from such topics alone are answered at once, with whole entries up to the limits and
    /// whatever the release; faults do not touch them.
    ///
    /// # Errors
    ///
    /// A set that is empty, damaged, or holds a wrapper of magic 0, whose offsets are compressed.
    pub fn endless_topic(mut self, name: &str, partitions: i32, set: &Bytes) -> io::Result<Self> {
        self.endless.push((name.to_owned(), partitions, Endless::new(set)?));
        Ok(self)
    }

    /// Whether asking for a topic that does not exist creates it (by default it does, as with real
    /// brokers).
    pub fn auto_create_topics(mut self, yes: bool) -> Self {
        self.settings.auto_create_topics = yes;
        self
    }

    /// All the rest.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// The ports to listen on, one per broker; free ones by default.
    pub fn ports(mut self, ports: &[u16]) -> Self {
        self.ports = ports.to_vec();
        self
    }

    /// The address to listen on, and to tell clients; 127.0.0.1 by default. Who listens on all
    /// addresses tells the loopback one.
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = Some(host);
        self
    }

    /// Serves the cluster over TCP on 127.0.0.1, on a thread of its own: tests that block can use it
    /// as well.
    pub fn start(mut self) -> io::Result<EmbeddedBroker> {
        if self.settings.started_ms == Settings::default().started_ms {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.settings.started_ms = now.as_millis() as i64;
        }
        let mut core = self.core();
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for (index, node) in core.state.nodes.iter_mut().enumerate() {
            let port = self.ports.get(index).copied().unwrap_or(0);
            let host = self.host.unwrap_or(Ipv4Addr::LOCALHOST.into());
            let listener = TcpListener::bind((host, port))?;
            listener.set_nonblocking(true)?;
            let mut address: SocketAddr = listener.local_addr()?;
            match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {}
            }
            (node.host, node.port) = (address.ip().to_string(), address.port());
            addresses.push(address.to_string());
            listeners.push((node.id, listener));
        }
        let shared = Shared::new(core, Clock::Real(Instant::now()), self.endless_topics());
        let (stop, stopped) = oneshot::channel();
        let served = shared.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("embedded-broker".to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for (node, listener) in listeners {
                    tasks.spawn(listen(served.clone(), node, listener));
                }
                // An error means that the sender is gone, which is a reason to stop too.
                let _ = stopped.await;
            });
        })?;
        let _server = Some(Server { stop: Some(stop), thread: Some(thread) });
        Ok(EmbeddedBroker { shared, addresses, _server })
    }

    /// The cluster without sockets: [`EmbeddedBroker::connect_in_memory`] is the way in, and the
    /// current runtime's clock, which may be paused, is its clock.
    pub fn in_memory(self) -> EmbeddedBroker {
        let core = self.core();
        let addresses = core.state.nodes.iter().map(|node| format!("{}:{}", node.host, node.port)).collect();
        let shared = Shared::new(core, Clock::Runtime(tokio::time::Instant::now()), self.endless_topics());
        EmbeddedBroker { shared, addresses, _server: None }
    }

    fn core(&self) -> Core {
        let mut core = Core::new(self.settings.clone());
        for (name, partitions) in &self.topics {
            core.create_topic(name, *partitions);
        }
        for (name, partitions, _) in &self.endless {
            core.create_topic(name, *partitions);
            let created = core.state.topics.get_mut(name).into_iter().flat_map(|it| &mut it.partitions);
            created.for_each(|partition| partition.log = Log::endless());
        }
        core
    }

    fn endless_topics(&self) -> BTreeMap<String, Endless> {
        self.endless.iter().map(|(name, _, endless)| (name.clone(), endless.clone())).collect()
    }
}

async fn listen(shared: Arc<Shared>, node: i32, listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(node, %error, "the embedded broker cannot listen");
            return;
        }
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Without it small answers wait for the client's acknowledgement; if it cannot be
                    // set they are merely late.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(shared.clone().serve(node, stream));
                }
                Err(error) => {
                    tracing::warn!(node, %error, "the embedded broker could not accept");
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and has said so.
            let _ = thread.join();
        }
    }
}
