//! A thousand partitions.

use super::network::Counting;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_thousand_partitions_on_three_brokers_are_one_stream() {
    for release in [Release::V0_8_2, Release::V1_0, Release::V4_4] {
        let brokers = EmbeddedBroker::builder().release(release).brokers(3).topic("t", 1_000);
        let brokers = Arc::new(brokers.in_memory());
        for partition in 0..1_000 {
            append(&brokers, "t", partition, 50, 10);
        }
        let network = Counting::new(&brokers);
        let cluster = Cluster::builder([brokers.addr()]).connector(network.clone());
        let cluster = cluster.memory(8 << 20).connect().await.unwrap();
        let mut stream = cluster.streams().topic("t").await.unwrap();
        assert_eq!(stream.partitions().len(), 1_000);
        let began = Instant::now();
        let mut found = vec![Vec::new(); 1_000];
        let mut count = 0;
        while count < 50_000 {
            let (at, item) = stream.next().await.unwrap().unwrap();
            let Item::Batch(batch) = item else { panic!("{release} {at}: {item:?}") };
            let offsets = offsets(&batch);
            count += offsets.len();
            found[at.partition as usize].extend(offsets);
        }
        assert!(found.iter().all(|found| *found == to(50)), "{release}");
        assert!(began.elapsed() < Duration::from_secs(1), "{release}: {:?}", began.elapsed());
        let asked = brokers.request_count(ApiKey::FETCH);
        assert!(asked < 100, "{release}: many partitions share a request, {asked} did not");

        // Quiet, they cost each broker two requests a second, and with sessions (KIP-227) next to no
        // bytes.
        sleep(Duration::from_secs(5)).await;
        let (asked, sent, received) =
            (brokers.request_count(ApiKey::FETCH), network.sent(), network.received());
        sleep(Duration::from_secs(60)).await;
        let asked = brokers.request_count(ApiKey::FETCH) - asked;
        assert!((300..=380).contains(&asked), "{release}: {asked}");
        if release >= Release::V1_1 {
            let each = (network.sent() - sent + network.received() - received) / asked as u64;
            assert!(each < 300, "{release}: {each} bytes per poll");
        }
        for partition in (0..1_000).step_by(37) {
            append(&brokers, "t", partition, 1, 1);
            let began = Instant::now();
            let (at, item) = stream.next().await.unwrap().unwrap();
            let Item::Batch(batch) = item else { panic!("{item:?}") };
            assert_eq!((at.partition, offsets(&batch)), (partition, vec![50]), "{release}");
            assert!(began.elapsed() <= Duration::from_millis(60), "{release}: {:?}", began.elapsed());
        }
    }
}
