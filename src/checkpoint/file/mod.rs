//! Positions in files: `<dir>/<id>/<topic>/partition_<n>`, each with storm-kafka's document.

mod disk;
mod lock;
mod names;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::disk::Disk;
use super::{Access, CheckpointStore, Checkpoints, Loaded, Offer, Problem, Stored, check_id, problem};
use crate::client::TopicPartition;
use crate::error::{Error, Result};
use crate::net::BoxFuture;

/// Positions in files, one document per partition: `<dir>/<id>/<topic>/partition_<n>`.
///
/// A document is replaced, never written over: its new text goes to a file beside it and to the disk
/// before that takes its name. So whoever reads it, and whatever is killed or loses power, finds the old
/// one or the new one, whole. A large set goes to the disk with one sync of its file system (Linux), and
/// each directory once for each set; what a commit has answered is there after a loss of power too.
///
/// A lock file, `<dir>/<id>/.lock`, keeps others out while an owner is alive, and says who that is. It
/// stays when the owner has gone; the lock does not. On file systems without locks (some network ones)
/// opening is an error.
///
/// Documents of storm-kafka's other layout, `<dir>/<id>/partition_<n>`, are taken over by the first owner
/// that finds them.
#[derive(Debug, Clone)]
pub struct FileCheckpoints {
    dir: PathBuf,
}

impl FileCheckpoints {
    /// In this directory, which is made if it is not there.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        FileCheckpoints { dir: dir.into() }
    }
}

impl CheckpointStore for FileCheckpoints {
    fn describe(&self) -> String {
        format!("file store {}", self.dir.display())
    }

    fn open<'a>(&'a self, id: &'a str, access: Access) -> BoxFuture<'a, Result<Box<dyn Checkpoints>>> {
        Box::pin(async move {
            check_id(id)?;
            let root = self.dir.join(names::escape(id));
            let place = root.display().to_string();
            let opened = tokio::task::spawn_blocking(move || Disk::open(root, &access)).await;
            let disk = opened.unwrap_or_else(|why| Err(cancelled(&place, why)))?;
            let disk = Arc::new(Mutex::new(Some(disk)));
            Ok(Box::new(Opened { place, disk, offers: AtomicU64::new(0) }) as Box<dyn Checkpoints>)
        })
    }
}

#[derive(Debug)]
struct Opened {
    place: String,
    /// Gone when closed. Whoever works on it holds the lock, on a thread for blocking work.
    disk: Arc<Mutex<Option<Disk>>>,
    /// Sets offered so far: of two that overlap, because the first was not waited for, the later counts.
    offers: AtomicU64,
}

impl Opened {
    /// Works on the disk, off the runtime. What has begun is done to the end, waited for or not.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Disk) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let disk = Arc::clone(&self.disk);
        let done = tokio::task::spawn_blocking(move || {
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.as_mut().map(work)
        });
        match done.await {
            Ok(Some(done)) => Ok(done),
            Ok(None) => Err(Error::new(crate::error::ErrorKind::ClientClosed)),
            Err(why) => Err(cancelled(&self.place, why)),
        }
    }
}

/// The outcome of work on each of some partitions, where the work as a whole can fail.
fn each<T>(done: Result<Vec<Result<T>>>, count: usize) -> Vec<Result<T>> {
    done.unwrap_or_else(|why| std::iter::repeat_with(|| Err(why.clone())).take(count).collect())
}

fn cancelled(place: &str, why: tokio::task::JoinError) -> Error {
    io(Path::new(place), std::io::Error::other(why))
}

fn io(place: &Path, why: std::io::Error) -> Error {
    problem(Problem::Io { place: place.display().to_string(), why: Arc::new(why) })
}

impl Checkpoints for Opened {
    fn describe(&self) -> String {
        format!("file store {}", self.place)
    }

    fn keeps_extras(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>> {
        Box::pin(async move {
            let wanted = partitions.to_vec();
            let load = move |disk: &mut Disk| wanted.iter().map(|partition| disk.load(partition)).collect();
            each(self.work(load).await, partitions.len())
        })
    }

    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>> {
        Box::pin(async move {
            if offers.is_empty() {
                return Vec::new();
            }
            let number = self.offers.fetch_add(1, Ordering::Relaxed) + 1;
            let offered = offers.to_vec();
            each(self.work(move |disk| disk.commit(number, &offered)).await, offers.len())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>> {
        Box::pin(async move { self.work(|disk| disk.list()).await? })
    }

    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(async move {
            let wanted = partitions.to_vec();
            let remove =
                move |disk: &mut Disk| wanted.iter().map(|partition| disk.remove(partition)).collect();
            each(self.work(remove).await, partitions.len())
        })
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let released = partitions.to_vec();
            let _ = self.work(move |disk| released.iter().for_each(|one| disk.forget(one))).await;
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let disk = Arc::clone(&self.disk);
            // Work that goes on is waited for.
            let close = move || drop(disk.lock().unwrap_or_else(PoisonError::into_inner).take());
            let _ = tokio::task::spawn_blocking(close).await;
        })
    }
}
