//! Over in-memory connections, under a paused clock.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_paused_clock_makes_waiting_free_and_exact() {
    let broker = EmbeddedBroker::builder().release(Release::V2_4).topic("t", 1).in_memory().unwrap();
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
