use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::net::{BoxFuture, Secret};

/// Gives tokens for OAUTHBEARER.
pub trait TokenProvider: Send + Sync {
    /// A token that is valid now. Asked for every login, also for those that renew one on an open
    /// connection; the caller sets a deadline, and may drop the future.
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, TokenError>>;
}

/// Why there is no token; the text is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenError {
    /// Not now; perhaps later.
    Unavailable(String),
    /// There will be none until somebody changes something: the secret is wrong, say.
    Refused(String),
}

/// A token in a file, read again for every login: somebody else renews it (Kubernetes does).
#[derive(Debug, Clone)]
#[must_use]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The file holds the token and nothing else.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TokenFile(path.into())
    }
}

impl TokenProvider for TokenFile {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, TokenError>> {
        let path = self.0.clone();
        Box::pin(async move {
            let shown = path.display().to_string();
            let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
            match text {
                Ok(Ok(text)) => Ok(BearerToken::new(text.trim())),
                Ok(Err(why)) => Err(TokenError::Unavailable(format!("{shown} cannot be read: {why}"))),
                Err(_) => Err(TokenError::Unavailable(format!("{shown} was not read"))),
            }
        })
    }
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

impl BearerToken {
    /// Whether it can be said at all (RFC 6750 §2.1, RFC 7628 §3.1): the parts are set apart by a control character.
    pub(super) fn check(&self) -> Result<(), String> {
        let token = self.token.expose();
        if token.is_empty() || token.contains(|c: char| !c.is_ascii_graphic()) {
            return Err("a token has letters, digits and -._~+/= and nothing else".to_owned());
        }
        for (name, value) in &self.extensions {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic());
            if !is_name || name == "auth" {
                return Err(format!(
                    "{name:?} is no name of an extension: it has letters alone, and is not auth"
                ));
            }
            if value.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\r' | '\n')) {
                return Err(format!("the extension {name} holds a control character"));
            }
        }
        Ok(())
    }

    /// RFC 7628 §3.1.
    pub(super) fn first_message(&self) -> String {
        let identity = self
            .authorization_id
            .as_deref()
            .map_or(String::new(), |id| format!("a={}", id.replace('=', "=3D").replace(',', "=2C")));
        let mut message = format!("n,{identity},\x01auth=Bearer {}\x01", self.token.expose());
        for (name, value) in &self.extensions {
            message.push_str(&format!("{name}={value}\x01"));
        }
        message.push('\x01');
        message
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
        // Whole milliseconds, none begun: a broker that counts in those takes more for a time to come.
        let seconds = |time: Duration| time.as_millis() as f64 / 1000.0;
        let issued = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut claims = json!({
            "sub": self.subject,
            "iat": seconds(issued),
            "exp": seconds(issued + self.lifetime),
        });
        if !self.scope.is_empty() {
            claims["scope"] = json!(self.scope);
        }
        let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.", part(json!({"alg": "none"})), part(claims))
    }
}

impl TokenProvider for UnsecuredJwt {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, TokenError>> {
        let token = BearerToken::new(self.make(SystemTime::now()));
        Box::pin(std::future::ready(Ok(token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_said_is_no_token() {
        for token in ["", "a b", "a\x01b", "ä", "a\n"] {
            assert!(BearerToken::new(token).check().is_err(), "{token:?}");
        }
        for (name, value) in [("auth", "x"), ("", "x"), ("a=b", "x"), ("a", "x\x01y")] {
            assert!(BearerToken::new("abc").extension(name, value).check().is_err(), "{name:?} {value:?}");
        }
        BearerToken::new("a.b-c_d~e+f/g=").extension("traceId", "1, 2 \u{e4}").check().unwrap();
    }

    #[test]
    fn an_unsecured_token_has_three_parts_and_the_last_is_empty() {
        let jwt = UnsecuredJwt::new("admin").lifetime(Duration::from_secs(60)).scope("read");
        let token = jwt.make(UNIX_EPOCH + Duration::from_secs(1000));
        let parts: Vec<_> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let read = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(read(parts[0]), json!({"alg": "none"}));
        let claims = json!({"sub": "admin", "iat": 1000.0, "exp": 1060.0, "scope": ["read"]});
        assert_eq!((read(parts[1]), parts[2]), (claims, ""));
    }

    #[test]
    fn a_token_is_never_issued_in_the_future_of_a_broker_that_counts_milliseconds() {
        for nanos in [0, 1, 499_999, 500_000, 999_999, 1_999_999, 999_999_999] {
            let now = Duration::new(1_796_117_400, nanos);
            let token = UnsecuredJwt::new("admin").make(UNIX_EPOCH + now);
            let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
            let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
            let issued = (claims["iat"].as_f64().unwrap() * 1000.0).round() as u128;
            assert_eq!(issued, now.as_millis(), "{nanos}");
        }
    }
}
