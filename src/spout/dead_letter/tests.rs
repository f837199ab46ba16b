//! Against embedded brokers of every age.

use super::*;
use crate::client::{Cluster, Fetch, SimpleConsumer};
use crate::protocol::{ApiKey, ErrorCode};
use crate::records::{Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};
use crate::testing::{EmbeddedBroker, Fault, Release};

fn broker(release: Release) -> EmbeddedBroker {
    EmbeddedBroker::builder().release(release).topic("clicks", 5).topic("dead", 3).in_memory()
}

async fn cluster(broker: &EmbeddedBroker) -> Cluster {
    Cluster::builder([broker.addr()]).connector(broker.connector()).connect().await.unwrap()
}

fn letter(partition: i32, record: NewRecord<'_>) -> Letter {
    let magic = if record.headers.is_empty() { Magic::V1 } else { Magic::V2 };
    let mut set = RecordSetWriter::new(magic);
    set.push(record).unwrap();
    let set = RecordSet::new(set.finish().unwrap());
    let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
    Letter {
        topic: "clicks".into(),
        partition,
        offset: 17,
        attempts: 3,
        reason: "no".into(),
        at_ms: 1_700_000_000_000,
        record: batch.records().next().unwrap().unwrap().to_owned(),
    }
}

/// What lies in a partition of `dead`.
async fn found(broker: &EmbeddedBroker, partition: i32) -> Vec<DeadLetter> {
    let reader = SimpleConsumer::builder(broker.addr()).connector(broker.connector()).build().unwrap();
    let fetched = reader.fetch(Fetch::new("dead", partition, 0)).await.unwrap();
    let batches: Vec<_> = fetched.batches().map(Result::unwrap).collect();
    let records = batches.iter().flat_map(|batch| batch.records());
    records.map(|record| DeadLetter::read(&record.unwrap()).unwrap()).collect()
}

fn envelope() -> DeadLetters {
    DeadLetters { form: Form::Envelope, ..DeadLetters::to("dead") }
}

#[tokio::test(start_paused = true)]
async fn a_letter_lies_in_its_partition_modulo_the_count_on_every_release() {
    for release in Release::ALL {
        let broker = broker(*release);
        let cluster = cluster(&broker).await;
        let settings = if *release < Release::V0_11_0 { envelope() } else { DeadLetters::to("dead") };
        let writer = DeadLetterWriter::open(&cluster, &settings).await.unwrap();
        let record = NewRecord { key: Some(b"k"), timestamp: Some(123), ..NewRecord::value(b"v") };
        writer.write(&letter(4, record)).await.unwrap();
        writer.write(&letter(1, record)).await.unwrap();
        let found = found(&broker, 1).await;
        assert_eq!(found.iter().map(|it| it.partition).collect::<Vec<_>>(), [4, 1], "{release}");
        assert_eq!(found[0].value.as_deref(), Some(&b"v"[..]), "{release}");
        assert_eq!((found[0].timestamp, found[0].offset), (Some(123), 17), "{release}");
    }
}

#[tokio::test(start_paused = true)]
async fn before_0_11_headers_are_an_error_at_the_start_that_names_the_envelope() {
    for release in [Release::V0_8_0, Release::V0_9_0, Release::V0_10_2] {
        let broker = broker(release);
        let why =
            DeadLetterWriter::open(&cluster(&broker).await, &DeadLetters::to("dead")).await.unwrap_err();
        assert!(why.to_string().contains("Form::Envelope"), "{release}: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_topic_is_an_error_at_the_start_unless_it_is_to_be_created() {
    for release in [Release::V0_8_2, Release::V0_10_2, Release::V2_8, Release::LATEST] {
        let broker = broker(release);
        let cluster = cluster(&broker).await;
        let wanted = DeadLetters { topic: "deat".into(), ..envelope() };
        let why = DeadLetterWriter::open(&cluster, &wanted).await.unwrap_err().to_string();
        assert!(why.contains("no such topic") && why.contains("dead"), "{release}: {why}");
        let wanted = DeadLetters { create: true, ..wanted };
        let writer = DeadLetterWriter::open(&cluster, &wanted).await.unwrap();
        writer.write(&letter(4, NewRecord::value(b"v"))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn brokers_that_create_nothing_are_named_with_the_way_out() {
    for release in [Release::V0_9_0, Release::LATEST] {
        let broker =
            EmbeddedBroker::builder().release(release).topic("t", 1).auto_create_topics(false).in_memory();
        let wanted = DeadLetters { create: true, ..envelope() };
        let why = DeadLetterWriter::open(&cluster(&broker).await, &wanted).await.unwrap_err().to_string();
        assert!(why.contains("auto.create.topics.enable") && why.contains("kafka-topics"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_write_hears_it_at_the_start() {
    let broker = broker(Release::V1_1);
    let cluster = cluster(&broker).await;
    broker.inject(Fault::error(ErrorCode::TOPIC_AUTHORIZATION_FAILED).on(ApiKey::PRODUCE));
    let why = DeadLetterWriter::open(&cluster, &DeadLetters::to("dead")).await.unwrap_err();
    assert_eq!(why.code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    assert_eq!(why.topic(), Some("dead"));
}

#[tokio::test(start_paused = true)]
async fn looking_whether_it_may_write_leaves_nothing_in_the_topic() {
    for release in Release::ALL {
        let broker = broker(*release);
        let settings = if *release < Release::V0_11_0 { envelope() } else { DeadLetters::to("dead") };
        DeadLetterWriter::open(&cluster(&broker).await, &settings).await.unwrap();
        for partition in 0..3 {
            assert_eq!(found(&broker, partition).await, [], "{release}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pc8_13_a_refused_write_is_an_error_and_a_moved_leader_is_not() {
    let broker = broker(Release::LATEST);
    let cluster = cluster(&broker).await;
    let writer = DeadLetterWriter::open(&cluster, &DeadLetters::to("dead")).await.unwrap();
    broker.inject(Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER).on(ApiKey::PRODUCE).once());
    writer.write(&letter(0, NewRecord::value(b"v"))).await.unwrap();
    broker.inject(Fault::error(ErrorCode::INVALID_RECORD).on(ApiKey::PRODUCE).once());
    let why = writer.write(&letter(0, NewRecord::value(b"v"))).await.unwrap_err();
    assert_eq!((why.code(), why.topic()), (Some(ErrorCode::INVALID_RECORD), Some("dead")));
    assert_eq!(found(&broker, 0).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_topic_does_not_take_for_its_size_goes_by_the_policy() {
    for code in [ErrorCode::MESSAGE_TOO_LARGE, ErrorCode::RECORD_LIST_TOO_LARGE] {
        for oversize in [Oversize::Stop, Oversize::DropValue] {
            let broker = broker(Release::LATEST);
            let cluster = cluster(&broker).await;
            let settings = DeadLetters { oversize, ..DeadLetters::to("dead") };
            let writer = DeadLetterWriter::open(&cluster, &settings).await.unwrap();
            broker.inject(Fault::error(code).on(ApiKey::PRODUCE).once());
            let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
            let record = NewRecord { key: Some(b"k"), headers: &headers, ..NewRecord::value(&[7; 5000]) };
            let written = writer.write(&letter(2, record)).await;
            let found = found(&broker, 2).await;
            match oversize {
                Oversize::Stop => {
                    assert_eq!(written.unwrap_err().code(), Some(code));
                    assert_eq!(found, []);
                }
                Oversize::DropValue => {
                    written.unwrap();
                    assert_eq!((found[0].value.as_ref(), found[0].value_dropped), (None, Some(5000)));
                    assert_eq!(found[0].key.as_deref(), Some(&b"k"[..]));
                    assert_eq!(found[0].headers, [(b"h".to_vec(), None)]);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_broker_would_read_is_too_large_without_being_sent() {
    let broker = broker(Release::LATEST);
    let cluster = cluster(&broker).await;
    let settings = DeadLetters { oversize: Oversize::DropValue, ..DeadLetters::to("dead") };
    let writer = DeadLetterWriter::open(&cluster, &settings).await.unwrap();
    let large = vec![7; 100 << 20];
    writer.write(&letter(0, NewRecord::value(&large))).await.unwrap();
    assert_eq!(found(&broker, 0).await[0].value_dropped, Some(100 << 20));
    assert_eq!(broker.request_count(ApiKey::PRODUCE), 1);
}
