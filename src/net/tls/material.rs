//! Certificates and keys: read from files or text, and read anew when the files have changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use super::verifier::Verifier;
use super::{Settings, TlsVersion, Verification, asked, subject};
use crate::error::{Error, Result};
use crate::net::Secret;

/// Where PEM comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Pem(Secret),
}

/// What the settings have come to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) config: Arc<ClientConfig>,
    pub(super) principal: Option<String>,
    /// The files, as they were just before they were read.
    stamps: Vec<(PathBuf, Stamp)>,
}

/// What tells whether a file is another one than before.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(Option<(SystemTime, u64)>);

impl Stamp {
    fn of(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok();
        Stamp(metadata.and_then(|data| Some((data.modified().ok()?, data.len()))))
    }
}

impl Loaded {
    pub(super) fn read(settings: &Settings) -> Result<Self> {
        let (chain_and_key, roots) =
            (settings.client.iter().flat_map(|(chain, key)| [chain, key]), &settings.roots);
        let files = roots.iter().chain(chain_and_key).filter_map(|source| match source {
            Source::File(path) => Some(path.clone()),
            Source::Pem(_) => None,
        });
        let stamps = files
            .map(|path| {
                let stamp = Stamp::of(&path);
                (path, stamp)
            })
            .collect();

        let (roots, own) = trusted(settings)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new(settings.verification, roots, own, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(settings.min_version))
            .map_err(|why| Error::config(format!("TLS cannot be set up: {why}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let (mut config, principal) = match &settings.client {
            None => (builder.with_no_client_auth(), None),
            Some((chain, key)) => {
                let certificates = chain.certificates("client certificate")?;
                let principal = certificates.first().map(|first| format!("User:{}", subject::subject(first)));
                let config = builder.with_client_auth_cert(certificates, key.key()?).map_err(|why| {
                    let what = match why {
                        rustls::Error::InconsistentKeys(_) => {
                            "the key is not the one of the certificate".to_owned()
                        }
                        why => why.to_string(),
                    };
                    Error::config(format!(
                        "the client certificate ({chain}) and its key ({key}) cannot be used: {what}"
                    ))
                })?;
                (config, principal)
            }
        };
        asked::watch(&mut config);
        Ok(Loaded { config: Arc::new(config), principal, stamps })
    }

    /// Whether the files are those that were read.
    pub(super) fn is_current(&self) -> bool {
        self.stamps.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }
}

fn versions(least: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match least {
        TlsVersion::V1_2 => &ALL,
        TlsVersion::V1_3 => &ALL[..1],
    }
}

/// Whose certificates are believed, and those among them that were given here.
fn trusted(settings: &Settings) -> Result<(Arc<RootCertStore>, Vec<CertificateDer<'static>>)> {
    if settings.verification == Verification::DangerouslyNothing {
        return Ok((Arc::new(RootCertStore::empty()), Vec::new()));
    }
    if settings.roots.is_empty() {
        return Ok((of_the_system()?, Vec::new()));
    }
    let (mut store, mut own) = (RootCertStore::empty(), Vec::new());
    for source in &settings.roots {
        for certificate in source.certificates("CA")? {
            own.push(certificate.clone());
            store.add(certificate).map_err(|why| {
                Error::config(format!("a certificate of the CA ({source}) cannot be used: {why}"))
            })?;
        }
    }
    Ok((Arc::new(store), own))
}

/// Whom the system trusts; read once.
fn of_the_system() -> Result<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map_or(String::new(), |why| format!(" ({why})"));
        return Err(Error::config(format!(
            "this system has no certificates that it trusts{why}: install them (ca-certificates), or name the brokers' CA (ssl.ca.location)"
        )));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(store))))
}

impl Source {
    fn bytes(&self, what: &str) -> Result<Secret> {
        let path = match self {
            Source::Pem(text) => return Ok(text.clone()),
            Source::File(path) => path,
        };
        let bytes = std::fs::read(path)
            .map_err(|why| Error::config(format!("the {what} ({self}) cannot be read: {why}")))?;
        match bytes.as_slice() {
            [0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..] => Err(Error::config(format!(
                "{self} is a Java keystore (JKS), not PEM; convert it: keytool -importkeystore -srckeystore {} -destkeystore store.p12 -deststoretype PKCS12, and then {}",
                path.display(),
                to_pem(Path::new("store.p12")),
            ))),
            [0x30, 0x80..=0x84, ..] => Err(Error::config(format!(
                "{self} is binary (PKCS#12 or DER), not PEM; convert it: {}, or openssl x509 -inform der -in {} for one certificate",
                to_pem(path),
                path.display(),
            ))),
            _ => String::from_utf8(bytes).map(Secret::new).map_err(|_| {
                Error::config(format!(
                    "the {what} ({self}) is not PEM, which is text that begins with -----BEGIN"
                ))
            }),
        }
    }

    fn certificates(&self, what: &str) -> Result<Vec<CertificateDer<'static>>> {
        let pem = self.bytes(what)?;
        let certificates =
            CertificateDer::pem_slice_iter(pem.expose().as_bytes()).collect::<Result<Vec<_>, _>>();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(Error::config(format!(
                "the {what} ({self}) holds no certificate (-----BEGIN CERTIFICATE-----)"
            ))),
            Err(why) => Err(Error::config(format!("the {what} ({self}) is damaged: {}", pem_error(&why)))),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>> {
        let pem = self.bytes("client key")?;
        let text = pem.expose();
        if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(Error::config(format!(
                "the client key ({self}) is encrypted, which cannot be read; decrypt it: openssl pkey -in KEY -out DECRYPTED, and let only this program read it"
            )));
        }
        PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|why| match why {
            pem::Error::NoItemsFound => Error::config(format!(
                "the client key ({self}) holds no private key (-----BEGIN PRIVATE KEY-----)"
            )),
            why => Error::config(format!("the client key ({self}) is damaged: {}", pem_error(&why))),
        })
    }
}

/// The command that makes PEM of a PKCS#12 file.
fn to_pem(path: &Path) -> String {
    format!("openssl pkcs12 -in {} -nodes -out store.pem", path.display())
}

/// Without the bytes that were found, which may be those of a key.
fn pem_error(why: &pem::Error) -> &'static str {
    match why {
        pem::Error::MissingSectionEnd { .. } => "the line -----END … is missing",
        pem::Error::IllegalSectionStart { .. } => "a line -----BEGIN … is cut",
        pem::Error::Base64Decode(_) => "there is something else than base64 in it",
        pem::Error::SectionTooLarge => "it is too large",
        _ => "it is no PEM",
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Pem(_) => f.write_str("given as text"),
        }
    }
}

/// The provider for what is not done by a configuration.
pub(super) type Provider = CryptoProvider;
