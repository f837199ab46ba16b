//! Files that are replaced whole, and directories that are on the disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

/// A file, and what shall be in it.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Threads that wait for the disk at a time: file systems bring what several wait for to the disk at
/// once.
const THREADS: usize = 8;

/// Replaces these files; an outcome for each, in this order.
///
/// Each new text goes to the disk before it gets the file's name, or a loss of power could leave the
/// name with nothing behind it. Then each directory does, once, or it could bring back the old file.
pub(super) fn replace(files: &[Replacement]) -> Vec<io::Result<()>> {
    let mut outcomes: Vec<io::Result<()>> = prepare(files);
    let mut directories = BTreeSet::new();
    for (file, outcome) in files.iter().zip(&mut outcomes) {
        let temporary = temporary(&file.path);
        if outcome.is_ok() {
            *outcome = fs::rename(&temporary, &file.path);
            directories.extend(file.path.parent());
        }
        if outcome.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }
    for directory in directories {
        let Err(why) = sync(directory) else { continue };
        for (file, outcome) in files.iter().zip(&mut outcomes) {
            if outcome.is_ok() && file.path.parent() == Some(directory) {
                *outcome = Err(io::Error::new(why.kind(), why.to_string()));
            }
        }
    }
    outcomes
}

/// Writes the new texts beside the files.
fn prepare(files: &[Replacement]) -> Vec<io::Result<()>> {
    let prepare = |files: &[Replacement]| files.iter().map(prepare_one).collect::<Vec<_>>();
    let share = files.len().div_ceil(THREADS);
    if share <= 1 {
        return prepare(files);
    }
    thread::scope(|scope| {
        let start = |share| (share, thread::Builder::new().spawn_scoped(scope, move || prepare(share)).ok());
        let threads: Vec<_> = files.chunks(share).map(start).collect();
        let end = |(share, thread): (_, Option<thread::ScopedJoinHandle<'_, _>>)| {
            // Where no thread is to be had, this one does it.
            thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| prepare(share))
        };
        threads.into_iter().flat_map(end).collect()
    })
}

fn prepare_one(file: &Replacement) -> io::Result<()> {
    let mut temporary = File::create(temporary(&file.path))?;
    temporary.write_all(file.text.as_bytes())?;
    temporary.sync_data()
}

/// Beside the file, so that a rename suffices; one for each process, as an editor may be forced upon
/// an owner.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// What a process that was killed left behind.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(".partition_") && name.ends_with(".tmp")
}

/// Makes a directory and those above it, and brings them to the disk.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_directory(parent)?;
    }
    match fs::create_dir(path) {
        // By another one, just now.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync(parent(path))
}

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Brings a directory, the names in it, to the disk.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    // Elsewhere directories cannot be opened.
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}
