//! What all handles of a cluster, and the engines that read from it, have in common: the picture of
//! the cluster and the connections to its brokers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{Instant, timeout_at};

use super::Settings;
use super::picture::{Picture, TopicState};
use crate::client::metadata::TopicIds;
use crate::client::{Coordinator, SimpleConsumer};
use crate::discovery::{
    BrokerInfo, BrokerReader, Metadata, TopicMetadata, TopicSelection, near_names, unknown_topic,
};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Backoff, BrokerAddress, Connection, Identity, Links};
use crate::protocol::ErrorCode;

/// Between reads of the metadata, while nothing changes.
const BETWEEN_READS: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };

/// Between reads that begin at the bootstrap addresses anew, each time in vain.
const BETWEEN_RESTARTS: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    reader: Arc<dyn BrokerReader>,
    links: Arc<Links>,
    picture: watch::Sender<Arc<Picture>>,
    topics: Mutex<Topics>,
    /// Whoever reads metadata holds this.
    reading: AsyncMutex<Reading>,
    /// Reads that have ended, well or not.
    ended_reads: AtomicU64,
    is_closed: AtomicBool,
    pub(super) coordinators: Mutex<BTreeMap<String, Coordinator>>,
    topic_ids: Arc<Mutex<TopicIds>>,
}

/// Topics that the picture holds.
#[derive(Debug, Default)]
struct Topics {
    /// How many want each.
    wanted: BTreeMap<String, usize>,
    /// When each was used last by a call that wants it for a moment.
    used: BTreeMap<String, Instant>,
    /// Missing ones for which near names were looked up.
    looked_up: BTreeSet<String>,
}

#[derive(Debug)]
struct Reading {
    /// When the next read may begin.
    not_before: Instant,
    /// Reads in a row that changed nothing.
    in_vain: u32,
    /// The topics of the last read.
    asked: BTreeSet<String>,
    /// When the first read began that failed since the last one that did not.
    failing_since: Option<Instant>,
    restarted_at: Option<Instant>,
    /// The last failure, and which read it was.
    failed: Option<(u64, Error)>,
}

impl Shared {
    pub(super) fn new(settings: Settings, reader: Arc<dyn BrokerReader>, links: Arc<Links>) -> Self {
        let now = Instant::now();
        let reading = Reading {
            not_before: now,
            in_vain: 0,
            asked: BTreeSet::new(),
            failing_since: None,
            restarted_at: None,
            failed: None,
        };
        Shared {
            settings,
            reader,
            links,
            picture: watch::Sender::new(Arc::new(Picture::empty(now))),
            topics: Mutex::default(),
            reading: AsyncMutex::new(reading),
            ended_reads: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            coordinators: Mutex::default(),
            topic_ids: Arc::default(),
        }
    }

    /// The picture of the cluster now: an `Arc` cloned under a short lock.
    pub(crate) fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.picture.borrow())
    }

    /// A picture with a serial above `seen`, not older than the metadata's age.
    ///
    /// One read is under way at a time, whoever wants it; between reads that change nothing it waits,
    /// 100 ms at first and 10 s at last. A topic that is wanted anew need not wait. Dropping the
    /// future is fine: another caller's goes on.
    pub(crate) async fn refresh(&self, seen: u64) -> Result<Arc<Picture>> {
        self.refresh_when(seen, true).await
    }

    /// Likewise, without a pause between reads: for a caller that pauses by itself.
    pub(super) async fn refresh_now(&self, seen: u64) -> Result<Arc<Picture>> {
        self.refresh_when(seen, false).await
    }

    async fn refresh_when(&self, seen: u64, pauses: bool) -> Result<Arc<Picture>> {
        let ended = self.ended_reads.load(Ordering::Acquire);
        loop {
            let mut reading = self.reading.lock().await;
            self.check_open()?;
            let picture = self.picture();
            let will_do = |picture: &Picture| {
                picture.serial > seen && picture.at.elapsed() < self.settings.metadata_max_age
            };
            if will_do(&picture) {
                return Ok(picture);
            }
            if let Some((_, why)) = reading.failed.as_ref().filter(|(read, _)| *read > ended) {
                return Err(why.clone());
            }
            let selection = self.selection();
            if pauses && reading.not_before > Instant::now() && selection.is_subset(&reading.asked) {
                let not_before = reading.not_before;
                drop(reading);
                // A hint may come first.
                let mut pictures = self.picture.subscribe();
                // The same measure as above: one that is newer and too old would turn here in circles.
                let newer = pictures.wait_for(|picture| will_do(picture) || self.check_open().is_err());
                let _ = timeout_at(not_before, newer).await;
                continue;
            }
            return self.read(&mut reading, selection).await;
        }
    }

    async fn read(&self, reading: &mut Reading, selection: BTreeSet<String>) -> Result<Arc<Picture>> {
        // After a quiet time, what was in vain then says nothing about now.
        if reading.not_before + BETWEEN_RESTARTS.longest < Instant::now() {
            reading.in_vain = 0;
        }
        // Set before the answer, in case the future is dropped.
        reading.in_vain = reading.in_vain.saturating_add(1);
        reading.not_before = Instant::now() + BETWEEN_READS.after(reading.in_vain);
        let began = Instant::now();
        let topics = TopicSelection::Named(selection);
        let mut answer = if self.links.has_met_a_stranger() {
            Err(Error::broker_code(ErrorCode::REBOOTSTRAP_REQUIRED))
        } else {
            self.reader.read(&topics).await
        };
        if let Err(why) = &answer {
            let since = *reading.failing_since.get_or_insert(began);
            if self.must_rebootstrap(reading, since, why) {
                reading.restarted_at = Some(Instant::now());
                self.rebootstrap(why);
                answer = self.reader.read(&topics).await;
            }
        }
        let result = match answer {
            Ok(metadata) => {
                reading.failing_since = None;
                if self.apply(metadata, &topics) {
                    reading.in_vain = 1;
                } else if reading.in_vain > 2 {
                    // Perhaps that broker is cut off from the others.
                    self.reader.rotate();
                }
                self.suggest(&topics).await;
                Ok(self.picture())
            }
            Err(why) => {
                tracing::warn!(error = %why, "metadata could not be read");
                Err(why)
            }
        };
        let this_read = self.ended_reads.fetch_add(1, Ordering::AcqRel) + 1;
        reading.failed = result.as_ref().err().map(|why| (this_read, why.clone()));
        let restarts_in_vain = result.is_err() && reading.restarted_at.is_some_and(|at| at >= began);
        let pauses = if restarts_in_vain { BETWEEN_RESTARTS } else { BETWEEN_READS };
        reading.not_before = Instant::now() + pauses.after(reading.in_vain);
        if let TopicSelection::Named(selection) = topics {
            reading.asked = selection;
        }
        result
    }

    /// Takes an answer over; whether it told anything new.
    fn apply(&self, mut metadata: Metadata, topics: &TopicSelection) -> bool {
        self.name_the_refused(&mut metadata);
        let now = Instant::now();
        if let TopicSelection::Named(names) = topics {
            // A reader that leaves topics out does not know them.
            let told: BTreeSet<String> = metadata.topics.iter().map(|topic| topic.name.clone()).collect();
            metadata.topics.retain(|topic| names.contains(&topic.name));
            metadata.topics.extend(names.difference(&told).map(|name| TopicMetadata {
                error: Some(unknown_topic(name, [])),
                ..TopicMetadata::new(name.as_str(), Vec::new())
            }));
        }
        let mut metadata = Some(metadata);
        let mut changed = false;
        self.picture.send_modify(|picture| {
            if let Some(metadata) = metadata.take() {
                let (next, differs) = picture.after(metadata, now);
                (*picture, changed) = (Arc::new(next), differs);
            }
        });
        self.keep_links();
        changed
    }

    /// Looks up names near to those of topics that were found missing just now.
    async fn suggest(&self, topics: &TopicSelection) {
        let TopicSelection::Named(names) = topics else { return };
        let picture = self.picture();
        let is_new = |name: &&String| matches!(picture.topic(name), Some(TopicState::Missing { near }) if near.is_empty());
        let missing: Vec<&String> = {
            let mut topics = self.topics();
            names.iter().filter(is_new).filter(|name| topics.looked_up.insert((*name).clone())).collect()
        };
        if missing.is_empty() {
            return;
        }
        // A failure here takes nothing away.
        let Ok(all) = self.reader.read(&TopicSelection::All).await else { return };
        let all: Vec<&str> = all.topics.iter().map(|topic| topic.name.as_str()).collect();
        self.picture.send_modify(|picture| {
            let mut next = Picture::clone(picture);
            for name in missing {
                next.suggest(name, near_names(name, all.iter().copied()));
            }
            *picture = Arc::new(next);
        });
    }

    /// Says who it is that may not know of a topic.
    pub(super) fn name_the_refused(&self, metadata: &mut Metadata) {
        let principal = self.settings.client.principal.as_ref();
        for topic in &mut metadata.topics {
            topic.error = topic.error.take().map(|why| why.with_principal(principal));
        }
    }

    /// Whether to begin anew: when a broker says so, or when metadata could not be read for long.
    fn must_rebootstrap(&self, reading: &Reading, failing_since: Instant, why: &Error) -> bool {
        let after = self.settings.rebootstrap_after;
        let since = reading.restarted_at.map_or(failing_since, |restarted| restarted.max(failing_since));
        why.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) || since.elapsed() >= after
    }

    /// Closes all connections and forgets the brokers (KIP-1102).
    fn rebootstrap(&self, why: &Error) {
        tracing::warn!(error = %why, "looking for the cluster anew, from the bootstrap addresses");
        self.reader.restart();
        self.coordinators().clear();
        self.picture.send_modify(|picture| *picture = Arc::new(picture.forgotten()));
        self.links.close_all(&Error::new(ErrorKind::Rebootstrap));
    }

    /// Topics whose state the picture shall hold from the next refresh on, as often as they are
    /// wanted.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) fn want_topic(&self, topic: &str) {
        *self.topics().wanted.entry(topic.to_owned()).or_default() += 1;
    }

    /// Takes one `want_topic` back.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) fn forget_topic(&self, topic: &str) {
        let mut topics = self.topics();
        if let Some(count) = topics.wanted.get_mut(topic) {
            *count -= 1;
            if *count == 0 {
                topics.wanted.remove(topic);
            }
        }
    }

    /// Wants a topic for as long as metadata may grow old.
    pub(crate) fn use_topic(&self, topic: &str) {
        self.topics().used.insert(topic.to_owned(), Instant::now());
    }

    fn selection(&self) -> BTreeSet<String> {
        let mut topics = self.topics();
        let age = self.settings.metadata_max_age;
        topics.used.retain(|_, at| at.elapsed() < age);
        let all: BTreeSet<String> = topics.wanted.keys().chain(topics.used.keys()).cloned().collect();
        topics.looked_up.retain(|name| all.contains(name));
        all
    }

    /// A leader hint (KIP-951): taken if its epoch is newer; the address joins the book. Whether it
    /// changed the picture.
    pub(crate) fn hint(
        &self,
        topic: &str,
        partition: i32,
        leader: i32,
        epoch: i32,
        address: Option<BrokerInfo>,
    ) -> bool {
        self.picture.send_if_modified(|picture| {
            match picture.hinted(topic, partition, leader, epoch, address) {
                Some(next) => {
                    *picture = Arc::new(next);
                    true
                }
                None => false,
            }
        })
    }

    /// The control connection to a broker, made anew when it was lost; fails at once while the broker
    /// is left alone after a failure.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) async fn control(&self, broker: i32) -> Result<Connection> {
        let address = self.address(broker)?;
        let connected = self.links.link(&address).connection().await;
        connected.map(|(connection, _)| connection).map_err(|why| why.with_broker(&address))
    }

    /// A new connection of its own to that broker, for a fetch lane.
    #[allow(dead_code)] // until streams are built on it
    pub(crate) async fn open(&self, broker: i32) -> Result<Connection> {
        let address = self.address(broker)?;
        self.links.open(&address).await.map_err(|why| why.with_broker(&address))
    }

    pub(super) fn address(&self, broker: i32) -> Result<BrokerAddress> {
        let picture = self.picture.borrow();
        let found = picture.brokers.get(&broker).map(|broker| broker.address.clone());
        found.ok_or_else(|| Error::new(ErrorKind::UnknownBroker(broker)))
    }

    /// The requests of a [`SimpleConsumer`], over the control connection.
    pub(super) fn at(&self, address: &BrokerAddress) -> SimpleConsumer {
        self.consumer(address, false)
    }

    /// Likewise; whether its errors say what the broker knows about them.
    pub(super) fn consumer(&self, address: &BrokerAddress, explains: bool) -> SimpleConsumer {
        let (settings, ids) = (self.settings.client.clone(), Arc::clone(&self.topic_ids));
        SimpleConsumer::over(self.links.link(address), settings, ids, explains)
    }

    pub(super) fn is_connected(&self, broker: &BrokerAddress) -> bool {
        self.links.is_open(broker)
    }

    /// What is read now, beside the picture.
    pub(super) async fn read_once(&self, topics: &TopicSelection) -> Result<Metadata> {
        self.check_open()?;
        let seen = self.picture().serial;
        match self.reader.read(topics).await {
            Err(_) if self.check_open().is_err() => Err(Error::new(ErrorKind::ClientClosed)),
            // The refresh hears it too, and begins anew.
            Err(why) if why.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) => {
                self.refresh_now(seen).await?;
                self.reader.read(topics).await
            }
            answer => answer,
        }
    }

    /// Tells the links which brokers there are.
    fn keep_links(&self) {
        let picture = self.picture();
        let coordinators = self.coordinators();
        let identity = |id: i32| Some(Identity { cluster_id: picture.cluster_id.clone()?, node_id: id });
        let brokers = picture.brokers.values().map(|broker| (&broker.address, identity(broker.id)));
        let coordinators = coordinators.values().map(|found| (&found.address, identity(found.id)));
        self.links.retain(coordinators.chain(brokers));
    }

    /// Closes all connections for good.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.links.end(&Error::new(ErrorKind::ClientClosed));
        // Whoever waits for a newer picture looks up.
        self.picture.send_modify(|_| ());
    }

    pub(super) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::ClientClosed)),
            false => Ok(()),
        }
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn coordinators(&self) -> MutexGuard<'_, BTreeMap<String, Coordinator>> {
        self.coordinators.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
