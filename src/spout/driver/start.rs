use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Driver, Env, in_millis};
use crate::checkpoint::{Access, Owner};
use crate::client::fetcher::inbox::Inbox;
use crate::client::stream::Reader;
use crate::client::{Cluster, OutOfRange, Reset, ResetPolicy, StreamOptions};
use crate::error::{Error, Result};
use crate::spout::assignment::Assignment;
use crate::spout::builder::{From, SpoutBuilder};
use crate::spout::dead_letter::DeadLetterWriter;
use crate::spout::handle::{Shared, SpoutHandle};
use crate::spout::membership::Member;
use crate::spout::parked::Millis;
use crate::spout::settings::{OnExhausted, OnPoison, SpoutSettings};
use crate::spout::spout::Spout;

/// After a start topics are looked for once more: a broker that has just started may not know of all partitions yet.
const SECOND_LOOK: Millis = 3_000;

/// Starts a spout: everything that can be wrong at the start is found here.
pub(in crate::spout) async fn start(builder: SpoutBuilder, id: String) -> Result<Spout> {
    let SpoutBuilder { brokers, topics, patterns, store, membership, settings, .. } = builder;
    let Some(store) = store else {
        return Err(Error::config(
            "a spout needs a place for its positions: .checkpoints(…); MemoryCheckpoints keeps them as long as the process lives",
        ));
    };
    let cluster = match brokers.0 {
        From::Bootstrap(addresses) => Cluster::connect(addresses).await?,
        From::Cluster(cluster) => *cluster,
    };
    let run = crate::spout::unique();
    let owner = Owner {
        instance: settings.instance_id.clone().unwrap_or_else(|| run.clone()),
        name: settings.name.clone().unwrap_or_else(|| id.clone()),
        run,
    };
    let dead_letters = match &settings.on_exhausted {
        Some(OnExhausted::DeadLetter(to)) if topics.contains(&to.topic) => {
            let why =
                "the dead-letter topic is one of those that are read: what fails would go round in circles";
            return Err(Error::config(why).with_topic(to.topic.as_str()));
        }
        Some(OnExhausted::DeadLetter(to)) => Some(DeadLetterWriter::open(&cluster, to).await?),
        _ => None,
    };
    let checkpoints: Arc<_> = store.open(&id, Access::Own(owner.clone())).await?.into();
    let env = Env {
        cluster,
        checkpoints: Arc::clone(&checkpoints),
        owner,
        topics,
        patterns,
        dead_letters,
        settings: Arc::new(settings),
    };
    let member = membership.map(|membership| Member::join(&membership, &id, &env.owner));
    let started = begin(env, member).await;
    if started.is_err() {
        checkpoints.close().await;
    }
    started
}

async fn begin(env: Env, member: Option<Member>) -> Result<Spout> {
    let settings = Arc::clone(&env.settings);
    let shared: Arc<Shared> = Arc::default();
    let (handouts, receiver) = mpsc::unbounded_channel();
    let (sender, commands) = mpsc::unbounded_channel();
    let options = Arc::new(stream_options(&settings));
    options.check(env.cluster.shared().settings.client.request_timeout)?;
    let feed = Reader::new(env.cluster.fetcher(), Arc::new(Inbox::default()), options);
    let mut driver = Driver {
        assignment: match &member {
            Some(_) => Assignment::by_deals(),
            None => Assignment::new(settings.task_index, settings.total_tasks, settings.assignment),
        },
        member,
        letting_go: Default::default(),
        held_changed: false,
        fenced: Default::default(),
        out_of_group: None,
        env: Arc::new(env),
        shared: Arc::clone(&shared),
        mailbox: Arc::default(),
        feed,
        handouts,
        commands,
        operations: JoinSet::new(),
        parts: BTreeMap::new(),
        regained: Default::default(),
        keys: BTreeMap::new(),
        next_assignment: 1,
        due: Default::default(),
        trials: Default::default(),
        turn_of: None,
        turn_since: 0,
        began: Instant::now(),
        last_sweep: 0,
        next_commit: in_millis(settings.commit_interval),
        last_commit: 0,
        committing: false,
        commit_again: false,
        next_survey: 0,
        next_refresh: in_millis(settings.refresh_interval).clamp(1, SECOND_LOOK),
        refreshing: false,
        waiting_for_commit: Vec::new(),
        waiting_for_answer: Vec::new(),
        closing: None,
    };
    driver.begin().await?;
    tokio::spawn(driver.run());
    let handle = SpoutHandle { shared, commands: sender };
    Ok(Spout::new(handle, receiver, settings.drain_timeout))
}

/// How partitions are read: what happens to a position is the spout's to say.
fn stream_options(settings: &SpoutSettings) -> StreamOptions {
    let mut options = settings.stream.clone();
    options.reset = settings.reset.clone().unwrap_or_else(default_reset);
    options.corrupt = match settings.on_poison {
        OnPoison::Skip => crate::client::CorruptPolicy::Skip,
        OnPoison::Stop | OnPoison::GiveUp => crate::client::CorruptPolicy::Stop,
    };
    options
}

/// Likewise, for records that are fetched again: what happens to the position there moves nothing else
/// (STORM-1455).
pub(super) fn retry_options(settings: &SpoutSettings) -> StreamOptions {
    StreamOptions { reset: default_reset(), ..stream_options(settings) }
}

/// Below the start: the records are gone, and that is said. A topic that was made anew, as its id
/// proves, is read from its start. Above the end nothing proves anything: that is for people to decide.
fn default_reset() -> ResetPolicy {
    ResetPolicy::ask(|_, _, _, why| match why {
        OutOfRange::BelowStart { .. } | OutOfRange::Recreated { .. } => Reset::Earliest,
        _ => Reset::Fail,
    })
}
