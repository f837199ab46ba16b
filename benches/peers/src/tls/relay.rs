//! A relay that ends TLS, or does without.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::Result;
use crate::relay::{SMALL, redirect};

pub struct Relay {
    pub address: SocketAddr,
    /// The certificate (PEM) of whoever issued the relay's.
    pub ca: Option<String>,
    /// Serves until it is dropped.
    _runtime: Runtime,
}

impl Relay {
    pub fn plain(broker: SocketAddr) -> Result<Self> {
        Relay::start(broker, None, None)
    }

    pub fn with_tls(broker: SocketAddr) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        // OpenSSL takes a certificate whose owner and issuer have one name for its own issuer.
        params.distinguished_name.push(DnType::CommonName, "relays");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Relay::start(broker, Some(Arc::new(config).into()), Some(ca))
    }

    fn start(broker: SocketAddr, acceptor: Option<TlsAcceptor>, ca: Option<String>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, acceptor.clone(), broker, address.port()));
            }
        });
        Ok(Relay { address, ca, _runtime: runtime })
    }
}

async fn serve(
    client: TcpStream,
    acceptor: Option<TlsAcceptor>,
    broker: SocketAddr,
    port: u16,
) -> io::Result<()> {
    let upstream = TcpStream::connect(broker).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    match acceptor {
        Some(acceptor) => carry(acceptor.accept(client).await?, upstream, broker.port(), port).await,
        None => carry(client, upstream, broker.port(), port).await,
    }
}

async fn carry(client: impl AsyncRead + AsyncWrite, broker: TcpStream, from: u16, to: u16) -> io::Result<()> {
    let (mut requests, client) = split(client);
    let (broker, mut onward) = broker.into_split();
    tokio::select! {
        done = copy(&mut requests, &mut onward) => done.map(|_| ()),
        done = answers(broker, client, from, to) => done,
    }
}

async fn answers(
    mut broker: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    from: u16,
    to: u16,
) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        // The size goes with the first bytes, so that it does not take a packet, and a record, of its own.
        broker.read_exact(&mut buffer[..4]).await?;
        let mut left = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
        let mut kept = 4;
        if left <= SMALL {
            broker.read_exact(&mut buffer[4..4 + left]).await?;
            redirect(&mut buffer[4..4 + left], from, to);
            (kept, left) = (4 + left, 0);
            client.write_all(&buffer[..kept]).await?;
        }
        while left > 0 {
            let room = left.min(buffer.len() - kept);
            let read = broker.read(&mut buffer[kept..kept + room]).await?;
            if read == 0 {
                return Ok(());
            }
            client.write_all(&buffer[..kept + read]).await?;
            (left, kept) = (left - read, 0);
        }
        client.flush().await?;
    }
}
