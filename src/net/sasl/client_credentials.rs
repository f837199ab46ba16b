//! Tokens from an OAuth server for a client's id and secret (RFC 6749 §4.4, KIP-768).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio_rustls::rustls::crypto::ring;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use zeroize::Zeroizing;

use super::bearer::{BearerToken, TokenError, TokenProvider};
use crate::error::{Error, Result};
use crate::net::{BoxFuture, Secret};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(8);
/// The most that is read of an answer, in bytes.
const MOST: u64 = 1 << 20;

/// Asks an OAuth server for tokens, over HTTPS. A token is used again until four fifths of its life are over.
#[derive(Clone)]
#[must_use]
pub struct ClientCredentials {
    url: String,
    id: String,
    secret: Secret,
    scope: Option<String>,
    ca_file: Option<PathBuf>,
    extensions: Vec<(String, String)>,
    last: Arc<Mutex<Option<(Secret, Instant)>>>,
}

impl ClientCredentials {
    /// A server by the URL of its token endpoint. An error if the secret would travel readable: HTTP is for the same
    /// machine alone.
    pub fn new(
        url: impl Into<String>,
        client_id: impl Into<String>,
        secret: impl Into<Secret>,
    ) -> Result<Self> {
        let url = url.into();
        let host = url.strip_prefix("http://").map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
        let is_here = host.is_some_and(|host| {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            matches!(name, "localhost" | "127.0.0.1" | "[::1]")
        });
        if !url.starts_with("https://") && !is_here {
            return Err(Error::config(format!("the token endpoint {url:?} must be an https:// URL")));
        }
        Ok(ClientCredentials {
            url,
            id: client_id.into(),
            secret: secret.into(),
            scope: None,
            ca_file: None,
            extensions: Vec::new(),
            last: Arc::default(),
        })
    }

    /// What the tokens are asked for.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Trusts the certificates in a PEM file for the server, instead of those of the system.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Says something more to the broker with each token (KIP-342).
    pub fn extension(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extensions.push((name.into(), value.into()));
        self
    }

    fn bearer(&self, token: Secret) -> BearerToken {
        let token = BearerToken::new(token);
        self.extensions.iter().fold(token, |token, (name, value)| token.extension(name, value))
    }

    fn kept(&self, now: Instant) -> Option<Secret> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(_, until)| now < *until).map(|(token, _)| token.clone())
    }

    /// Blocks.
    fn ask(&self) -> Result<Secret, TokenError> {
        let agent = self.agent()?;
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let credentials = Zeroizing::new(format!("{}:{}", encoded(&self.id), encoded(self.secret.expose())));
        let authorization = Zeroizing::new(format!("Basic {}", BASE64.encode(credentials.as_bytes())));
        let asked = Instant::now();
        let request = agent.post(&self.url).header("Authorization", authorization.as_str());
        let mut answer = request
            .header("Accept", "application/json")
            .send_form(form)
            .map_err(|why| TokenError::Unavailable(format!("{} cannot be asked: {why}", self.url)))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(MOST).read_to_string();
        let body = Zeroizing::new(body.map_err(|why| {
            TokenError::Unavailable(format!("the answer of {} cannot be read: {why}", self.url))
        })?);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        if !status.is_success() {
            // RFC 6749 §5.2; other members may repeat what was sent.
            let told = ["error", "error_description"].iter().filter_map(|name| json[name].as_str());
            let told: Vec<&str> = told.collect();
            let why = format!("{} answers {status}: {}", self.url, told.join(", "));
            let is_final = status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429);
            return Err(if is_final { TokenError::Refused(why) } else { TokenError::Unavailable(why) });
        }
        let Some(token) = json["access_token"].as_str() else {
            return Err(TokenError::Refused(format!("the answer of {} holds no access_token", self.url)));
        };
        let token = Secret::new(token);
        let lifetime =
            json["expires_in"].as_f64().filter(|seconds| (0.0..1e9).contains(seconds)).unwrap_or(0.0);
        let until = asked + Duration::from_secs_f64(lifetime * 0.8);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((token.clone(), until));
        Ok(token)
    }

    fn agent(&self) -> Result<ureq::Agent, TokenError> {
        let roots = match &self.ca_file {
            Some(path) => in_file(path)?,
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
            }
        };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            // The secret goes where it was meant to go, and nowhere else.
            .max_redirects(0)
            .tls_config(tls)
            .build();
        Ok(config.into())
    }
}

fn in_file(path: &Path) -> Result<Vec<Certificate<'static>>, TokenError> {
    let failed = |why: &dyn fmt::Display| {
        TokenError::Unavailable(format!("the CA ({}) cannot be read: {why}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|why| failed(&why))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|why| failed(&why))? {
            certificates.push(certificate);
        }
    }
    Ok(certificates)
}

/// As RFC 6749 §2.3.1 wants an id and a secret in a header.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

impl TokenProvider for ClientCredentials {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, TokenError>> {
        Box::pin(async move {
            if let Some(token) = self.kept(Instant::now()) {
                return Ok(self.bearer(token));
            }
            let own = self.clone();
            match tokio::task::spawn_blocking(move || own.ask()).await {
                Ok(token) => token.map(|token| self.bearer(token)),
                Err(_) => Err(TokenError::Unavailable(format!("{} was not asked", self.url))),
            }
        })
    }
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials")
            .field("url", &self.url)
            .field("id", &self.id)
            .field("scope", &self.scope)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers each request with the next of these, and gives what was asked.
    fn server(answers: Vec<(u16, &'static str)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut byte = [0];
                while !String::from_utf8_lossy(&request).contains("\r\n\r\ngrant_type=") || request.len() < 40
                {
                    if stream.read(&mut byte).unwrap() == 0 {
                        break;
                    }
                    request.push(byte[0]);
                }
                asked.push(String::from_utf8(request).unwrap());
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).unwrap();
                // Until the client has read it all.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
            asked
        });
        (url, thread)
    }

    #[tokio::test]
    async fn a_token_is_asked_for_once_in_its_life() {
        let (url, server) = server(vec![
            (200, r#"{"access_token":"one","expires_in":3600}"#),
            (200, r#"{"access_token":"two"}"#),
            (200, r#"{"access_token":"three"}"#),
        ]);
        let provider = ClientCredentials::new(&url, "me", "s3:cret").unwrap().scope("kafka");
        for _ in 0..3 {
            assert_eq!(provider.token().await.unwrap().token.expose(), "one");
        }
        // Those that do not say how long they last are used once.
        let provider = ClientCredentials::new(&url, "me", "s3:cret").unwrap();
        for expected in ["two", "three"] {
            assert_eq!(provider.token().await.unwrap().token.expose(), expected);
        }
        let asked = server.join().unwrap();
        let credentials = BASE64.encode("me:s3%3Acret");
        assert!(
            asked[0].to_lowercase().contains(&format!("basic {credentials}").to_lowercase()),
            "{}",
            asked[0]
        );
    }

    #[tokio::test]
    async fn a_wrong_secret_is_a_refusal_and_a_server_in_trouble_is_not() {
        let (url, server) = server(vec![
            (401, r#"{"error":"invalid_client","error_description":"no such client"}"#),
            (503, "out of order"),
            (200, "{}"),
        ]);
        let provider = ClientCredentials::new(&url, "me", "s3cret").unwrap();
        let refused = provider.token().await.unwrap_err();
        assert!(
            matches!(&refused, TokenError::Refused(why) if why.contains("invalid_client, no such client")),
            "{refused:?}"
        );
        assert!(matches!(provider.token().await.unwrap_err(), TokenError::Unavailable(_)));
        assert!(matches!(provider.token().await.unwrap_err(), TokenError::Refused(_)));
        server.join().unwrap();
        assert!(matches!(provider.token().await.unwrap_err(), TokenError::Unavailable(_)));
        assert!(!format!("{provider:?}").contains("s3cret"));
    }

    #[test]
    fn a_secret_does_not_travel_readable() {
        for url in [
            "http://oauth.example.com/token",
            "ftp://x",
            "oauth.example.com",
            "http://127.0.0.1.example.com/",
        ] {
            assert!(ClientCredentials::new(url, "me", "s3cret").is_err(), "{url}");
        }
        for url in ["https://oauth.example.com/token", "http://localhost:8080/token", "http://[::1]:1/"] {
            assert!(ClientCredentials::new(url, "me", "s3cret").is_ok(), "{url}");
        }
    }
}
