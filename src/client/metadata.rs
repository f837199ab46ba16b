use std::collections::HashMap;
use std::sync::PoisonError;

use super::simple_consumer::SimpleConsumer;
use crate::discovery::{LAST_THAT_CREATES, Metadata, TopicMetadata, about, about_all, unknown_topic};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ErrorCode, MetadataRequest, MetadataResponse, Request, Versions};
use crate::wire::Uuid;

/// Ids of topics seen so far.
pub(super) type TopicIds = HashMap<String, Uuid>;

impl SimpleConsumer {
    /// Brokers, and the topics named. None is created: brokers that would create what they are asked
    /// about (before 0.11) are asked for all topics.
    pub async fn metadata(&self, topics: &[&str]) -> Result<Metadata> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about(topics, version))).await?;
        let mut metadata = self.understand(exchange.version, exchange.response, Some(topics))?;
        let unknown = |topic: &TopicMetadata| matches!(topic.error.as_ref().map(Error::kind), Some(ErrorKind::UnknownTopic { near }) if near.is_empty());
        if exchange.version > LAST_THAT_CREATES && metadata.topics.iter().any(unknown) {
            // The answer holds the topics asked for alone. A failure here changes nothing about it.
            if let Ok(all) = self.all_topics().await {
                for topic in metadata.topics.iter_mut().filter(|topic| unknown(topic)) {
                    let error =
                        unknown_topic(&topic.name, all.topics.iter().map(|topic| topic.name.as_str()));
                    topic.error = Some(error.with_broker(self.broker()));
                }
            }
        }
        for topic in &mut metadata.topics {
            topic.error = topic.error.take().map(|why| self.blame(why));
        }
        Ok(metadata)
    }

    /// Brokers and all topics.
    pub async fn all_topics(&self) -> Result<Metadata> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about_all(version))).await?;
        self.understand(exchange.version, exchange.response, None)
    }

    fn understand(
        &self,
        version: i16,
        response: MetadataResponse,
        wanted: Option<&[&str]>,
    ) -> Result<Metadata> {
        if !response.error_code.is_err() {
            self.learn_ids(&response);
        }
        Metadata::understand(version, response, wanted, self.broker())
    }

    fn learn_ids(&self, response: &MetadataResponse) {
        let mut ids = self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner);
        for topic in response.topics.iter().filter(|topic| !topic.error_code.is_err()) {
            match &topic.name {
                Some(name) if topic.topic_id.is_zero() => drop(ids.remove(name)),
                Some(name) => drop(ids.insert(name.clone(), topic.topic_id)),
                None => {}
            }
        }
    }

    /// Turns an error about a partition into one that says more: which topics are near, how many
    /// partitions there are, which broker leads.
    pub(super) async fn explain(&self, why: Error) -> Error {
        let (Some(code), Some(topic), Some(partition)) =
            (why.code(), why.topic().map(str::to_owned), why.partition())
        else {
            return why;
        };
        let asks_for_more = [
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::UNKNOWN_TOPIC_ID,
            ErrorCode::INCONSISTENT_TOPIC_ID,
        ];
        if !self.inner.explains
            || !asks_for_more.contains(&code)
            || !matches!(why.kind(), ErrorKind::Broker { .. })
        {
            return why;
        }
        let Ok(metadata) = self.metadata(&[&topic]).await else { return why };
        let Some(known) = metadata.topic(&topic) else { return why };
        match &known.error {
            Some(error) if matches!(error.kind(), ErrorKind::UnknownTopic { .. }) => {
                return why.with_kind(error.kind().clone());
            }
            Some(_) => return why,
            None => {}
        }
        let Some(found) = known.partitions.iter().find(|found| found.id == partition) else {
            return why.with_kind(ErrorKind::UnknownPartition { partitions: known.partitions.len() });
        };
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION || code == ErrorCode::NOT_LEADER_OR_FOLLOWER {
            let leader = found.leader.and_then(|id| metadata.broker(id));
            return why
                .with_kind(ErrorKind::NotLeader { leader: leader.map(|broker| broker.address.to_string()) });
        }
        why
    }

    /// The ids of these topics, if all have one.
    pub(super) async fn ids_of(&self, topics: &[&str]) -> Result<Option<TopicIds>> {
        let known = || {
            let ids = self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner);
            topics.iter().map(|topic| Some(((*topic).to_owned(), *ids.get(*topic)?))).collect::<Option<_>>()
        };
        if let Some(ids) = known() {
            return Ok(Some(ids));
        }
        self.ask_for_ids(topics).await?;
        Ok(known())
    }

    async fn ask_for_ids(&self, topics: &[&str]) -> Result<()> {
        let exchange = self.ask(MetadataRequest::VERSIONS, |version| Ok(about(topics, version))).await?;
        self.understand(exchange.version, exchange.response, Some(topics)).map(drop)
    }

    /// Forgets a topic's id if the error says that there is no such topic any more.
    pub(super) fn forget_id_if(&self, error: Option<&Error>, topic: &str) {
        if let Some(ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::INCONSISTENT_TOPIC_ID) =
            error.and_then(Error::code)
        {
            self.forget_id(topic);
        }
    }

    /// Forgets the id of a topic that was made anew.
    fn forget_id(&self, topic: &str) {
        self.inner.topic_ids.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}

/// Versions that name topics, up to `last`; all of them if the ids are known.
pub(super) fn by_name_or_id(last: i16, ids: Option<&TopicIds>) -> Versions {
    Versions { min: 0, max: if ids.is_some() { i16::MAX } else { last } }
}
