//! `sasl.…`: the mechanism, and who logs in.

use std::time::Duration;

use downspout::net::{ClientCredentials, Sasl, TokenFile, UnsecuredJwt};

use super::Settings;
use super::jaas::Jaas;

const MECHANISMS: &str = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER";

pub(super) fn sasl(settings: &Settings) -> Result<Sasl, String> {
    let Some((name, mechanism)) = settings.first(&["sasl.mechanism", "sasl.mechanisms"]) else {
        return Err(format!("sasl.mechanism is missing: {MECHANISMS}"));
    };
    let jaas = match settings.filled("sasl.jaas.config") {
        Some(text) => Some(Jaas::parse(text).map_err(|why| format!("sasl.jaas.config: {why}"))?),
        None => None,
    };
    let mechanism = mechanism.trim().to_ascii_uppercase();
    let make: fn(String, String) -> Sasl = match mechanism.as_str() {
        "PLAIN" => |user, password| Sasl::plain(user, password),
        "SCRAM-SHA-256" => |user, password| Sasl::scram_sha_256(user, password),
        "SCRAM-SHA-512" => |user, password| Sasl::scram_sha_512(user, password),
        "OAUTHBEARER" => return bearer(settings, jaas.as_ref()),
        "GSSAPI" => return Err(format!("{name}=GSSAPI: Kerberos is not built in; use {MECHANISMS}")),
        other => return Err(format!("{name}={other}: expected {MECHANISMS}")),
    };
    if let Some(jaas) = &jaas {
        let module = if mechanism == "PLAIN" { "PlainLoginModule" } else { "ScramLoginModule" };
        if jaas.module != module {
            return Err(format!(
                "sasl.jaas.config: {} does not go with {mechanism}; {module} does",
                jaas.module
            ));
        }
    }
    let part = |name: &str, option: &str| {
        let given = settings.filled(name).or_else(|| jaas.as_ref()?.get(option));
        given.map(str::to_owned).ok_or_else(|| format!("{name} is missing, which {mechanism} needs"))
    };
    Ok(make(part("sasl.username", "username")?, part("sasl.password", "password")?))
}

fn bearer(settings: &Settings, jaas: Option<&Jaas>) -> Result<Sasl, String> {
    if let Some(jaas) = jaas.filter(|jaas| jaas.module != "OAuthBearerLoginModule") {
        return Err(format!(
            "sasl.jaas.config: {} does not go with OAUTHBEARER; OAuthBearerLoginModule does",
            jaas.module
        ));
    }
    let option = |name: &str| jaas.and_then(|jaas| jaas.get(name));
    if let Some(url) = settings.filled("sasl.oauthbearer.token.endpoint.url") {
        if let Some(path) = url.strip_prefix("file://") {
            return Ok(Sasl::oauth_bearer(TokenFile::new(path)));
        }
        let part = |names: &[&'static str], options: &[&str]| {
            let given = settings.first(names).map(|(_, value)| value);
            given.or_else(|| options.iter().find_map(|name| option(name))).map(str::to_owned)
        };
        let ids = ["sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"];
        let secrets = ["sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"];
        let missing = |name: &str| format!("{name} is missing, which a token from {url} needs");
        let id = part(&ids, &["clientId"]).ok_or_else(|| missing(ids[0]))?;
        let secret = part(&secrets, &["clientSecret"]).ok_or_else(|| missing(secrets[0]))?;
        let mut provider = ClientCredentials::new(url, id, secret)
            .map_err(|why| format!("sasl.oauthbearer.token.endpoint.url: {why}"))?;
        if let Some(scope) = part(&["sasl.oauthbearer.scope"], &["scope"]) {
            provider = provider.scope(scope);
        }
        if let Some(path) = settings.filled("ssl.ca.location") {
            provider = provider.ca_file(path);
        }
        for (name, value) in extensions(settings, jaas)? {
            provider = provider.extension(name, value);
        }
        return Ok(Sasl::oauth_bearer(provider));
    }
    if let Some(subject) = option("unsecuredLoginStringClaim_sub") {
        return Ok(Sasl::oauth_bearer(UnsecuredJwt::new(subject)));
    }
    if settings.get("enable.sasl.oauthbearer.unsecure.jwt") == Some("true") {
        return unsecured(settings.filled("sasl.oauthbearer.config").unwrap_or_default());
    }
    Err("OAUTHBEARER needs a token: sasl.oauthbearer.token.endpoint.url (https://…, or file:///… for one in a file) \
         with sasl.oauthbearer.client.id and .client.secret"
        .to_owned())
}

/// librdkafka's `principal=admin lifeSeconds=3600 scope=a,b`.
fn unsecured(config: &str) -> Result<Sasl, String> {
    let (mut subject, mut lifetime, mut scopes) = (None, Duration::from_secs(3600), Vec::new());
    for part in config.split_whitespace() {
        match part.split_once('=') {
            Some(("principal", name)) => subject = Some(name),
            Some(("lifeSeconds", seconds)) => {
                let seconds =
                    seconds.parse().map_err(|_| "sasl.oauthbearer.config: lifeSeconds is a number")?;
                lifetime = Duration::from_secs(seconds);
            }
            Some(("scope", list)) => scopes.extend(list.split(',')),
            _ => {
                return Err(
                    "sasl.oauthbearer.config: expected principal=…, lifeSeconds=… and scope=…".to_owned()
                );
            }
        }
    }
    let subject = subject.ok_or("sasl.oauthbearer.config: principal=… is missing")?;
    let token = UnsecuredJwt::new(subject).lifetime(lifetime);
    Ok(Sasl::oauth_bearer(scopes.into_iter().fold(token, |token, scope| token.scope(scope))))
}

/// Java's are options of the login module (`extension_traceId`), librdkafka's a list.
fn extensions(settings: &Settings, jaas: Option<&Jaas>) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for pair in settings.filled("sasl.oauthbearer.extensions").unwrap_or_default().split(',') {
        match pair.trim().split_once('=') {
            Some((name, value)) => all.push((name.to_owned(), value.to_owned())),
            None if pair.trim().is_empty() => {}
            None => return Err("sasl.oauthbearer.extensions: expected name=value,name=value".to_owned()),
        }
    }
    if let Some(jaas) = jaas {
        all.extend(jaas.with_prefix("extension_").map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    Ok(all)
}
