use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};

use super::Verification;
use super::material::Provider;
use super::subject::Summary;
use crate::error::{Error, Result, TlsTrouble};

/// Checks brokers' certificates with webpki, and says of which certificate something is wrong, and what.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` where nothing is checked.
    webpki: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
    /// Certificates that are trusted by name, which may be those of brokers themselves.
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<Provider>,
}

/// A certificate was refused; travels inside a `rustls::Error`.
#[derive(Debug)]
pub(super) struct Rejected(pub(super) TlsTrouble);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Rejected {}

impl Verifier {
    pub(super) fn new(
        verification: Verification,
        roots: Arc<RootCertStore>,
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<Provider>,
    ) -> Result<Self> {
        let webpki = match verification {
            Verification::DangerouslyNothing => None,
            _ => {
                let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                Some(
                    builder
                        .build()
                        .map_err(|why| Error::config(format!("nobody's certificates are trusted: {why}")))?,
                )
            }
        };
        let any_name = verification == Verification::DangerouslyAnyName;
        Ok(Verifier { webpki, any_name, trusted, provider: Arc::clone(provider) })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(webpki) = &self.webpki else { return Ok(ServerCertVerified::assertion()) };
        let why = match webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Ok(verified) => return Ok(verified),
            Err(rustls::Error::InvalidCertificate(why)) => why,
            Err(why) => return Err(why),
        };
        // A CA's certificate is none of a broker to webpki. One that a broker made for itself often is both, and
        // whoever names it as trusted means it.
        let why = match why {
            CertificateError::Other(_) if self.trusted.contains(end_entity) => {
                match checked_alone(end_entity, server_name, now) {
                    Ok(()) => return Ok(ServerCertVerified::assertion()),
                    Err(rustls::Error::InvalidCertificate(why)) => why,
                    Err(why) => return Err(why),
                }
            }
            why => why,
        };
        // The name is looked at last, when all else is right.
        let is_name = matches!(
            why,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        );
        if is_name && self.any_name {
            return Ok(ServerCertVerified::assertion());
        }
        let trouble = explain(why, end_entity, intermediates, server_name, now);
        let carried = CertificateError::Other(OtherError(Arc::new(Rejected(trouble))));
        Err(rustls::Error::InvalidCertificate(carried))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Dates and names of a certificate that is trusted itself.
fn checked_alone(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let (summary, at) = (Summary::of(certificate), now.as_secs() as i64);
    if at < summary.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if at > summary.not_after {
        return Err(CertificateError::Expired.into());
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

fn explain(
    why: CertificateError,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> TlsTrouble {
    let chain: Vec<Summary> = std::iter::once(end_entity).chain(intermediates).map(Summary::of).collect();
    let broker = Summary::of(end_entity);
    match why {
        // The last one that was shown is whose issuer is missing.
        CertificateError::UnknownIssuer => {
            let issuer = chain.last().unwrap_or(&broker).issuer.clone();
            TlsTrouble::UnknownIssuer { subject: broker.subject, issuer }
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            let at = now.as_secs() as i64;
            let of = chain.iter().find(|one| at < one.not_before || at > one.not_after).unwrap_or(&broker);
            TlsTrouble::OutOfDate {
                subject: of.subject.clone(),
                issuer: of.issuer.clone(),
                not_before: time(of.not_before),
                not_after: time(of.not_after),
                now: time(at),
            }
        }
        CertificateError::NotValidForNameContext { presented, .. } => TlsTrouble::WrongName {
            expected: server_name.to_str().into_owned(),
            names: presented.iter().map(|name| plain_name(name)).collect(),
            subject: broker.subject,
        },
        CertificateError::NotValidForName => TlsTrouble::WrongName {
            expected: server_name.to_str().into_owned(),
            names: Vec::new(),
            subject: broker.subject,
        },
        why => {
            let why = match why {
                CertificateError::BadSignature => {
                    "it is not signed with the key of the trusted certificate of that name: the CA was made anew, or is another one of the same name".to_owned()
                }
                CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                    "it is the certificate of a CA (CA:TRUE), and not itself among the trusted ones; have one issued for the broker".to_owned()
                }
                why => why.to_string(),
            };
            TlsTrouble::BadCertificate { subject: broker.subject, issuer: broker.issuer, why }
        }
    }
}

/// webpki tells `DnsName("kafka.example.com")`.
fn plain_name(told: &str) -> String {
    let inner = told.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(told);
    inner.trim_matches('"').to_owned()
}

fn time(seconds: i64) -> SystemTime {
    let since = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}
