//! Somebody who is known, and may not: the error says what is denied, to whom.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use downspout::Error;
use downspout::checkpoint::KafkaCheckpoints;
use downspout::client::{Cluster, Fetch, GroupOffset, SimpleConsumer, StartOffset};
use downspout::error::ErrorKind;
use downspout::net::Security;
use downspout::protocol::ErrorCode;
use downspout::records::NewRecord;
use downspout::spout::Spout;

use crate::harness::{Driver, Listener, Result, SecureKafka, wait_for};

use super::ways::{login, mutual_tls};
use super::{block_on, cluster, consumer, text};

/// No denial takes longer to be told.
const SOON: Duration = Duration::from_secs(15);

/// Somebody without rights of their own.
struct Somebody {
    address: SocketAddr,
    security: Security,
}

impl Somebody {
    /// By a login where there is one, else by a certificate.
    fn of(kafka: &SecureKafka) -> Option<Self> {
        match kafka.address(Listener::SaslPlaintext) {
            Some(address) => {
                let security = Security::plaintext().sasl(login("PLAIN", "bob", "bob-secret"));
                Some(Self { address, security })
            }
            None => {
                let security = Security::plaintext().tls(mutual_tls(&kafka.certificates, "mallory"));
                Some(Self { address: kafka.address(Listener::Tls)?, security })
            }
        }
    }
}

pub fn all(kafka: &SecureKafka, admin: &mut Driver) -> Result<()> {
    kafka.deny(admin)?;
    let somebody = Somebody::of(kafka).ok_or("nobody can be told apart")?;
    block_on(async {
        let cluster = cluster(somebody.address, &somebody.security).await.map_err(text)?;
        let consumer = consumer(somebody.address, &somebody.security).await.map_err(text)?;
        let who = somebody.security.principal().ok_or("nobody knows who this is")?;
        if !who.contains("bob") && !who.contains("mallory") {
            return Err(format!("{who} is somebody else"));
        }
        let mut failures = Vec::new();
        let mut judge = |name: &str, took: Duration, error: Option<Error>, code, words: &[&str]| {
            if let Err(why) = denial(took, error, code, words) {
                failures.push(format!("{name}: {why}"));
            }
        };
        let (topic, group) = (ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::GROUP_AUTHORIZATION_FAILED);
        // Access lists take a moment to arrive where ZooKeeper tells of them.
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            wait_for("the access lists", Duration::from_secs(30), || {
                Ok(runtime.block_on(fetch(&consumer, "denied")).is_err().then_some(()))
            })
        })?;

        let start = Instant::now();
        let error = fetch(&consumer, "denied").await.err();
        judge("fetch", start.elapsed(), error, topic, &["Read the topic denied", &who]);

        let start = Instant::now();
        let error = read(&cluster, "denied").await.err();
        judge("stream", start.elapsed(), error, topic, &["Read the topic denied", &who]);

        let start = Instant::now();
        let error = cluster.produce("denied", 0, &[NewRecord::value(b"no")]).await.err();
        judge("produce", start.elapsed(), error, topic, &["Write the topic denied", &who]);

        let start = Instant::now();
        let error = cluster.partitions("hidden").await.err();
        judge("what it may not know of", start.elapsed(), error, topic, &["hidden"]);

        let start = Instant::now();
        let wanted = [GroupOffset::new("secured", 0, 1)];
        let error = cluster.commit_offsets("denied", &wanted).await;
        let error = error.map(|all| all.into_iter().find_map(|one| one.error)).unwrap_or_else(Some);
        judge("commit", start.elapsed(), error, group, &["the group denied", &who]);

        let start = Instant::now();
        let error = cluster.fetch_offsets("denied", &[("secured", 0)]).await;
        let error = error.map(|all| all.into_iter().find_map(|one| one.error)).unwrap_or_else(Some);
        judge("fetch of offsets", start.elapsed(), error, group, &["the group denied", &who]);

        let start = Instant::now();
        let error = spout(&cluster, "secured", "denied").await.err();
        judge("a spout's checkpoints", start.elapsed(), error, group, &["the group denied", &who]);

        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  ")) }
    })
}

async fn fetch(consumer: &SimpleConsumer, topic: &str) -> downspout::Result<()> {
    let fetched = consumer.fetch(Fetch::new(topic, 0, 0)).await?;
    fetched.partitions().iter().find_map(|partition| partition.error().cloned()).map_or(Ok(()), Err)
}

async fn read(cluster: &Cluster, topic: &str) -> downspout::Result<()> {
    let stream = cluster.partition(topic, 0).stream(StartOffset::Earliest).open();
    within(async { stream.await?.next().await.map(drop) }).await
}

async fn spout(cluster: &Cluster, topic: &str, group: &str) -> downspout::Result<()> {
    let spout = Spout::builder(cluster.clone())
        .topic(topic)
        .id(group)
        .checkpoints(KafkaCheckpoints::new(cluster.clone()))
        .build();
    within(async { spout.await?.next().await.map(drop) }).await
}

/// It fails the check, and does not hang, when there is no answer.
async fn within(call: impl Future<Output = downspout::Result<()>>) -> downspout::Result<()> {
    tokio::time::timeout(SOON * 2, call).await.unwrap_or(Ok(()))
}

fn denial(took: Duration, error: Option<Error>, wanted: ErrorCode, words: &[&str]) -> Result<()> {
    let Some(error) = error else { return Err(format!("it worked, or hung, in {took:.1?}")) };
    let sentence = error.to_string();
    let missing: Vec<_> = words.iter().filter(|&&word| !sentence.contains(word)).collect();
    match error.kind() {
        _ if took > SOON => Err(format!("told after {took:.1?}: {sentence}")),
        // From 0.10.1 to 1.1, and where all topics are asked for, what is hidden is not told from what is not there.
        ErrorKind::UnknownTopic { .. } if words.contains(&"hidden") => Ok(()),
        kind if !matches!(kind, ErrorKind::Broker { code, .. } if *code == wanted) => {
            Err(format!("told otherwise: {sentence}"))
        }
        _ if !missing.is_empty() => Err(format!("{missing:?} is missing: {sentence}")),
        _ => Ok(()),
    }
}
