//! Every way to get it wrong: each has its own error, soon, and it names what matters.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use downspout::Error;
use downspout::client::{Cluster, SimpleConsumer};
use downspout::error::{ErrorKind, LoginTrouble, Retry, Speaks, TlsTrouble};
use downspout::net::{Sasl, Security, Tls, UnsecuredJwt};

use crate::harness::{ELSEWHERE, Listener, Result, SecureKafka};

use super::block_on;
use super::counted::Connections;
use super::ways::{login, mutual_tls, tls};

/// No mistake takes longer to be told.
const SOON: Duration = Duration::from_secs(15);

/// Connections that a mistake may take: what is there is looked at in several ways.
const FEW: usize = 6;

struct Mistake {
    name: &'static str,
    address: SocketAddr,
    security: Security,
    /// Whether it is what went wrong.
    is: fn(&ErrorKind) -> bool,
    /// What the sentence has to hold.
    words: Vec<String>,
}

pub fn each_says_what_is_wrong(kafka: &SecureKafka) -> Result<()> {
    let mut mistakes = wrong_protocols(kafka);
    mistakes.extend(wrong_certificates(kafka));
    mistakes.extend(wrong_logins(kafka));
    if let Some(address) = kafka.address(Listener::MutualTls) {
        mistakes.extend(no_certificate(kafka, address));
    }
    make(mistakes)
}

/// After [`SecureKafka::require_certificates`].
pub fn without_certificate(kafka: &SecureKafka) -> Result<()> {
    let address = kafka.address(Listener::Tls).ok_or("no TLS")?;
    make(no_certificate(kafka, address))
}

fn wrong_protocols(kafka: &SecureKafka) -> Vec<Mistake> {
    let mut all = Vec::new();
    let mut add = |name, address, security, is, words: &[&str]| {
        all.push(Mistake { name, address, security, is, words: owned(words) });
    };
    let plain = kafka.kafka.address();
    let speaks_tls = |kind: &ErrorKind| matches!(kind, ErrorKind::WrongProtocol(Speaks::Tls));
    let no_tls = |kind: &ErrorKind| matches!(kind, ErrorKind::Tls(TlsTrouble::NotTls(_)));
    let wants_login = |kind: &ErrorKind| matches!(kind, ErrorKind::WrongProtocol(Speaks::Sasl(_)));
    let not_wanted = |kind: &ErrorKind| matches!(kind, ErrorKind::Login(LoginTrouble::NotWanted));
    let with_tls = Security::plaintext().tls(tls(&kafka.certificates));
    let alice = login("PLAIN", "alice", "alice-secret");
    add("TLS to a plain port", plain, with_tls.clone(), no_tls, &["TLS", "PLAINTEXT"]);
    if let Some(tls) = kafka.address(Listener::Tls) {
        add("plaintext to a TLS port", tls, Security::plaintext(), speaks_tls, &["TLS"]);
    }
    if let Some(both) = kafka.address(Listener::SaslTls) {
        let offered = kafka.mechanisms(Listener::SaslTls);
        add("plaintext to a TLS port with login", both, Security::plaintext(), speaks_tls, &["TLS"]);
        add("TLS without a login", both, with_tls.clone(), wants_login, offered);
        let only_login = Security::plaintext().sasl(alice.clone());
        add("a login without TLS to a TLS port", both, only_login, speaks_tls, &["TLS"]);
    }
    if let Some(sasl) = kafka.address(Listener::SaslPlaintext) {
        let offered = kafka.mechanisms(Listener::SaslPlaintext);
        add("no login where one is wanted", sasl, Security::plaintext(), wants_login, offered);
        add("TLS to a plain port with login", sasl, with_tls.clone().sasl(alice.clone()), no_tls, &["TLS"]);
        let to_plain = Security::plaintext().sasl(alice.clone());
        add("a login where none is wanted", plain, to_plain, not_wanted, &["no SASL login"]);
        if let Some(tls) = kafka.address(Listener::Tls) {
            let to_tls = with_tls.sasl(alice);
            add("a login over TLS where none is wanted", tls, to_tls, not_wanted, &["no SASL login"]);
        }
    }
    all
}

fn wrong_certificates(kafka: &SecureKafka) -> Vec<Mistake> {
    let mut all = Vec::new();
    let mut add = |name, address: Option<SocketAddr>, tls: Tls, is, words: &[&str]| {
        let security = Security::plaintext().tls(tls);
        all.extend(address.map(|address| Mistake { name, address, security, is, words: owned(words) }));
    };
    let certificates = &kafka.certificates;
    let ours = || tls(certificates);
    let foreign = || Tls::new().ca_file(certificates.pem("foreign-ca"));
    let unknown = |kind: &ErrorKind| matches!(kind, ErrorKind::Tls(TlsTrouble::UnknownIssuer { .. }));
    let name = |kind: &ErrorKind| matches!(kind, ErrorKind::Tls(TlsTrouble::WrongName { .. }));
    let late = |kind: &ErrorKind| matches!(kind, ErrorKind::Tls(TlsTrouble::OutOfDate { .. }));
    let who: &[_] = &["CN=broker", "CN=Downspout Test CA"];
    let tls_port = kafka.address(Listener::Tls);
    add("another CA", tls_port, foreign(), unknown, who);
    add("the system's CAs", tls_port, Tls::new(), unknown, who);
    add(
        "another name",
        tls_port,
        ours().server_name("kafka.other.test"),
        name,
        &["kafka.other.test", "localhost"],
    );
    add(
        "a certificate for another host",
        kafka.address(Listener::Elsewhere),
        ours(),
        name,
        &["127.0.0.1", ELSEWHERE],
    );
    add(
        "an expired certificate",
        kafka.address(Listener::Expired),
        ours(),
        late,
        &["CN=old broker", "CN=Downspout Test CA", "2021-01-01"],
    );
    all
}

fn no_certificate(kafka: &SecureKafka, address: SocketAddr) -> Vec<Mistake> {
    let certificates = &kafka.certificates;
    // Up to 2.8 brokers send the remains of the handshake in place of an alert, and close, which may be seen first.
    let is: fn(&ErrorKind) -> bool = |kind| {
        use TlsTrouble::{ClosedOnCertificate, Handshake, Refused};
        matches!(kind, ErrorKind::Tls(Refused { .. } | Handshake(_) | ClosedOnCertificate { .. }))
    };
    let stranger = mutual_tls(certificates, "stranger");
    let mistake = |name, tls, words: &[&str]| Mistake {
        name,
        address,
        security: Security::plaintext().tls(tls),
        is,
        words: owned(words),
    };
    vec![
        mistake("no certificate where one is wanted", tls(certificates), &["certificate"]),
        mistake("a certificate of another CA", stranger, &["certificate"]),
    ]
}

fn wrong_logins(kafka: &SecureKafka) -> Vec<Mistake> {
    let mut all = Vec::new();
    let refused: fn(&ErrorKind) -> bool =
        |kind| matches!(kind, ErrorKind::Login(LoginTrouble::Refused { .. }));
    let none: fn(&ErrorKind) -> bool =
        |kind| matches!(kind, ErrorKind::Login(LoginTrouble::NoMechanism { .. }));
    for listener in [Listener::SaslPlaintext, Listener::SaslTls, Listener::OAuth] {
        let Some(address) = kafka.address(listener) else { continue };
        let security = || match listener {
            Listener::SaslPlaintext => Security::plaintext(),
            _ => Security::plaintext().tls(tls(&kafka.certificates)),
        };
        let offered = kafka.mechanisms(listener);
        for &mechanism in offered {
            let mut add = |name, sasl: Sasl, words: &[&str]| {
                let words = owned(&[&[mechanism], words].concat());
                all.push(Mistake { name, address, security: security().sasl(sasl), is: refused, words });
            };
            if mechanism == "OAUTHBEARER" {
                let old = UnsecuredJwt::new("alice").lifetime(Duration::ZERO);
                add("an expired token", Sasl::oauth_bearer(old), &[]);
            } else {
                add("a wrong password", login(mechanism, "alice", "bob-secret"), &[]);
                add("an unknown user", login(mechanism, "nobody", "alice-secret"), &[]);
            }
        }
        let missing = ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"].into_iter().find(|it| !offered.contains(it));
        if let Some(missing) = missing {
            let sasl = login(missing, "alice", "alice-secret");
            let words = owned(&[&[missing], offered].concat());
            let name = "a mechanism that is not offered";
            all.push(Mistake { name, address, security: security().sasl(sasl), is: none, words });
        }
    }
    all
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// All of them; fails with all that went otherwise.
fn make(mistakes: Vec<Mistake>) -> Result<()> {
    block_on(async {
        let mut failures = Vec::new();
        for mistake in &mistakes {
            for with_cluster in [false, true] {
                let who = if with_cluster { "Cluster" } else { "SimpleConsumer" };
                let start = Instant::now();
                let connections = Connections::default();
                let (address, security) = (mistake.address.to_string(), mistake.security.clone());
                let outcome = async {
                    if with_cluster {
                        let cluster = Cluster::builder([address]).security(security);
                        cluster.connector(connections.clone()).connect().await?.all_topics().await.map(drop)
                    } else {
                        let consumer = SimpleConsumer::builder(&address).security(security);
                        consumer.connector(connections.clone()).connect().await?.all_topics().await.map(drop)
                    }
                };
                let outcome = outcome.await;
                if let Err(why) = mistake.judge(outcome.err(), start.elapsed(), connections.made()) {
                    failures.push(format!("{}, {who}: {why}", mistake.name));
                }
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
    })
}

impl Mistake {
    fn judge(&self, error: Option<Error>, took: Duration, tries: usize) -> Result<()> {
        let Some(error) = error else { return Err("it worked".to_owned()) };
        let sentence = error.to_string();
        let missing: Vec<_> = self.words.iter().filter(|&word| !sentence.contains(word)).collect();
        match () {
            () if took > SOON => Err(format!("told after {took:.1?}: {sentence}")),
            () if !(self.is)(cause(&error).kind()) => Err(format!("told otherwise: {sentence} ({error:?})")),
            () if tries > FEW => Err(format!("{tries} connections: {sentence}")),
            () if matches!(cause(&error).kind(), ErrorKind::Login(_)) && tries > 2 => {
                Err(format!("{tries} logins, and an account may be locked: {sentence}"))
            }
            () if !missing.is_empty() => Err(format!("{missing:?} is missing: {sentence}")),
            () if cause(&error).retry() == Retry::Again => {
                Err(format!("it would be tried again: {sentence}"))
            }
            () if ["alice-secret", "bob-secret"]
                .iter()
                .any(|it| format!("{error:?} {error}").contains(it)) =>
            {
                Err("it shows a password".to_owned())
            }
            () => Ok(()),
        }
    }
}

/// What a cluster met at its only broker.
fn cause(error: &Error) -> &Error {
    match error.kind() {
        ErrorKind::NoBroker(all) if all.len() == 1 => cause(&all[0]),
        _ => error,
    }
}
