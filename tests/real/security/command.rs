//! The `downspout` command where TLS and a login are wanted, told so in each of the ways that there are.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::cli::downspout;
use crate::harness::{Listener, Result, SecureKafka};

/// Takes each record.
const HANDLER: &str = r#"while read -r line; do
  case "$line" in *'"id":"'*) ;; *) continue ;; esac
  id=${line#*\"id\":\"}; id=${id%%\"*}; echo "ack $id"
done"#;

const PASSWORD: &str = "alice-secret";

/// What has to be said, as names and values.
type Settings = Vec<(&'static str, String)>;

pub fn all(kafka: &SecureKafka) -> Result<()> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (address, settings) = settings(kafka)?;
    let file = write(dir.path(), "client.properties", &settings)?;
    let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    // No password is ever needed among the arguments; it may be there.
    let by_words: Vec<&str> = words.iter().flat_map(|word| ["-X", word]).collect();
    let by_file = ["--config", &file];
    let brokers = address.to_string();
    commands(&brokers, &by_file, "command by file")?;
    // Once is enough of 0.9, where each command takes seconds to find out what it talks to.
    let Some(java) = javas(kafka) else { return Ok(()) };
    commands(&brokers, &by_words, "command by words")?;
    // ZooKeeper knows every listener; the protocol chooses.
    if let Some(servers) = kafka.kafka.zookeeper_connect() {
        commands(&format!("zk://{servers}"), &by_file, "command by zookeeper")?;
    }
    let file = write(dir.path(), "java.properties", &java)?;
    commands(&brokers, &["--config", &file], "command java")?;
    wrong_password(dir.path(), address, settings)
}

/// Of the most that the release has.
fn settings(kafka: &SecureKafka) -> Result<(SocketAddr, Settings)> {
    let path = |path: PathBuf| path.display().to_string();
    let certificates = &kafka.certificates;
    let ca = ("ssl.ca.location", path(certificates.pem("ca")));
    if let Some(address) = kafka.address(Listener::SaslTls) {
        let mechanism = (*kafka.mechanisms(Listener::SaslTls).last().ok_or("none")?).to_owned();
        let settings = vec![
            ("security.protocol", "SASL_SSL".to_owned()),
            ("sasl.mechanism", mechanism),
            ("sasl.username", "alice".to_owned()),
            ("sasl.password", PASSWORD.to_owned()),
            ca,
        ];
        return Ok((address, settings));
    }
    let settings = vec![
        ("security.protocol", "ssl".to_owned()),
        ca,
        ("ssl.certificate.location", path(certificates.pem("client"))),
        ("ssl.key.location", path(certificates.key("client"))),
    ];
    Ok((kafka.address(Listener::Tls).ok_or("no TLS")?, settings))
}

/// The same login as the Java client's settings have it.
fn javas(kafka: &SecureKafka) -> Option<Settings> {
    let mechanism = *kafka.mechanisms(Listener::SaslTls).last()?;
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    let jaas = format!(
        "org.apache.kafka.common.security.{module} required username=\"alice\" password=\"{PASSWORD}\";"
    );
    Some(vec![
        ("security.protocol", "SASL_SSL".to_owned()),
        ("sasl.mechanism", mechanism.to_owned()),
        ("sasl.jaas.config", jaas),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.location", kafka.certificates.pem("ca").display().to_string()),
    ])
}

fn write(dir: &Path, name: &str, settings: &Settings) -> Result<String> {
    let lines: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let path = dir.join(name);
    std::fs::write(&path, lines.concat()).map_err(|e| e.to_string())?;
    Ok(path.display().to_string())
}

/// Each that talks to brokers; `mark` is what only this round writes.
fn commands(brokers: &str, how: &[&str], mark: &str) -> Result<()> {
    let run = |command: &str, args: &[&str], input: Option<&[u8]>| {
        let base = [&[command, "-b", brokers], how].concat();
        match downspout(&[&base[..], args].concat(), input)? {
            (0, out, err) if !format!("{out}{err}").contains(PASSWORD) => Ok(out),
            (0, _, _) => Err(format!("{mark}: {command} shows the password")),
            (code, out, err) => Err(format!("{mark}: {command} ends with {code}: {out}{err}")),
        }
    };
    let told = |command: &str, out: String, wanted: &str| {
        if out.contains(wanted) { Ok(()) } else { Err(format!("{mark}: {command}: no {wanted} in {out}")) }
    };
    told("metadata", run("metadata", &[], None)?, "secured")?;
    run("produce", &["-t", "secured"], Some(format!("{mark}\n").as_bytes()))?;
    told("consume", run("consume", &["-t", "secured", "-e"], None)?, mark)?;
    told("offsets", run("offsets", &["-t", "secured"], None)?, "secured")?;
    let id = mark.replace(' ', "-");
    let spout = ["-t", "secured", "--id", &id, "--store", "kafka", "-e", "--exec", HANDLER];
    run("spout", &spout, None)?;
    run("lag", &["-t", "secured", "--id", &id, "--store", "kafka", "--max-lag", "0"], None)?;
    Ok(())
}

/// It is told once, as what it is.
fn wrong_password(dir: &Path, address: SocketAddr, mut settings: Settings) -> Result<()> {
    for (name, value) in &mut settings {
        if *name == "sasl.password" {
            *value = "not-hers".to_owned();
        }
    }
    let file = write(dir, "wrong.properties", &settings)?;
    let brokers = address.to_string();
    match downspout(&["metadata", "-b", &brokers, "--config", &file], None)? {
        (3, out, err) if err.contains("login") && !format!("{out}{err}").contains("not-hers") => Ok(()),
        (code, out, err) => Err(format!("a wrong password: {code}: {out}{err}")),
    }
}
