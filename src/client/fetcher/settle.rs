//! What a partition does next: the answer to "nothing is under way for it".

use std::time::Duration;

use tokio::time::Instant;

use super::asks::{Ask, Question, Told};
use super::budget::Key;
use super::engine::{Engine, Timer};
use super::inbox::Delivery;
use super::partition::{Doubt, End, Leader, Partition, Phase};
use crate::client::cluster::TopicState;
use crate::client::recovery::Step;
use crate::client::stream::Recovered;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::records::Isolation;

/// For how long answers that can't be read are put down to chance.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a topic must be missing until that is said. A broker that has just started knows of no topics until its
/// controller has told it of them (seen on 0.8.2.2 and 0.10.2.2), and says so to whoever asks.
const VANISHED_AFTER: Duration = Duration::from_secs(3);

impl Engine {
    /// Compares a partition with the picture of the cluster, and lets it go on if that changes
    /// something for it.
    pub(super) fn watch(&mut self, key: Key) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if partition.phase == Phase::Ended {
            return;
        }
        let known = match self.picture.topic(partition.topic()) {
            Some(TopicState::Known(topic)) => topic,
            Some(TopicState::Missing { .. }) => {
                self.lose_topic(key);
                return;
            }
            Some(TopicState::Failed(why)) => {
                let why = why.clone();
                self.lose_leader(key, Some(&why));
                return;
            }
            None => {
                self.lose_leader(key, None);
                return;
            }
        };
        let Some(state) = usize::try_from(partition.number()).ok().and_then(|at| known.partitions.get(at))
        else {
            self.lose_topic(key);
            return;
        };
        match (partition.topic_id, known.id) {
            (Some(old), Some(new)) if old != new => partition.recreated = Some(new),
            (None, new) => partition.topic_id = new,
            _ => {}
        }
        if let Some((_, true)) = partition.missing.take()
            && partition.recreated.is_none()
        {
            if partition.topic_id.is_none() {
                // It may be another topic (before 2.8 nothing tells), whose epochs prove no truncation of this one.
                partition.position.epoch = None;
            }
            partition.report(Recovered::Returned { position: partition.position.offset });
        }
        let Some(broker) = state.leader else {
            self.lose_leader(key, None);
            return;
        };
        let leader = Leader { broker, epoch: state.epoch };
        if let Some((follower, _)) = partition.follower
            && !state.replicas.contains(&follower)
        {
            partition.follower = None;
        }
        let before = partition.leader.replace(leader);
        if before.is_some_and(|before| before != leader) {
            // Its log may be shorter than what was read from the one before.
            partition.unproven = true;
        }
        let goes_on = match partition.phase {
            Phase::New | Phase::NoLeader => true,
            // A leader that is new may well answer what the old one refused.
            Phase::Waiting(_) | Phase::Ready(_) | Phase::Full => {
                before != Some(leader) || partition.recreated.is_some()
            }
            Phase::Asking | Phase::Flying(..) | Phase::Reader | Phase::Ended => false,
        };
        if goes_on {
            partition.phase = Phase::New;
            self.settle(key);
        }
    }

    /// The topic, or the partition, is not there.
    fn lose_topic(&mut self, key: Key) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let now = Instant::now();
        let (since, reported) = *partition.missing.get_or_insert((now, false));
        if !reported && now - since >= VANISHED_AFTER {
            partition.missing = Some((since, true));
            partition.report(Recovered::Vanished { position: partition.position.offset });
        }
        // Whoever leads next may have a shorter log, as after any change of leaders.
        partition.unproven |= partition.leader.take().is_some();
        if !matches!(partition.phase, Phase::Reader | Phase::Asking | Phase::Flying(..)) {
            partition.phase = Phase::NoLeader;
        }
        self.wants_refresh = true;
    }

    fn lose_leader(&mut self, key: Key, why: Option<&Error>) {
        let now = Instant::now();
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if matches!(partition.phase, Phase::Reader | Phase::Asking | Phase::Flying(..)) {
            return;
        }
        if let Some(why) = why.filter(|why| matches!(why.retry(), Retry::No | Retry::Human)) {
            partition.fail(why.clone());
            // It may be otherwise by the time it is asked for again.
            self.wants_refresh = true;
            return;
        }
        let leaderless = Error::new(ErrorKind::NotLeader { leader: None });
        partition.failed(now, why.unwrap_or(&leaderless));
        partition.phase = Phase::NoLeader;
        self.wants_refresh = true;
    }

    /// Lets a partition go on, unless something is under way for it.
    pub(super) fn settle(&mut self, key: Key) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if !matches!(partition.phase, Phase::New) {
            return;
        }
        if partition.slot.is_paused() {
            partition.phase = Phase::Reader;
            return;
        }
        let Some(leader) = partition.leader else {
            partition.phase = Phase::NoLeader;
            self.wants_refresh = true;
            return;
        };
        let question = if partition.recreated.is_some() {
            Some(Question::Bounds)
        } else if let Some(at) = partition.start {
            match (at.position(), partition.end) {
                (Some(position), End::Never | End::At(_)) => {
                    partition.begin(position);
                    partition.in_doubt()
                }
                (_, end) => Some(Question::Start { at, end: end == End::Unknown }),
            }
        } else {
            partition.in_doubt()
        };
        if let Some(question) = question {
            partition.phase = Phase::Asking;
            let ask = partition.ask(question);
            self.asks.entry(leader.broker).or_default().push(ask);
            return;
        }
        if self.end_is_reached(key) {
            return;
        }
        self.line_up(key);
    }

    /// Ends the stream of a partition that has come to its stated end.
    pub(super) fn end_is_reached(&mut self, key: Key) -> bool {
        let Some(partition) = self.partitions.get_mut(&key) else { return true };
        match partition.end {
            End::At(end) if partition.position.offset >= end => {
                partition.phase = Phase::Ended;
                partition.push(Delivery::End);
                true
            }
            _ => false,
        }
    }

    /// Puts a partition in line for its next fetch, or waits until its reader has made room.
    fn line_up(&mut self, key: Key) {
        let now = Instant::now();
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let Some(broker) = partition.source(now) else { return };
        let limit = usize::try_from(partition.limit()).unwrap_or(usize::MAX);
        let share = self.budget.share(limit.saturating_mul(2));
        if self.budget.wait_for_drain(key, share.saturating_sub(limit)) {
            partition.phase = Phase::Full;
            return;
        }
        partition.phase = Phase::Ready(broker);
        let lanes = self.brokers.entry(broker).or_default();
        if !partition.lagging {
            lanes.quiet.insert(key);
        } else if partition.passed_over {
            lanes.hot.push_front(key);
        } else {
            lanes.hot.push_back(key);
        }
        self.stirred.insert(broker);
    }

    /// Tries a partition again after a while.
    pub(super) fn retry_later(&mut self, key: Key) {
        let Some(failures) = self.partitions.get(&key).map(|partition| partition.failures) else { return };
        let timer = self.set_timer(self.backoff(failures.max(1)), Timer::Partition(key));
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.phase = Phase::Waiting(timer);
        }
    }

    /// What could not be done for a partition for this reason is done again, or is the reader's to
    /// know.
    pub(super) fn trouble(&mut self, key: Key, why: Error) {
        let why = why.with_principal(self.shared.settings.client.principal.as_ref());
        let now = Instant::now();
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if partition.leave_follower(now) {
            // A follower's trouble is no trouble: the leader is asked the same.
            partition.phase = Phase::New;
            self.settle(key);
            return;
        }
        let retry = why.retry();
        tracing::debug!(error = %partition.place(why.clone()), ?retry, "cannot read");
        // Answers that can't be read are an error once nothing else has come for a while.
        let unreadable = matches!(
            why.kind(),
            ErrorKind::Decode(_) | ErrorKind::FrameSize { .. } | ErrorKind::WrongProtocol(_)
        );
        let patient = unreadable && partition.stalled.is_none_or(|(since, _)| now - since < PATIENCE);
        if matches!(retry, Retry::No | Retry::Human) && !patient {
            partition.fail(why);
            return;
        }
        partition.failed(now, &why);
        self.wants_refresh |= retry == Retry::RefreshMetadata || why.code().is_none();
        self.retry_later(key);
    }

    /// A leader has answered a question.
    pub(super) fn told(&mut self, broker: i32, ask: Ask, told: Result<Told>) {
        let key = ask.key;
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if let Question::Producer(offset) = ask.question {
            if partition.generation == ask.generation {
                self.report_transaction(key, offset, told.ok());
            }
            return;
        }
        if ask.generation != partition.generation || partition.phase != Phase::Asking {
            return;
        }
        partition.phase = Phase::New;
        let told = match told {
            Ok(told) => told,
            Err(why) => {
                if matches!(ask.question, Question::EpochEnd(_)) && partition.doubt.is_none() {
                    // Still to be proven.
                    partition.unproven = true;
                }
                self.trouble(key, why.with_broker(broker));
                return;
            }
        };
        let place = (&*ask.topic, ask.partition);
        let policy = partition.options.reset.clone();
        let step = match told {
            Told::Start { at, end } => {
                // The log tells itself where it starts and ends, and the epochs there.
                let is_given = partition.start.is_some_and(|start| start.position().is_some());
                partition.begin(at);
                partition.unproven &= is_given;
                if let Some(end) = end {
                    partition.end = End::At(end);
                }
                self.settle(key);
                return;
            }
            Told::Bounds(ends) => match (partition.recreated, partition.topic_id) {
                (Some(new), Some(old)) => {
                    let step = if partition.position.offset < 0 {
                        // Nothing was read yet.
                        Step::Continue(-1)
                    } else {
                        partition.recovery.recreated(&partition.position, (old, new), ends, &policy, place)
                    };
                    if !matches!(step, Step::Fail(_)) {
                        partition.topic_id = Some(new);
                        partition.recreated = None;
                    }
                    step
                }
                _ => partition.recovery.bounds(&partition.position, ends, &policy, place),
            },
            Told::EpochEnd(end) => {
                let refused = partition.doubt.is_some();
                partition.recovery.epoch_end(&partition.position, end, refused)
            }
            Told::Producer(_) => return,
        };
        self.take_step(key, step);
    }

    /// Does what the recovery says.
    pub(super) fn take_step(&mut self, key: Key, step: Step) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.phase = Phase::New;
        match step {
            Step::AskLeader => drop(partition.leave_follower(Instant::now())),
            Step::Refresh => {
                partition.phase = Phase::NoLeader;
                self.wants_refresh = true;
                return;
            }
            Step::EpochEnd(epoch) => partition.doubt = Some(Doubt::Epoch(epoch)),
            Step::Bounds => partition.doubt = Some(Doubt::Bounds),
            Step::Again => {
                partition.doubt = None;
                partition.failures = partition.failures.saturating_add(1);
                self.retry_later(key);
                return;
            }
            Step::Resume(position, event) => {
                partition.report(event);
                partition.jump(position.offset);
                partition.position = position;
            }
            Step::Continue(_) => partition.doubt = None,
            Step::Fail(why) => {
                partition.doubt = None;
                partition.fail(Error::new(ErrorKind::OutOfRange(why)));
                return;
            }
        }
        self.settle(key);
    }

    /// An open transaction holds a partition back: asks who opened it.
    pub(super) fn look_for_transaction(&mut self, key: Key, last_stable: i64, high_watermark: i64) {
        let now = Instant::now();
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let stands = partition.options.isolation == Isolation::ReadCommitted
            && (0..high_watermark).contains(&last_stable)
            && partition.position.offset >= last_stable;
        if !stands {
            partition.held_back = None;
            return;
        }
        match &mut partition.held_back {
            Some((offset, since, reported)) if *offset == last_stable => {
                if *reported || now - *since < partition.options.report_open_transaction_after {
                    return;
                }
                *reported = true;
                let ask = partition.ask(Question::Producer(last_stable));
                if let Some(leader) = partition.leader {
                    self.asks.entry(leader.broker).or_default().push(ask);
                }
            }
            _ => partition.held_back = Some((last_stable, now, false)),
        }
    }

    fn report_transaction(&mut self, key: Key, offset: i64, told: Option<Told>) {
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if partition.held_back.is_none_or(|(held, ..)| held != offset) {
            return;
        }
        let producer_id = match told {
            Some(Told::Producer(id)) => id,
            _ => None,
        };
        let high_watermark = partition.high_watermark.unwrap_or(offset);
        partition.report(Recovered::OpenTransaction { position: offset, producer_id, high_watermark });
    }
}

impl Partition {
    fn ask(&self, question: Question) -> Ask {
        Ask {
            key: self.key(),
            generation: self.generation,
            topic: self.topic().clone(),
            topic_id: self.topic_id,
            partition: self.number(),
            epoch: self.leader.and_then(|leader| leader.epoch),
            isolation: self.options.isolation,
            question,
        }
    }

    /// Bytes to ask for.
    pub(super) fn limit(&self) -> i32 {
        self.raised.unwrap_or(self.options.partition_bytes).max(1)
    }
}
