//! Why a broker and this client do not trust each other.

use std::fmt;
use std::time::SystemTime;

use super::{Fault, Retry, Speaks};

/// Why no TLS connection came about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsTrouble {
    /// The port does not speak TLS; what it speaks instead, if that is known.
    NotTls(Option<Speaks>),
    /// Nobody who is trusted has issued the broker's certificate.
    UnknownIssuer {
        /// Whose certificate it is.
        subject: String,
        /// Who has issued it.
        issuer: String,
    },
    /// The broker's certificate is not valid any more, or not yet.
    OutOfDate {
        /// Whose certificate it is.
        subject: String,
        /// Who has issued it.
        issuer: String,
        /// From when on it is valid.
        not_before: SystemTime,
        /// Until when it is valid.
        not_after: SystemTime,
        /// What this machine's clock said.
        now: SystemTime,
    },
    /// The broker's certificate is for other names.
    WrongName {
        /// The name that was looked for.
        expected: String,
        /// The names that it is for.
        names: Vec<String>,
        /// Whose certificate it is.
        subject: String,
    },
    /// Something else is wrong with the broker's certificate.
    BadCertificate {
        /// Whose certificate it is.
        subject: String,
        /// Who has issued it.
        issuer: String,
        /// What is wrong with it.
        why: String,
    },
    /// The broker refuses this client, or its certificate.
    Refused {
        /// The broker's alert, by its name in the RFCs: `certificate_required`.
        alert: String,
    },
    /// The broker has asked for a certificate of this client, and closed the connection without a word, twice: old
    /// brokers refuse in this way (seen on 0.9 and 0.10).
    ClosedOnCertificate {
        /// Whether there was one to show.
        shown: bool,
    },
    /// The handshake failed for another reason.
    Handshake(String),
}

/// Why a login with SASL failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginTrouble {
    /// The broker refuses the name, the password or the token.
    Refused {
        /// The mechanism.
        mechanism: &'static str,
        /// The broker's words; brokers before 1.0 close without any.
        message: Option<String>,
    },
    /// The broker does not offer the mechanism.
    NoMechanism {
        /// What was asked for.
        mechanism: &'static str,
        /// What it offers.
        offered: Vec<String>,
    },
    /// The listener wants no login.
    NotWanted,
    /// The broker did not prove that it knows the password; it may be somebody else.
    Impostor(String),
    /// The broker's message does not fit the mechanism.
    Malformed(String),
    /// The provider gave no token.
    NoToken(String),
}

impl TlsTrouble {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            TlsTrouble::NotTls(None) => Fault::Network,
            TlsTrouble::NotTls(_) | TlsTrouble::WrongName { .. } | TlsTrouble::UnknownIssuer { .. } => {
                Fault::Caller
            }
            TlsTrouble::Refused { .. } | TlsTrouble::ClosedOnCertificate { .. } => Fault::Caller,
            _ => Fault::Broker,
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            // What a broker that is being stopped does too, or a proxy whose broker is away.
            TlsTrouble::NotTls(None) => Retry::Again,
            _ => Retry::Human,
        }
    }
}

impl LoginTrouble {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            LoginTrouble::Impostor(_) | LoginTrouble::Malformed(_) => Fault::Broker,
            _ => Fault::Caller,
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            // The provider may be away for a moment.
            LoginTrouble::NoToken(_) => Retry::Again,
            _ => Retry::Human,
        }
    }
}

impl fmt::Display for TlsTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsTrouble::NotTls(None) => f.write_str(
                "the port closes the connection in the TLS handshake: a broker that is being stopped, a proxy without its broker, or a port without TLS; use the broker's SSL or SASL_SSL listener, and a client certificate where one is wanted (ssl.certificate.location, ssl.key.location)",
            ),
            TlsTrouble::NotTls(Some(Speaks::Kafka)) => f.write_str(
                "the port speaks Kafka without TLS; use security.protocol PLAINTEXT or SASL_PLAINTEXT, or the broker's SSL listener",
            ),
            TlsTrouble::NotTls(Some(speaks)) => write!(f, "the port does not speak TLS: {speaks}"),
            TlsTrouble::UnknownIssuer { subject, issuer } if subject == issuer => write!(
                f,
                "the broker's certificate ({subject}) is issued by its owner and not trusted; if it is the right one, name it as trusted (ssl.ca.location)"
            ),
            TlsTrouble::UnknownIssuer { subject, issuer } => write!(
                f,
                "the broker's certificate ({subject}) is issued by somebody who is not trusted: {issuer}; if that is the brokers' CA, name its certificate (ssl.ca.location)"
            ),
            TlsTrouble::OutOfDate { subject, issuer, not_before, not_after, now } => {
                let is_early = now < not_before;
                write!(
                    f,
                    "the certificate {subject}, issued by {issuer}, {} {}, and this machine's clock says {}; {} set the clock if it is wrong",
                    if is_early { "is not valid before" } else { "has expired on" },
                    Utc(if is_early { *not_before } else { *not_after }),
                    Utc(*now),
                    if is_early { "wait, or" } else { "have it renewed, or" },
                )
            }
            TlsTrouble::WrongName { expected, names, subject } if names.is_empty() => write!(
                f,
                "the broker's certificate ({subject}) is for no name in particular: it has no subject alternative names, and the CN is not looked at; have one issued for {expected}"
            ),
            TlsTrouble::WrongName { expected, names, subject } => write!(
                f,
                "the broker's certificate ({subject}) is for {}, not for {expected}; connect to one of those, or say which name to expect (ssl.server.name)",
                names.join(", ")
            ),
            TlsTrouble::BadCertificate { subject, issuer, why } => {
                write!(f, "the broker's certificate ({subject}, issued by {issuer}) cannot be used: {why}")
            }
            TlsTrouble::Refused { alert } => write!(f, "the broker refuses the TLS connection ({alert}): {}", advice(alert)),
            TlsTrouble::ClosedOnCertificate { shown: false } => f.write_str(
                "the broker asks for a client certificate and closes the connection without one; name one and its key (ssl.certificate.location, ssl.key.location)",
            ),
            TlsTrouble::ClosedOnCertificate { shown: true } => f.write_str(
                "the broker closes the connection when it has seen the client certificate; show one that its CA has issued and that is valid (ssl.certificate.location), or see the broker's log",
            ),
            TlsTrouble::Handshake(why) => write!(f, "the TLS handshake failed: {why}"),
        }
    }
}

/// What a broker means with an alert, and what to do about it.
fn advice(alert: &str) -> &'static str {
    match alert {
        "certificate_required" => {
            "it wants a client certificate; name one and its key (ssl.certificate.location, ssl.key.location)"
        }
        "bad_certificate"
        | "handshake_failure"
        | "certificate_unknown"
        | "unknown_ca"
        | "unsupported_certificate"
        | "certificate_expired"
        | "certificate_revoked"
        | "access_denied"
        | "decrypt_error" => {
            "it wants a client certificate (ssl.certificate.location, ssl.key.location), does not trust the one it was shown, or has no cipher in common"
        }
        "protocol_version" => "it has no version of TLS from 1.2 on, or none that is allowed here",
        "unrecognised_name" | "unrecognized_name" => "it does not know the name it is called by",
        _ => "see its log for the reason",
    }
}

/// A time as people write it.
struct Utc(SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = match self.0.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => since.as_secs() as i64,
            Err(before) => -(before.duration().as_secs() as i64),
        };
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days of the Gregorian calendar, in eras of 400 years that begin in March.
        let (era, day_of_era) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
        let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        write!(
            f,
            "{}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
            year + era * 400 + next,
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        )
    }
}

impl fmt::Display for LoginTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginTrouble::Refused { mechanism, message: Some(message) } => {
                write!(f, "the broker refuses the login ({mechanism}): {message}; check the name and the secret")
            }
            LoginTrouble::Refused { mechanism, message: None } => write!(
                f,
                "the broker closed the connection in the login ({mechanism}), which is how releases before 1.0 refuse one; check the name and the secret"
            ),
            LoginTrouble::NoMechanism { mechanism, offered } => write!(
                f,
                "the broker does not offer {mechanism}; it offers {}",
                if offered.is_empty() { "none".to_owned() } else { offered.join(", ") }
            ),
            LoginTrouble::NotWanted => f.write_str(
                "the listener wants no SASL login; use security.protocol PLAINTEXT or SSL, or the broker's SASL listener",
            ),
            LoginTrouble::Impostor(why) => {
                write!(f, "the broker did not prove that it knows the password: {why}; it may not be who it should be")
            }
            LoginTrouble::Malformed(why) => write!(f, "the broker's part of the login is not as it must be: {why}"),
            LoginTrouble::NoToken(why) => write!(f, "there is no token to log in with: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_by_the_calendar() {
        let table = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
            (4_102_444_800, "2100-01-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, text) in table {
            assert_eq!(Utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string(), text);
        }
        assert_eq!(
            Utc(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).to_string(),
            "1969-12-31 23:59:59 UTC"
        );
    }
}
