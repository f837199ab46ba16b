//! The tasks of one member: one keeps its node, looks, and deals when it is its turn; the other counts on its
//! own clock how long there has been no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Membership;
use super::deal::{Deal, Identity};
use super::document;
use super::group::{Group, Next, View};
use crate::checkpoint::Owner;
use crate::client::TopicPartition;
use crate::error::Result;
use crate::zookeeper::{Created, Mode, SessionId, ZooKeeper};

/// How long a hint is waited for: looking is the truth.
const LOOK: Duration = Duration::from_secs(5);
/// After an error.
const AGAIN: Duration = Duration::from_millis(500);
/// Looks at once, one after another.
const HURRIED: u32 = 10;
/// Leaving may take so long; the session's end does it too.
const LEAVE: Duration = Duration::from_secs(2);

/// What this member has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::spout) struct Share {
    pub(in crate::spout) partitions: BTreeSet<TopicPartition>,
    /// Why nothing can be told now.
    pub(in crate::spout) out: Option<String>,
}

/// A member of the group. Dropping it leaves the group, without waiting for that: the session may live on.
#[derive(Debug)]
pub(in crate::spout) struct Member {
    share: watch::Receiver<Share>,
    partitions: watch::Sender<Told>,
    held: watch::Sender<BTreeSet<TopicPartition>>,
    leaving: watch::Sender<bool>,
    task: JoinHandle<()>,
    clock: JoinHandle<()>,
}

impl Member {
    /// Joins the group of this spout.
    pub(in crate::spout) fn join(membership: &Membership, id: &str, owner: &Owner) -> Self {
        let (shares, share) = watch::channel(Share::default());
        let (partitions, told) = watch::channel(Told::default());
        let (held, holds) = watch::channel(BTreeSet::new());
        let (leaving, left) = watch::channel(false);
        let zookeeper = Arc::clone(&membership.zookeeper);
        let identity = Identity { instance: owner.instance.clone(), run: owner.run.clone() };
        let settle = u64::try_from(membership.settle.as_millis()).unwrap_or(u64::MAX);
        let looker = Looker {
            zookeeper: Arc::clone(&zookeeper),
            node: membership.node(id),
            identity,
            group: Group::new(settle),
            began: Instant::now(),
            names: 0,
            me: None,
            former: Vec::new(),
            known: BTreeMap::new(),
            told,
            holds,
            let_go: None,
            shares: shares.clone(),
        };
        let task = tokio::spawn(looker.run(left));
        let clock = tokio::spawn(watch_silence(zookeeper, shares));
        Member { share, partitions, held, leaving, task, clock }
    }

    /// These are all the partitions that there are, by one more look at the brokers.
    pub(in crate::spout) fn tell(&self, all: BTreeSet<TopicPartition>) {
        self.partitions.send_modify(|told| *told = Told { looks: told.looks.saturating_add(1), all });
    }

    /// These it has, or has not let go of yet: nobody else begins them meanwhile.
    pub(in crate::spout) fn holds(&self, held: BTreeSet<TopicPartition>) {
        replace(&self.held, held);
    }

    /// Waits for another share.
    pub(in crate::spout) async fn changed(&mut self) -> Share {
        if self.share.changed().await.is_err() {
            // Its tasks are gone: nothing changes any more.
            std::future::pending::<()>().await;
        }
        self.share.borrow_and_update().clone()
    }

    /// Leaves the group: the others hear at once.
    pub(in crate::spout) async fn leave(mut self) {
        let _ = self.leaving.send(true);
        let _ = timeout(LEAVE, &mut self.task).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Its task ends with that, and takes its nodes away.
        let _ = self.leaving.send(true);
        self.clock.abort();
    }
}

/// What was told of the partitions that there are.
#[derive(Debug, Default)]
struct Told {
    /// By how many looks.
    looks: u32,
    all: BTreeSet<TopicPartition>,
}

impl Told {
    /// What is to be dealt. Who knows nothing deals nothing; and what was dealt before goes only when it was
    /// absent for three looks: a broker that has just started leaves some out.
    fn to_deal(&self, dealt: &Deal) -> Option<BTreeSet<TopicPartition>> {
        match self.looks {
            0 => None,
            1 | 2 => Some(self.all.iter().chain(dealt.owners.keys()).cloned().collect()),
            _ => Some(self.all.clone()),
        }
    }
}

/// Says it if it is news.
fn replace<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|before| {
        let is_news = *before != value;
        *before = value;
        is_news
    });
}

/// From two thirds of the session timeout on nobody may count on being a member.
fn is_silent(zookeeper: &dyn ZooKeeper) -> bool {
    zookeeper.silence() >= zookeeper.timeout() * 2 / 3
}

async fn watch_silence(zookeeper: Arc<dyn ZooKeeper>, shares: watch::Sender<Share>) {
    let tick = (zookeeper.timeout() / 20).max(Duration::from_millis(20));
    loop {
        sleep(tick).await;
        if is_silent(&*zookeeper) {
            stand_down(
                &shares,
                format!("{} has not answered for {:.1?}", zookeeper.describe(), zookeeper.silence()),
            );
        }
    }
}

fn stand_down(shares: &watch::Sender<Share>, why: String) {
    shares.send_if_modified(|share| {
        let is_news = share.out.is_none();
        *share = Share { partitions: BTreeSet::new(), out: Some(why) };
        is_news
    });
}

struct Looker {
    zookeeper: Arc<dyn ZooKeeper>,
    node: String,
    identity: Identity,
    group: Group,
    began: Instant,
    /// Names used so far: another session is another member.
    names: u64,
    /// Its name in a session, and whether its node is known to be there.
    me: Option<(String, SessionId, bool)>,
    /// Names that it had: what is left of them is to go.
    former: Vec<String>,
    /// Who the members are, as far as it was read.
    known: BTreeMap<String, Identity>,
    told: watch::Receiver<Told>,
    holds: watch::Receiver<BTreeSet<TopicPartition>>,
    /// The last deal of which was told that all is let go that it takes away, and under which name.
    let_go: Option<(u64, String)>,
    shares: watch::Sender<Share>,
}

impl Looker {
    async fn run(mut self, mut leaving: watch::Receiver<bool>) {
        let mut hurried = 0;
        loop {
            let wait = match self.look().await {
                Ok(wait) => wait,
                Err(why) => {
                    tracing::warn!(node = %self.node, error = %why, "the group could not be looked at; it is tried again");
                    Some(AGAIN)
                }
            };
            hurried = if wait.is_none() { hurried + 1 } else { 0 };
            let wait = match wait {
                Some(wait) => wait,
                None if hurried < HURRIED => continue,
                None => AGAIN,
            };
            let zookeeper = Arc::clone(&self.zookeeper);
            let node = self.node.clone();
            // A look that failed is not repeated on a hint.
            let hint = async {
                if wait == AGAIN { sleep(wait).await } else { zookeeper.changed(&node, wait).await }
            };
            if first(hint, self.told.changed(), self.holds.changed(), leaving.wait_for(|left| *left)).await {
                break;
            }
        }
        if let Err(why) = self.take_away().await {
            tracing::warn!(error = %why, "the group was not left in order; its session's end tells the others");
        }
    }

    /// Its nodes go, the one that makes it a member first.
    async fn take_away(&mut self) -> Result<()> {
        self.forget_me();
        self.take_former_away().await?;
        if let Some((generation, name)) = self.let_go.take() {
            self.zookeeper.delete(&self.told_node(generation, &name), -1).await?;
        }
        Ok(())
    }

    /// The node that says that this member has let go of what that deal takes away.
    fn told_node(&self, generation: u64, me: &str) -> String {
        format!("{}/k-{generation:010}-{me}", self.node)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Looks, and does what follows. How long to wait for the next look; none if there is one to be had at once.
    async fn look(&mut self) -> Result<Option<Duration>> {
        let me = self.be_there().await?;
        let Listed { members, generation, let_go } = self.list().await?;
        if !members.contains(&me) {
            // It went with its session, or was taken away.
            self.forget_me();
            self.stand_down("this member is gone from its group, and comes back");
            return Ok(Some(AGAIN));
        }
        let Some(mut view) = self.view(members, generation).await? else { return Ok(None) };
        view.let_go = let_go;
        let all = self.told.borrow_and_update().to_deal(&view.deal);
        let next = match all {
            Some(all) => self.group.look(&view, &me, &all, self.now()),
            None => Next::Rest,
        };
        if let Next::Write(deal) = &next {
            let path = format!("{}/a-{:010}", self.node, generation + 1);
            let created = self.zookeeper.create(&path, document::write(deal), Mode::Persistent).await?;
            tracing::info!(node = %self.node, generation = generation + 1, members = deal.members.len(), partitions = deal.owners.len(), ?created, "dealt anew");
            return Ok(None);
        }
        if !is_silent(&*self.zookeeper) {
            let held = self.holds.borrow_and_update().clone();
            replace(&self.shares, Share { partitions: view.ready(&me, &held), out: None });
            if held.is_subset(&view.deal.share(&me)) {
                self.say_let_go(&me, generation).await?;
            }
        }
        Ok(Some(match next {
            Next::At(at) => Duration::from_millis(at.saturating_sub(self.now()).max(1)).min(LOOK),
            Next::Rest | Next::Write(_) => LOOK,
        }))
    }

    /// The others may begin what this deal takes away from here.
    async fn say_let_go(&mut self, me: &str, generation: u64) -> Result<()> {
        let now = Some((generation, me.to_owned()));
        if generation == 0 || self.let_go == now {
            return Ok(());
        }
        let path = self.told_node(generation, me);
        self.zookeeper.create(&path, Vec::new(), Mode::Ephemeral).await?;
        if let Some((before, name)) = &self.let_go {
            self.zookeeper.delete(&self.told_node(*before, name), -1).await?;
        }
        self.let_go = now;
        Ok(())
    }

    fn stand_down(&self, why: &str) {
        stand_down(&self.shares, why.to_owned());
    }

    /// Another name is next.
    fn forget_me(&mut self) {
        self.former.extend(self.me.take().map(|(me, ..)| me));
    }

    /// Under another name it may have been made in the session that is there now.
    async fn take_former_away(&mut self) -> Result<()> {
        while let Some(name) = self.former.last() {
            self.zookeeper.delete(&format!("{}/{name}", self.node), -1).await?;
            self.former.pop();
        }
        Ok(())
    }

    /// Its node, in this session.
    async fn be_there(&mut self) -> Result<String> {
        let session = self.zookeeper.session();
        if self.me.as_ref().is_some_and(|(_, of, _)| *of != session) {
            self.stand_down("the session with ZooKeeper was lost, and with it the place in the group");
            self.forget_me();
        }
        self.take_former_away().await?;
        let (name, is_there) = match &self.me {
            Some((name, _, is_there)) => (name.clone(), *is_there),
            None => {
                self.names += 1;
                let name = format!("m-{}-{}", self.identity.run, self.names);
                self.me = Some((name.clone(), session, false));
                (name, false)
            }
        };
        if is_there {
            return Ok(name);
        }
        let data = serde_json::json!([self.identity.instance, self.identity.run]).to_string();
        let path = format!("{}/{name}", self.node);
        match self.zookeeper.create(&path, data.into_bytes(), Mode::Ephemeral).await? {
            // Nobody else has this name: an answer was lost.
            Created::Made | Created::Exists => {
                if let Some((_, _, is_there)) = &mut self.me {
                    *is_there = true;
                }
                Ok(name)
            }
            Created::Denied => Err(crate::Error::config(format!(
                "{} does not let this client create {path}: members of a spout need that right below its node",
                self.zookeeper.describe()
            ))),
        }
    }

    async fn list(&mut self) -> Result<Listed> {
        let children = self.zookeeper.children(&self.node).await?.unwrap_or_default();
        let number = |name: &String| name.strip_prefix("a-")?.parse::<u64>().ok();
        let generation = children.iter().filter_map(number).max().unwrap_or(0);
        for old in children.iter().filter(|name| number(name).is_some_and(|number| number + 1 < generation)) {
            // Whoever is late finds it gone, and looks again.
            let _ = self.zookeeper.delete(&format!("{}/{old}", self.node), -1).await;
        }
        let mut let_go = BTreeMap::new();
        for name in &children {
            let told = name.strip_prefix("k-").and_then(|rest| rest.split_once('-'));
            if let Some((Ok(until), member)) = told.map(|(until, member)| (until.parse::<u64>(), member)) {
                let last = let_go.entry(member.to_owned()).or_insert(0);
                *last = until.max(*last);
            }
        }
        let members = children.into_iter().filter(|name| name.starts_with("m-")).collect();
        Ok(Listed { members, generation, let_go })
    }

    /// Who they are, and what was dealt; none if that has changed meanwhile.
    async fn view(&mut self, members: BTreeSet<String>, generation: u64) -> Result<Option<View>> {
        self.known.retain(|name, _| members.contains(name));
        for name in &members {
            if self.known.contains_key(name) {
                continue;
            }
            let Some(node) = self.zookeeper.get(&format!("{}/{name}", self.node)).await? else {
                return Ok(None);
            };
            let names: Vec<String> = serde_json::from_slice(&node.data).unwrap_or_default();
            let mut names = names.into_iter();
            let identity = Identity {
                instance: names.next().unwrap_or_else(|| name.clone()),
                run: names.next().unwrap_or_else(|| name.clone()),
            };
            self.known.insert(name.clone(), identity);
        }
        let mut view = View { members: self.known.clone(), generation, ..View::default() };
        if generation > 0 {
            let path = format!("{}/a-{generation:010}", self.node);
            let Some(node) = self.zookeeper.get(&path).await? else { return Ok(None) };
            match document::read(&node.data) {
                Ok(deal) => view.deal = deal,
                Err(why) => {
                    tracing::error!(%path, %why, "what was dealt cannot be read: all is dealt anew");
                }
            }
        }
        Ok(Some(view))
    }
}

/// The nodes of the group.
struct Listed {
    members: BTreeSet<String>,
    /// Number of the latest deal.
    generation: u64,
    let_go: BTreeMap<String, u64>,
}

/// Waits for one of them; true if it is the last.
async fn first(
    hint: impl Future<Output = ()>,
    partitions: impl Future<Output = Result<(), watch::error::RecvError>>,
    held: impl Future<Output = Result<(), watch::error::RecvError>>,
    leaving: impl Future<Output = Result<watch::Ref<'_, bool>, watch::error::RecvError>>,
) -> bool {
    let (mut hint, mut leaving) = (std::pin::pin!(hint), std::pin::pin!(leaving));
    let (mut partitions, mut held) = (std::pin::pin!(partitions), std::pin::pin!(held));
    std::future::poll_fn(|context| {
        use std::task::Poll;
        if leaving.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        let is_told = partitions.as_mut().poll(context).is_ready() || held.as_mut().poll(context).is_ready();
        if is_told || hint.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}
