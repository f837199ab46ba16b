//! What a fetch asks for, as a request in the version that the broker speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::budget::Key;
use super::lanes::Poll;
use super::session::{Asked, Named, Session};
use crate::client::simple_consumer::LAST_FETCH_BY_NAME;
use crate::error::Result;
use crate::net::BrokerVersions;
use crate::protocol::{
    ApiKey, FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition, ForgottenTopic,
    Request, Versions,
};
use crate::records::Isolation;
use crate::wire::Uuid;

/// Fetch sessions begin with this version (KIP-227).
const FIRST_WITH_SESSIONS: i16 = 7;
/// So many partitions make a session worth its while.
const WORTH_A_SESSION: usize = 8;
/// The broker hands out a batch that is larger than the limit from this version on (KIP-74).
pub(super) const FIRST_BATCH_WHOLE: i16 = 3;

/// A fetch, before it is written in a version.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) poll: Poll,
    pub(super) wanted: Vec<Wanted>,
    pub(super) isolation: Isolation,
    pub(super) max_wait: Duration,
    pub(super) min_bytes: i32,
    /// Limit of the whole answer, in bytes.
    pub(super) max_bytes: usize,
    pub(super) rack: Option<String>,
}

/// A partition to fetch from.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) generation: u64,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Option<Uuid>,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) epoch: Option<i32>,
    pub(super) max_bytes: i32,
    /// Asked of a broker that does not lead it.
    pub(super) of_follower: bool,
}

/// The version of a request to speak: the newest one that both sides have, within `allowed` and what
/// the user has pinned.
pub(in crate::client) fn choose<R: Request>(
    versions: &BrokerVersions,
    pinned: &BTreeMap<ApiKey, i16>,
    allowed: Versions,
) -> Result<i16> {
    let allowed = match pinned.get(&R::KEY) {
        Some(&pinned) => {
            allowed.intersection(Versions { min: pinned, max: pinned }).unwrap_or(Versions::NONE)
        }
        None => allowed,
    };
    versions.choose_within::<R>(allowed)
}

impl Plan {
    /// The version: ids only where all topics have one.
    pub(super) fn version(&self, versions: &BrokerVersions, pinned: &BTreeMap<ApiKey, i16>) -> Result<i16> {
        let named = self.wanted.iter().any(|wanted| wanted.topic_id.is_none());
        let max = if named { LAST_FETCH_BY_NAME } else { i16::MAX };
        choose::<FetchRequest>(versions, pinned, Versions { min: 0, max })
    }

    /// The request; in a session if that pays. Says whether it is.
    pub(super) fn request(&self, version: i16, session: &mut Session) -> (FetchRequest, bool) {
        let by_id = version > LAST_FETCH_BY_NAME;
        let mut request = FetchRequest {
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.min_bytes,
            max_bytes: i32::try_from(self.max_bytes).unwrap_or(i32::MAX),
            isolation_level: i8::from(version >= 4 && self.isolation == Isolation::ReadCommitted),
            rack_id: self.rack.clone().unwrap_or_default(),
            ..FetchRequest::default()
        };
        let in_session =
            self.poll == Poll::Long && version >= FIRST_WITH_SESSIONS && self.wanted.len() >= WORTH_A_SESSION;
        if !in_session {
            request.topics = topics(self.wanted.iter());
            return (request, false);
        }
        let known: Vec<_> =
            self.wanted.iter().map(|wanted| (wanted.key, wanted.asked(), wanted.named())).collect();
        let turn = session.turn(&known, by_id);
        request.session_id = turn.id;
        request.session_epoch = turn.epoch;
        let changed: BTreeSet<Key> = turn.changed.into_iter().collect();
        request.topics = topics(self.wanted.iter().filter(|wanted| changed.contains(&wanted.key)));
        for Named { topic, id, partition } in turn.forgotten {
            match request.forgotten_topics_data.last_mut() {
                Some(last) if *last.topic == *topic && last.topic_id == id => last.partitions.push(partition),
                _ => request.forgotten_topics_data.push(ForgottenTopic {
                    topic: topic.to_string(),
                    topic_id: id,
                    partitions: vec![partition],
                }),
            }
        }
        (request, true)
    }
}

impl Wanted {
    fn asked(&self) -> Asked {
        Asked { offset: self.offset, epoch: self.epoch, max_bytes: self.max_bytes }
    }

    fn named(&self) -> Named {
        Named {
            topic: Arc::clone(&self.topic),
            id: self.topic_id.unwrap_or_default(),
            partition: self.partition,
        }
    }
}

/// Partitions in the order of their turns; neighbours of one topic share an entry.
fn topics<'a>(wanted: impl Iterator<Item = &'a Wanted>) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    for wanted in wanted {
        let partition = FetchPartition {
            partition: wanted.partition,
            current_leader_epoch: wanted.epoch.unwrap_or(-1),
            fetch_offset: wanted.offset,
            partition_max_bytes: wanted.max_bytes,
            ..FetchPartition::default()
        };
        match topics.last_mut() {
            Some(last) if *last.topic == *wanted.topic => last.partitions.push(partition),
            _ => topics.push(FetchTopic {
                topic: wanted.topic.to_string(),
                topic_id: wanted.topic_id.unwrap_or_default(),
                partitions: vec![partition],
            }),
        }
    }
    topics
}

/// The parts of an answer, to be looked up: they may be missing, doubled, or not asked for.
pub(super) struct Parts(BTreeMap<(Name, i32), FetchedPartition>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Text(String),
    Id([u8; 16]),
}

impl Parts {
    pub(super) fn new(version: i16, response: &mut FetchResponse) -> Self {
        let mut parts = BTreeMap::new();
        for topic in std::mem::take(&mut response.responses) {
            for partition in topic.partitions {
                let name = match version {
                    ..=LAST_FETCH_BY_NAME => Name::Text(topic.topic.clone()),
                    _ => Name::Id(topic.topic_id.0),
                };
                parts.entry((name, partition.partition_index)).or_insert(partition);
            }
        }
        Parts(parts)
    }

    pub(super) fn take(&mut self, version: i16, wanted: &Wanted) -> Option<FetchedPartition> {
        let name = match version {
            ..=LAST_FETCH_BY_NAME => Name::Text(wanted.topic.to_string()),
            _ => Name::Id(wanted.topic_id.unwrap_or_default().0),
        };
        self.0.remove(&(name, wanted.partition))
    }
}
