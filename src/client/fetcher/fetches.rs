//! What goes into the next request of a broker, within the budget.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{FLOOR, Key};
use super::engine::{Done, Engine, Fetched, Timer};
use super::lanes::{Busy, Poll, SHORT_POLL};
use super::partition::{Partition, Phase};
use super::request::{FIRST_BATCH_WHOLE, Plan, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Connection, RequestOptions};
use crate::records::Isolation;

/// Partitions that one request for hot ones names at most.
const HOT_PARTITIONS: usize = 256;
/// Bytes that one answer to quiet partitions may hold: little comes, and what is set aside for it
/// others cannot use.
const QUIET_BYTES: usize = 1 << 20;
/// How much later than promised an answer makes one wonder whether another broker leads by now.
const OVERDUE: Duration = Duration::from_secs(2);
/// A quiet poll waits for that long at least: one that is answered at once is asked again at once.
const LEAST_WAIT: Duration = Duration::from_millis(10);

impl Engine {
    /// Starts what the lanes of a broker have room for.
    pub(super) fn dispatch(&mut self, broker: i32) {
        let now = Instant::now();
        loop {
            let Some(lanes) = self.brokers.get_mut(&broker) else { return };
            if lanes.not_before.is_some_and(|not_before| now < not_before) {
                return;
            }
            let Some((lane, poll, half)) = lanes.choose() else { return };
            if lanes.lanes[lane].connection.as_ref().is_none_or(Connection::is_closed) {
                self.open(broker, lane);
                continue;
            }
            let plan = match poll {
                Poll::Hot => {
                    let capped = lanes.lanes[lane].caps_answers();
                    self.plan_hot(broker, half, capped)
                }
                Poll::Long | Poll::Short => self.plan_quiet(broker, poll),
            };
            match plan {
                Some(plan) => self.send(broker, lane, plan),
                // The choice was made on entries that are out of date, or there is no room.
                None => {
                    let Some(lanes) = self.brokers.get(&broker) else { return };
                    if lanes.choose().is_none_or(|(.., next, _)| next == poll) {
                        return;
                    }
                }
            }
        }
    }

    fn open(&mut self, broker: i32, lane: usize) {
        let Some(lanes) = self.brokers.get_mut(&broker) else { return };
        let state = &mut lanes.lanes[lane];
        state.busy = Some(Busy::Opening);
        state.connection = None;
        self.next_turn += 1;
        state.turn = self.next_turn;
        let (shared, turn) = (Arc::clone(&self.shared), state.turn);
        self.operations
            .spawn(async move { Done::Opened { broker, lane, turn, connection: shared.open(broker).await } });
    }

    pub(super) fn opened(&mut self, broker: i32, lane: usize, turn: u64, connection: Result<Connection>) {
        let Some(lanes) = self.brokers.get_mut(&broker) else { return };
        let state = &mut lanes.lanes[lane];
        if state.turn != turn {
            return;
        }
        state.busy = None;
        match connection {
            Ok(connection) => {
                state.connection = Some(connection);
                self.stirred.insert(broker);
            }
            Err(why) => self.broker_failed(broker, &why),
        }
    }

    /// A broker cannot be reached: those in line wait, and who leads is asked again.
    pub(super) fn broker_failed(&mut self, broker: i32, why: &Error) {
        let now = Instant::now();
        let Some(lanes) = self.brokers.get_mut(&broker) else { return };
        lanes.failures = lanes.failures.saturating_add(1);
        let failures = lanes.failures;
        tracing::debug!(broker, error = %why, failures, "broker cannot be fetched from");
        let in_line: Vec<Key> =
            std::mem::take(&mut lanes.quiet).into_iter().chain(lanes.hot.drain(..)).collect();
        let wait = self.backoff(failures);
        if let Some(lanes) = self.brokers.get_mut(&broker) {
            lanes.not_before = Some(now + wait);
        }
        self.set_timer(wait, Timer::Broker(broker));
        self.wants_refresh = true;
        for key in in_line {
            if let Some(partition) = self.partitions.get(&key)
                && partition.phase == Phase::Ready(broker)
            {
                self.trouble(key, why.clone());
            }
        }
    }

    /// Those in line whose turn it is, as far as the budget goes.
    ///
    /// Where the whole answer can be `capped` (KIP-74), more are named than there is room for: the broker
    /// fills the answer in their order, and those left out are the first the next time.
    fn plan_hot(&mut self, broker: i32, half: bool, capped: bool) -> Option<Plan> {
        let lanes = self.brokers.get_mut(&broker)?;
        let mut line = std::mem::take(&mut lanes.hot);
        // Entries that are out of date go first, so that half is half.
        let partitions = &self.partitions;
        let mut seen = BTreeSet::new();
        line.retain(|key| {
            partitions.get(key).is_some_and(|found| found.phase == Phase::Ready(broker)) && seen.insert(*key)
        });
        let most = if half { line.len().div_ceil(2) } else { line.len() };
        let target = self.shared.settings.answer_bytes;
        let frame = if capped { usize::MAX } else { self.frame_room() };
        let mut picked = Picked::new(self.budget.available(), target, capped, frame);
        let mut left = std::collections::VecDeque::with_capacity(line.len());
        while let Some(key) = line.pop_front() {
            if picked.plan.len() >= most || picked.is_full() {
                left.push_back(key);
                continue;
            }
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            if partition.slot.is_paused() {
                partition.phase = Phase::Reader;
                continue;
            }
            let (buffered, _) = self.budget.held(key);
            let share = self.budget.share(usize::MAX);
            if !picked.take(partition, broker, buffered, share) {
                left.push_back(key);
            }
        }
        if let Some(lanes) = self.brokers.get_mut(&broker) {
            lanes.hot = left;
        }
        if picked.short {
            self.short_of_room();
        }
        picked.finish(Poll::Hot, self.shared.settings.rack.clone())
    }

    /// All that have nothing to be fetched, as far as they go together.
    fn plan_quiet(&mut self, broker: i32, poll: Poll) -> Option<Plan> {
        let lanes = self.brokers.get_mut(&broker)?;
        let waiting = std::mem::take(&mut lanes.quiet);
        let available = self.budget.available();
        let total = QUIET_BYTES.min(available.max(FLOOR)).min(self.frame_room());
        let mut picked = Picked::new(usize::MAX, usize::MAX, true, usize::MAX);
        let mut left = BTreeSet::new();
        let share = self.budget.share(usize::MAX);
        for key in waiting {
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            if partition.phase != Phase::Ready(broker) {
                continue;
            }
            if partition.slot.is_paused() {
                partition.phase = Phase::Reader;
            } else if !picked.take(partition, broker, 0, share) {
                left.insert(key);
            }
        }
        if let Some(lanes) = self.brokers.get_mut(&broker) {
            lanes.quiet = left;
        }
        let mut plan = picked.finish(poll, self.shared.settings.rack.clone())?;
        plan.max_bytes = total;
        if poll == Poll::Short {
            plan.max_wait = plan.max_wait.min(SHORT_POLL);
        }
        Some(plan)
    }

    /// Bytes of records that a frame has room for, beside what is around them.
    fn frame_room(&self) -> usize {
        self.shared.settings.client.frame_limit.saturating_sub(64 << 10).max(1)
    }

    /// There is no room in the budget for all that could be fetched.
    fn short_of_room(&mut self) {
        self.budget.wait_for_any();
        if self.budget.pinned() > self.budget.total() / 8 {
            for partition in self.partitions.values() {
                partition.slot.compact(|chunk| chunk.compact(&self.budget, partition.key()));
            }
        }
    }

    fn send(&mut self, broker: i32, lane: usize, mut plan: Plan) {
        let room = self.frame_room();
        let Some(lanes) = self.brokers.get_mut(&broker) else { return };
        let state = &mut lanes.lanes[lane];
        let settings = &self.shared.settings;
        let Some(connection) = state.connection.clone() else { return };
        let version = match connection.versions() {
            Some(versions) => plan.version(versions, &settings.client.pinned),
            None => Err(Error::new(ErrorKind::Closed)),
        };
        let version = match version {
            Ok(version) => version,
            Err(why) => {
                let why = why.with_broker(connection.broker());
                for wanted in plan.wanted {
                    self.trouble(wanted.key, why.clone());
                }
                return;
            }
        };
        if version < FIRST_BATCH_WHOLE && plan.poll != Poll::Hot {
            // Nothing but the limits of the partitions holds the answer down.
            let count = plan.wanted.len().max(1);
            let each = (plan.max_bytes / count).max(16 << 10).min(room / count).max(1);
            let mut left = room.saturating_sub(each * count);
            for wanted in &mut plan.wanted {
                let limit = usize::try_from(wanted.max_bytes).unwrap_or(0).min(each);
                let raised = self.partitions.get(&wanted.key).and_then(|partition| partition.raised);
                let more = raised.and_then(|raised| usize::try_from(raised).ok()?.checked_sub(limit));
                wanted.max_bytes = match (raised, more) {
                    (Some(raised), Some(more)) if more <= left => {
                        left -= more;
                        raised
                    }
                    _ => i32::try_from(limit).unwrap_or(i32::MAX),
                };
            }
        }
        if version < FIRST_BATCH_WHOLE {
            plan.max_bytes = plan.wanted.iter().map(|wanted| wanted.max_bytes.unsigned_abs() as usize).sum();
        }
        plan.max_bytes = plan.max_bytes.min(room);
        let (request, in_session) = plan.request(version, &mut state.session);
        let reserved = self.budget.reserve(plan.max_bytes);
        let options = RequestOptions {
            timeout: Some(settings.client.request_timeout + plan.max_wait),
            asked: plan.max_bytes + 256 * plan.wanted.len(),
            permit: None,
        };
        self.next_turn += 1;
        state.turn = self.next_turn;
        state.busy = Some(Busy::Fetching(plan.poll));
        let turn = state.turn;
        for wanted in &plan.wanted {
            if let Some(partition) = self.partitions.get_mut(&wanted.key) {
                partition.phase = Phase::Flying(broker, lane);
            }
        }
        let overdue = plan.max_wait + OVERDUE;
        let answer = connection.request(&request, version, options);
        let began = Instant::now();
        self.operations.spawn(async move {
            let response = match answer {
                Ok(answer) => answer.await,
                Err(why) => Err(why),
            };
            Done::Fetched(Box::new(Fetched {
                broker,
                lane,
                turn,
                version,
                in_session,
                plan,
                response,
                took: began.elapsed(),
                reserved,
            }))
        });
        self.set_timer(overdue, Timer::Overdue { broker, lane, turn });
    }

    /// An answer is late. Perhaps the broker is frozen, and another one leads by now.
    pub(super) fn overdue(&mut self, broker: i32, lane: usize, turn: u64) {
        let Some(lanes) = self.brokers.get(&broker) else { return };
        let state = &lanes.lanes[lane];
        if state.turn == turn && state.busy.is_some() {
            self.wants_refresh = true;
            self.set_timer(OVERDUE, Timer::Overdue { broker, lane, turn });
            self.late.insert((broker, lane), turn);
        }
    }

    /// Lets go of fetches that are late and whose partitions another broker leads.
    pub(super) fn give_up_overdue(&mut self) {
        for ((broker, lane), turn) in std::mem::take(&mut self.late) {
            let Some(lanes) = self.brokers.get_mut(&broker) else { continue };
            let state = &mut lanes.lanes[lane];
            if state.turn != turn || state.busy.is_none() {
                continue;
            }
            let flying = |partition: &Partition| partition.phase == Phase::Flying(broker, lane);
            let moved: Vec<Key> = self
                .partitions
                .iter()
                .filter(|(_, partition)| {
                    flying(partition) && partition.leader.is_some_and(|leader| leader.broker != broker)
                })
                .map(|(key, _)| *key)
                .collect();
            if moved.is_empty() {
                self.late.insert((broker, lane), turn);
                continue;
            }
            tracing::info!(broker, partitions = moved.len(), "a late fetch is given up: others lead by now");
            // Whoever else waits for this answer asks again too, over another connection.
            self.next_turn += 1;
            state.turn = self.next_turn;
            state.busy = None;
            state.connection = None;
            state.session.out_of_step();
            let all: Vec<Key> =
                self.partitions.iter().filter(|(_, found)| flying(found)).map(|(key, _)| *key).collect();
            for key in all {
                if let Some(partition) = self.partitions.get_mut(&key) {
                    partition.follower = None;
                    partition.phase = Phase::New;
                }
                self.settle(key);
            }
            self.stirred.insert(broker);
        }
    }
}

/// A plan in the making.
struct Picked {
    plan: Vec<Wanted>,
    /// What a request names once only.
    names: BTreeSet<(Arc<str>, i32)>,
    isolation: Option<Isolation>,
    max_wait: Duration,
    min_bytes: i32,
    /// What the answer may hold.
    bytes: usize,
    available: usize,
    target: usize,
    /// The whole answer can be limited, not only each part of it.
    capped: bool,
    /// What the parts may come to together.
    frame: usize,
    /// Somebody was left out, or got less, for want of room.
    short: bool,
    /// Somebody wants no follower named.
    leader_only: bool,
}

impl Picked {
    fn new(available: usize, target: usize, capped: bool, frame: usize) -> Self {
        Picked {
            plan: Vec::new(),
            names: BTreeSet::new(),
            isolation: None,
            max_wait: Duration::MAX,
            min_bytes: i32::MAX,
            bytes: 0,
            available,
            target,
            capped,
            frame,
            short: false,
            leader_only: false,
        }
    }

    fn is_full(&self) -> bool {
        self.plan.len() >= HOT_PARTITIONS || !self.capped && self.bytes >= self.target
    }

    /// Takes a partition in, unless it has to wait for another request.
    fn take(&mut self, partition: &mut Partition, broker: i32, buffered: usize, share: usize) -> bool {
        let options = &partition.options;
        if self.isolation.is_some_and(|isolation| isolation != options.isolation) {
            return false;
        }
        let limit = usize::try_from(partition.limit()).unwrap_or(usize::MAX);
        // A limit that was raised for one record is needed as it is.
        let mut bytes = if partition.raised.is_some() { limit } else { limit.min(share) };
        let mut room = self.available;
        if self.capped {
            // What the first ones leave is for those behind; what comes is not known yet.
            room = self.available.min(self.target.max(bytes));
        }
        let enough = if self.capped { room >= FLOOR.min(bytes) } else { room >= bytes };
        if !enough {
            self.short = true;
            if buffered > 0 {
                return false;
            }
            // Whoever holds nothing may always ask for a little; with a raised limit, for a record.
            if partition.raised.is_none() {
                bytes = bytes.min(room.max(FLOOR));
            }
        }
        if self.bytes.saturating_add(bytes) > self.frame && !self.plan.is_empty() {
            return false;
        }
        if !self.names.insert((Arc::clone(partition.topic()), partition.number())) {
            return false;
        }
        self.leader_only |= partition.leader_only.is_some_and(|until| until > Instant::now());
        self.isolation = Some(options.isolation);
        self.max_wait = self.max_wait.min(options.max_wait);
        self.min_bytes = self.min_bytes.min(options.min_bytes);
        if self.capped && enough {
            self.bytes = self.bytes.saturating_add(bytes).min(room).max(self.bytes);
        } else {
            self.bytes = self.bytes.saturating_add(bytes);
            self.available = self.available.saturating_sub(bytes);
        }
        let of_follower = partition.leader.is_none_or(|leader| leader.broker != broker);
        self.plan.push(Wanted {
            key: partition.key(),
            generation: partition.generation,
            topic: Arc::clone(partition.topic()),
            topic_id: partition.topic_id,
            partition: partition.number(),
            offset: partition.position.offset,
            epoch: partition.leader.and_then(|leader| leader.epoch),
            max_bytes: i32::try_from(bytes).unwrap_or(i32::MAX),
            of_follower,
        });
        true
    }

    fn finish(self, poll: Poll, rack: Option<String>) -> Option<Plan> {
        let isolation = self.isolation?;
        Some(Plan {
            poll,
            wanted: self.plan,
            isolation,
            // Hot ones are answered at once: what is thought to be there may not be.
            max_wait: if poll == Poll::Hot { Duration::ZERO } else { self.max_wait.max(LEAST_WAIT) },
            // With 0 the broker would wait for nothing, and be asked without end.
            min_bytes: if poll == Poll::Hot { 1 } else { self.min_bytes.max(1) },
            max_bytes: self.bytes,
            // The leader names a follower near the rack, instead of records.
            rack: rack.filter(|_| !self.leader_only),
        })
    }
}
