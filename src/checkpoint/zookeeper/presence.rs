//! An ephemeral node that says that an owner is alive, for those who would change positions by hand.

use super::token;
use crate::checkpoint::{Owner, Problem, problem};
use crate::error::Result;
use crate::zookeeper::{Created, Mode, SessionId, ZooKeeper};

/// Below the id. No topic has such a name.
pub(super) const OWNERS: &str = "~owners";

#[derive(Debug)]
pub(super) struct Presence {
    path: String,
    says: Vec<u8>,
    /// The session that has the node, if one has.
    session: Option<SessionId>,
}

impl Presence {
    pub(super) fn new(place: &str, owner: &Owner) -> Self {
        let Owner { instance, name, run } = owner;
        Presence {
            path: format!("{place}/{OWNERS}/{}", token::name(run)),
            says: format!("{name}, instance {instance}, run {run}").into_bytes(),
            session: None,
        }
    }

    /// Whether the node has to be made, or made anew.
    pub(super) fn is_due(&self, session: SessionId) -> bool {
        self.session != Some(session)
    }

    pub(super) fn is_kept_by(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    /// What to make: the path, and what it says.
    pub(super) fn node(&self) -> (String, Vec<u8>) {
        (self.path.clone(), self.says.clone())
    }
}

/// Makes the node under the session as it stands. That it may not be made is no error: others cannot see
/// then that this owner is alive.
pub(super) async fn show(session: &dyn ZooKeeper, (path, says): (String, Vec<u8>)) -> Result<()> {
    for _ in 0..2 {
        match session.create(&path, says.clone(), Mode::Ephemeral).await? {
            Created::Made => break,
            // Of a session that has ended, or is about to.
            Created::Exists => drop(session.delete(&path, -1).await?),
            Created::Denied => {
                tracing::warn!(%path, "the node that says that this owner is alive may not be made: positions could be changed by hand under it");
                break;
            }
        }
    }
    Ok(())
}

/// Refuses while an owner is alive.
pub(super) async fn refuse_if_owned(session: &dyn ZooKeeper, place: &str) -> Result<()> {
    let owners = format!("{place}/{OWNERS}");
    for name in session.children(&owners).await?.unwrap_or_default() {
        if let Some(node) = session.get(&format!("{owners}/{name}")).await? {
            let by = String::from_utf8_lossy(&node.data).into_owned();
            return Err(problem(Problem::Locked { by }));
        }
    }
    Ok(())
}
