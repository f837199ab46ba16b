//! Transactions: whose records are handed out, and who holds a partition back.

use downspout::records::Isolation;

use super::*;

/// Two records of a producer's transaction.
fn data(brokers: &EmbeddedBroker, producer: i64) {
    let next = brokers.with(|core| core.offsets("t", 0)).unwrap().end;
    let set = RecordSetWriter::new(Magic::V2).producer(producer, 0, 0).transactional();
    let mut set = set.base_offset(next);
    for offset in next..next + 2 {
        set.push(NewRecord::value(offset.to_string().as_bytes())).unwrap();
    }
    let set = set.finish().unwrap();
    brokers.with(|core| core.store("t", 0, &set)).unwrap();
}

/// The marker that ends it.
fn end(brokers: &EmbeddedBroker, producer: i64, commit: bool) {
    let next = brokers.with(|core| core.offsets("t", 0)).unwrap().end;
    let set = RecordSetWriter::new(Magic::V2).producer(producer, 0, -1).transactional().control();
    let mut set = set.base_offset(next);
    let key = [0, 0, 0, u8::from(commit)];
    set.push(NewRecord { key: Some(&key), ..NewRecord::value(&[0; 6]) }).unwrap();
    brokers.with(|core| core.store("t", 0, &set.finish().unwrap())).unwrap();
}

const RELEASES: [Release; 3] = [Release::V0_11_0, Release::V2_8, Release::V4_4];

async fn open(cluster: &Cluster, isolation: Isolation) -> PartitionStream {
    let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).isolation(isolation);
    stream.partition_bytes(200).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn aborted_records_are_never_handed_out_and_uncommitted_readers_get_all() {
    for release in RELEASES {
        let brokers = brokers(release);
        data(&brokers, 7); // 0, 1: aborted
        data(&brokers, 8); // 2, 3: committed
        end(&brokers, 7, false); // 4
        append(&brokers, "t", 0, 2, 2); // 5, 6: outside of any
        data(&brokers, 7); // 7, 8: committed
        end(&brokers, 8, true); // 9
        end(&brokers, 7, true); // 10
        data(&brokers, 9); // 11, 12: aborted
        end(&brokers, 9, false); // 13
        append(&brokers, "t", 0, 1, 1); // 14
        let cluster = cluster(&brokers).await;
        let mut committed = open(&cluster, Isolation::ReadCommitted).await;
        assert_eq!(read(&mut committed, 7).await, [2, 3, 5, 6, 7, 8, 14], "{release}");
        let mut all = open(&cluster, Isolation::ReadUncommitted).await;
        assert_eq!(read(&mut all, 11).await, [0, 1, 2, 3, 5, 6, 7, 8, 11, 12, 14], "{release}");
        // From the middle of an aborted transaction too.
        let stream = cluster.partition("t", 0).stream(StartOffset::At(12)).until(EndOffset::Latest);
        assert_eq!(read(&mut stream.await.unwrap(), 1).await, [14], "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_20_a_log_that_ends_in_markers_is_read_to_its_end() {
    for release in RELEASES {
        let brokers = brokers(release);
        data(&brokers, 7);
        end(&brokers, 7, false);
        let cluster = cluster(&brokers).await;
        for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
            let stream = cluster.partition("t", 0).stream(StartOffset::Earliest).isolation(isolation);
            let mut stream = stream.until(EndOffset::Latest).await.unwrap();
            let mut count = 0;
            while let Some(item) = stream.next().await.unwrap() {
                let Item::Batch(batch) = item else { panic!("{item:?}") };
                count += offsets(&batch).len();
            }
            assert_eq!(count, if isolation == Isolation::ReadCommitted { 0 } else { 2 }, "{release}");
            assert_eq!(stream.position(), Some(3), "{release}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_transaction_that_holds_a_partition_back_is_reported_with_its_producer_id() {
    for release in RELEASES {
        let brokers = brokers(release);
        append(&brokers, "t", 0, 2, 2); // 0, 1
        data(&brokers, 4_711); // 2, 3
        data(&brokers, 12); // 4, 5: behind it
        end(&brokers, 12, true); // 6
        append(&brokers, "t", 0, 3, 3); // 7, 8, 9
        let cluster = cluster(&brokers).await;
        let mut stream = open(&cluster, Isolation::ReadCommitted).await;
        assert_eq!(read(&mut stream, 2).await, [0, 1], "{release}");
        let began = Instant::now();
        let event = event(&mut stream).await;
        let expected =
            Recovered::OpenTransaction { position: 2, producer_id: Some(4_711), high_watermark: 10 };
        assert_eq!(event, expected, "{release}");
        let after = began.elapsed().as_secs();
        assert!((10..13).contains(&after), "{release}: after {after} s");
        // Once, and not again and again.
        assert!(timeout(Duration::from_secs(300), stream.next()).await.is_err(), "{release}");
        let mut all = open(&cluster, Isolation::ReadUncommitted).await;
        assert_eq!(read(&mut all, 9).await, [0, 1, 2, 3, 4, 5, 7, 8, 9], "{release}");
        // A next one on the same partition is a next report.
        data(&brokers, 13); // 10, 11
        end(&brokers, 4_711, false); // 12
        assert_eq!(read(&mut stream, 5).await, [4, 5, 7, 8, 9], "{release}");
        let event = self::event(&mut stream).await;
        let expected = Recovered::OpenTransaction { position: 10, producer_id: Some(13), high_watermark: 13 };
        assert_eq!(event, expected, "{release}");
        end(&brokers, 13, true);
        assert_eq!(read(&mut stream, 2).await, [10, 11], "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_held_back_by_nothing_reports_nothing() {
    let brokers = brokers(Release::V2_8);
    data(&brokers, 7);
    let cluster = cluster(&brokers).await;
    let mut stream = open(&cluster, Isolation::ReadUncommitted).await;
    assert_eq!(read(&mut stream, 2).await, [0, 1]);
    assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err());
    end(&brokers, 7, true);
    let mut stream = open(&cluster, Isolation::ReadCommitted).await;
    assert_eq!(read(&mut stream, 2).await, [0, 1]);
    assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err());
}
