use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Fault, Retry};

/// Why a position cannot be kept, or read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Problem {
    /// Another process runs with this id on this store.
    Locked {
        /// Who, as far as it can be told.
        by: String,
    },
    /// Another owner has written this partition's checkpoint.
    Foreign {
        /// Who.
        owner: String,
    },
    /// The checkpoint was changed by hand while this owner was at work.
    Changed {
        /// What it should have been; `None` if there was none.
        expected: Option<i64>,
        /// What it is; `None` if it is gone, or cannot be read.
        found: Option<i64>,
    },
    /// What is there cannot be read. It is left as it is.
    Unreadable {
        /// Where it is.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// Reading or writing failed.
    Io {
        /// Where.
        place: String,
        /// How.
        why: Arc<io::Error>,
    },
    /// The store does not let us.
    Denied {
        /// Which place.
        place: String,
    },
    /// There was no answer for so long that somebody else may have taken over. It is safe to try again: the
    /// claim is checked before anything is written.
    Lapsed {
        /// How long there was none.
        silent_for: Duration,
        /// After how long a session ends.
        timeout: Duration,
    },
    /// A consumer group of this name has live members, and only they may commit for it.
    Members {
        /// The group.
        group: String,
    },
    /// There is none, and one was asked for.
    Missing,
}

impl Problem {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Problem::Unreadable { .. } => Fault::Data,
            Problem::Lapsed { .. } => Fault::Network,
            _ => Fault::Caller,
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            Problem::Io { .. } | Problem::Lapsed { .. } => Retry::Again,
            Problem::Locked { .. } | Problem::Foreign { .. } | Problem::Changed { .. } => Retry::Human,
            Problem::Unreadable { .. }
            | Problem::Denied { .. }
            | Problem::Members { .. }
            | Problem::Missing => Retry::Human,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Locked { by } => {
                write!(f, "another process keeps its positions here under this id: {by}; stop it, or use another id")
            }
            Problem::Foreign { owner } => write!(
                f,
                "another owner writes this checkpoint: {owner}; two spouts share an id, or this one was replaced"
            ),
            Problem::Changed { expected, found } => {
                match found {
                    Some(found) => write!(f, "the checkpoint was changed to {found} under the running spout, ")?,
                    None => f.write_str("the checkpoint was removed or spoilt under the running spout, ")?,
                }
                match expected {
                    Some(expected) => write!(f, "which had left it at {expected}; ")?,
                    None => f.write_str("which had found none; ")?,
                }
                match found {
                    Some(found) => write!(f, "restart the spout to go on from {found}"),
                    None => f.write_str("set it with `downspout checkpoint set`, and restart the spout"),
                }
            }
            Problem::Unreadable { place, why } => write!(
                f,
                "the checkpoint {place} cannot be read: {why}; it was left as it is: mend or remove it, or set it with `downspout checkpoint set`"
            ),
            Problem::Io { place, why } => write!(f, "{place}: {why}"),
            Problem::Denied { place } => write!(f, "{place} may not be written: look at its ACL, and at who this client says it is"),
            Problem::Lapsed { silent_for, timeout } => write!(
                f,
                "no answer for {silent_for:?}, and a session ends after {timeout:?}: somebody else may have taken over, which is looked at before the next commit"
            ),
            Problem::Members { group } => write!(
                f,
                "the consumer group {group} has live members, and only they may commit for it; stop them, or keep positions under another group"
            ),
            Problem::Missing => f.write_str(
                "there is no checkpoint, and one is required; set one with `downspout checkpoint set`, or start without requiring it",
            ),
        }
    }
}
