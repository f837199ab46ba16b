use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::document::{self, Document};
use super::known::Known;
use super::{
    Access, Checkpoint, CheckpointStore, Checkpoints, Loaded, Offer, Problem, Stored, check_id, extras,
    problem, problem_at,
};
use crate::client::TopicPartition;
use crate::error::Result;
use crate::net::BoxFuture;

/// Positions in memory, which all clones share; gone with the last one. For tests, and for what need
/// not survive.
///
/// It keeps what the other stores keep, in the same form, has one owner per id like them, and can be
/// told to be slow, to refuse, and to lose answers.
#[derive(Debug, Clone, Default)]
pub struct MemoryCheckpoints {
    shared: Arc<Shared>,
}

/// What becomes of an offer, where a test decides it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CommitFate {
    /// It is kept.
    Kept,
    /// It is not kept.
    Refused(Problem),
    /// It is kept, and yet the answer is an error.
    Lost(Problem),
}

type CommitHook = Box<dyn Fn(&Offer) -> CommitFate + Send + Sync>;
type LoadHook = Box<dyn Fn(&TopicPartition) -> Option<Problem> + Send + Sync>;

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    spouts: BTreeMap<String, Kept>,
    owners: u64,
    commits: u64,
    delay: Duration,
    extras_limit: Option<usize>,
    on_commit: Option<Arc<CommitHook>>,
    on_load: Option<Arc<LoadHook>>,
}

/// What is kept for one id.
#[derive(Debug, Default)]
struct Kept {
    documents: BTreeMap<TopicPartition, String>,
    /// Who has it, by number and name.
    owner: Option<(u64, String)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryCheckpoints {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is kept for a partition.
    pub fn checkpoint(&self, id: &str, partition: &TopicPartition) -> Option<Checkpoint> {
        let state = self.shared.state();
        let document = state.spouts.get(id)?.documents.get(partition)?;
        document::read(document.as_bytes(), partition).ok()?.checkpoint
    }

    /// Sets or removes a checkpoint behind its owner's back.
    pub fn set(&self, id: &str, partition: &TopicPartition, checkpoint: Option<&Checkpoint>) {
        let document = checkpoint.map(|checkpoint| document::write(partition, checkpoint, usize::MAX).text);
        self.set_document(id, partition, document);
    }

    /// Sets or removes a document behind its owner's back, whatever is in it.
    pub fn set_document(&self, id: &str, partition: &TopicPartition, document: Option<String>) {
        let mut state = self.shared.state();
        let documents = &mut state.spouts.entry(id.to_owned()).or_default().documents;
        match document {
            Some(document) => documents.insert(partition.clone(), document),
            None => documents.remove(partition),
        };
    }

    /// Every call takes so long; what it changes, it changes at once.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// There is room for so many bytes of extras per partition.
    pub fn set_extras_limit(&self, bytes: usize) {
        self.shared.state().extras_limit = Some(bytes);
    }

    /// From now on this decides what becomes of offers.
    pub fn on_commit(&self, fate: impl Fn(&Offer) -> CommitFate + Send + Sync + 'static) {
        self.shared.state().on_commit = Some(Arc::new(Box::new(fate)));
    }

    /// From now on this decides which partitions cannot be read.
    pub fn on_load(&self, fails: impl Fn(&TopicPartition) -> Option<Problem> + Send + Sync + 'static) {
        self.shared.state().on_load = Some(Arc::new(Box::new(fails)));
    }

    /// How many sets were offered so far.
    pub fn commits(&self) -> u64 {
        self.shared.state().commits
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async move {
            check_id(id)?;
            let mut state = self.shared.state();
            let mut number = None;
            if let Some((_, by)) = state.spouts.get(id).and_then(|kept| kept.owner.as_ref())
                && !matches!(access, Access::Read | Access::Edit { force: true })
            {
                return Err(problem(Problem::Locked { by: by.clone() }));
            }
            if let Access::Own(owner) = &access {
                state.owners += 1;
                number = Some(state.owners);
                let who = format!("{}, run {}", owner.name, owner.run);
                state.spouts.entry(id.to_owned()).or_default().owner = Some((state.owners, who));
            }
            drop(state);
            let shared = Arc::clone(&self.shared);
            let opened = Opened { shared, id: id.to_owned(), number, known: Mutex::default() };
            Ok(Box::new(opened) as Box<dyn Checkpoints>)
        })
    }
}

#[derive(Debug)]
struct Opened {
    shared: Arc<Shared>,
    id: String,
    /// Which owner this is, if it is one.
    number: Option<u64>,
    known: Mutex<Known>,
}

impl Opened {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pause(&self) {
        let delay = self.shared.state().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    fn let_go(&self) {
        let mut state = self.shared.state();
        if let Some(kept) = state.spouts.get_mut(&self.id)
            && kept.owner.as_ref().map(|(number, _)| *number) == self.number
        {
            kept.owner = None;
        }
    }

    fn load_one(&self, partition: &TopicPartition) -> Result<Loaded> {
        let state = self.shared.state();
        let fails = state.on_load.clone();
        let document = state.spouts.get(&self.id).and_then(|kept| kept.documents.get(partition)).cloned();
        drop(state);
        if let Some(why) = fails.and_then(|fails| fails(partition)) {
            return Err(problem_at(partition, why));
        }
        let document = document.as_ref().map(String::as_bytes);
        let loaded = document.map_or(Ok(Loaded::default()), |document| document::read(document, partition));
        let loaded = loaded.map_err(|why| {
            problem_at(partition, Problem::Unreadable { place: format!("{}/{partition}", self.id), why })
        })?;
        self.known().found(partition, document, &loaded);
        Ok(loaded)
    }

    fn commit_one(&self, offer: &Offer) -> Result<Stored> {
        let partition = &offer.partition;
        let hook = self.shared.state().on_commit.clone();
        let fate = hook.map_or(CommitFate::Kept, |fate| fate(offer));
        if let CommitFate::Refused(why) = fate {
            return Err(problem_at(partition, why));
        }
        let mut state = self.shared.state();
        let limit = state.extras_limit.unwrap_or(extras::LONGEST);
        let documents = &mut state.spouts.entry(self.id.clone()).or_default().documents;
        let mut known = self.known();
        known
            .check(partition, documents.get(partition).map(String::as_bytes))
            .map_err(|why| problem_at(partition, why))?;
        let Document { text, done_until } = document::write(partition, &offer.checkpoint, limit);
        known.wrote(partition, &text, offer.checkpoint.offset);
        documents.insert(partition.clone(), text);
        match fate {
            CommitFate::Lost(why) => Err(problem_at(partition, why)),
            _ => Ok(Stored { done_until }),
        }
    }
}

impl Checkpoints for Opened {
    fn describe(&self) -> String {
        format!("memory, id {}", self.id)
    }

    fn keeps_extras(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>> {
        Box::pin(async move {
            let loaded = partitions.iter().map(|partition| self.load_one(partition)).collect();
            self.pause().await;
            loaded
        })
    }

    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>> {
        Box::pin(async move {
            self.shared.state().commits += 1;
            let outcomes = offers.iter().map(|offer| self.commit_one(offer)).collect();
            self.pause().await;
            outcomes
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>> {
        Box::pin(async move {
            let state = self.shared.state();
            let kept = state.spouts.get(&self.id);
            Ok(kept.into_iter().flat_map(|kept| kept.documents.keys().cloned()).collect())
        })
    }

    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(async move {
            let mut state = self.shared.state();
            let documents = &mut state.spouts.entry(self.id.clone()).or_default().documents;
            let mut known = self.known();
            let remove = |partition| {
                documents.remove(partition);
                known.removed(partition);
                Ok(())
            };
            partitions.iter().map(remove).collect()
        })
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut known = self.known();
            partitions.iter().for_each(|partition| known.forget(partition));
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.let_go() })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Shared").field("spouts", &state.spouts).field("commits", &state.commits).finish()
    }
}
