//! Partitions that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::operations::Done;
use super::{Driver, Env, Part, in_millis, not_ours};
use crate::checkpoint::{Checkpoint, Extras, Problem, problem};
use crate::client::cluster::TopicState;
use crate::client::{OffsetSpec, StartOffset, TopicMetadata, TopicPartition};
use crate::error::{Error, ErrorKind, Result};
use crate::spout::assignment::Change;
use crate::spout::lot::Place;
use crate::spout::membership::Share;
use crate::spout::partition_manager::{PartitionManager, Start};
use crate::spout::settings::OnExhausted;

/// Topics, as one look found them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How many partitions each has.
    counts: BTreeMap<Arc<str>, usize>,
    /// Those that the brokers could not tell about: they are neither there nor gone.
    untold: Vec<Arc<str>>,
}

/// Where a partition starts.
pub(super) type Resolved = (Start, Discarded);

/// Why extras were not used.
type Discarded = Option<String>;

/// When what failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

impl Driver {
    /// What a spout begins with; an error is one for the builder.
    pub(super) async fn begin(&mut self) -> Result<()> {
        let seen = look(&self.env, true).await?;
        let change = self.assign(seen);
        let resolved = resolve(&self.env, &change.added).await;
        for (partition, resolved) in change.added.iter().zip(resolved) {
            let place = |why: Error| why.with_topic(&*partition.topic).with_partition(partition.partition);
            let (start, discarded) = resolved.map_err(place)?;
            self.adopt(partition, start, discarded);
        }
        // Each position is written before anything is handed out: a start proves that it may.
        let committed =
            self.gather(false).map(|offers| super::commits::commit(Arc::clone(&self.env), offers));
        if let Some(committed) = committed {
            let committed = committed.await;
            if let Some(why) = committed.first_error() {
                return Err(why.clone());
            }
            self.take_committed(committed);
        }
        self.publish();
        Ok(())
    }

    /// Looks for new topics and partitions.
    pub(super) fn refresh(&mut self) {
        if std::mem::replace(&mut self.refreshing, true) {
            return;
        }
        let env = Arc::clone(&self.env);
        self.operations.spawn(async move { Done::Seen(look(&env, false).await) });
    }

    pub(super) fn take_seen(&mut self, seen: Result<Seen>) {
        self.refreshing = false;
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                tracing::warn!(error = %why, "topics could not be looked for; it is tried again");
                return;
            }
        };
        let change = self.assign(seen);
        self.apply(change);
    }

    /// Takes in what this member of a group has.
    pub(super) fn take_share(&mut self, share: Share) {
        if self.out_of_group != share.out
            && let Some(why) = &share.out
        {
            tracing::warn!(%why, "out of the group: nothing is handed out");
        }
        self.out_of_group = share.out;
        let change = self.assignment.dealt(share.partitions);
        self.apply(change);
        self.let_go_of_lost();
        self.publish();
    }

    fn apply(&mut self, change: Change) {
        for partition in change.removed {
            match self.member {
                Some(_) => {
                    tracing::info!(topic = %partition.topic, partition = partition.partition, "the partition goes to another member")
                }
                None => {
                    tracing::warn!(topic = %partition.topic, partition = partition.partition, "the partition is gone")
                }
            }
            self.regained.remove(&partition);
            self.fenced.remove(&partition);
            self.lose(&partition);
        }
        // One that is being let go is begun anew when it is gone and its position kept.
        let (leaving, added): (Vec<_>, Vec<_>) =
            change.added.into_iter().partition(|partition| self.parts.contains_key(partition));
        self.regained.extend(leaving);
        if !added.is_empty() {
            tracing::info!(partitions = added.len(), "new partitions");
            self.resolve_later(added);
        }
    }

    /// What others of the group must not begin yet.
    pub(super) fn tell_what_is_held(&mut self) {
        if std::mem::take(&mut self.held_changed)
            && let Some(member) = &self.member
        {
            member.holds(self.parts.keys().chain(&self.letting_go).cloned().collect());
        }
    }

    fn assign(&mut self, seen: Seen) -> Change {
        let Seen { mut counts, untold } = seen;
        for topic in untold {
            if let Some(known) = self.assignment.partitions(&topic) {
                counts.entry(topic).or_insert(known);
            }
        }
        let change = self.assignment.update(&counts);
        if let Some(member) = &self.member {
            member.tell(self.assignment.all());
        }
        change
    }

    /// Partitions that came back while they were being let go, and are gone by now.
    pub(super) fn begin_regained(&mut self) {
        let gone: Vec<TopicPartition> =
            self.regained.iter().filter(|partition| !self.parts.contains_key(*partition)).cloned().collect();
        if !gone.is_empty() {
            self.regained.retain(|partition| !gone.contains(partition));
            self.resolve_later(gone);
        }
    }

    fn resolve_later(&mut self, added: Vec<TopicPartition>) {
        let env = Arc::clone(&self.env);
        self.operations.spawn(async move {
            let resolved = resolve(&env, &added).await;
            Done::Resolved(added.into_iter().zip(resolved).collect())
        });
    }

    pub(super) fn take_resolved(&mut self, resolved: Vec<(TopicPartition, Result<Resolved>)>) {
        let mut again = Vec::new();
        for (partition, resolved) in resolved {
            if !self.assignment.owns(&partition) {
                // Lost again before it was begun.
                continue;
            }
            match resolved {
                Ok((start, discarded)) => self.adopt(&partition, start, discarded),
                Err(why) => {
                    tracing::error!(topic = %partition.topic, partition = partition.partition, error = %why, "the partition cannot be begun; it is tried again");
                    again.push(partition);
                }
            }
        }
        if !again.is_empty() {
            self.resolve_again(again, AGAIN);
        }
        // Read only once the store has the claim.
        self.commit(false);
    }

    /// Tries once more to begin these, after a while.
    pub(super) fn resolve_again(&mut self, again: Vec<TopicPartition>, delay: Duration) {
        let env = Arc::clone(&self.env);
        self.operations.spawn(async move {
            tokio::time::sleep(delay).await;
            let resolved = resolve(&env, &again).await;
            Done::Resolved(again.into_iter().zip(resolved).collect())
        });
    }

    /// Takes a partition, at its start; nothing is read before the store has answered.
    fn adopt(&mut self, partition: &TopicPartition, start: Start, discarded: Discarded) {
        if self.closing.is_some() || self.parts.contains_key(partition) {
            return;
        }
        tracing::info!(topic = %partition.topic, partition = partition.partition, offset = start.offset, stored = start.stored, "begins");
        let assignment = self.next_assignment;
        self.next_assignment += 1;
        let place = Place::new(&partition.topic, partition.partition, assignment, &self.mailbox);
        let keys = self.keys.remove(partition);
        let mut manager = PartitionManager::new(place, &self.env.settings, start, keys, self.now());
        if let Some(why) = discarded {
            manager.counters.discarded_extras += 1;
            tracing::warn!(topic = %partition.topic, partition = partition.partition, %why, "what was kept beside the position is not used: records beyond it may come again");
        }
        let part = Part {
            manager,
            topic_id: topic_id(&self.env, &partition.topic),
            slot: None,
            reading: true,
            due: None,
            leaving: None,
            pressure: None,
        };
        if part.manager.is_alone() {
            self.trials.insert(partition.clone());
            self.shared.trial.store(true, Ordering::SeqCst);
        }
        self.parts.insert(partition.clone(), part);
        self.held_changed = true;
    }

    /// Reads a partition whose position the store has.
    pub(super) fn read(&mut self, partition: &TopicPartition) {
        let Some(part) = self.parts.get_mut(partition) else { return };
        if part.slot.is_some() || part.manager.stopped().is_some() || part.leaving.is_some() {
            return;
        }
        let start = part.manager.reads_from(part.manager.intake());
        let slot = self.feed.add(&partition.topic, partition.partition, start);
        part.reading = true;
        part.slot = Some(slot);
        self.settle(partition);
    }

    /// A partition is not ours any more: nothing is handed out, what is out may still be answered.
    fn lose(&mut self, partition: &TopicPartition) {
        let now = self.now();
        let Some(part) = self.parts.get_mut(partition) else { return };
        part.manager.drain();
        part.leaving.get_or_insert(now.saturating_add(in_millis(self.env.settings.drain_timeout)));
        if let Some(slot) = &part.slot {
            slot.pause();
        }
        part.reading = false;
    }

    /// Partitions that were lost, and have nothing more to wait for, are let go.
    pub(super) fn let_go_of_lost(&mut self) {
        let now = self.now();
        let ready: Vec<TopicPartition> = self
            .parts
            .iter()
            .filter(|(_, part)| {
                part.leaving.is_some_and(|by| now >= by || part.manager.outstanding() == 0)
                    && !part.manager.commit.is_under_way()
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        if ready.is_empty() || self.committing {
            return;
        }
        let mut offers = Vec::new();
        for partition in &ready {
            let offer = self.parts.get_mut(partition).and_then(|part| {
                part.reached();
                part.manager.offer(true, now)
            });
            offers.extend(offer.map(|offer| self.dressed(partition, offer)));
            self.remove(partition);
        }
        self.letting_go.extend(ready.iter().cloned());
        self.committing = true;
        let (env, offers) = (Arc::clone(&self.env), offers);
        self.operations.spawn(async move {
            let committed = super::commits::commit(Arc::clone(&env), offers).await;
            env.checkpoints.release(&ready).await;
            Done::LetGo(committed, ready)
        });
    }

    pub(super) fn remove(&mut self, partition: &TopicPartition) {
        let Some(part) = self.parts.remove(partition) else { return };
        self.held_changed = true;
        if let Some(due) = part.due {
            self.due.remove(&(due, partition.clone()));
        }
        if let Some(slot) = &part.slot {
            self.feed.remove(slot);
        }
        if let Some(keys) = part.manager.into_keys() {
            self.keys.insert(partition.clone(), keys);
        }
    }

    /// Goes on with a partition that stopped, as if the spout had been started anew.
    pub(super) fn resume(&mut self, partition: &TopicPartition) -> Result<()> {
        let part = self.parts.get_mut(partition).ok_or_else(|| not_ours(partition))?;
        if part.manager.stopped().is_none() {
            return Ok(());
        }
        let start = part.manager.restart();
        self.remove(partition);
        self.adopt(partition, start, None);
        self.commit(false);
        Ok(())
    }
}

/// How many partitions a topic has: the highest number counts. A broker that has just started leaves some
/// out (seen on 0.8.2.2).
fn count(topic: &TopicMetadata) -> usize {
    let highest = topic.partitions.iter().map(|partition| partition.id).max();
    highest.and_then(|highest| usize::try_from(highest).ok()).map_or(0, |highest| highest + 1)
}

/// The topics that are meant, as far as they exist. `first`: that there is none is an error.
async fn look(env: &Env, first: bool) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut why = None;
    if !env.topics.is_empty() {
        let names: Vec<&str> = env.topics.iter().map(String::as_str).collect();
        let metadata = env.cluster.metadata(&names).await?;
        for topic in metadata.topics {
            match topic.error {
                None => drop(seen.counts.insert(topic.name.as_str().into(), count(&topic))),
                Some(error) => {
                    if !matches!(error.kind(), ErrorKind::UnknownTopic { .. }) {
                        seen.untold.push(topic.name.as_str().into());
                    }
                    tracing::warn!(topic = %topic.name, %error, "the topic cannot be read yet");
                    why.get_or_insert(error.with_topic(topic.name));
                }
            }
        }
    }
    let dead_letters = match &env.settings.on_exhausted {
        Some(OnExhausted::DeadLetter(to)) => Some(to.topic.as_str()),
        _ => None,
    };
    if !env.patterns.is_empty() {
        for topic in env.cluster.all_topics().await?.topics {
            let is_meant = env.patterns.iter().any(|pattern| pattern.matches(&topic.name))
                // What fails would go round in circles.
                && dead_letters != Some(topic.name.as_str());
            match topic.error {
                _ if !is_meant => {}
                None => drop(seen.counts.insert(topic.name.as_str().into(), count(&topic))),
                Some(_) => seen.untold.push(topic.name.as_str().into()),
            }
        }
    }
    match why {
        Some(why) if first && seen.counts.is_empty() => Err(why),
        _ => Ok(seen),
    }
}

/// Where partitions start: at their checkpoints, or where the settings say.
async fn resolve(env: &Env, partitions: &[TopicPartition]) -> Vec<Result<Resolved>> {
    if partitions.is_empty() {
        return Vec::new();
    }
    if let Err(why) = hear_of_topics(env, partitions).await {
        return partitions.iter().map(|_| Err(why.clone())).collect();
    }
    let loaded = env.checkpoints.load(partitions).await;
    let mut resolved: Vec<Option<Result<Resolved>>> = Vec::with_capacity(partitions.len());
    let mut fresh = Vec::new();
    let mut stored = Vec::new();
    for (at, loaded) in loaded.into_iter().enumerate() {
        match loaded {
            Err(why) => resolved.push(Some(Err(why))),
            Ok(loaded) => {
                let found = loaded.checkpoint.filter(|found| !is_set_aside(env, found));
                match found {
                    Some(checkpoint) => stored.push((at, checkpoint, loaded.discarded)),
                    None if env.settings.require_checkpoint => {
                        resolved.push(Some(Err(problem(Problem::Missing))));
                        continue;
                    }
                    None => fresh.push(at),
                }
                resolved.push(None);
            }
        }
    }
    for (at, start) in fresh.iter().zip(start_fresh(env, &fresh, partitions).await) {
        if let Some(place) = resolved.get_mut(*at) {
            *place = Some(start.map(|offset| (Start { offset, ..Start::default() }, None)));
        }
    }
    let ends = ends(env, &stored, partitions).await;
    for (at, checkpoint, discarded) in stored {
        let start = match partitions.get(at) {
            Some(partition) => go_on(env, partition, checkpoint, discarded, ends.get(&at).copied()).await,
            None => Err(Error::new(ErrorKind::Incomplete("a checkpoint"))),
        };
        if let Some(place) = resolved.get_mut(at) {
            *place = Some(start);
        }
    }
    let missing = || Err(Error::new(ErrorKind::Incomplete("a checkpoint")));
    let mut resolved: Vec<Result<Resolved>> =
        resolved.into_iter().map(|resolved| resolved.unwrap_or_else(missing)).collect();
    resolved.resize_with(partitions.len(), missing);
    resolved
}

/// Has the cluster's picture tell of the topics: their ids say whether a position is theirs (STORM-2624).
async fn hear_of_topics(env: &Env, partitions: &[TopicPartition]) -> Result<()> {
    for partition in partitions {
        env.cluster.shared().use_topic(&partition.topic);
    }
    // One read tells of all.
    let unheard = |it: &&TopicPartition| env.cluster.shared().picture().topic(&it.topic).is_none();
    match partitions.iter().find(unheard) {
        Some(partition) => env.cluster.partitions(&partition.topic).await.map(drop),
        None => Ok(()),
    }
}

/// Another instance left it, and such are not to count.
fn is_set_aside(env: &Env, found: &Checkpoint) -> bool {
    let instance = found.owner.as_ref().map(|owner| owner.instance.as_str());
    env.settings.ignore_stored_offsets && instance != Some(env.owner.instance.as_str())
}

async fn start_fresh(env: &Env, fresh: &[usize], partitions: &[TopicPartition]) -> Vec<Result<i64>> {
    let start = env.settings.start;
    if let Some(at) = start.position() {
        return fresh.iter().map(|_| Ok(at.offset)).collect();
    }
    let specs = match start {
        StartOffset::Latest => vec![OffsetSpec::Latest],
        StartOffset::Timestamp(time) => vec![OffsetSpec::Timestamp(time), OffsetSpec::Latest],
        StartOffset::Tail(_) => vec![OffsetSpec::Latest, OffsetSpec::Earliest],
        _ => vec![OffsetSpec::Earliest],
    };
    let mut wanted = Vec::new();
    for at in fresh {
        if let Some(partition) = partitions.get(*at) {
            wanted.extend(specs.iter().map(|spec| (&*partition.topic, partition.partition, *spec)));
        }
    }
    let listed = match wanted.is_empty() {
        true => Ok(Vec::new()),
        false => env.cluster.list_offsets(&wanted).await,
    };
    let listed = match listed {
        Ok(listed) => listed,
        Err(why) => return fresh.iter().map(|_| Err(why.clone())).collect(),
    };
    let offsets = listed.chunks(specs.len()).map(|listed| {
        if let Some(why) = listed.iter().find_map(|one| one.error.clone()) {
            return Err(why);
        }
        let offset = |at: usize| listed.get(at).and_then(|one| one.offset);
        let found = match start {
            StartOffset::Tail(count) => {
                let back = i64::try_from(count).unwrap_or(i64::MAX);
                offset(0).map(|end| end.saturating_sub(back).max(offset(1).unwrap_or(0)))
            }
            // No record of that time or later: at the end.
            _ => offset(0).or_else(|| offset(1)),
        };
        found.ok_or_else(|| Error::new(ErrorKind::Incomplete("an offset to start from")))
    });
    offsets.collect()
}

/// Where the logs end of partitions that have something done beyond their position.
async fn ends(
    env: &Env,
    stored: &[(usize, Checkpoint, Discarded)],
    partitions: &[TopicPartition],
) -> BTreeMap<usize, i64> {
    let with_runs = stored
        .iter()
        .filter(|(_, found, _)| found.extras.as_ref().is_some_and(|extras| !extras.done.is_empty()));
    let asked: Vec<(usize, &TopicPartition)> =
        with_runs.filter_map(|(at, ..)| Some((*at, partitions.get(*at)?))).collect();
    let wanted: Vec<_> = asked.iter().map(|(_, of)| (&*of.topic, of.partition, OffsetSpec::Latest)).collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    match env.cluster.list_offsets(&wanted).await {
        Ok(listed) => {
            let ends = asked.iter().zip(listed).filter_map(|((at, _), listed)| Some((*at, listed.offset?)));
            ends.collect()
        }
        // Unknown: nothing is passed over then.
        Err(why) => {
            tracing::warn!(error = %why, "the ends of the logs are not known");
            BTreeMap::new()
        }
    }
}

/// Goes on at a checkpoint. What was kept beside the position counts only if it fits the log.
async fn go_on(
    env: &Env,
    partition: &TopicPartition,
    checkpoint: Checkpoint,
    mut discarded: Discarded,
    end: Option<i64>,
) -> Result<Resolved> {
    let Checkpoint { offset, extras, .. } = checkpoint;
    if offset < 0 {
        return Err(problem(Problem::Unreadable {
            place: env.checkpoints.describe(),
            why: format!("{offset} is no offset"),
        }));
    }
    let Some(mut extras) = extras else {
        return Ok((Start { offset, stored: true, ..Start::default() }, discarded));
    };
    let mut start = Start { offset, stored: true, ..Start::default() };
    if let (Some(old), Some(new)) = (extras.topic_id, topic_id(env, &partition.topic))
        && old != new
    {
        // Another topic of the same name: the position is not one of its.
        tracing::warn!(topic = %partition.topic, partition = partition.partition, %old, %new, "the topic was deleted and made again: it is read from its start");
        let earliest = env.cluster.earliest_offset(&partition.topic, partition.partition).await?;
        let extras = Extras { serial: extras.serial, ..Extras::default() };
        return Ok((Start { offset: earliest, extras, stored: true, fell_from: Some(offset) }, discarded));
    }
    if let (Some(ours), Some(theirs)) = (env.cluster.cluster_id(), &extras.cluster_id)
        && ours != *theirs
    {
        discarded = Some(format!("it was written for cluster {theirs}, this is {ours}"));
        extras = Extras { serial: extras.serial, ..Extras::default() };
    }
    let top = extras.done.last().map(|run| run.end);
    if let Some(top) = top
        && end.is_none_or(|end| top > end)
    {
        discarded = Some(match end {
            Some(end) => format!("it tells of records up to {top}, and the log ends at {end}"),
            None => "where the log ends is not known".to_owned(),
        });
        extras.done.clear();
    }
    if let Some(epoch) = extras.leader_epoch
        && let Ok(told) =
            env.cluster.offset_for_leader_epoch(&partition.topic, partition.partition, epoch).await
        && let Some(parted) = told.end_offset
        && (0..offset).contains(&parted)
    {
        tracing::warn!(topic = %partition.topic, partition = partition.partition, offset, parted, "the log was truncated below the position (an unclean election): going on where it parts");
        extras.done.clear();
        extras.unfinished.clear();
        start.fell_from = Some(offset);
        start.offset = parted;
    }
    if !extras.clean && !extras.idle {
        extras.deaths = extras.deaths.saturating_add(1);
    }
    start.extras = extras;
    Ok((start, discarded))
}

fn topic_id(env: &Env, topic: &str) -> Option<crate::wire::Uuid> {
    match env.cluster.shared().picture().topic(topic) {
        Some(TopicState::Known(known)) => known.id,
        _ => None,
    }
}
