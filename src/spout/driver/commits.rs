//! Positions, to the store: one set at a time, and nothing counts before its answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::operations::Done;
use super::{Driver, Env, in_millis};
use crate::checkpoint::{Checkpoint, Extras, Offer, Problem, Stored};
use crate::client::TopicPartition;
use crate::client::cluster::TopicState;
use crate::error::{Error, ErrorKind, Result};
use crate::spout::commit::Offered;
use crate::spout::handle::CommitReport;
use crate::spout::lot::AssignmentId;

/// How long a store may take for a set.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a store is asked although nothing has changed, so that positions don't expire there.
const IDLE: u64 = 30_000;

/// A partition that another member has taken is asked for again after that time, if it is dealt to this one.
const FENCED: Duration = Duration::from_secs(1);

/// An offer, and what it was made from.
pub(super) struct Dressed {
    assignment: AssignmentId,
    serial: u64,
    offer: Offer,
}

/// A set that the store has answered.
pub(super) struct Committed(Vec<(TopicPartition, AssignmentId, u64, Result<Stored>)>);

impl Committed {
    pub(super) fn first_error(&self) -> Option<&Error> {
        self.0.iter().find_map(|(.., answer)| answer.as_ref().err())
    }
}

/// Offers a set.
pub(super) async fn commit(env: Arc<Env>, dressed: Vec<Dressed>) -> Committed {
    let offers: Vec<Offer> = dressed.iter().map(|one| one.offer.clone()).collect();
    let answers = tokio::time::timeout(TIMEOUT, env.checkpoints.commit(&offers)).await;
    let mut answers = answers.unwrap_or_default().into_iter();
    let answered = dressed.into_iter().map(|one| {
        let late = || Err(Error::new(ErrorKind::Timeout(TIMEOUT)));
        let answer = answers.next().unwrap_or_else(late);
        let TopicPartition { topic, partition } = &one.offer.partition;
        let answer = answer.map_err(|why| why.with_topic(&**topic).with_partition(*partition));
        (one.offer.partition, one.assignment, one.serial, answer)
    });
    Committed(answered.collect())
}

fn is_fenced(why: &Error) -> bool {
    matches!(why.kind(), ErrorKind::Checkpoint(Problem::Foreign { .. }))
}

impl Driver {
    /// Offers what the store does not have yet.
    pub(super) fn commit(&mut self, clean: bool) {
        let now = self.now();
        self.next_commit = now + in_millis(self.env.settings.commit_interval).max(1);
        if self.committing {
            self.commit_again = true;
            return;
        }
        match self.gather(clean) {
            Some(offers) => {
                self.committing = true;
                self.last_commit = now;
                // Whoever asks from now on means the next one.
                self.waiting_for_answer.append(&mut self.waiting_for_commit);
                let env = Arc::clone(&self.env);
                self.operations.spawn(async move { Done::Committed(commit(env, offers).await) });
            }
            None if now >= self.last_commit + IDLE => {
                self.committing = true;
                self.last_commit = now;
                let env = Arc::clone(&self.env);
                self.operations.spawn(async move { Done::Committed(commit(env, Vec::new()).await) });
            }
            None => self.report_waiting(),
        }
    }

    /// One snapshot of each partition that has news.
    pub(super) fn gather(&mut self, clean: bool) -> Option<Vec<Dressed>> {
        let now = self.now();
        let mut offers = Vec::new();
        let partitions: Vec<TopicPartition> = self.parts.keys().cloned().collect();
        for partition in partitions {
            let Some(part) = self.parts.get_mut(&partition) else { continue };
            part.reached();
            if let Some(offer) = part.manager.offer(clean, now) {
                offers.push(self.dressed(&partition, offer));
            }
        }
        (!offers.is_empty()).then_some(offers)
    }

    /// The offer, with what only the driver knows.
    pub(super) fn dressed(&self, partition: &TopicPartition, offered: Offered) -> Dressed {
        let part = self.parts.get(partition);
        let assignment = part.map_or(0, |part| part.manager.place.assignment);
        let topic_id = part.and_then(|part| part.topic_id);
        let picture = self.env.cluster.shared().picture();
        let known = match picture.topic(&partition.topic) {
            Some(TopicState::Known(known)) => Some(known),
            _ => None,
        };
        let number = usize::try_from(partition.partition).unwrap_or(usize::MAX);
        let leader = known.and_then(|known| known.partitions.get(number)?.leader);
        let broker = leader.and_then(|id| picture.brokers.get(&id));
        let extras = offered.extras.map(|extras| Extras {
            topic_id,
            cluster_id: picture.cluster_id.clone(),
            ..extras
        });
        Dressed {
            assignment,
            serial: offered.serial,
            offer: Offer {
                partition: partition.clone(),
                epoch: assignment,
                checkpoint: Checkpoint {
                    offset: offered.offset,
                    owner: Some(self.env.owner.clone()),
                    broker: broker.map(|broker| (broker.address.host.clone(), broker.address.port)),
                    extras,
                },
                reset: offered.reset,
            },
        }
    }

    /// The store has answered.
    pub(super) fn take_committed(&mut self, committed: Committed) {
        self.committing = false;
        self.begin_regained();
        let now = self.now();
        for (partition, assignment, serial, answer) in committed.0 {
            let Some(part) = self.parts.get_mut(&partition) else { continue };
            if part.manager.place.assignment != assignment {
                continue;
            }
            if self.member.is_some()
                && answer.as_ref().is_err_and(is_fenced)
                && self.fenced.insert(partition.clone())
            {
                self.fence(&partition, answer.err());
                continue;
            }
            let kept = answer.is_ok();
            part.manager.on_committed(serial, answer, now);
            if kept {
                self.read(&partition);
            }
            self.settle(&partition);
        }
        let answered = std::mem::take(&mut self.waiting_for_answer);
        self.report_commit(answered);
        if std::mem::take(&mut self.commit_again) && self.closing.is_none() {
            self.commit(false);
        } else {
            self.report_waiting();
        }
    }

    /// Another member has the partition by now: whatever of it is out counts no more here. If it is this
    /// one's all the time, it is begun once more; whoever takes it then is no member, and it stops.
    fn fence(&mut self, partition: &TopicPartition, why: Option<Error>) {
        tracing::warn!(topic = %partition.topic, partition = partition.partition, why = why.map(tracing::field::display), "the partition was taken by another member: what is out of it comes again there");
        self.remove(partition);
        if self.assignment.owns(partition) {
            self.resolve_again(vec![partition.clone()], FENCED);
        }
        let (env, partition) = (Arc::clone(&self.env), partition.clone());
        tokio::spawn(async move { env.checkpoints.release(&[partition]).await });
    }

    fn report_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting_for_commit);
        self.report_commit(waiting);
    }

    /// Tells those who asked for a commit what the store has.
    fn report_commit(&mut self, to: Vec<oneshot::Sender<Result<CommitReport>>>) {
        if to.is_empty() {
            return;
        }
        self.publish();
        let report = self.commit_report();
        for waiting in to {
            let _ = waiting.send(Ok(report.clone()));
        }
    }

    pub(super) fn commit_report(&self) -> CommitReport {
        let mut report = CommitReport::default();
        for (partition, part) in &self.parts {
            if let Some(committed) = part.manager.commit.committed() {
                report.committed.push((partition.clone(), committed));
            }
            if let Some(why) = part.manager.commit.error() {
                report.failed.push((partition.clone(), why.clone()));
            }
        }
        report
    }
}
