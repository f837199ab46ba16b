use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
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
        Ok(Verifier { webpki, any_name, provider: Arc::clone(provider) })
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
        why => TlsTrouble::BadCertificate {
            subject: broker.subject,
            issuer: broker.issuer,
            why: why.to_string(),
        },
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
