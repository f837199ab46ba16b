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
        /// The broker's alert.
        alert: String,
        /// The certificate that was shown to it, by its subject.
        shown: Option<String>,
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
            TlsTrouble::NotTls(_) | TlsTrouble::WrongName { .. } | TlsTrouble::UnknownIssuer { .. } => {
                Fault::Caller
            }
            TlsTrouble::Refused { .. } => Fault::Caller,
            _ => Fault::Broker,
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
        write!(f, "{self:?}")
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
