//! Appending: to the leader, in the format that its version asks for.

use super::*;

#[tokio::test(start_paused = true)]
async fn produce_goes_to_each_leader_in_the_format_of_its_release() {
    for release in Release::ALL {
        let brokers = brokers(*release);
        let cluster = cluster(&brokers).await;
        assert_eq!(cluster.partitions("clicks").await.unwrap(), [0, 1, 2], "{release}");
        for partition in 0..3 {
            let records = [NewRecord::value(b"a"), NewRecord { key: Some(b"k"), ..NewRecord::value(b"b") }];
            for first in [0, 2] {
                let base = cluster.produce("clicks", partition, &records).await;
                assert_eq!(base.unwrap(), first, "{release}");
            }
            let reader =
                SimpleConsumer::builder(&brokers.addrs()[partition as usize]).connector(brokers.connector());
            let fetched = reader.build().unwrap().fetch(Fetch::new("clicks", partition, 1)).await.unwrap();
            let mut found = Vec::new();
            for batch in fetched.batches() {
                let batch = batch.unwrap();
                assert_eq!(batch.magic().number(), magic(*release), "{release}");
                for record in batch.records() {
                    let record = record.unwrap();
                    assert_eq!(record.timestamp().is_some(), magic(*release) > 0, "{release}");
                    found.push((
                        record.offset(),
                        record.key().map(<[u8]>::to_vec),
                        record.value().unwrap().to_vec(),
                    ));
                }
            }
            let (a, b) = (b"a".to_vec(), b"b".to_vec());
            let k = Some(b"k".to_vec());
            assert_eq!(found, [(1, k.clone(), b.clone()), (2, None, a), (3, k, b)], "{release}");
            assert_eq!(cluster.earliest_offset("clicks", partition).await.unwrap(), 0);
            assert_eq!(cluster.latest_offset("clicks", partition).await.unwrap(), 4);
        }
    }
}

/// The newest format that the release keeps.
fn magic(release: Release) -> u8 {
    if release < Release::V0_10_0 {
        0
    } else if release < Release::V0_11_0 {
        1
    } else {
        2
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_record_cannot_say_in_the_format_of_the_broker_is_an_error() {
    let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
    let records = [NewRecord { headers: &headers, ..NewRecord::value(b"v") }];
    for release in [Release::V0_8_2, Release::V0_10_2] {
        let brokers = brokers(release);
        let why = cluster(&brokers).await.produce("clicks", 0, &records).await.unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::Config(text) if text.contains("headers")), "{why}");
        assert_eq!(brokers.request_count(ApiKey::PRODUCE), 0);
    }
    let why = cluster(&brokers(Release::LATEST)).await.produce("clicks", 0, &[]).await.unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::Config(_)), "{why}");
}

#[tokio::test(start_paused = true)]
async fn o7_what_is_refused_says_where_and_is_not_sent_again() {
    let brokers = brokers(Release::LATEST);
    let cluster = cluster(&brokers).await;
    brokers.inject(Fault::error(ErrorCode::MESSAGE_TOO_LARGE).on(ApiKey::PRODUCE).once());
    let why = cluster.produce("clicks", 1, &[NewRecord::value(b"v")]).await.unwrap_err();
    assert_eq!(why.code(), Some(ErrorCode::MESSAGE_TOO_LARGE));
    assert_eq!(
        (why.topic(), why.partition(), why.broker()),
        (Some("clicks"), Some(1), Some("broker-2:9092"))
    );
    assert_eq!(why.api().map(|(api, _)| api), Some(ApiKey::PRODUCE));
    assert_eq!(brokers.request_count(ApiKey::PRODUCE), 1);
}

#[tokio::test(start_paused = true)]
async fn case_56_records_go_to_the_topic_that_was_made_anew() {
    for release in [Release::V2_8, Release::V4_0, Release::V4_4] {
        let brokers = brokers(release);
        let cluster = cluster(&brokers).await;
        assert_eq!(cluster.produce("clicks", 0, &[NewRecord::value(b"a")]).await.unwrap(), 0);
        brokers.create_topic("clicks", 3);
        assert_eq!(cluster.produce("clicks", 0, &[NewRecord::value(b"b")]).await.unwrap(), 0, "{release}");
    }
}
