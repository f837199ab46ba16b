use std::io;

use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use super::verifier::Rejected;
use crate::error::TlsTrouble;

/// What went wrong with TLS, if it is that: in the handshake, or later on. `NotTls` without a name if the peer's bytes
/// are none of TLS.
pub(in crate::net) fn trouble_of(why: &io::Error) -> Option<TlsTrouble> {
    let why = why.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match why {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            match other.0.downcast_ref::<Rejected>() {
                Some(Rejected(trouble)) => trouble.clone(),
                None => TlsTrouble::Handshake(why.to_string()),
            }
        }
        rustls::Error::InvalidMessage(_) => TlsTrouble::NotTls(None),
        rustls::Error::AlertReceived(alert) => TlsTrouble::Refused { alert: words(*alert) },
        // What Kafka up to 2.8 sends, seen on Java 17, when a certificate is missing or refused: its whole write
        // buffer, with the remains of what it sent before, in place of the alert. 3.9 and 4.4 send the alert.
        rustls::Error::DecryptError | rustls::Error::InappropriateHandshakeMessage { .. } => {
            TlsTrouble::Handshake(format!(
                "{why}; some Kafka brokers send such bytes instead of an alert when they want a certificate of the client \
                 (ssl.client.auth=required), or refuse the one that was shown"
            ))
        }
        why => TlsTrouble::Handshake(why.to_string()),
    })
}

/// An alert's name in the RFCs: `certificate_required`.
fn words(alert: AlertDescription) -> String {
    let mut words = String::new();
    for c in format!("{alert:?}").chars() {
        if c.is_ascii_uppercase() && !words.is_empty() && !words.ends_with(|c: char| c.is_ascii_uppercase()) {
            words.push('_');
        }
        words.push(c);
    }
    words.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_rfcs() {
        let table = [
            (AlertDescription::CertificateRequired, "certificate_required"),
            (AlertDescription::BadCertificate, "bad_certificate"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::ProtocolVersion, "protocol_version"),
        ];
        for (alert, name) in table {
            assert_eq!(words(alert), name);
        }
    }
}
