//! Logins that end while they are used (KIP-368): they are renewed, and nobody notices.

use std::time::{Duration, Instant};

use downspout::checkpoint::KafkaCheckpoints;
use downspout::client::{Cluster, Item, StartOffset};
use downspout::net::{Sasl, Security, UnsecuredJwt};
use downspout::records::NewRecord;
use downspout::spout::Spout;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::harness::{Driver, Listener, Options, Release, Result, SecureKafka};
use crate::stage::Turn;

use super::counted::Connections;
use super::ways::{login, tls};
use super::{block_on, start, text};

/// The broker closes what asks for anything so long after its last login. The client renews it when 5 to 15 % of that
/// are left, which has to be more than a fetch waits, and than a busy machine takes for it.
const LIFETIME: Duration = Duration::from_secs(10);
/// Long enough for two renewals of each connection; without any, six connections would end.
const WRITING: Duration = Duration::from_secs(25);
/// Connections that may end where the machine stood still for that half of a second.
const LATE: usize = 1;
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn renewed(name: &str) {
    let release = Release::named(name);
    let _turn = Turn::take();
    let options = Options::default().set("connections.max.reauth.ms", &LIFETIME.as_millis().to_string());
    let Some(kafka) = start(release, options) else { return };
    let mut admin = Driver::start(&kafka.kafka).unwrap();
    for topic in ["by-password", "by-token"] {
        admin.create_topic(&kafka.kafka, topic, 1, &[]).unwrap();
    }
    let token = UnsecuredJwt::new("alice").lifetime(LIFETIME);
    let by_token = life(&kafka, "by-token", Listener::OAuth, Sasl::oauth_bearer(token));
    let password = login("SCRAM-SHA-512", "alice", "alice-secret");
    let by_password = life(&kafka, "by-password", Listener::SaslTls, password);
    let (by_password, by_token) = block_on(async { tokio::join!(by_password, by_token) });
    by_password.unwrap_or_else(|why| panic!("{release}: password: {why}"));
    by_token.unwrap_or_else(|why| panic!("{release}: token: {why}"));
}

/// Numbers are written, and read by a stream and by a spout; each sees each of them once, in order, and no connection
/// that was open after a while ends before all is over.
async fn life(kafka: &SecureKafka, topic: &'static str, listener: Listener, sasl: Sasl) -> Result<()> {
    let address = kafka.address(listener).ok_or("no such listener")?;
    let security = Security::plaintext().tls(tls(&kafka.certificates)).sasl(sasl);
    let connections = Connections::default();
    let cluster = Cluster::builder([address.to_string()]).security(security).connector(connections.clone());
    let cluster = cluster.connect().await.map_err(text)?;

    let (written, total) = watch::channel(None);
    let streaming = tokio::spawn(stream(cluster.clone(), topic, total.clone()));
    let spouting = tokio::spawn(spout(cluster.clone(), topic, total));
    let start = Instant::now();
    let (mut count, mut ended) = (0u32, None);
    while start.elapsed() < WRITING {
        let value = count.to_string();
        cluster.produce(topic, 0, &[NewRecord::value(value.as_bytes())]).await.map_err(text)?;
        count += 1;
        sleep(Duration::from_millis(50)).await; // only the pace
        // By now the first connection, to find out who is there, may be over, and all others are in use.
        if ended.is_none() && start.elapsed() > LIFETIME / 3 {
            ended = Some(connections.ended());
        }
    }
    let ended_later = connections.ended();
    let _ = written.send(Some(count));
    for (who, reading) in [("the stream", streaming), ("the spout", spouting)] {
        let seen = timeout(PATIENCE, reading).await.map_err(|_| format!("{who} does not get to {count}"))?;
        let seen = seen.map_err(text)??;
        let all: Vec<u32> = (0..count).collect();
        if seen != all {
            return Err(format!("{who} reads {seen:?} of {count}"));
        }
    }
    println!("{topic}: {count} records over {} connections", connections.made());
    match ended {
        Some(ended) if ended_later - ended <= LATE => Ok(()),
        _ => Err(format!("connections ended: {ended:?} at first, {ended_later} later")),
    }
}

type Total = watch::Receiver<Option<u32>>;

/// All that is there, once the number is known.
fn is_all(seen: &[u32], total: &Total) -> bool {
    total.borrow().is_some_and(|total| seen.len() >= total as usize)
}

async fn stream(cluster: Cluster, topic: &str, mut total: Total) -> Result<Vec<u32>> {
    let mut stream = cluster.partition(topic, 0).stream(StartOffset::Earliest).open().await.map_err(text)?;
    let mut seen = Vec::new();
    while !is_all(&seen, &total) {
        tokio::select! {
            item = stream.next() => match item.map_err(text)? {
                Some(Item::Batch(batch)) => {
                    for record in batch.records() {
                        seen.push(number(record.map_err(text)?.value())?);
                    }
                }
                other => return Err(format!("{other:?}")),
            },
            _ = total.changed() => {}
        }
    }
    Ok(seen)
}

async fn spout(cluster: Cluster, topic: &str, mut total: Total) -> Result<Vec<u32>> {
    let spout = Spout::builder(cluster.clone())
        .topic(topic)
        .id(topic)
        .start(StartOffset::Earliest)
        .commit_interval(Duration::from_millis(200))
        .checkpoints(KafkaCheckpoints::new(cluster));
    let mut spout = spout.build().await.map_err(text)?;
    let mut seen = Vec::new();
    while !is_all(&seen, &total) {
        tokio::select! {
            delivery = spout.next() => {
                let delivery = delivery.map_err(text)?.ok_or("the spout is over")?;
                seen.push(number(delivery.value())?);
                delivery.ack();
            }
            _ = total.changed() => {}
        }
    }
    spout.close().await.map_err(text)?;
    Ok(seen)
}

fn number(value: Option<&[u8]>) -> Result<u32> {
    std::str::from_utf8(value.ok_or("no value")?).map_err(text)?.parse().map_err(text)
}

#[test]
fn logins_are_renewed_without_a_gap_on_2_8_2() {
    renewed("2.8.2");
}

#[test]
fn logins_are_renewed_without_a_gap_on_4_4_0() {
    renewed("4.4.0");
}
