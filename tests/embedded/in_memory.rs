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
