//! Fetch sessions (KIP-227): what a broker remembers between the fetches of one client, so that
//! neither names again what has not changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::random::Random;
use crate::protocol::{ErrorCode, FetchPartition, FetchRequest, FetchedPartition};
use crate::wire::Uuid;

/// A session unused for this long makes room for another one
/// (`min.incremental.fetch.session.eviction.ms`).
const EVICTION: Duration = Duration::from_secs(120);

/// A partition that a client wants to be read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// `None` while nothing is known by the id.
    pub(crate) topic: Option<Arc<str>>,
    /// Zero where topics are told by name.
    pub(crate) topic_id: Uuid,
    pub(crate) asked: FetchPartition,
}

/// The sessions of one broker.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: usize,
    ids: Random,
    by_id: BTreeMap<i32, Session>,
}

#[derive(Debug)]
struct Session {
    /// What the next request must carry.
    epoch: i32,
    uses_ids: bool,
    used: Duration,
    partitions: BTreeMap<Key, Cached>,
    /// Whose turn it is: what had records goes to the end.
    turns: BTreeMap<u64, Key>,
    next_turn: u64,
}

/// Id, name where there is no id, partition.
type Key = (Uuid, Arc<str>, i32);

#[derive(Debug)]
struct Cached {
    wanted: Wanted,
    turn: u64,
    /// High watermark and log start that the client was told last.
    told: Option<(i64, i64)>,
}

/// What a fetch is about.
#[derive(Debug)]
pub(crate) enum Context {
    /// What the request names; a session is opened with it if there is `room_for` one.
    Full { wanted: Vec<Wanted>, open: bool, uses_ids: bool },
    /// All of a session that is at this epoch.
    Incremental { session: i32, epoch: i32 },
}

impl Sessions {
    pub(crate) fn new(node: i32, slots: usize) -> Self {
        Sessions { slots, ids: Random::new(node as u64), by_id: BTreeMap::new() }
    }

    /// Forgets all of them, as a restart does.
    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Takes a request in: closes, checks and changes the session that it names.
    pub(crate) fn begin(
        &mut self,
        request: &FetchRequest,
        version: i16,
        now: Duration,
        name_of: impl Fn(Uuid) -> Option<Arc<str>>,
    ) -> Result<Context, ErrorCode> {
        let uses_ids = version >= 13;
        let wanted = |topic: &str, topic_id: Uuid, asked: &FetchPartition| Wanted {
            topic: if uses_ids { name_of(topic_id) } else { Some(Arc::from(topic)) },
            topic_id: if uses_ids { topic_id } else { Uuid::ZERO },
            asked: asked.clone(),
        };
        let named = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|asked| wanted(&topic.topic, topic.topic_id, asked))
        });
        let (id, epoch) = (request.session_id, request.session_epoch);
        if version < 7 || epoch <= 0 {
            if id != 0 {
                self.by_id.remove(&id);
            }
            return Ok(Context::Full { wanted: named.collect(), open: version >= 7 && epoch == 0, uses_ids });
        }
        let session = self.by_id.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.uses_ids != uses_ids {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.used = now;
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        for wanted in named {
            session.want(wanted);
        }
        for topic in &request.forgotten_topics_data {
            for partition in &topic.partitions {
                session.forget(&key(
                    &topic.topic,
                    if uses_ids { topic.topic_id } else { Uuid::ZERO },
                    *partition,
                ));
            }
        }
        for cached in session.partitions.values_mut().filter(|cached| cached.wanted.topic.is_none()) {
            cached.wanted.topic = name_of(cached.wanted.topic_id);
        }
        if session.partitions.is_empty() {
            // Nothing is left in it: that closes it.
            self.by_id.remove(&id);
            return Ok(Context::Full { wanted: Vec::new(), open: false, uses_ids });
        }
        Ok(Context::Incremental { session: id, epoch: session.epoch })
    }

    /// What is to be read, in the order of turns; `None` if the session has gone on meanwhile.
    pub(crate) fn wanted<'a>(&'a self, context: &'a Context) -> Option<Vec<&'a Wanted>> {
        match context {
            Context::Full { wanted, .. } => Some(wanted.iter().collect()),
            Context::Incremental { session, epoch } => {
                let session = self.by_id.get(session).filter(|session| session.epoch == *epoch)?;
                let by_turn = session.turns.values().filter_map(|key| session.partitions.get(key));
                Some(by_turn.map(|cached| &cached.wanted).collect())
            }
        }
    }

    /// Opens the session that was asked for, or goes on with it: gives its id, 0 for none, and what
    /// of the answer the client has to be told.
    pub(crate) fn end(
        &mut self,
        context: Context,
        mut fetched: Vec<(Wanted, FetchedPartition)>,
        now: Duration,
    ) -> (i32, Vec<(Wanted, FetchedPartition)>) {
        match context {
            Context::Full { open: false, .. } => (0, fetched),
            Context::Full { open: true, uses_ids, .. } => {
                if fetched.is_empty() || !self.make_room(now) {
                    return (0, fetched);
                }
                let mut session = Session::new(uses_ids, now);
                for (wanted, told) in &fetched {
                    session.want(wanted.clone());
                    session.tell(wanted, told);
                }
                let id = self.new_id();
                self.by_id.insert(id, session);
                (id, fetched)
            }
            Context::Incremental { session: id, .. } => {
                let Some(session) = self.by_id.get_mut(&id) else { return (id, fetched) };
                session.used = now;
                fetched.retain(|(wanted, told)| session.tell(wanted, told));
                (id, fetched)
            }
        }
    }

    fn make_room(&mut self, now: Duration) -> bool {
        if self.by_id.len() < self.slots {
            return true;
        }
        let oldest = self.by_id.iter().min_by_key(|(_, session)| session.used);
        let oldest = oldest.filter(|(_, session)| now.saturating_sub(session.used) > EVICTION);
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        self.by_id.remove(&id).is_some()
    }

    /// Any number will do that is not in use, as long as two brokers do not count alike.
    fn new_id(&mut self) -> i32 {
        loop {
            let id = (self.ids.next() >> 33) as i32;
            if id != 0 && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

impl Session {
    fn new(uses_ids: bool, used: Duration) -> Self {
        let (partitions, turns) = (BTreeMap::new(), BTreeMap::new());
        Session { epoch: 1, uses_ids, used, partitions, turns, next_turn: 0 }
    }

    /// Adds a partition, or changes what is asked of it.
    fn want(&mut self, wanted: Wanted) {
        let key = key_of(&wanted);
        match self.partitions.get_mut(&key) {
            Some(cached) => cached.wanted = wanted,
            None => {
                self.turns.insert(self.next_turn, key.clone());
                self.partitions.insert(key, Cached { wanted, turn: self.next_turn, told: None });
                self.next_turn += 1;
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(cached) = self.partitions.remove(key) {
            self.turns.remove(&cached.turn);
        }
    }

    /// Whether the client has to be told: of records, errors, and anything that it was not told yet.
    fn tell(&mut self, wanted: &Wanted, told: &FetchedPartition) -> bool {
        let key = key_of(wanted);
        let Some(cached) = self.partitions.get_mut(&key) else { return false };
        let news = (told.high_watermark, told.log_start_offset);
        let has_records = told.records.as_ref().is_some_and(|records| !records.is_empty());
        let failed = told.error_code.is_err();
        let is_news = has_records || failed || told.preferred_read_replica >= 0 || cached.told != Some(news);
        // After an error the client hears of the partition again in any case.
        cached.told = (!failed).then_some(news);
        if has_records {
            self.turns.remove(&cached.turn);
            cached.turn = self.next_turn;
            self.turns.insert(self.next_turn, key);
            self.next_turn += 1;
        }
        is_news
    }
}

fn key_of(wanted: &Wanted) -> Key {
    let by_name = wanted.topic.as_deref().filter(|_| wanted.topic_id.is_zero());
    key(by_name.unwrap_or_default(), wanted.topic_id, wanted.asked.partition)
}

fn key(topic: &str, topic_id: Uuid, partition: i32) -> Key {
    (topic_id, if topic_id.is_zero() { Arc::from(topic) } else { Arc::from("") }, partition)
}
