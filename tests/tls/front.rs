//! A TLS server before an embedded broker, in memory: a connector that leads to it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use downspout::testing::EmbeddedBroker;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, copy_bidirectional, duplex, split};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use crate::authority::{Issued, der, key};

/// What becomes of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// They are served.
    Serve,
    /// They are taken, and nothing more.
    Stall,
    /// These bytes come in answer to the first ones, and then the end.
    Say(&'static [u8]),
    /// The server's bytes are cut after so many, and the stream is closed.
    CutAfter(usize),
    /// The first so many connections are closed when the client answers what the server has said first.
    CloseOnAnswer(usize),
    /// This byte of the server's is changed.
    Flip(usize),
    /// The first so many connections are closed at once, the others served.
    CloseFirst(usize),
}

/// A listener; clones are the same one.
#[derive(Clone)]
pub(crate) struct Front {
    broker: Arc<EmbeddedBroker>,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    then: Arc<Mutex<Then>>,
    connections: Arc<AtomicUsize>,
    /// Bytes that the server has sent on the last connection.
    sent: Arc<AtomicUsize>,
    /// Handshakes that took up a session of an earlier connection.
    resumed: Arc<AtomicUsize>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Front")
    }
}

/// How the server is set up.
pub(crate) struct Server<'a> {
    pub(crate) issued: &'a Issued,
    /// Whose certificates clients must show.
    pub(crate) client_ca: Option<&'a str>,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
}

pub(crate) static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
pub(crate) static V1_3: &[&SupportedProtocolVersion] = BOTH.split_at(1).0;
pub(crate) static V1_2: &[&SupportedProtocolVersion] = BOTH.split_at(1).1;

impl<'a> Server<'a> {
    pub(crate) fn with(issued: &'a Issued) -> Self {
        Server { issued, client_ca: None, versions: &BOTH }
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .unwrap();
        let builder = match self.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(der(pem));
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        Arc::new(builder.with_single_cert(der(&self.issued.chain), key(&self.issued.key)).unwrap())
    }
}

impl Front {
    pub(crate) fn before(broker: &Arc<EmbeddedBroker>, server: &Server<'_>) -> Self {
        Front {
            broker: Arc::clone(broker),
            config: Arc::new(Mutex::new(server.config())),
            then: Arc::new(Mutex::new(Then::Serve)),
            connections: Arc::default(),
            sent: Arc::default(),
            resumed: Arc::default(),
            open: Arc::default(),
        }
    }

    pub(crate) fn then(&self, then: Then) {
        *self.then.lock().unwrap() = then;
    }

    pub(crate) fn reconfigure(&self, server: &Server<'_>) {
        *self.config.lock().unwrap() = server.config();
    }

    /// Closes all connections, as a process does that ends.
    pub(crate) fn cut(&self) {
        self.open.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn resumed(&self) -> usize {
        self.resumed.load(Ordering::SeqCst)
    }

    async fn serve(self, mut stream: DuplexStream, address: String, then: Then) -> io::Result<()> {
        match then {
            Then::Stall => {
                // Until the client gives up.
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await?;
                return Ok(());
            }
            Then::Say(words) => {
                stream.read_u8().await?;
                stream.write_all(words).await?;
                return stream.shutdown().await;
            }
            Then::CloseFirst(count) if self.connections() <= count => return Ok(()),
            _ => {}
        }
        let (inner, outer) = duplex(64 << 10);
        let sent = Arc::clone(&self.sent);
        sent.store(0, Ordering::SeqCst);
        tokio::spawn(pump(stream, outer, then, sent));
        let config = Arc::clone(&self.config.lock().unwrap());
        let mut secured = TlsAcceptor::from(config).accept(inner).await?;
        if secured.get_ref().1.handshake_kind() == Some(tokio_rustls::rustls::HandshakeKind::Resumed) {
            self.resumed.fetch_add(1, Ordering::SeqCst);
        }
        let mut upstream = self.broker.connect_in_memory(&address)?;
        copy_bidirectional(&mut secured, &mut upstream).await?;
        Ok(())
    }
}

/// Carries bytes between client and server, and does to the server's what is to become of them.
async fn pump(
    client: DuplexStream,
    server: DuplexStream,
    then: Then,
    sent: Arc<AtomicUsize>,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    let closes = matches!(then, Then::CloseOnAnswer(_));
    let mut requests = tokio::spawn(async move {
        if closes {
            let mut hello = vec![0; 16 << 10];
            let read = from_client.read(&mut hello).await.unwrap_or(0);
            let _ = to_server.write_all(&hello[..read]).await;
            let _ = from_client.read(&mut hello).await;
            return;
        }
        let _ = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
    });
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            biased;
            read = from_server.read(&mut buffer) => read?,
            _ = &mut requests, if closes => 0,
        };
        if read == 0 {
            return to_client.shutdown().await;
        }
        let at = sent.fetch_add(read, Ordering::SeqCst);
        let mut bytes = buffer[..read].to_vec();
        if let Then::Flip(byte) = then
            && (at..at + read).contains(&byte)
        {
            bytes[byte - at] ^= 1;
        }
        if let Then::CutAfter(limit) = then
            && at + read > limit
        {
            to_client.write_all(&bytes[..limit.saturating_sub(at)]).await?;
            requests.abort();
            return to_client.shutdown().await;
        }
        to_client.write_all(&bytes).await?;
    }
}

impl Connector for Front {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = duplex(64 << 10);
        let then = match *self.then.lock().unwrap() {
            Then::CloseOnAnswer(count) if self.connections() > count => Then::Serve,
            then => then,
        };
        let task = tokio::spawn(self.clone().serve(ours, broker.to_string(), then));
        self.open.lock().unwrap().push(task.abort_handle());
        Box::pin(std::future::ready(Ok(Box::new(theirs) as Box<dyn ByteStream>)))
    }
}
