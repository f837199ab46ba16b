//! Over in-memory connections, under a paused clock.

use std::sync::Arc;

use downspout::net::{BrokerAddress, Dialer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_paused_clock_makes_waiting_free_and_exact() {
    let broker = EmbeddedBroker::builder().release(Release::V2_4).topic("t", 1).in_memory();
    let mut stream = broker.connect_in_memory(broker.addr()).unwrap();
    let request = FetchRequest { max_wait_ms: 3_600_000, ..fetch(&[(0, 0)], 100) };
    stream.write_all(&encode_request(&request, 11, 1, "test").unwrap()).await.unwrap();
    let start = tokio::time::Instant::now();
    let size = stream.read_i32().await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert!((hour..hour + Duration::from_millis(5)).contains(&start.elapsed()));
    stream.read_exact(&mut vec![0; size as usize]).await.unwrap();
    assert_eq!(broker.request_count(ApiKey::FETCH), 1);
    assert!(broker.connect_in_memory("nobody:9092").is_err());
}

#[tokio::test(start_paused = true)]
async fn the_client_finds_out_what_every_release_speaks() {
    for release in Release::ALL.iter().copied() {
        let broker = EmbeddedBroker::builder().release(release).topic("t", 1).in_memory();
        let dialer = Dialer::default().connector(Arc::new(broker.connector()));
        let address: BrokerAddress = broker.addr().parse().unwrap();
        let connection = dialer.dial(&address).await.unwrap();
        let found: Vec<_> = connection.versions().unwrap().iter().collect();
        let mut own = release.apis();
        // What 4.0 offers for the sake of others it refuses (KAFKA-18659).
        if release >= Release::V4_0 {
            own[0].1.min = 3;
        }
        assert_eq!(found, own, "{release}");
    }
}

/// What twelve clients that wait for new records see, in the order in which they see it, while a
/// schedule runs.
async fn seen_under(seed: u64) -> Vec<String> {
    let broker = Arc::new(EmbeddedBroker::builder().brokers(3).topic("t", 4).in_memory());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut clients = tokio::task::JoinSet::new();
    let start = tokio::time::Instant::now();
    for client in 0..12usize {
        let (broker, tell) = (broker.clone(), tell.clone());
        clients.spawn(async move {
            loop {
                let say = |what: &str| drop(tell.send(format!("{:?} {client}: {what}", start.elapsed())));
                let Ok(mut stream) = broker.connect_in_memory(&broker.addrs()[client % 3]) else {
                    say("refused");
                    tokio::time::sleep(Duration::from_millis(70)).await;
                    continue;
                };
                let request = FetchRequest { max_wait_ms: 200, ..fetch(&[(client as i32 % 4, 0)], 100) };
                let request = encode_request(&request, 12, client as i32, "test").unwrap();
                while stream.write_all(&request).await.is_ok() {
                    let answer = async {
                        let mut frame = vec![0; stream.read_i32().await?.clamp(0, 1 << 20) as usize];
                        stream.read_exact(&mut frame).await?;
                        std::io::Result::Ok(frame)
                    };
                    match tokio::time::timeout(Duration::from_secs(1), answer).await {
                        Ok(Ok(frame)) => say(&format!("{:08x}", crc32c::crc32c(&frame))),
                        Ok(Err(error)) => say(&error.to_string()),
                        Err(_) => {
                            say("nothing");
                            break;
                        }
                    }
                    // Errors come at once: time has to pass.
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
    }
    let mut chaos = downspout::testing::Chaos::new(seed).losing_records();
    for step in 0..300 {
        broker.with(|cluster| {
            chaos.step(cluster);
            // The topic may be gone.
            let _ = cluster.append("t", step % 4, &hex(F12));
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    clients.shutdown().await;
    drop(tell);
    let mut seen: Vec<String> = chaos.events().iter().map(ToString::to_string).collect();
    while let Some(line) = told.recv().await {
        seen.push(line);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_are_the_same_to_everybody() {
    for seed in 0..4 {
        let (first, second) = (seen_under(seed).await, seen_under(seed).await);
        assert!(first.len() > 300, "{}", first.len());
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        assert_eq!(differs.map(|at| (&first[at], &second[at])), None, "seed {seed}");
        assert_eq!(first.len(), second.len());
    }
    assert_ne!(seen_under(1).await, seen_under(2).await);
}
