use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::net::{BoxFuture, Secret};

/// Gives tokens for OAUTHBEARER.
pub trait TokenProvider: Send + Sync + fmt::Debug {
    /// A token that is valid now. Asked for every login, also for those that renew one on an open
    /// connection; the caller sets a deadline, and may drop the future. The error is shown to people.
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, String>>;
}

/// A token, and what goes with it.
#[derive(Debug, Clone)]
#[must_use]
pub struct BearerToken {
    pub(super) token: Secret,
    pub(super) extensions: Vec<(String, String)>,
    pub(super) authorization_id: Option<String>,
}

impl BearerToken {
    /// A token alone.
    pub fn new(token: impl Into<Secret>) -> Self {
        BearerToken { token: token.into(), extensions: Vec::new(), authorization_id: None }
    }

    /// Says something more to the broker (KIP-342): `logicalCluster` and `identityPoolId`, say.
    pub fn extension(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extensions.push((name.into(), value.into()));
        self
    }

    /// Wants to act as somebody.
    pub fn authorization_id(mut self, id: impl Into<String>) -> Self {
        self.authorization_id = Some(id.into());
        self
    }
}

/// Tokens that nobody has signed, for tests: a broker takes them only where it is told to believe anybody.
#[derive(Debug, Clone)]
#[must_use]
pub struct UnsecuredJwt {
    subject: String,
    lifetime: Duration,
    scope: Vec<String>,
}

impl UnsecuredJwt {
    /// Tokens of somebody, valid for an hour.
    pub fn new(subject: impl Into<String>) -> Self {
        UnsecuredJwt { subject: subject.into(), lifetime: Duration::from_secs(3600), scope: Vec::new() }
    }

    /// How long a token is valid from when it is made.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// A scope that tokens have; may be called several times.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope.push(scope.into());
        self
    }

    fn make(&self, now: SystemTime) -> String {
        let issued = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut claims = json!({
            "sub": self.subject,
            "iat": issued.as_secs_f64(),
            "exp": (issued + self.lifetime).as_secs_f64(),
        });
        if !self.scope.is_empty() {
            claims["scope"] = json!(self.scope);
        }
        let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.", part(json!({"alg": "none"})), part(claims))
    }
}

impl TokenProvider for UnsecuredJwt {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, String>> {
        let token = BearerToken::new(self.make(SystemTime::now()));
        Box::pin(std::future::ready(Ok(token)))
    }
}
