//! What is asked of a dead-letter topic before the first record goes there.

use std::time::Duration;

use bytes::Bytes;

use super::{DeadLetters, Form};
use crate::client::{Cluster, SimpleConsumer};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{
    ErrorCode, MetadataRequest, MetadataRequestTopic, MetadataTopic, ProducePartition, ProduceRequest,
    ProduceTopic, Versions,
};

/// How long a topic may take to come, and to have leaders.
const CREATION: Duration = Duration::from_secs(15);

pub(super) async fn ready(cluster: &Cluster, settings: &DeadLetters) -> Result<()> {
    let topic = settings.topic.as_str();
    match cluster.partitions(topic).await {
        Err(why) if matches!(why.kind(), ErrorKind::UnknownTopic { .. }) => {
            if !settings.create {
                tracing::error!(
                    topic,
                    "the topic for dead letters does not exist: create it, or have it created (DeadLetters::create, --dead-letter-create)"
                );
                return Err(why.with_topic(topic));
            }
            create(cluster, topic).await?;
        }
        found => drop(found?),
    }
    cluster.wait_for_topic(topic, CREATION).await?;
    let leader = cluster.consumer(cluster.leader(topic, 0).await?.id)?;
    check_form(&leader, topic, settings.form).await?;
    check_writable(&leader, topic).await
}

/// Has a broker create the topic the one way that all releases have: by asking for it where
/// `auto.create.topics.enable` holds. It gets the brokers' own number of partitions and replicas.
async fn create(cluster: &Cluster, topic: &str) -> Result<()> {
    let mut brokers = cluster.brokers();
    if brokers.is_empty() {
        // 0.8.0 and 0.8.1 name only brokers with a part in the topics asked for.
        brokers = cluster.all_topics().await?.brokers.into_iter().map(|broker| (broker.id, broker)).collect();
    }
    let Some(broker) = brokers.keys().next() else {
        return Err(Error::config("no broker is known that could create the topic").with_topic(topic));
    };
    let asked = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![asked]),
        allow_auto_topic_creation: true,
        ..MetadataRequest::default()
    };
    let answer = cluster.consumer(*broker)?.send(request).await?;
    let code = answer.topics.iter().map(|topic| topic.error_code).find(|code| code.is_err());
    match code {
        // It is on its way; under KRaft, and where topics are not created, the answer is the same.
        None | Some(ErrorCode::LEADER_NOT_AVAILABLE | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {}
        Some(code) => return Err(Error::broker_code(code).with_topic(topic)),
    }
    tracing::info!(topic, "the dead-letter topic does not exist; the brokers were asked to create it");
    cluster.wait_for_topic(topic, CREATION).await.map(drop).map_err(|why| match why.kind() {
        ErrorKind::UnknownTopic { .. } => Error::config(
            "the dead-letter topic does not exist, and the brokers do not create it when they are asked for it (auto.create.topics.enable): create it with kafka-topics --create",
        )
        .with_topic(topic),
        _ => why,
    })
}

/// Headers need message format 2.
async fn check_form(leader: &SimpleConsumer, topic: &str, form: Form) -> Result<()> {
    /// The first version of Produce that carries it (0.11, KIP-98).
    const WITH_HEADERS: i16 = 3;
    let newest = leader.versions().await?.choose::<ProduceRequest>()?;
    if form == Form::Headers && newest < WITH_HEADERS {
        let why = "the broker's message format has no headers (it is older than 0.11): have dead letters written in the JSON envelope instead (Form::Envelope)";
        return Err(Error::config(why).with_topic(topic).with_broker(leader.broker()));
    }
    Ok(())
}

/// Whether this client may write to the topic, as far as that shows without writing: from 2.3 on the
/// broker tells (KIP-430); up to 3.9 it may be asked to append nothing.
async fn check_writable(leader: &SimpleConsumer, topic: &str) -> Result<()> {
    const TELLS: Versions = Versions { min: 8, max: i16::MAX };
    /// The versions that take a set of nothing.
    const TAKES_NOTHING: Versions = Versions { min: 0, max: 2 };
    let versions = leader.versions().await?;
    let denied = |code| Error::broker_code(code).with_topic(topic).with_broker(leader.broker());
    if let Ok(version) = versions.choose_within::<MetadataRequest>(TELLS) {
        let asked = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![asked]),
            allow_auto_topic_creation: false,
            include_topic_authorized_operations: true,
            ..MetadataRequest::default()
        };
        let answer = leader.send_version(request, version).await?;
        let may_write = answer.topics.iter().all(may_write);
        return if may_write { Ok(()) } else { Err(denied(ErrorCode::TOPIC_AUTHORIZATION_FAILED)) };
    }
    if let Ok(version) = versions.choose_within::<ProduceRequest>(TAKES_NOTHING) {
        let nothing = ProducePartition { index: 0, records: Some(Bytes::new()) };
        let topic_data =
            ProduceTopic { name: topic.to_owned(), partition_data: vec![nothing], ..ProduceTopic::default() };
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 10_000,
            topic_data: vec![topic_data],
            ..ProduceRequest::default()
        };
        let answer = leader.send_version(request, version).await?;
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        if partitions.any(|answer| answer.error_code == ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
            return Err(denied(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        }
    }
    Ok(())
}

fn may_write(topic: &MetadataTopic) -> bool {
    /// What a broker answers that does not tell.
    const UNKNOWN: i32 = i32::MIN;
    /// Kafka's `AclOperation.WRITE`.
    const WRITE: i32 = 1 << 4;
    let operations = topic.topic_authorized_operations;
    topic.error_code != ErrorCode::TOPIC_AUTHORIZATION_FAILED
        && (operations == UNKNOWN || operations & WRITE != 0)
}
