//! The directory of one id. Everything here blocks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::io;
use super::lock::Lock;
use super::names;
use super::write::{self, Replacement};
use crate::checkpoint::document::{self, Document};
use crate::checkpoint::known::Known;
use crate::checkpoint::{Access, Loaded, Offer, Problem, Stored, extras, problem, problem_at};
use crate::client::TopicPartition;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    may_write: bool,
    _lock: Option<Lock>,
    known: Known,
    /// Of each partition, the number of the set that was written last.
    written: HashMap<TopicPartition, u64>,
}

impl Disk {
    /// Opens the directory. To own or to edit it, it is locked, and proves that it can be written to.
    pub(super) fn open(root: PathBuf, access: &Access) -> Result<Disk> {
        let may_write = *access != Access::Read;
        let mut lock = None;
        if may_write {
            write::make_directory(&root).map_err(|why| io(&root, why))?;
            let who = match access {
                Access::Own(owner) => {
                    format!("{}, instance {}, run {}", owner.name, owner.instance, owner.run)
                }
                _ => "an editor".to_owned(),
            };
            lock = match Lock::take(&root.join(".lock"), &who) {
                Ok(lock) => Some(lock),
                Err(_) if *access == (Access::Edit { force: true }) => None,
                Err(why) => return Err(why),
            };
        }
        let disk = Disk { root, may_write, _lock: lock, known: Known::default(), written: HashMap::new() };
        if may_write {
            disk.prove_that_it_can_be_written()?;
        }
        if let Access::Own(_) = access {
            disk.clear_away();
        }
        Ok(disk)
    }

    fn prove_that_it_can_be_written(&self) -> Result<()> {
        let path = self.root.join(".probe");
        let probe = Replacement { path: path.clone(), text: String::new() };
        let proven = write::replace(&[probe]).into_iter().collect::<std::io::Result<()>>();
        proven.and_then(|()| fs::remove_file(&path)).map_err(|why| io(&path, why))
    }

    /// Removes what a process that was killed left behind.
    fn clear_away(&self) {
        let directories = self.topics().unwrap_or_default();
        for directory in directories.iter().map(|(directory, _)| directory).chain([&self.root]) {
            for (path, name) in entries(directory).unwrap_or_default() {
                if write::is_temporary(&name) {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    pub(super) fn load(&mut self, partition: &TopicPartition) -> Result<Loaded> {
        let path = self.path(partition);
        let document = self.document(partition, &path)?;
        let loaded = match &document {
            None => Loaded::default(),
            Some(document) => read(partition, &path, document)?,
        };
        self.known.found(partition, document.as_deref(), &loaded);
        Ok(loaded)
    }

    /// A partition's document, in this layout or the other.
    fn document(&self, partition: &TopicPartition, path: &Path) -> Result<Option<Vec<u8>>> {
        let flat = self.flat(partition);
        let (own, other) = (contents(partition, path)?, contents(partition, &flat)?);
        let Some(other) = other else { return Ok(own) };
        match document::topic_of(&other) {
            Ok(Some(topic)) if *topic == *partition.topic => {}
            Ok(Some(_)) => return Ok(own),
            _ if own.is_some() => return Ok(own),
            Ok(None) => return Err(unreadable(partition, &flat, "it does not say of which topic it is")),
            Err(why) => return Err(unreadable(partition, &flat, why)),
        }
        let Some(own) = own else {
            self.take_over(partition, &flat, path)?;
            return Ok(Some(other));
        };
        let offset = |path, document| {
            read(partition, path, document).map(|loaded| loaded.checkpoint.map_or(-1, |found| found.offset))
        };
        let offsets = (offset(path, &own)?, offset(&flat, &other)?);
        if offsets.0 != offsets.1 {
            let why = format!("it says {}, and {} says {}: remove one", offsets.0, flat.display(), offsets.1);
            return Err(unreadable(partition, path, why));
        }
        if self.may_write {
            fs::remove_file(&flat).map_err(|why| at(partition, io(&flat, why)))?;
        }
        Ok(Some(own))
    }

    /// Moves a document from storm-kafka's layout for one topic to the one for several.
    fn take_over(&self, partition: &TopicPartition, flat: &Path, path: &Path) -> Result<()> {
        if !self.may_write {
            return Ok(());
        }
        let directory = write::parent(path);
        let moved = write::make_directory(directory)
            .and_then(|()| fs::rename(flat, path))
            .and_then(|()| write::sync(directory))
            .and_then(|()| write::sync(&self.root));
        moved.map_err(|why| at(partition, io(path, why)))?;
        tracing::info!(%partition, from = %flat.display(), to = %path.display(), "a checkpoint was taken over");
        Ok(())
    }

    /// Writes the set with this number; an outcome for each offer.
    pub(super) fn commit(&mut self, number: u64, offers: &[Offer]) -> Vec<Result<Stored>> {
        let prepared: Vec<Result<(Replacement, Stored)>> =
            offers.iter().map(|offer| self.prepare(number, offer)).collect();
        let (mut files, mut outcomes) = (Vec::new(), Vec::new());
        for one in prepared {
            outcomes.push(one.map(|(file, stored)| {
                files.push(file);
                stored
            }));
        }
        let mut written = write::replace(&files).into_iter().zip(&files);
        for (offer, outcome) in offers.iter().zip(&mut outcomes) {
            if outcome.is_err() {
                continue;
            }
            let Some((result, file)) = written.next() else { break };
            match result {
                Ok(()) => {
                    self.known.wrote(&offer.partition, &file.text, offer.checkpoint.offset);
                    self.written.insert(offer.partition.clone(), number);
                }
                Err(why) => {
                    // It has its name perhaps, though not for sure.
                    if contents(&offer.partition, &file.path)
                        .is_ok_and(|it| it.as_deref() == Some(file.text.as_bytes()))
                    {
                        self.known.wrote(&offer.partition, &file.text, offer.checkpoint.offset);
                    }
                    *outcome = Err(at(&offer.partition, io(&file.path, why)));
                }
            }
        }
        outcomes
    }

    /// What an offer would write, if it may.
    fn prepare(&self, number: u64, offer: &Offer) -> Result<(Replacement, Stored)> {
        let partition = &offer.partition;
        let path = self.path(partition);
        if self.written.get(partition).is_some_and(|written| *written > number) {
            let late = std::io::Error::other("a later position was kept already");
            return Err(at(partition, io(&path, late)));
        }
        let found = contents(partition, &path)?;
        self.known.check(partition, found.as_deref()).map_err(|why| problem_at(partition, why))?;
        if found.is_none() {
            let directory = write::parent(&path);
            write::make_directory(directory).map_err(|why| at(partition, io(directory, why)))?;
        }
        let Document { text, done_until } = document::write(partition, &offer.checkpoint, extras::LONGEST);
        Ok((Replacement { path, text }, Stored { done_until }))
    }

    pub(super) fn remove(&mut self, partition: &TopicPartition) -> Result<()> {
        let (path, flat) = (self.path(partition), self.flat(partition));
        let is_its = |document: &[u8]| {
            document::topic_of(document).is_ok_and(|topic| topic.as_deref() == Some(&*partition.topic))
        };
        let has_flat = contents(partition, &flat)?.is_some_and(|document| is_its(&document));
        for path in [Some(&path), Some(&flat).filter(|_| has_flat)].into_iter().flatten() {
            match fs::remove_file(path).and_then(|()| write::sync(write::parent(path))) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(at(partition, io(path, why))),
                _ => {}
            }
        }
        self.known.removed(partition);
        Ok(())
    }

    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.known.forget(partition);
        self.written.remove(partition);
    }

    /// The partitions that have a document, in either layout.
    pub(super) fn list(&self) -> Result<Vec<TopicPartition>> {
        let mut found = Vec::new();
        for (directory, topic) in self.topics()? {
            let files = entries(&directory).map_err(|why| io(&directory, why))?;
            let numbers = files.iter().filter_map(|(_, name)| names::partition_of(name));
            found.extend(numbers.map(|number| TopicPartition::new(&*topic, number)));
        }
        for (path, name) in entries(&self.root).map_err(|why| io(&self.root, why))? {
            let Some(number) = names::partition_of(&name) else { continue };
            let unknown = TopicPartition::new("?", number);
            let document = contents(&unknown, &path)?.unwrap_or_default();
            match document::topic_of(&document) {
                Ok(Some(topic)) => found.push(TopicPartition::new(topic, number)),
                Ok(None) => return Err(unreadable(&unknown, &path, "it does not say of which topic it is")),
                Err(why) => return Err(unreadable(&unknown, &path, why)),
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// The directories of topics.
    fn topics(&self) -> Result<Vec<(PathBuf, String)>> {
        let entries = entries(&self.root).map_err(|why| io(&self.root, why))?;
        let topic = |(path, name): (PathBuf, String)| {
            let topic = names::unescape(&name)?;
            path.is_dir().then_some((path, topic))
        };
        Ok(entries.into_iter().filter_map(topic).collect())
    }

    fn path(&self, partition: &TopicPartition) -> PathBuf {
        self.root.join(names::escape(&partition.topic)).join(names::file(partition.partition))
    }

    /// In storm-kafka's layout for one topic.
    fn flat(&self, partition: &TopicPartition) -> PathBuf {
        self.root.join(names::file(partition.partition))
    }
}

fn read(partition: &TopicPartition, path: &Path, document: &[u8]) -> Result<Loaded> {
    document::read(document, partition).map_err(|why| unreadable(partition, path, why))
}

/// What is in a file; `None` only if there is none.
fn contents(partition: &TopicPartition, path: &Path) -> Result<Option<Vec<u8>>> {
    let read = || {
        // Opening a pipe would wait for its other end.
        if !fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is no file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(document::LARGEST as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(at(partition, io(path, why))),
    }
}

/// What is in a directory, with names that are text; nothing if it is not there.
fn entries(directory: &Path) -> std::io::Result<Vec<(PathBuf, String)>> {
    let entries = match fs::read_dir(directory) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(OsStr::to_str) {
            let name = name.to_owned();
            found.push((path, name));
        }
    }
    Ok(found)
}

fn unreadable(partition: &TopicPartition, path: &Path, why: impl Into<String>) -> Error {
    at(partition, problem(Problem::Unreadable { place: path.display().to_string(), why: why.into() }))
}

fn at(partition: &TopicPartition, why: Error) -> Error {
    why.with_topic(&*partition.topic).with_partition(partition.partition)
}
