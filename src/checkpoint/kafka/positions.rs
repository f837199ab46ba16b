//! What an owner knows of its positions in Kafka: a plain state machine, without clock or connection.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::checkpoint::{Extras, Owner, Problem};
use crate::client::{GroupOffset, TopicPartition};

use super::note;

/// Between looks at what is there.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Unchanged positions are committed again so often.
const RENEW_EVERY: Duration = Duration::from_secs(3600);
/// A broker that forgets faster than this is not kept up with.
const RENEW_AT_MOST_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Positions {
    /// This owner's run; none for an editor.
    run: Option<String>,
    /// Bytes that the broker has room for beside an offset.
    pub(super) room: usize,
    renew_every: Duration,
    known: BTreeMap<TopicPartition, Position>,
}

/// What is known of one partition.
#[derive(Debug, Default)]
struct Position {
    expected: Expected,
    /// Offsets that commits without an answer may have left, lowest and highest.
    in_doubt: Option<(i64, i64)>,
    looked_at: Option<Instant>,
    /// The last commit that was answered, and when.
    kept: Option<(GroupOffset, Instant)>,
    /// Gone, and to be committed again.
    is_gone: bool,
}

/// What should be there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Expected {
    #[default]
    Anything,
    Nothing,
    Offset {
        offset: i64,
        run: Option<String>,
        serial: u64,
    },
}

/// What is there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) offset: i64,
    pub(super) owner: Option<Owner>,
    pub(super) serial: u64,
    /// Its owner has closed, or there is none that could tell.
    pub(super) is_free: bool,
}

impl Found {
    pub(super) fn new(offset: i64, owner: Option<Owner>, extras: Option<&Extras>) -> Self {
        let serial = extras.map_or(0, |extras| extras.serial);
        let is_free = run(owner.as_ref()).is_none() || extras.is_none_or(|extras| extras.clean);
        Found { offset, owner, serial, is_free }
    }

    /// Who wrote it, and where.
    pub(super) fn who(&self) -> String {
        let text = |text: fn(&Owner) -> &String| self.owner.as_ref().map_or("", |owner| text(owner));
        let (name, instance, run) = (text(|it| &it.name), text(|it| &it.instance), text(|it| &it.run));
        format!("{name} (instance {instance}, run {run}), at offset {}", self.offset)
    }
}

/// The run that says it is the owner; nobody's is empty.
fn run(owner: Option<&Owner>) -> Option<&str> {
    owner.map(|owner| owner.run.as_str()).filter(|run| !run.is_empty())
}

impl Positions {
    pub(super) fn new(run: Option<String>, has_room: bool) -> Self {
        let room = if has_room { note::ROOM } else { 0 };
        Positions { run, room, renew_every: RENEW_EVERY, known: BTreeMap::new() }
    }

    /// It was read.
    pub(super) fn loaded(&mut self, partition: &TopicPartition, found: Option<&Found>) {
        let expected = found.map_or(Expected::Nothing, |found| Expected::Offset {
            offset: found.offset,
            run: run(found.owner.as_ref()).map(str::to_owned),
            serial: found.serial,
        });
        self.known.insert(partition.clone(), Position { expected, ..Position::default() });
    }

    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.known.remove(partition);
    }

    /// The partitions to look at before these are committed: those of them that were never looked at;
    /// all that are known when the time has come.
    pub(super) fn to_look_at(&self, offered: &[&TopicPartition], now: Instant) -> Vec<TopicPartition> {
        let is_old = |position: &Position| position.looked_at.is_some_and(|at| now - at >= LOOK_EVERY);
        if self.known.values().any(is_old) {
            let others = self.known.iter().filter(|(_, position)| position.kept.is_some());
            let all = others.map(|(partition, _)| partition).chain(offered.iter().copied());
            let all: std::collections::BTreeSet<&TopicPartition> = all.collect();
            return all.into_iter().cloned().collect();
        }
        let is_new =
            |partition: &&TopicPartition| self.known.get(*partition).is_none_or(|it| it.looked_at.is_none());
        offered.iter().copied().filter(is_new).cloned().collect()
    }

    /// Whether this partition may be written to without a look.
    pub(super) fn was_looked_at(&self, partition: &TopicPartition) -> bool {
        self.known.get(partition).is_some_and(|position| position.looked_at.is_some())
    }

    /// This is there now: is it what should be?
    pub(super) fn look(
        &mut self,
        partition: &TopicPartition,
        found: Option<&Found>,
        now: Instant,
    ) -> Result<(), Problem> {
        let me = self.run.as_deref();
        let position = self.known.entry(partition.clone()).or_default();
        // Until all is well, each commit looks again.
        position.looked_at = None;
        match found {
            None => {
                if let Some((_, at)) = &position.kept
                    && !position.is_gone
                {
                    position.is_gone = true;
                    self.renew_every = self.renew_every.min((now - *at) / 2).max(RENEW_AT_MOST_EVERY);
                }
            }
            Some(found) => position.check(found, me)?,
        }
        position.looked_at = Some(now);
        Ok(())
    }

    /// This is about to be sent; perhaps its answer is lost.
    pub(super) fn sending(&mut self, partition: &TopicPartition, offset: i64) {
        let position = self.known.entry(partition.clone()).or_default();
        let (low, high) = position.in_doubt.unwrap_or((offset, offset));
        position.in_doubt = Some((low.min(offset), high.max(offset)));
    }

    /// The broker has it.
    pub(super) fn kept(&mut self, partition: &TopicPartition, sent: GroupOffset, now: Instant) {
        let run = self.run.clone();
        let position = self.known.entry(partition.clone()).or_default();
        position.expected = Expected::Offset { offset: sent.offset, run, serial: u64::MAX };
        (position.in_doubt, position.is_gone) = (None, false);
        position.kept = Some((sent, now));
    }

    /// Unchanged positions that are due to be committed again.
    pub(super) fn to_renew(&self, offered: &[&TopicPartition], now: Instant) -> Vec<GroupOffset> {
        let due = |(partition, position): (&TopicPartition, &Position)| {
            let (sent, at) = position.kept.as_ref()?;
            let is_due = position.is_gone || now - *at >= self.renew_every;
            (is_due && position.looked_at.is_some() && !offered.contains(&partition)).then(|| sent.clone())
        };
        self.known.iter().filter_map(due).collect()
    }
}

impl Position {
    fn check(&self, found: &Found, me: Option<&str>) -> Result<(), Problem> {
        let theirs = run(found.owner.as_ref());
        let (offset, run, serial) = match &self.expected {
            Expected::Anything => return Ok(()),
            _ if theirs.is_some() && theirs == me => return Ok(()),
            Expected::Nothing if theirs.is_none() => {
                let in_doubt = self.in_doubt.is_some_and(|range| contains(range, found.offset));
                let changed = Problem::Changed { expected: None, found: Some(found.offset) };
                return if in_doubt { Ok(()) } else { Err(changed) };
            }
            Expected::Nothing => return Err(Problem::Foreign { owner: found.who() }),
            Expected::Offset { offset, run, serial } => (*offset, run.as_deref(), *serial),
        };
        if theirs.is_some() {
            let is_as_it_was = theirs == run && found.serial == serial && found.offset == offset;
            return if is_as_it_was { Ok(()) } else { Err(Problem::Foreign { owner: found.who() }) };
        }
        let in_doubt = self.in_doubt.unwrap_or((offset, offset));
        let possible = (in_doubt.0.min(offset), in_doubt.1.max(offset));
        if contains(possible, found.offset) {
            return Ok(());
        }
        Err(Problem::Changed { expected: Some(offset), found: Some(found.offset) })
    }
}

fn contains((low, high): (i64, i64), offset: i64) -> bool {
    (low..=high).contains(&offset)
}
