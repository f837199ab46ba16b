//! TLS to brokers, over the streams of any [`Connector`](super::Connector).

mod asked;
mod material;
mod subject;
mod trouble;
mod verifier;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use self::asked::Asked;
use self::material::{Loaded, Source};
pub(super) use self::trouble::trouble_of;
use super::{BrokerAddress, ByteStream, Secret};
use crate::error::{Error, ErrorKind, Result, TlsTrouble};

/// How TLS is spoken: whom to trust, and who this client is.
///
/// Files are looked at again for every connection: what was replaced counts from the next one on. If the new ones
/// cannot be read, those before go on, and a warning says so.
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    settings: Settings,
    /// What the settings have come to, for all clones.
    loaded: Arc<Mutex<Option<Loaded>>>,
}

#[derive(Debug, Clone, Default)]
struct Settings {
    /// Instead of the system's, if there are any.
    roots: Vec<Source>,
    /// Certificates and key.
    client: Option<(Source, Source)>,
    server_name: Option<String>,
    min_version: TlsVersion,
    verification: Verification,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// What is checked of a broker's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// Issued by somebody trusted, valid now, and for the name of the broker.
    #[default]
    Full,
    /// For any name: whoever has a certificate of a trusted issuer can pretend to be a broker.
    DangerouslyAnyName,
    /// Nothing: anybody on the way can read and change everything.
    DangerouslyNothing,
}

impl Tls {
    /// Trusts whom the system trusts.
    pub fn new() -> Self {
        Tls::default()
    }

    /// Trusts the certificates in a PEM file instead of those of the system; may be called several times.
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.with(|settings| settings.roots.push(Source::File(path)))
    }

    /// Trusts these certificates (PEM) instead of those of the system; may be called several times.
    pub fn ca_pem(self, pem: impl Into<String>) -> Self {
        let pem = Secret::new(pem);
        self.with(|settings| settings.roots.push(Source::Pem(pem)))
    }

    /// Shows a certificate: files with its chain and its key (PEM; PKCS#8, PKCS#1 or SEC 1, not encrypted).
    pub fn client_certificate_files(self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let files = (Source::File(chain.into()), Source::File(key.into()));
        self.with(|settings| settings.client = Some(files))
    }

    /// Shows a certificate: its chain and its key (PEM).
    pub fn client_certificate_pem(self, chain: impl Into<String>, key: impl Into<Secret>) -> Self {
        let texts = (Source::Pem(Secret::new(chain)), Source::Pem(key.into()));
        self.with(|settings| settings.client = Some(texts))
    }

    /// Expects this name in every broker's certificate, instead of the host that is connected to.
    pub fn server_name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.with(|settings| settings.server_name = Some(name))
    }

    /// The oldest version that is spoken; 1.2 by default.
    pub fn min_version(self, version: TlsVersion) -> Self {
        self.with(|settings| settings.min_version = version)
    }

    /// What is checked of a broker's certificate; everything by default. Anything less is warned about at
    /// each start.
    pub fn verification(self, verification: Verification) -> Self {
        self.with(|settings| settings.verification = verification)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.loaded = Arc::default();
        self
    }

    /// Who this client is by its certificate, as a broker names it (`User:CN=alice,O=…`). Known once the files have
    /// been read: when a client is built.
    pub fn principal(&self) -> Option<String> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().and_then(|loaded| loaded.principal.clone())
    }

    /// Reads the files, and says what is wrong with them, or what is dangerous.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(name) = &self.settings.server_name {
            server_name(name)?;
        }
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Loaded::read(&self.settings)?);
        match self.settings.verification {
            Verification::Full => {}
            Verification::DangerouslyAnyName => tracing::warn!(
                "the names in brokers' certificates are not checked: whoever has a certificate of a trusted issuer can pretend to be a broker"
            ),
            Verification::DangerouslyNothing => tracing::warn!(
                "brokers' certificates are not verified: anybody on the way can read and change everything"
            ),
        }
        Ok(())
    }

    /// Speaks TLS over a stream. The caller sets a deadline.
    pub(super) async fn secure(
        &self,
        broker: &BrokerAddress,
        stream: Box<dyn ByteStream>,
    ) -> Result<Box<dyn ByteStream>> {
        let tls = self.clone();
        // Files are read, perhaps over a network.
        let config = tokio::task::spawn_blocking(move || tls.config()).await;
        let config = config.map_err(|_| Error::new(ErrorKind::ClientClosed))??;
        let name = self.settings.server_name.as_deref().unwrap_or(&broker.host);
        let handshake = TlsConnector::from(config).connect(server_name(name)?, stream);
        let (why, asked) = match asked::watched(handshake).await {
            (Ok(secured), _) => return Ok(Box::new(secured)),
            (Err(why), asked) => (why, asked),
        };
        Err(Error::new(match (trouble_of(&why), asked) {
            (Some(trouble), _) => ErrorKind::Tls(trouble),
            (None, _) if !is_close(&why) => ErrorKind::Io(why.into()),
            (None, Some(Asked { shown })) => ErrorKind::Tls(TlsTrouble::ClosedOnCertificate { shown }),
            // A peer that closes may speak something else, or be a broker that is being stopped.
            (None, None) => ErrorKind::Tls(TlsTrouble::NotTls(None)),
        }))
    }

    fn config(&self) -> Result<Arc<tokio_rustls::rustls::ClientConfig>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = loaded.as_ref()
            && before.is_current()
        {
            return Ok(Arc::clone(&before.config));
        }
        match (Loaded::read(&self.settings), loaded.as_mut()) {
            (Ok(new), _) => Ok(Arc::clone(&loaded.insert(new).config)),
            (Err(why), Some(before)) => {
                tracing::warn!(error = %why, "certificates or keys have changed and cannot be read; those before are used");
                Ok(Arc::clone(&before.config))
            }
            (Err(why), None) => Err(why),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

fn is_close(why: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(why.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// What a certificate is to be for.
fn server_name(name: &str) -> Result<ServerName<'static>> {
    // A name may end with the root's dot; those in certificates do not.
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned()).map_err(|_| {
        Error::config(format!(
            "{name:?} is neither a host name nor an address, so no certificate can be for it"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let tls = Tls::new().ca_pem("ca").client_certificate_pem("chain", "s3cret");
        assert!(!format!("{tls:?}").contains("s3cret"), "{tls:?}");
    }

    #[test]
    fn names_and_addresses_of_brokers_are_names_of_certificates() {
        for name in
            ["broker-1.internal", "localhost", "127.0.0.1", "::1", "kafka.example.com.", "a_b.internal"]
        {
            assert!(server_name(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "ä", "-"] {
            assert!(server_name(name).is_err(), "{name}");
        }
    }
}
