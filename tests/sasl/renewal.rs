//! Logins that do not last (KIP-368): renewed on the open connection, with everything else going on.

use downspout::checkpoint::MemoryCheckpoints;
use downspout::spout::{Brokers, Spout};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{Instant, sleep, timeout};

use super::*;

const LIFETIME: Duration = Duration::from_secs(3);

fn gate_with_short_logins(broker: &Arc<EmbeddedBroker>) -> Gate {
    let gate = Gate::before(broker);
    gate.change(|rules| rules.lifetime = Some(LIFETIME));
    gate
}

/// Appends a record every 50 ms.
async fn append(broker: &EmbeddedBroker, range: std::ops::Range<u32>) {
    for number in range {
        broker.append("t", 0, &set(number..number + 1, Magic::V2)).unwrap();
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_over_the_same_connections() {
    for release in [Release::V2_4, Release::LATEST] {
        for sasl in right() {
            let broker = brokers(release);
            let gate = gate_with_short_logins(&broker);
            let cluster = cluster(&gate, &broker, sasl).connect().await.unwrap();
            let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
            let writing = tokio::spawn({
                let broker = Arc::clone(&broker);
                async move { append(&broker, 0..600).await }
            });
            assert_eq!(read(&mut stream, 100).await, numbers(0..100));
            let opened = gate.seen().connections;
            assert_eq!(read(&mut stream, 500).await, numbers(100..600));
            writing.await.unwrap();
            let seen = gate.seen();
            assert_eq!(seen.connections, opened, "{release}: no reconnect");
            assert!(seen.strays.is_empty() && seen.late.is_empty(), "{release}: {seen:?}");
            // Thirty seconds of logins of three, on each connection.
            assert!(seen.logins >= opened * 9, "{release}: {seen:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_spout_goes_on_and_loses_nothing() {
    let broker = brokers(Release::LATEST);
    let gate = gate_with_short_logins(&broker);
    let cluster = cluster(&gate, &broker, Sasl::scram_sha_512(USER, PASSWORD)).connect().await.unwrap();
    let spout =
        Spout::builder(Brokers::cluster(cluster)).topic("t").id("x").checkpoints(MemoryCheckpoints::new());
    let mut spout = spout.build().await.unwrap();
    let writing = tokio::spawn({
        let broker = Arc::clone(&broker);
        async move { append(&broker, 0..400).await }
    });
    let mut found = Vec::new();
    while found.len() < 400 {
        let delivery = timeout(Duration::from_secs(60), spout.next()).await.unwrap().unwrap().unwrap();
        found.push(String::from_utf8(delivery.value().unwrap().to_vec()).unwrap());
        delivery.ack();
    }
    writing.await.unwrap();
    assert_eq!(found, numbers(0..400));
    let seen = gate.seen();
    assert!(seen.strays.is_empty() && seen.late.is_empty() && seen.logins > 2 * seen.connections, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_connection_is_renewed_too_and_a_long_poll_does_not_end_it() {
    let broker = brokers(Release::LATEST);
    let gate = gate_with_short_logins(&broker);
    let consumer = SimpleConsumer::builder(broker.addr())
        .connector(gate.clone())
        .security(Security::plaintext().sasl(Sasl::plain(USER, PASSWORD)));
    let consumer = consumer.connect().await.unwrap();
    // Longer than a login lasts: the renewal waits for the answer, and comes late, which a broker allows.
    let poll = Fetch::new("t", 0, 0).max_wait(Duration::from_secs(5)).min_bytes(1);
    consumer.fetch(poll).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    consumer.earliest_offset("t", 0).await.unwrap();
    let seen = gate.seen();
    assert_eq!((seen.connections, seen.late.len(), seen.strays.len()), (1, 0, 0), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_within_a_renewal_wait_for_its_end() {
    let broker = brokers(Release::LATEST);
    let gate = gate_with_short_logins(&broker);
    let consumer = SimpleConsumer::builder(broker.addr())
        .connector(gate.clone())
        .security(Security::plaintext().sasl(Sasl::scram_sha_256(USER, PASSWORD)));
    let consumer = consumer.connect().await.unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        consumer.earliest_offset("t", 0).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    let seen = gate.seen();
    assert_eq!((seen.connections, seen.late.len(), seen.strays.len()), (1, 0, 0), "{seen:?}");
    assert!(seen.logins >= 10, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_password_that_was_changed_ends_the_connection_with_that_error() {
    let broker = brokers(Release::LATEST);
    let gate = gate_with_short_logins(&broker);
    let cluster = cluster(&gate, &broker, Sasl::oauth_bearer(Token(TOKEN))).connect().await.unwrap();
    let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
    broker.append("t", 0, &set(0..1, Magic::V2)).unwrap();
    assert_eq!(read(&mut stream, 1).await, numbers(0..1));
    gate.change(|rules| rules.lie = Some(Lie::Says(br#"{"status":"expired"}"#)));
    let error = timeout(Duration::from_secs(120), stream.next()).await.unwrap().unwrap_err();
    assert!(matches!(login_trouble(&error), LoginTrouble::Refused { .. }), "{error:?}");
    // At the same place, once the broker believes again.
    gate.change(|rules| rules.lie = None);
    broker.append("t", 0, &set(1..2, Magic::V2)).unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(read(&mut stream, 1).await, numbers(1..2));
}

/// Gives no tokens for a while.
#[derive(Debug, Clone, Default)]
struct Moody(Arc<AtomicBool>);

impl TokenProvider for Moody {
    fn token(&self) -> BoxFuture<'_, std::result::Result<BearerToken, TokenError>> {
        let token = if self.0.load(Ordering::SeqCst) {
            Err(TokenError::Unavailable("not now".to_owned()))
        } else {
            Ok(BearerToken::new(TOKEN))
        };
        Box::pin(std::future::ready(token))
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_away_for_a_moment_costs_nothing() {
    let broker = brokers(Release::LATEST);
    let gate = Gate::before(&broker);
    gate.change(|rules| rules.lifetime = Some(Duration::from_secs(60)));
    let provider = Moody::default();
    let consumer = SimpleConsumer::builder(broker.addr())
        .connector(gate.clone())
        .security(Security::plaintext().sasl(Sasl::oauth_bearer(provider.clone())));
    let consumer = consumer.connect().await.unwrap();
    provider.0.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(58)).await;
    provider.0.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(20)).await;
    consumer.earliest_offset("t", 0).await.unwrap();
    let seen = gate.seen();
    assert_eq!((seen.connections, seen.late.len(), seen.logins), (1, 0, 2), "{seen:?}");
}
