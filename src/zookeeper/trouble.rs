use std::fmt;
use std::time::Duration;

use crate::error::{Fault, Retry};

/// Why there is no answer from ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// No server could be connected to; what each of them met, by its address.
    Unreachable(Vec<(String, String)>),
    /// A call was not answered within this time; nothing was written.
    Silent(Duration),
    /// A write was not answered within this time, and the node could not be read again: it may have been done,
    /// or be done later.
    Unknown(Duration),
    /// The session was lost while an ephemeral node was made: there is none of the new one.
    SessionLost,
    /// It does not allow a read.
    Denied,
    /// It answers with another error.
    Refused(String),
}

impl Trouble {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Trouble::Denied => Fault::Caller,
            Trouble::Refused(_) | Trouble::SessionLost => Fault::Broker,
            Trouble::Unreachable(_) | Trouble::Silent(_) | Trouble::Unknown(_) => Fault::Network,
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            Trouble::Denied => Retry::Human,
            Trouble::Refused(_) => Retry::No,
            _ => Retry::Again,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Unreachable(servers) => {
                f.write_str("none of the servers can be used")?;
                for (i, (server, why)) in servers.iter().enumerate() {
                    write!(f, "{} {server}: {why}", if i == 0 { ":" } else { ";" })?;
                }
                f.write_str("; check the addresses, and that the servers have a quorum")
            }
            Trouble::Silent(after) => {
                write!(f, "no answer within {after:?}; it is being connected to anew, ask again")
            }
            Trouble::Unknown(after) => write!(
                f,
                "no answer to a write within {after:?}, and the node cannot be read: it may be written or not; read it before writing again"
            ),
            Trouble::SessionLost => f.write_str("the session was lost meanwhile; ask again in the new one"),
            Trouble::Denied => {
                f.write_str("it may not be read with these credentials; give others, or have its ACL changed")
            }
            Trouble::Refused(why) => write!(f, "it was refused: {why}"),
        }
    }
}
