//! A broker with every kind of listener that its release can have: TLS, SASL, both.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::broker::{Kafka, Options, Prepared};
use super::certificates::{Certificates, STORE_PASSWORD};
use super::driver::Driver;
use super::process::{LeftOut, Result};
use super::release::{Mode, Release};

/// A way in, other than the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Before 0.11 it takes a client's certificate too, see [`SecureKafka::require_certificates`].
    Tls,
    SaslPlaintext,
    SaslTls,
    /// TLS that wants a certificate of the client (0.11 on).
    MutualTls,
    /// TLS with a certificate that has expired (0.11 on).
    Expired,
    /// TLS with a certificate for another host (0.11 on).
    Elsewhere,
    /// TLS, and OAUTHBEARER only (2.0 on).
    OAuth,
}

/// In the order of [`Listener`]. A release has a first part of them.
const LISTENERS: [(&str, &str); 7] = [
    ("SSL", "SSL"),
    ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
    ("SASL_SSL", "SASL_SSL"),
    ("MTLS", "SSL"),
    ("EXPIRED", "SSL"),
    ("ELSEWHERE", "SSL"),
    ("OAUTH", "SASL_SSL"),
];

/// A broker and its certificates.
///
/// `alice` and `bob` can log in, see [`PASSWORDS`](SecureKafka::PASSWORDS). There is an authorizer, which allows
/// everything but what [`deny`](SecureKafka::deny) takes away.
pub struct SecureKafka {
    pub kafka: Kafka,
    pub certificates: Certificates,
}

impl SecureKafka {
    /// Of those who can log in.
    pub const PASSWORDS: &'static [(&'static str, &'static str)] =
        &[("alice", "alice-secret"), ("bob", "bob-secret")];

    /// The properties of the options come last.
    pub fn start(release: &'static Release, options: Options) -> std::result::Result<Self, Trouble> {
        let prepared = Prepared::of(release)?;
        let certificates = Certificates::make(&Certificates::java(release)?)?;
        let mut secured = options;
        let own = std::mem::take(&mut secured.properties);
        secured.more_listeners = &LISTENERS[..Self::listeners(release)];
        secured.properties = properties(release, &certificates);
        secured.properties.extend(own);
        if has_jaas_file(release) {
            let path = certificates.dir().join("jaas.conf");
            std::fs::write(&path, jaas(release)).map_err(|e| e.to_string())?;
            secured.jvm.push(format!("-Djava.security.auth.login.config={}", path.display()));
            secured.jvm.push("-Dzookeeper.sasl.client=false".to_owned());
        }
        if mechanisms(release).contains(&"SCRAM-SHA-256") {
            secured.scram_users = Self::PASSWORDS;
        }
        Ok(Self { kafka: Kafka::start(release, &prepared, secured)?, certificates })
    }

    /// Where a listener is; `None` if the release cannot have it.
    pub fn address(&self, listener: Listener) -> Option<SocketAddr> {
        let index = listener as usize;
        (index < Self::listeners(self.kafka.release())).then(|| self.kafka.listener_address(0, index))
    }

    /// The SASL mechanisms of a listener.
    pub fn mechanisms(&self, listener: Listener) -> &'static [&'static str] {
        let all = mechanisms(self.kafka.release());
        match (listener, all.split_last()) {
            (Listener::OAuth, _) => &["OAUTHBEARER"],
            (Listener::SaslTls, Some((&"OAUTHBEARER", others))) => others,
            (Listener::SaslPlaintext | Listener::SaslTls, _) => all,
            _ => &[],
        }
    }

    /// From now on nobody comes in by TLS without a certificate: for releases without [`Listener::MutualTls`].
    pub fn require_certificates(&mut self) -> Result<()> {
        self.kafka.set("ssl.client.auth", "required");
        self.kafka.kill(0)?;
        self.kafka.start_again(0)
    }

    /// Takes away from everybody but a `carol` and the super users: to read the topic `denied`, to know of the topic
    /// `hidden`, and the group `denied`.
    pub fn deny(&self, admin: &mut Driver) -> Result<()> {
        let release = self.kafka.release();
        let class =
            if release.since(&[4]) { "org.apache.kafka.tools.AclCommand" } else { "kafka.admin.AclCommand" };
        let place = match self.kafka.zookeeper_connect() {
            Some(zookeeper) => {
                ["--authorizer-properties".to_owned(), format!("zookeeper.connect={zookeeper}")]
            }
            None => ["--bootstrap-server".to_owned(), self.kafka.bootstrap()],
        };
        let place = [place[0].as_str(), place[1].as_str()];
        let carol = ["--add", "--allow-principal", "User:carol", "--operation", "Read"];
        admin.tool(class, &[&place[..], &carol, &["--topic", "denied", "--topic", "hidden"]].concat())?;
        admin.tool(class, &[&place[..], &carol, &["--group", "denied"]].concat())?;
        let all = ["--add", "--allow-principal", "User:*", "--operation", "Describe", "--topic", "denied"];
        admin.tool(class, &[&place[..], &all].concat()).map(drop)
    }

    /// How many of [`LISTENERS`]. Settings of a listener's own came with 0.11 (KAFKA-4636).
    fn listeners(release: &Release) -> usize {
        match () {
            () if release.since(&[2]) => 7,
            () if release.since(&[0, 11]) => 6,
            () if release.since(&[0, 10]) => 3,
            () => 1,
        }
    }
}

/// Why there is no such broker.
#[derive(Debug)]
pub enum Trouble {
    LeftOut(LeftOut),
    Failed(String),
}

impl From<LeftOut> for Trouble {
    fn from(why: LeftOut) -> Self {
        Self::LeftOut(why)
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// What a release has, the newest last.
fn mechanisms(release: &Release) -> &'static [&'static str] {
    const ALL: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
    let count = match () {
        () if release.since(&[2]) => 4,        // KIP-255
        () if release.since(&[0, 10, 2]) => 3, // KIP-84
        () if release.since(&[0, 10]) => 1,    // KIP-43
        () => 0,
    };
    &ALL[..count]
}

/// Before 1.1 (KIP-226) the properties cannot hold it.
fn has_jaas_file(release: &Release) -> bool {
    release.since(&[0, 10]) && !release.since(&[1, 1])
}

fn jaas(release: &Release) -> String {
    let modules = mechanisms(release).iter().filter(|&&mechanism| mechanism != "SCRAM-SHA-512");
    let modules: Vec<String> = modules.map(|mechanism| login_module(mechanism)).collect();
    format!("KafkaServer {{\n{}\n}};\n", modules.join("\n"))
}

fn login_module(mechanism: &str) -> String {
    let mut text = "org.apache.kafka.common.security.".to_owned();
    match mechanism {
        "PLAIN" => {
            text.push_str("plain.PlainLoginModule required");
            for (name, password) in SecureKafka::PASSWORDS {
                let _ = write!(text, " user_{name}=\"{password}\"");
            }
        }
        // Any token is believed that says a subject and has not expired.
        "OAUTHBEARER" => text
            .push_str("oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\""),
        _ => text.push_str("scram.ScramLoginModule required"),
    }
    text + ";"
}

fn properties(release: &Release, certificates: &Certificates) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut set = |key: &str, value: &str| all.push((key.to_owned(), value.to_owned()));
    for store in ["keystore", "truststore"] {
        set(&format!("ssl.{store}.type"), "PKCS12");
        set(&format!("ssl.{store}.password"), STORE_PASSWORD);
    }
    set("ssl.key.password", STORE_PASSWORD);
    set("ssl.keystore.location", &certificates.store("server"));
    set("ssl.truststore.location", &certificates.store("trust"));
    if release.since(&[0, 11]) {
        set("listener.name.mtls.ssl.client.auth", "required");
        set("listener.name.expired.ssl.keystore.location", &certificates.store("expired"));
        set("listener.name.elsewhere.ssl.keystore.location", &certificates.store("elsewhere"));
    } else {
        set("ssl.client.auth", "requested");
    }
    let every = mechanisms(release);
    set("sasl.enabled.mechanisms", &every.join(","));
    if let Some((&"OAUTHBEARER", others)) = every.split_last() {
        set("listener.name.sasl_ssl.sasl.enabled.mechanisms", &others.join(","));
        set("listener.name.oauth.sasl.enabled.mechanisms", "OAUTHBEARER");
    }
    if !has_jaas_file(release) {
        for listener in ["sasl_plaintext", "sasl_ssl", "oauth"] {
            for mechanism in every {
                let key = format!("listener.name.{listener}.{}.sasl.jaas.config", mechanism.to_lowercase());
                set(&key, &login_module(mechanism));
            }
        }
    }
    let authorizer = match () {
        () if release.mode() == Mode::KRaft => "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        () if release.since(&[2, 4]) => "kafka.security.authorizer.AclAuthorizer",
        () => "kafka.security.auth.SimpleAclAuthorizer",
    };
    set("authorizer.class.name", authorizer);
    set("allow.everyone.if.no.acl.found", "true");
    set("super.users", "User:ANONYMOUS;User:alice;User:CN=client");
    all
}
