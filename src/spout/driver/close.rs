//! The end: nothing more is handed out, what is out is waited for, positions are kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::part::Part;
use super::{Driver, in_millis};
use crate::error::{Error, ErrorKind, Result};
use crate::spout::handle::CloseReport;
use crate::spout::parked::Millis;

/// How long the last commit may take.
const LAST_COMMIT: Millis = 2_000;

/// A close that is under way.
pub(super) struct Closing {
    phase: Phase,
    replies: Vec<oneshot::Sender<Result<CloseReport>>>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// What is out is waited for until then.
    Draining(Millis),
    /// The commit that was under way comes first, until then.
    Settling(Millis),
    /// The last commit was begun, and is waited for until then.
    Committing(Millis),
    Done,
}

impl Closing {
    pub(super) fn wakes_at(&self) -> Millis {
        match self.phase {
            Phase::Draining(at) | Phase::Settling(at) | Phase::Committing(at) => at,
            Phase::Done => Millis::MAX / 4,
        }
    }
}

impl Driver {
    pub(super) fn close(&mut self, within: Duration, reply: oneshot::Sender<Result<CloseReport>>) {
        let deadline = self.now().saturating_add(in_millis(within));
        match &mut self.closing {
            Some(closing) => {
                // The more hurried one counts.
                if let Phase::Draining(until) = &mut closing.phase {
                    *until = deadline.min(*until);
                }
                closing.replies.push(reply);
            }
            None => {
                self.closing = Some(Closing { phase: Phase::Draining(deadline), replies: vec![reply] });
                for part in self.parts.values_mut() {
                    part.manager.drain();
                    if let Some(slot) = &part.slot {
                        slot.pause();
                    }
                    part.reading = false;
                }
                self.shared.wake();
            }
        }
    }

    /// Goes on with a close, if one is under way; false when it is done.
    pub(super) fn go_on_closing(&mut self) -> bool {
        let now = self.now();
        loop {
            let Some(closing) = &mut self.closing else { return true };
            match closing.phase {
                Phase::Draining(until) => {
                    let out: u64 = self.parts.values().map(|part| part.manager.outstanding()).sum();
                    let writing: usize = self.parts.values().map(|part| part.manager.giving_up()).sum();
                    if (out > 0 || writing > 0) && now < until {
                        return true;
                    }
                    closing.phase = Phase::Settling(now + LAST_COMMIT);
                }
                Phase::Settling(until) => {
                    if self.committing && now < until {
                        return true;
                    }
                    closing.phase = Phase::Committing(now + LAST_COMMIT);
                    self.committing = false;
                    self.commit(true);
                }
                Phase::Committing(until) => {
                    let is_under_way = |part: &Part| part.manager.commit.is_under_way();
                    let waits = self.committing || self.parts.values().any(is_under_way);
                    if !waits && now < until && self.parts.values().any(|part| part.manager.has_news()) {
                        // An earlier offer was under way until now.
                        self.commit(true);
                    }
                    if (waits || self.committing) && now < until {
                        return true;
                    }
                    self.finish_closing();
                    return false;
                }
                Phase::Done => return false,
            }
        }
    }

    fn finish_closing(&mut self) {
        let Some(closing) = self.closing.take() else { return };
        let commits = self.commit_report();
        let mut report =
            CloseReport { committed: commits.committed, failed: commits.failed, ..CloseReport::default() };
        for (partition, part) in &self.parts {
            if part.manager.commit.is_under_way() {
                let late = Error::new(ErrorKind::Timeout(Duration::from_millis(LAST_COMMIT)));
                let late = late.with_topic(&*partition.topic).with_partition(partition.partition);
                report.failed.retain(|(failed, _)| failed != partition);
                report.failed.push((partition.clone(), late));
            }
            let (out, parked) = (part.manager.outstanding(), part.manager.waiting() as u64);
            if out > 0 {
                tracing::warn!(topic = %partition.topic, partition = partition.partition, records = out, "closed with records that were not answered: they come again");
                report.unfinished.push((partition.clone(), out));
            }
            if parked > 0 {
                report.parked.push((partition.clone(), parked));
            }
        }
        let checkpoints = Arc::clone(&self.env.checkpoints);
        let replies = closing.replies;
        let member = self.member.take();
        // The lock goes before anybody is told that it is over.
        tokio::spawn(async move {
            checkpoints.close().await;
            if let Some(member) = member {
                member.leave().await;
            }
            for reply in replies {
                let _ = reply.send(Ok(report.clone()));
            }
        });
        self.closing = Some(Closing { phase: Phase::Done, replies: Vec::new() });
    }
}
