//! Logging in to brokers with SASL.

mod bearer;
#[cfg(feature = "oauth")]
mod client_credentials;
mod exchange;
mod login;
mod renewal;
mod scram;

use std::fmt;
use std::sync::Arc;

pub use bearer::{BearerToken, TokenError, TokenFile, TokenProvider, UnsecuredJwt};
#[cfg(feature = "oauth")]
pub use client_credentials::ClientCredentials;
pub use exchange::{SaslExchange, SaslMessage, SaslTurn};
pub(super) use login::log_in;
pub(super) use renewal::keep_logged_in;

use super::Secret;

/// A SASL mechanism, with what it needs to log in.
#[derive(Clone)]
#[must_use]
pub struct Sasl(Mechanism);

#[derive(Clone)]
enum Mechanism {
    Plain(Password),
    Scram256(Password),
    Scram512(Password),
    OAuthBearer(Arc<dyn TokenProvider>),
}

#[derive(Debug, Clone)]
struct Password {
    user: String,
    password: Secret,
}

impl Sasl {
    /// PLAIN: the password itself is sent, so use it over TLS.
    pub fn plain(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Sasl(Mechanism::Plain(Password::new(user, password)))
    }

    /// SCRAM-SHA-256 (RFC 7677): neither side tells the other the password, and each proves to know it.
    pub fn scram_sha_256(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Sasl(Mechanism::Scram256(Password::new(user, password)))
    }

    /// SCRAM-SHA-512.
    pub fn scram_sha_512(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Sasl(Mechanism::Scram512(Password::new(user, password)))
    }

    /// OAUTHBEARER (RFC 7628): a token, asked of the provider for every login.
    pub fn oauth_bearer(provider: impl TokenProvider + 'static) -> Self {
        Sasl(Mechanism::OAuthBearer(Arc::new(provider)))
    }

    /// The mechanism's name.
    pub fn mechanism(&self) -> &'static str {
        match &self.0 {
            Mechanism::Plain(_) => "PLAIN",
            Mechanism::Scram256(_) => "SCRAM-SHA-256",
            Mechanism::Scram512(_) => "SCRAM-SHA-512",
            Mechanism::OAuthBearer(_) => "OAUTHBEARER",
        }
    }

    /// Who logs in, as a broker names it: `User:alice`. Not known here where a token says it.
    pub fn principal(&self) -> Option<String> {
        match &self.0 {
            Mechanism::Plain(who) | Mechanism::Scram256(who) | Mechanism::Scram512(who) => {
                Some(format!("User:{}", who.user))
            }
            Mechanism::OAuthBearer(_) => None,
        }
    }
}

impl fmt::Debug for Sasl {
    /// Without the secret; and without the provider, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("mechanism", &self.mechanism()).field("who", &self.principal()).finish()
    }
}

impl Password {
    fn new(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Password { user: user.into(), password: password.into() }
    }
}
