//! Writing positions.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::positions::{Found, Positions};
use super::{Opened, note};
use crate::checkpoint::{Checkpoint, Offer, Problem, Stored, problem_at};
use crate::client::{Committed, CommittedOffset, GroupOffset, TopicPartition};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::ErrorCode;

/// A request's positions become one batch in Kafka, which has to fit into `message.max.bytes` (1 MB).
const MOST_IN_A_REQUEST: usize = 512 << 10;
/// What a position takes beside its names and its metadata, about.
const AROUND_A_POSITION: usize = 64;

/// A position to be sent.
#[derive(Debug)]
struct Sending<'a> {
    partition: TopicPartition,
    what: What<'a>,
}

#[derive(Debug)]
enum What<'a> {
    /// The offer with this number.
    Offer(usize, &'a Checkpoint),
    /// One that has not changed.
    Renewal(GroupOffset),
}

impl Opened {
    /// An outcome for each offer; what is due besides is committed too.
    pub(super) async fn commit_all(&self, offers: &[Offer]) -> Vec<Result<Stored>> {
        let mut positions = self.positions.lock().await;
        let partitions: Vec<&TopicPartition> = offers.iter().map(|offer| &offer.partition).collect();
        let mut outcomes: Vec<Option<Result<Stored>>> = offers.iter().map(|_| None).collect();
        let problems = self.look(&mut positions, &partitions).await;
        let mut sending = VecDeque::new();
        for (number, offer) in offers.iter().enumerate() {
            match problems.get(&offer.partition) {
                Some(why) => outcomes[number] = Some(Err(why.clone())),
                None => sending.push_back(Sending {
                    partition: offer.partition.clone(),
                    what: What::Offer(number, &offer.checkpoint),
                }),
            }
        }
        for sent in positions.to_renew(&partitions, Instant::now()) {
            let partition = TopicPartition::new(&*sent.topic, sent.partition);
            sending.push_back(Sending { partition, what: What::Renewal(sent) });
        }
        let refused = self.send_all(&mut positions, sending, &mut outcomes).await;
        self.explain(&mut positions, refused, offers, &mut outcomes).await;
        let missing = || Err(Error::new(ErrorKind::Incomplete("this partition")));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }

    /// Looks at what is there, where that is due: has anybody else been at it?
    async fn look(
        &self,
        positions: &mut Positions,
        offered: &[&TopicPartition],
    ) -> BTreeMap<TopicPartition, Error> {
        if self.is_forced {
            return BTreeMap::new();
        }
        let wanted = positions.to_look_at(offered, Instant::now());
        let found = match self.fetch(&wanted).await {
            Ok(found) => found,
            Err(why) => {
                // What was never looked at waits; for the rest the next commit looks.
                let unseen = wanted.into_iter().filter(|partition| !positions.was_looked_at(partition));
                return unseen.map(|partition| (partition, why.clone())).collect();
            }
        };
        let mut problems = BTreeMap::new();
        for (partition, found) in wanted.iter().zip(&found) {
            if let Err(why) = self.look_at(positions, partition, found) {
                if !offered.contains(&partition) {
                    tracing::error!(%partition, group = %self.group, %why, "a position that has not changed here");
                }
                problems.insert(partition.clone(), why);
            }
        }
        problems
    }

    fn look_at(
        &self,
        positions: &mut Positions,
        partition: &TopicPartition,
        committed: &CommittedOffset,
    ) -> Result<()> {
        if let Some(why) = &committed.error {
            return if positions.was_looked_at(partition) { Ok(()) } else { Err(why.clone()) };
        }
        let found = committed.offset.map(|offset| {
            let note = note::read(&committed.metadata, offset).ok();
            let (owner, extras) = note.map_or((None, None), |(owner, extras)| (owner, Some(extras)));
            Found::new(offset, owner, extras.as_ref())
        });
        if let Some(found) = found.as_ref().filter(|found| self.spares_live_owners && !found.is_free) {
            let by = format!("{}, which has not closed", found.who());
            return Err(problem_at(partition, Problem::Locked { by }));
        }
        positions.look(partition, found.as_ref(), Instant::now()).map_err(|why| problem_at(partition, why))
    }

    /// Sends all; gives what was refused, and why.
    async fn send_all<'a>(
        &self,
        positions: &mut Positions,
        mut waiting: VecDeque<Sending<'a>>,
        outcomes: &mut [Option<Result<Stored>>],
    ) -> Vec<(Sending<'a>, Error)> {
        let mut refused = Vec::new();
        let mut most = usize::MAX;
        while !waiting.is_empty() {
            let (mut set, mut request, mut done, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
            while let Some(one) = waiting.front() {
                let (offset, done_until) = one.encode(positions.room);
                let size = offset.topic.len() + offset.metadata.len() + AROUND_A_POSITION;
                if !set.is_empty() && (bytes + size > MOST_IN_A_REQUEST || set.len() >= most) {
                    break;
                }
                bytes += size;
                positions.sending(&one.partition, offset.offset);
                request.push(offset);
                done.push(done_until);
                set.extend(waiting.pop_front());
            }
            let answer = self.cluster.commit_offsets(&self.group, &request).await;
            let answers = answers(answer, set.len());
            let (count, room) = (set.len(), positions.room);
            let now = Instant::now();
            for (((one, sent), done_until), error) in set.into_iter().zip(request).zip(done).zip(answers) {
                match error.as_ref().map(|why| why.code()) {
                    None => {
                        positions.kept(&one.partition, sent, now);
                        if let What::Offer(number, _) = one.what {
                            outcomes[number] = Some(Ok(Stored { done_until }));
                        }
                    }
                    // The batch is too large, or even the one position.
                    Some(Some(ErrorCode::INVALID_COMMIT_OFFSET_SIZE)) if count > 1 => {
                        most = count / 2;
                        waiting.push_back(one);
                    }
                    Some(Some(
                        ErrorCode::OFFSET_METADATA_TOO_LARGE | ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
                    )) if !sent.metadata.is_empty() => {
                        positions.room = positions.room.min(note::less_than(room));
                        waiting.push_back(one);
                    }
                    Some(_) => refused.extend(error.map(|why| (one, why))),
                }
            }
            if positions.room < room {
                tracing::warn!(
                    group = %self.group, from = room, to = positions.room,
                    "the broker has less room beside an offset (offset.metadata.max.bytes): less of what is done beyond it is kept"
                );
            }
        }
        refused
    }

    /// Looks at what was refused: perhaps somebody else's position is there by now.
    async fn explain(
        &self,
        positions: &mut Positions,
        refused: Vec<(Sending<'_>, Error)>,
        offers: &[Offer],
        outcomes: &mut [Option<Result<Stored>>],
    ) {
        let asked = refused.iter().filter(|(one, why)| {
            // The broker has refused it; of the others nothing is known.
            why.code().is_some() && one.offer().is_some() && !self.is_forced
        });
        let asked: Vec<TopicPartition> = asked.map(|(one, _)| one.partition.clone()).collect();
        let found = self.fetch(&asked).await.unwrap_or_default();
        let mut better = BTreeMap::new();
        for (partition, found) in asked.iter().zip(&found) {
            if let Err(why) = self.look_at(positions, partition, found) {
                better.insert(partition, why);
            }
        }
        for (one, why) in &refused {
            let why = match better.get(&one.partition) {
                Some(better) if matches!(better.kind(), ErrorKind::Checkpoint(_)) => better.clone(),
                _ => self.refusal(&one.partition, why),
            };
            match one.offer() {
                Some(number) => {
                    outcomes[number] = Some(Err(why.with_offset(offers[number].checkpoint.offset)))
                }
                None => {
                    tracing::warn!(partition = %one.partition, group = %self.group, %why, "an unchanged position could not be committed again");
                }
            }
        }
    }

    /// The error of a commit, in words that say what to do.
    fn refusal(&self, partition: &TopicPartition, why: &Error) -> Error {
        match why.code() {
            Some(
                ErrorCode::ILLEGAL_GENERATION
                | ErrorCode::UNKNOWN_MEMBER_ID
                | ErrorCode::REBALANCE_IN_PROGRESS
                | ErrorCode::STALE_MEMBER_EPOCH
                | ErrorCode::FENCED_INSTANCE_ID,
            ) => problem_at(partition, Problem::Members { group: self.group.clone() }),
            _ => why.clone(),
        }
    }
}

impl Sending<'_> {
    fn offer(&self) -> Option<usize> {
        match self.what {
            What::Offer(number, _) => Some(number),
            What::Renewal(_) => None,
        }
    }

    /// As it is sent where there is so much room, and how far runs are in it.
    fn encode(&self, room: usize) -> (GroupOffset, i64) {
        match &self.what {
            What::Renewal(sent) => {
                let mut sent = sent.clone();
                if sent.metadata.len() > room {
                    sent.metadata.clear();
                }
                (sent, 0)
            }
            What::Offer(_, checkpoint) => {
                let note = note::write(checkpoint, room);
                let TopicPartition { topic, partition } = &self.partition;
                let mut offset =
                    GroupOffset::new(&**topic, *partition, checkpoint.offset).metadata(note.text);
                offset.leader_epoch = checkpoint.extras.as_ref().and_then(|extras| extras.leader_epoch);
                (offset, note.done_until)
            }
        }
    }
}

/// The error of each position, if it has one.
fn answers(answer: Result<Vec<Committed>>, count: usize) -> Vec<Option<Error>> {
    match answer {
        Ok(answers) if answers.len() == count => answers.into_iter().map(|one| one.error).collect(),
        Ok(_) => vec![Some(Error::new(ErrorKind::Incomplete("all partitions"))); count],
        Err(why) => vec![Some(why); count],
    }
}
