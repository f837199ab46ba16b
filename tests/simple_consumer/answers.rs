//! Answers that other clients stumbled over: rewritten on their way, field by field.

use downspout::records::Codec;
use downspout::testing::Fault;

use super::*;

/// Changes every answer to `R`, which the consumer must have pinned to `version`.
fn rewrite<R: Request>(version: i16, mut change: impl FnMut(&mut R::Response) + Send + 'static) -> Fault {
    Fault::rewrite(move |answer| {
        let frame = Bytes::copy_from_slice(&answer[4..]);
        let (id, mut response) = decode_response::<R>(&frame, version).unwrap();
        change(&mut response);
        *answer = encode_response::<R>(&response, version, id).unwrap().to_vec();
    })
    .on(R::KEY)
}

#[tokio::test(start_paused = true)]
async fn case_39_zstd_is_read_at_any_version_of_fetch() {
    let broker = broker(Release::V2_1);
    let mut writer = RecordSetWriter::new(Magic::V2).codec(Codec::Zstd);
    writer.push(NewRecord::value(b"a")).unwrap();
    broker.with(|cluster| cluster.store("clicks", 0, &writer.finish().unwrap())).unwrap();
    for version in 4..=10 {
        let consumer = builder(&broker).pin(ApiKey::FETCH, version).connect().await.unwrap();
        let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
        assert_eq!(records(&fetched), [(0, "a".into())], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_39_b6_a_codec_that_the_version_cannot_carry_is_explained() {
    let broker = broker(Release::V2_1);
    broker.append("clicks", 0, &set(Magic::V2, &["a"])).unwrap();
    broker.inject(Fault::error(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE).on(ApiKey::FETCH));
    let consumer = builder(&broker).pin(ApiKey::FETCH, 4).connect().await.unwrap();
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap();
    let error = fetched.partitions()[0].error().unwrap();
    assert_eq!(error.code(), Some(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE));
    let text = error.to_string();
    assert!(text.contains("UNSUPPORTED_COMPRESSION_TYPE") && text.contains("Fetch"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn case_53_a_replica_that_is_down_leaves_the_partition_usable() {
    let broker = broker(Release::V0_9_0);
    broker.append("clicks", 0, &set(Magic::V0, &["a"])).unwrap();
    broker.inject(rewrite::<MetadataRequest>(0, |response| {
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.error_code = ErrorCode::REPLICA_NOT_AVAILABLE;
        }
    }));
    let consumer = builder(&broker).assume_release(LegacyRelease::V0_9).connect().await.unwrap();
    let metadata = consumer.metadata(&["clicks"]).await.unwrap();
    let partition = &metadata.topics[0].partitions[0];
    assert_eq!((partition.error, partition.leader.is_some()), (None, true));
    assert_eq!(records(&consumer.fetch(Fetch::new("clicks", 0, 0)).await.unwrap()), [(0, "a".into())]);
}

#[tokio::test(start_paused = true)]
async fn case_55_a_leader_that_the_broker_list_lacks_is_no_leader() {
    let broker = broker(Release::V2_4);
    broker.inject(rewrite::<MetadataRequest>(9, |response| {
        response.topics[0].partitions[0].leader_id = 99;
    }));
    let consumer = builder(&broker).pin(ApiKey::METADATA, 9).connect().await.unwrap();
    let metadata = consumer.metadata(&["clicks"]).await.unwrap();
    assert_eq!(metadata.topics[0].partitions[0].leader, None);
    assert!(metadata.leader("clicks", 0).is_none() && metadata.leader("clicks", 1).is_some());
}

#[tokio::test(start_paused = true)]
async fn case_61_the_offset_of_the_largest_timestamp_is_given_as_told_with_its_time_apart() {
    let broker = broker(Release::V3_3);
    broker.append("clicks", 0, &set(Magic::V2, &["a", "b"])).unwrap();
    // Some 3.x brokers give the last offset of a compressed batch beside the time of another record.
    broker.inject(rewrite::<ListOffsetsRequest>(7, |response| {
        let partition = &mut response.topics[0].partitions[0];
        (partition.offset, partition.timestamp) = (1, 1000);
    }));
    let consumer = builder(&broker).pin(ApiKey::LIST_OFFSETS, 7).connect().await.unwrap();
    let listed = consumer.list_offsets(&[("clicks", 0, OffsetSpec::MaxTimestamp)]).await.unwrap();
    assert_eq!((listed[0].offset, listed[0].timestamp), (Some(1), Some(1000)));
    let fetched = consumer.fetch(Fetch::new("clicks", 0, 1)).await.unwrap();
    let batch = fetched.batches().next().unwrap().unwrap();
    let record = batch.records().next().unwrap().unwrap();
    assert_ne!(record.timestamp(), Some(1000), "a record has the time that it carries itself");
}

#[tokio::test(start_paused = true)]
async fn case_79_partitions_are_looked_up_and_not_taken_by_their_place() {
    let broker = broker(Release::V2_4);
    broker.append("clicks", 0, &set(Magic::V2, &["zero"])).unwrap();
    broker.append("clicks", 1, &set(Magic::V2, &["one"])).unwrap();
    let fetch = || Fetch::new("clicks", 0, 0).and("clicks", 1, 0);
    broker.inject(
        rewrite::<FetchRequest>(11, |response| {
            let topic = response.responses[0].clone();
            response.responses = topic
                .partitions
                .iter()
                .rev()
                .map(|partition| FetchedTopic { partitions: vec![partition.clone()], ..topic.clone() })
                .collect();
            // And one that nobody asked for.
            let mut stray = topic;
            stray.partitions.truncate(1);
            stray.partitions[0].partition_index = 7;
            response.responses.insert(0, stray);
        })
        .once(),
    );
    let consumer = builder(&broker).pin(ApiKey::FETCH, 11).connect().await.unwrap();
    let fetched = consumer.fetch(fetch()).await.unwrap();
    assert_eq!(records(&fetched), [(0, "zero".into()), (0, "one".into())]);

    broker
        .inject(rewrite::<FetchRequest>(11, |response| response.responses[0].partitions.truncate(1)).once());
    let fetched = consumer.fetch(fetch()).await.unwrap();
    let (zero, one) = (&fetched.partitions()[0], &fetched.partitions()[1]);
    assert!(zero.error().is_none() && matches!(one.error().unwrap().kind(), ErrorKind::Incomplete(_)));
    assert_eq!(one.next_offset(), 0, "what is missing is asked for again");
}
