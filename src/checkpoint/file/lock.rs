//! The lock of an id's directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::io;
use crate::checkpoint::{Problem, problem};
use crate::error::Result;

/// Held until dropped; the operating system lets go of it when the process ends, however it does.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Takes it, if nobody has it.
    ///
    /// The file is never removed: between its removal and the next one's lock two could have one each.
    pub(super) fn take(path: &Path, who: &str) -> Result<Lock> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path);
        let mut file = file.map_err(|why| io(path, why))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(problem(Problem::Locked { by: told(&mut file) })),
            Err(TryLockError::Error(why)) => return Err(io(path, why)),
        }
        let who = format!("pid {}, {who}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(who.as_bytes())).map_err(|why| io(path, why))?;
        Ok(Lock(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next one to be refused shall not read this name.
        let _ = self.0.set_len(0);
    }
}

/// Who says that the lock is theirs.
fn told(file: &mut File) -> String {
    let mut text = Vec::new();
    let _ = file.take(1024).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    if text.is_empty() { "it does not say who it is".to_owned() } else { text.to_owned() }
}
