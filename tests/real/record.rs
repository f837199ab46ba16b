//! `DOWNSPOUT_RECORD=dir`: keeps what real brokers answer, for `protocol-specs/golden/real`.
//!
//! Of each API and version one answer is kept, from the oldest release that gives it; and of each release the record
//! sets of a small topic per codec, as a fetch returned them. `tests/golden.rs` holds the decoder to them.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::harness::{RELEASES, Release, Result};

/// Larger ones would not teach more.
const LIMIT: usize = 2500;

/// Where to, if asked for.
pub fn dir() -> Option<PathBuf> {
    std::env::var_os("DOWNSPOUT_RECORD").map(PathBuf::from)
}

/// Keeps a response frame, given without its size, unless an older release has given that version already.
pub fn response(release: &Release, api: &str, version: i16, frame: &[u8]) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(dir) = dir().filter(|_| frame.len() < LIMIT) else { return Ok(()) };
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let text = |e: std::io::Error| e.to_string();
    fs::create_dir_all(&dir).map_err(text)?;
    let prefix = format!("{api}-{version}-");
    let age = |name: &str| RELEASES.iter().position(|r| r.name == name);
    for file in fs::read_dir(&dir).map_err(text)? {
        let path = file.map_err(text)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(other) = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".response")) {
            if age(other) < age(release.name) {
                return Ok(());
            }
            fs::remove_file(path).map_err(text)?;
        }
    }
    let size = u32::try_from(frame.len()).map_err(|e| e.to_string())?.to_be_bytes();
    fs::write(dir.join(format!("{prefix}{}.response", release.name)), [&size, frame].concat()).map_err(text)
}

/// Keeps a record set.
pub fn records(release: &Release, what: &str, set: &[u8]) -> Result<()> {
    let Some(dir) = dir() else { return Ok(()) };
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    fs::write(dir.join(format!("{what}-{}.records", release.name)), set).map_err(|e| e.to_string())
}
