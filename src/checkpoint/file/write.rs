//! Files that are replaced whole, and directories that are on the disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file, and what shall be in it.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// So many texts are brought to the disk one by one; more of them by one sync of the file system.
const ONE_BY_ONE: usize = 8;

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
        if let Err(why) = sync(directory) {
            let inside = |file: &Replacement| file.path.parent() == Some(directory);
            fail(files.iter().zip(&mut outcomes).filter(|(file, _)| inside(file)), &why);
        }
    }
    outcomes
}

fn fail<'a>(outcomes: impl Iterator<Item = (&'a Replacement, &'a mut io::Result<()>)>, why: &io::Error) {
    for (_, outcome) in outcomes.filter(|(_, outcome)| outcome.is_ok()) {
        *outcome = Err(io::Error::new(why.kind(), why.to_string()));
    }
}

/// Writes the new texts beside the files, and brings them to the disk.
fn prepare(files: &[Replacement]) -> Vec<io::Result<()>> {
    let at_once = files.len() > ONE_BY_ONE && CAN_SYNC_ALL;
    let mut outcomes: Vec<io::Result<()>> = files.iter().map(|file| prepare_one(file, !at_once)).collect();
    if at_once {
        // Each directory: one may lie on another file system. The second sync of one finds little to do.
        let directories: BTreeSet<&Path> = files.iter().map(|file| parent(&file.path)).collect();
        if let Some(why) = directories.into_iter().find_map(|directory| sync_all(directory).err()) {
            fail(files.iter().zip(&mut outcomes), &why);
        }
    }
    outcomes
}

fn prepare_one(file: &Replacement, sync: bool) -> io::Result<()> {
    let mut temporary = File::create(temporary(&file.path))?;
    temporary.write_all(file.text.as_bytes())?;
    if sync { temporary.sync_data() } else { Ok(()) }
}

const CAN_SYNC_ALL: bool = cfg!(target_os = "linux");

/// Brings all that was written to the file system with this directory to the disk: one wait, where a
/// thousand files would be a thousand.
#[cfg(target_os = "linux")]
fn sync_all(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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
