use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};

/// Where a broker listens: a host name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerAddress {
    /// Name, IPv4 address, or IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl BrokerAddress {
    /// The port that brokers use unless told otherwise.
    pub const DEFAULT_PORT: u16 = 9092;

    /// A host and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        BrokerAddress { host: host.into(), port }
    }
}

impl FromStr for BrokerAddress {
    type Err = Error;

    /// Reads `host:port`, `[v6]:port`, or a host alone (port 9092).
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::config(format!("{text:?} is no broker address: {why}"));
        let text = text.trim();
        if text.contains("://") {
            return Err(bad("write host:port, without a scheme"));
        }
        if text.contains(',') {
            return Err(bad("one address is wanted, not a list"));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad("the ] is missing"))?;
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':').ok_or_else(|| bad("a port follows ] after a colon"))?),
            };
            (host, port)
        } else if text.parse::<IpAddr>().is_ok() {
            // An IPv6 address without brackets has no port.
            (text, None)
        } else {
            match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => {
                    return Err(bad("write an IPv6 address as [address]:port"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(bad("the host is missing"));
        }
        if host.contains(char::is_whitespace) || host.contains('/') {
            return Err(bad("a host name has no blanks and no slashes"));
        }
        let port = match port {
            None => Self::DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(port) if port != 0 => port,
                _ => return Err(bad("the port is a number from 1 to 65535")),
            },
        };
        Ok(BrokerAddress::new(host, port))
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What a [`Connector`] gives: bytes both ways. Implemented by every type that can be it.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A boxed future; what async methods of traits give that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens byte streams to brokers: plain TCP ([`TcpConnector`]), or TLS, a proxy, memory.
pub trait Connector: Send + Sync + fmt::Debug {
    /// Opens a stream to a broker.
    ///
    /// Called for every attempt, with the address as the user or the broker gave it: names are
    /// resolved again each time. The caller sets a deadline around it and may drop the future.
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>>;
}

/// Plain TCP.
///
/// A name with several addresses is tried at all of them, IPv6 and IPv4 by turns, and is resolved
/// again on every attempt (librdkafka#2751). `TCP_NODELAY` and keepalive are on: a peer that vanished
/// is noticed in about two minutes also where nothing is in flight.
#[derive(Debug, Clone)]
pub struct TcpConnector {
    map: HashMap<BrokerAddress, BrokerAddress>,
    attempt: Duration,
    keepalive: Option<Duration>,
}

impl Default for TcpConnector {
    fn default() -> Self {
        TcpConnector {
            map: HashMap::new(),
            attempt: Duration::from_secs(5),
            keepalive: Some(Duration::from_secs(60)),
        }
    }
}

impl TcpConnector {
    /// Goes to `to` where a broker calls itself `from`: for NAT, containers and forwarded ports.
    #[must_use]
    pub fn map(mut self, from: BrokerAddress, to: BrokerAddress) -> Self {
        self.map.insert(from, to);
        self
    }

    /// How long one address of a name may take before the next is tried; 5 s by default.
    #[must_use]
    pub fn attempt_timeout(mut self, attempt: Duration) -> Self {
        self.attempt = attempt;
        self
    }

    /// After how much silence the kernel asks whether the peer is still there; `None` for never,
    /// 60 s by default.
    #[must_use]
    pub fn keepalive(mut self, after: Option<Duration>) -> Self {
        self.keepalive = after;
        self
    }

    async fn open(&self, broker: &BrokerAddress) -> io::Result<TcpStream> {
        let target = self.map.get(broker).unwrap_or(broker);
        let addresses = lookup_host((target.host.as_str(), target.port)).await.map_err(|why| {
            io::Error::new(why.kind(), format!("the name {} cannot be resolved: {why}", target.host))
        })?;
        let addresses = by_turns(addresses.collect());
        let mut failures = Vec::new();
        for address in &addresses {
            match timeout(self.attempt, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    self.tune(&stream)?;
                    return Ok(stream);
                }
                Ok(Err(why)) => failures.push((*address, why)),
                Err(_) => failures.push((*address, io::ErrorKind::TimedOut.into())),
            }
        }
        Err(all_failed(target, failures))
    }

    fn tune(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if let Some(after) = self.keepalive {
            let interval = (after / 4).max(Duration::from_secs(1));
            let keepalive = TcpKeepalive::new().with_time(after).with_interval(interval);
            SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
        }
        Ok(())
    }
}

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move { Ok(Box::new(self.open(broker).await?) as Box<dyn ByteStream>) })
    }
}

/// A connector made of a function: for in-memory streams, say.
pub struct ConnectWith<F>(pub F);

impl<F> fmt::Debug for ConnectWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectWith")
    }
}

impl<F, S> Connector for ConnectWith<F>
where
    F: Fn(&BrokerAddress) -> io::Result<S> + Send + Sync,
    S: ByteStream + 'static,
{
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let stream = (self.0)(broker).map(|stream| Box::new(stream) as Box<dyn ByteStream>);
        Box::pin(std::future::ready(stream))
    }
}

/// IPv6 and IPv4 by turns, in the resolver's order otherwise; no address twice.
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (leading, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut leading, mut other) = (leading.into_iter(), other.into_iter());
    let mut turns = Vec::new();
    loop {
        let (a, b) = (leading.next(), other.next());
        if a.is_none() && b.is_none() {
            return turns;
        }
        for address in [a, b].into_iter().flatten() {
            if !turns.contains(&address) {
                turns.push(address);
            }
        }
    }
}

fn all_failed(target: &BrokerAddress, failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    let told: Vec<String> = failures.iter().map(|(address, why)| format!("{address}: {why}")).collect();
    match failures.into_iter().next_back() {
        None => io::Error::new(io::ErrorKind::NotFound, format!("the name {} has no address", target.host)),
        Some((_, why)) if told.len() == 1 => why,
        Some((_, why)) => io::Error::new(why.kind(), told.join("; ")),
    }
}

/// The error of a failed attempt to connect.
pub(crate) fn connect_error(broker: &BrokerAddress, why: io::Error) -> Error {
    Error::new(ErrorKind::Connect(why.into())).with_broker(broker)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let good = [
            ("kafka1:9093", "kafka1", 9093, "kafka1:9093"),
            ("kafka1", "kafka1", 9092, "kafka1:9092"),
            (" 10.0.0.1:1 ", "10.0.0.1", 1, "10.0.0.1:1"),
            ("[::1]:9092", "::1", 9092, "[::1]:9092"),
            ("[fe80::1]", "fe80::1", 9092, "[fe80::1]:9092"),
            ("::1", "::1", 9092, "[::1]:9092"),
        ];
        for (text, host, port, shown) in good {
            let address: BrokerAddress = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "",
            ":9092",
            "a:",
            "a:0",
            "a:65536",
            "a:b",
            "[::1",
            "[::1]9092",
            "::1:x:9092",
            "a b:1",
            "a:1,b:2",
        ] {
            assert!(text.parse::<BrokerAddress>().is_err(), "{text}");
        }
        let error = "http://a:1".parse::<BrokerAddress>().unwrap_err();
        assert!(error.to_string().contains("without a scheme"), "{error}");
    }

    #[test]
    fn c2_addresses_of_both_families_take_turns() {
        let list =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert_eq!(
            by_turns(list(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1", "10.0.0.2:1", "[::1]:1"])),
            list(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "[::3]:1"])
        );
        assert_eq!(by_turns(list(&["10.0.0.1:1", "[::1]:1"])), list(&["10.0.0.1:1", "[::1]:1"]));
    }

    #[tokio::test]
    async fn c2_a_mapped_address_is_reached_and_a_dead_one_of_a_name_is_passed_over() {
        // `localhost` has ::1 and 127.0.0.1 on most machines, and only one of them listens here.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let advertised = BrokerAddress::new("broker-7.internal", 9092);
        let connector =
            TcpConnector::default().map(advertised.clone(), BrokerAddress::new("localhost", port));
        let mut stream = connector.connect(&advertised).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        assert_eq!(accepted.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn c1_sockets_are_kept_alive_and_do_not_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = BrokerAddress::new("127.0.0.1", listener.local_addr().unwrap().port());
        let stream = TcpConnector::default().open(&address).await.unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }

    #[tokio::test]
    async fn a_refused_connection_and_an_unknown_name_say_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let refused = TcpConnector::default().open(&BrokerAddress::new("127.0.0.1", port)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let unknown = TcpConnector::default().open(&BrokerAddress::new("no-such-host.invalid", 1)).await;
        let text = unknown.unwrap_err().to_string();
        assert!(text.contains("no-such-host.invalid"), "{text}");
    }
}
