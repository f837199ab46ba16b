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
