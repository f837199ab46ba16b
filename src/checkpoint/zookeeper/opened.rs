//! What is kept for one id.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::claims::{Claims, Held};
use super::find::{self, Found, at, busy, unreadable};
use super::presence::{self, Presence};
use super::{Connected, Layout, denied, token};
use crate::checkpoint::{Access, Checkpoints, Loaded, Offer, Owner, Stored, document};
use crate::client::TopicPartition;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{BoxFuture, together};
use crate::zookeeper::{Written, ZooKeeper};

/// Times that a claim is tried when others write in between.
const CLAIMS: usize = 8;

pub(super) struct Opened {
    pub(super) session: Arc<dyn ZooKeeper>,
    /// The session is closed with this.
    is_ours: bool,
    /// `<root>/<id>`.
    pub(super) place: String,
    pub(super) access: Access,
    pub(super) layout: Layout,
    /// Exactly what storm-kafka writes, never, or where storm-kafka wrote last.
    pub(super) compat: Option<bool>,
    /// Marks what this one writes.
    pub(super) token: String,
    claims: Mutex<Claims>,
    /// An owner's.
    presence: Mutex<Option<Presence>>,
}

impl Opened {
    pub(super) async fn new(
        Connected { session, is_ours }: Connected,
        place: String,
        access: Access,
        layout: Option<Layout>,
        compat: Option<bool>,
    ) -> Result<Self> {
        let layout = match layout {
            Some(layout) => layout,
            None => find::layout(&*session, &place).await?,
        };
        if access == (Access::Edit { force: false }) {
            presence::refuse_if_owned(&*session, &place).await?;
        }
        let (token, presence) = match &access {
            Access::Own(owner) => (token::name(&owner.run), Some(Presence::new(&place, owner))),
            _ => (token::random(), None),
        };
        let (claims, presence) = (Mutex::default(), Mutex::new(presence));
        let opened = Opened { session, is_ours, place, access, layout, compat, token, claims, presence };
        opened.show_presence().await?;
        Ok(opened)
    }

    pub(super) fn owner(&self) -> Option<&Owner> {
        match &self.access {
            Access::Own(owner) => Some(owner),
            _ => None,
        }
    }

    pub(super) fn may_write(&self) -> bool {
        self.access != Access::Read
    }

    pub(super) fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn presence(&self) -> MutexGuard<'_, Option<Presence>> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that says that this owner is alive, under the session as it stands.
    pub(super) async fn show_presence(&self) -> Result<()> {
        let session = self.session.session();
        let due = self.presence().as_ref().filter(|it| it.is_due(session)).map(Presence::node);
        if let Some(node) = due {
            presence::show(&*self.session, node).await?;
            if let Some(presence) = &mut *self.presence() {
                presence.is_kept_by(session);
            }
        }
        Ok(())
    }

    /// Reads a document, and claims it for an owner.
    pub(super) async fn load_one(&self, partition: &TopicPartition) -> Result<Loaded> {
        let mut path = String::new();
        // If this fails, nothing is known of it any more.
        self.claims().forget(partition);
        for _ in 0..CLAIMS {
            let found = self.find(partition).await?;
            let Found { path: there, node } = found;
            path = there;
            let Some(node) = node else {
                let is_storms = self.compat == Some(true);
                self.claims().hold(partition, Held::new(path, None, None, is_storms));
                return Ok(Loaded::default());
            };
            let loaded =
                document::read(&node.data, partition).map_err(|why| unreadable(partition, &path, why))?;
            let version = match self.owner() {
                None => node.version,
                Some(_) => {
                    let claim = token::claimed(&node.data, &self.token);
                    let written = self.session.set(&path, claim, node.version);
                    match written.await.map_err(|why| at(partition, why))? {
                        Written::Stored { version } => version,
                        Written::Conflict(_) | Written::Missing => continue,
                        Written::Denied => return Err(at(partition, denied(&path))),
                    }
                }
            };
            let is_storms = self.compat.unwrap_or_else(|| !document::is_ours(&node.data));
            let offset = loaded.checkpoint.as_ref().map(|checkpoint| checkpoint.offset);
            self.claims().hold(partition, Held::new(path, Some(version), offset, is_storms));
            return Ok(loaded);
        }
        Err(at(partition, busy(&path)))
    }

    fn refuse_writing(&self) -> Result<()> {
        match self.may_write() {
            true => Ok(()),
            false => Err(Error::config(format!("{} was opened for reading", self.place))),
        }
    }
}

/// The same error for each.
fn each<T>(why: &Error, count: usize) -> Vec<Result<T>> {
    std::iter::repeat_with(|| Err(why.clone())).take(count).collect()
}

impl Checkpoints for Opened {
    fn describe(&self) -> String {
        format!("ZooKeeper {}{}", self.session.describe(), self.place)
    }

    fn keeps_extras(&self) -> bool {
        self.compat != Some(true)
    }

    fn load<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<Loaded>>> {
        Box::pin(async move {
            let load = |partition| Box::pin(self.load_one(partition)) as BoxFuture<'_, _>;
            together(partitions.iter().map(load)).await
        })
    }

    fn commit<'a>(&'a self, offers: &'a [Offer]) -> BoxFuture<'a, Vec<Result<Stored>>> {
        Box::pin(async move {
            if let Err(why) = self.refuse_writing() {
                return each(&why, offers.len());
            }
            let silent = self.lapsed();
            self.claims().doubt(self.session.session(), silent.is_some());
            let commit = |offer| Box::pin(self.commit_one(offer, silent)) as BoxFuture<'_, _>;
            let outcomes = together(offers.iter().map(commit)).await;
            if let Err(why) = self.show_presence().await {
                tracing::warn!(error = %why, place = self.place, "the node that says that this owner is alive could not be made; it is tried again");
            }
            outcomes
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<TopicPartition>>> {
        Box::pin(self.all())
    }

    fn remove<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(async move {
            if let Err(why) = self.refuse_writing() {
                return each(&why, partitions.len());
            }
            let remove = |partition| Box::pin(self.remove_one(partition)) as BoxFuture<'_, _>;
            together(partitions.iter().map(remove)).await
        })
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut claims = self.claims();
            partitions.iter().for_each(|partition| claims.forget(partition));
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let node = self.presence().take();
            if let Some((path, _)) = node.as_ref().map(Presence::node)
                && let Err(why) = self.session.delete(&path, -1).await
                && !matches!(why.kind(), ErrorKind::ClientClosed)
            {
                tracing::debug!(error = %why, path, "the node that says that this owner is alive stays until the session ends");
            }
            if self.is_ours {
                self.session.close().await;
            }
        })
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("place", &self.place).finish_non_exhaustive()
    }
}
