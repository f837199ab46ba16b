use super::*;

/// Records at 0–1, 2–3 and 4–5 in three segments, with timestamps 1000, 1001, … where there are any.
fn segments(release: Release) -> Arc<EmbeddedBroker> {
    let broker = broker(release);
    for first in [1000, 2000, 3000] {
        let mut writer = RecordSetWriter::new(magic(release));
        for time in [first, first + 1] {
            let timestamp = (magic(release) != Magic::V0).then_some(time);
            writer.push(NewRecord { timestamp, ..NewRecord::value(b"v") }).unwrap();
        }
        broker.append("clicks", 0, &writer.finish().unwrap()).unwrap();
        broker.with(|cluster| cluster.roll("clicks", 0)).unwrap();
    }
    broker
}

#[tokio::test(start_paused = true)]
async fn earliest_and_latest_on_every_release() {
    for release in Release::ALL {
        let broker = segments(*release);
        broker.with(|cluster| cluster.delete_before("clicks", 0, 2)).unwrap();
        let consumer = consumer(&broker).await;
        assert_eq!(consumer.earliest_offset("clicks", 0).await.unwrap(), 2, "{release:?}");
        assert_eq!(consumer.latest_offset("clicks", 0).await.unwrap(), 6, "{release:?}");
        assert_eq!(consumer.earliest_offset("clicks", 1).await.unwrap(), 0, "{release:?}");
        assert_eq!(consumer.latest_offset("clicks", 1).await.unwrap(), 0, "{release:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn by_time_the_first_record_that_is_not_older() {
    for release in Release::ALL.iter().filter(|release| **release >= Release::V0_10_2) {
        let consumer = consumer(&segments(*release)).await;
        for (time, offset) in [(0, Some(0)), (1001, Some(1)), (1500, Some(2)), (3001, Some(5)), (3002, None)]
        {
            let found = consumer.offset_for_time("clicks", 0, time).await.unwrap();
            assert_eq!(found, offset, "{release:?} at {time}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_59_by_time_before_0_10_1_older_than_every_segment_means_the_start() {
    for release in [Release::V0_8_0, Release::V0_8_2, Release::V0_9_0, Release::V0_10_0] {
        let consumer = consumer(&segments(release)).await;
        assert_eq!(consumer.offset_for_time("clicks", 0, 1).await.unwrap(), Some(0), "{release:?}");
        assert_eq!(consumer.offset_for_time("clicks", 0, i64::MAX).await.unwrap(), Some(6), "{release:?}");
        assert!(consumer.offset_for_time("clicks", 0, -1).await.is_err(), "−1 would mean the end");
    }
}

#[tokio::test(start_paused = true)]
async fn case_59_offsets_before_are_segments_up_to_3_9_and_ends_after() {
    for release in Release::ALL {
        let consumer = consumer(&segments(*release)).await;
        let before = async |spec, most| consumer.offsets_before("clicks", 0, spec, most).await.unwrap();
        assert_eq!(before(OffsetSpec::Earliest, 9).await, [0], "{release:?}");
        assert_eq!(before(OffsetSpec::Latest, 1).await, [6], "{release:?}");
        if *release < Release::V4_0 {
            assert_eq!(before(OffsetSpec::Latest, 3).await, [6, 4, 2], "{release:?}");
            assert!(before(OffsetSpec::Timestamp(1), 9).await.is_empty());
        } else {
            assert_eq!(before(OffsetSpec::Latest, 3).await, [6, 0], "{release:?}");
            assert_eq!(before(OffsetSpec::Timestamp(2000), 9).await, [2, 0]);
            assert_eq!(before(OffsetSpec::Timestamp(9999), 9).await, [6, 0]);
        }
        assert!(consumer.offsets_before("clicks", 0, OffsetSpec::MaxTimestamp, 1).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn special_timestamps_where_the_broker_has_them_and_both_ranges_where_not() {
    let latest = consumer(&segments(Release::V4_4)).await;
    let wanted = [("clicks", 0, OffsetSpec::MaxTimestamp), ("clicks", 1, OffsetSpec::MaxTimestamp)];
    let listed = latest.list_offsets(&wanted).await.unwrap();
    assert_eq!((listed[0].offset, listed[0].timestamp), (Some(5), Some(3001)));
    assert_eq!((listed[1].offset, listed[1].timestamp), (None, None), "an empty log");
    for spec in [OffsetSpec::EarliestLocal, OffsetSpec::LatestTiered, OffsetSpec::EarliestPendingUpload] {
        let listed = latest.list_offsets(&[("clicks", 0, spec)]).await.unwrap();
        assert!(listed[0].error.is_none(), "{spec:?}: {:?}", listed[0]);
    }
    let old = consumer(&segments(Release::V2_4)).await;
    let error = old.list_offsets(&wanted).await.unwrap_err();
    assert!(error.to_string().contains("this client speaks 7–11, the broker 0–5"), "{error}");
    let older = consumer(&segments(Release::V0_8_0)).await;
    assert!(older.list_offsets(&wanted).await.is_err());
    assert!(older.earliest_offset("clicks", 0).await.is_ok(), "nothing was sent, the connection lives");
}

#[tokio::test(start_paused = true)]
async fn case_60_a_partition_may_be_asked_about_twice() {
    for release in [Release::V0_8_0, Release::V2_4, Release::V4_4] {
        let broker = segments(release);
        let consumer = consumer(&broker).await;
        let wanted = [
            ("clicks", 0, OffsetSpec::Latest),
            ("clicks", 0, OffsetSpec::Earliest),
            ("clicks", 1, OffsetSpec::Latest),
            ("clicks", 0, OffsetSpec::Latest),
        ];
        let before = broker.request_count(ApiKey::LIST_OFFSETS);
        let listed = consumer.list_offsets(&wanted).await.unwrap();
        let offsets: Vec<_> = listed.iter().map(|listed| listed.offset.unwrap()).collect();
        assert_eq!(offsets, [6, 0, 0, 6], "{release:?}");
        assert_eq!(broker.request_count(ApiKey::LIST_OFFSETS) - before, 3, "one per mention of a partition");
    }
}

#[tokio::test(start_paused = true)]
async fn no_partition_is_no_request() {
    let consumer = consumer(&broker(Release::V4_4)).await;
    assert!(consumer.list_offsets(&[]).await.unwrap().is_empty());
}
