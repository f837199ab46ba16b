//! What an answer means for each partition that was asked about.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Budget, Charge, Frame, Key, charged};
use super::engine::{Engine, Fetched};
use super::inbox::{Chunk, Delivery};
use super::partition::{FOLLOWERS_REST, Phase};
use super::request::{FIRST_BATCH_WHOLE, Parts, Wanted};
use crate::client::fetch_limits::{Oversize, oversize};
use crate::discovery::BrokerInfo;
use crate::error::{Error, ErrorKind};
use crate::net::BrokerAddress;
use crate::protocol::{ErrorCode, FetchRequest, FetchResponse, FetchedPartition, NodeEndpoint};
use crate::records::{Isolation, ReadOptions, RecordSet};

/// Where an answer came from.
struct Origin {
    broker: i32,
    address: Arc<str>,
    version: i16,
    took: Duration,
    frame: Arc<Frame>,
    /// Addresses of leaders that the answer names (KIP-951).
    endpoints: Vec<NodeEndpoint>,
}

impl Engine {
    /// A fetch is done, or was lost.
    pub(super) fn fetched(&mut self, fetched: Fetched) {
        let Fetched { broker, lane, turn, version, in_session, plan, response, took, reserved } = fetched;
        let Some(lanes) = self.brokers.get_mut(&broker) else { return };
        let state = &mut lanes.lanes[lane];
        if state.turn != turn {
            return;
        }
        state.busy = None;
        self.stirred.insert(broker);
        let address = state.connection.as_ref().map(|connection| Arc::clone(connection.broker()));
        let address = address.unwrap_or_else(|| "broker".into());
        let mut response = match response {
            Ok(response) => response,
            Err(why) => {
                state.connection = None;
                state.session.out_of_step();
                self.lost(broker, &plan.wanted, why);
                return;
            }
        };
        if in_session {
            match response.error_code {
                ErrorCode::NONE => state.session.answered(response.session_id),
                ErrorCode::FETCH_SESSION_ID_NOT_FOUND => state.session.lost(),
                _ => state.session.out_of_step(),
            }
        }
        if response.error_code.is_err() {
            self.refused_whole(broker, &plan.wanted, version, &response, &address);
            return;
        }
        lanes.failures = 0;
        lanes.not_before = None;
        if response.throttle_time_ms > 0 && response.responses.is_empty() {
            self.throttled(broker, lane, &plan.wanted);
            return;
        }
        let mut parts = Parts::new(version, &mut response);
        let endpoints = std::mem::take(&mut response.node_endpoints);
        let origin = Origin { broker, address, version, took, frame: Frame::new(), endpoints };
        let mut first = true;
        for wanted in plan.wanted {
            let part = parts.take(version, &wanted);
            let Some(partition) = self.partitions.get_mut(&wanted.key) else { continue };
            if partition.phase == Phase::Flying(broker, lane) {
                partition.phase = Phase::New;
            }
            if partition.generation != wanted.generation || partition.position.offset != wanted.offset {
                // Sought meanwhile: what came is void.
                self.settle(wanted.key);
                continue;
            }
            match part {
                Some(part) => self.part(&origin, &wanted, part, first),
                // Nothing new: sessions leave such partitions out.
                None if in_session => self.nothing_new(wanted.key),
                None => {
                    let why = Error::new(ErrorKind::Incomplete("this partition"));
                    self.trouble(wanted.key, origin.place(why));
                }
            }
            first = false;
        }
        // What was set aside has been charged to the partitions by now.
        drop(reserved);
    }

    /// The answer brings nothing but the time for which the client is to hold back (KIP-219), which
    /// the connection does.
    fn throttled(&mut self, broker: i32, lane: usize, wanted: &[Wanted]) {
        for wanted in wanted {
            if let Some(partition) = self.partitions.get_mut(&wanted.key)
                && partition.phase == Phase::Flying(broker, lane)
            {
                self.retry_later(wanted.key);
            }
        }
    }

    /// The connection was lost, or the answer could not be read.
    fn lost(&mut self, broker: i32, wanted: &[Wanted], why: Error) {
        self.broker_failed(broker, &why);
        for wanted in wanted {
            if let Some(partition) = self.partitions.get_mut(&wanted.key)
                && matches!(partition.phase, Phase::Flying(on, _) if on == broker)
                && partition.generation == wanted.generation
            {
                partition.phase = Phase::New;
                self.trouble(wanted.key, why.clone());
            }
        }
    }

    /// An error about the whole request.
    fn refused_whole(
        &mut self,
        broker: i32,
        wanted: &[Wanted],
        version: i16,
        response: &FetchResponse,
        address: &Arc<str>,
    ) {
        let code = response.error_code;
        let about_session = [
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode::INVALID_FETCH_SESSION_EPOCH,
            ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
        ];
        for wanted in wanted {
            let Some(partition) = self.partitions.get_mut(&wanted.key) else { continue };
            if matches!(partition.phase, Phase::Flying(on, _) if on == broker) {
                partition.phase = Phase::New;
                if about_session.contains(&code) && partition.failures < 3 {
                    partition.failures += 1;
                    self.settle(wanted.key);
                } else {
                    let why = Error::broker_code(code).with_request::<FetchRequest>(version);
                    self.trouble(wanted.key, why.with_broker(address));
                }
            }
        }
    }

    fn nothing_new(&mut self, key: Key) {
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.accepted();
            partition.lagging = false;
            self.settle(key);
        }
    }

    fn part(&mut self, origin: &Origin, wanted: &Wanted, part: FetchedPartition, first: bool) {
        let key = wanted.key;
        if part.error_code.is_err() {
            self.refused(origin, wanted, &part);
            return;
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let (near, now) = (part.preferred_read_replica, Instant::now());
        if near >= 0 && !self.picture.brokers.contains_key(&near) {
            // A broker that is new; until it is known, the leader is not to name it again.
            partition.leader_only = Some(now + FOLLOWERS_REST);
            self.wants_refresh = true;
        } else if near >= 0 && near != origin.broker && partition.leader_only.is_none_or(|until| until <= now)
        {
            partition.follower = Some((near, now + self.shared.settings.metadata_max_age));
        }
        partition.accepted();
        if part.high_watermark >= 0 {
            partition.high_watermark = Some(part.high_watermark);
        }
        let committed =
            partition.options.isolation == Isolation::ReadCommitted && part.last_stable_offset >= 0;
        let readable = if committed { part.last_stable_offset } else { part.high_watermark };
        partition.slot.answered(origin.took, part.log_start_offset, readable);
        let set = RecordSet::new(part.records.unwrap_or_default());
        if set.is_empty() {
            let more = wanted.offset < readable;
            // Those behind the first one may have been left out for want of room; the first may not,
            // and is not asked again at once (a broker may hold back what it says is there).
            partition.passed_over = more && !first;
            partition.lagging = more && (!first || partition.follower.is_some());
            self.look_for_transaction(key, part.last_stable_offset, part.high_watermark);
            self.settle(key);
            return;
        }
        let survey = set.survey();
        match survey.next_offset {
            Some(next) if next > wanted.offset => {}
            None if survey.damaged => {}
            None if origin.version < FIRST_BATCH_WHOLE => {
                self.raise_limit(origin, wanted, &set);
                return;
            }
            _ => {
                self.trouble(key, origin.place(Error::new(ErrorKind::NoProgress)));
                return;
            }
        }
        partition.passed_over = false;
        partition.held_back = None;
        partition.shrink(set.bytes().len());
        let next = survey.next_offset.map_or(wanted.offset, |next| next.max(wanted.offset));
        let options = ReadOptions {
            from_offset: wanted.offset,
            crc: partition.options.crc,
            isolation: partition.options.isolation,
            aborted: part.aborted_transactions.unwrap_or_default(),
            max_inflated: partition.options.max_inflated,
            ..ReadOptions::default()
        };
        let charge = Charge::buffered(&self.budget, key, set.bytes().len(), Some(Arc::clone(&origin.frame)));
        let charge = Arc::new(charge);
        let chunk = Chunk {
            set: RecordSet::new(charged(set.bytes().clone(), Arc::clone(&charge))),
            options,
            next_offset: next,
            charge,
            broker: Arc::clone(&origin.address),
            broker_id: origin.broker,
            end: partition.end.offset(),
            second_try: partition.second_try == Some(wanted.offset),
            damaged: survey.damaged,
        };
        if chunk.second_try {
            partition.follower = None;
        }
        partition.second_try = None;
        partition.push(Delivery::Chunk(Box::new(chunk)));
        partition.position.offset = next;
        partition.position.epoch = survey.leader_epoch.or(partition.position.epoch);
        partition.lagging = next < readable;
        if survey.damaged {
            // Only the reader can say what is behind the damage, unless that is behind the end.
            partition.phase = Phase::Reader;
            self.end_is_reached(key);
            return;
        }
        self.settle(key);
    }

    /// The broker refuses to read a partition.
    fn refused(&mut self, origin: &Origin, wanted: &Wanted, part: &FetchedPartition) {
        let key = wanted.key;
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let why = origin.place(Error::broker_code(part.error_code));
        match part.error_code {
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                let step = partition.recovery.refused(&partition.position, wanted.of_follower, true);
                self.take_step(key, step);
            }
            // A follower has no part in tiered storage, or the other way round: the leader knows.
            ErrorCode::OFFSET_MOVED_TO_TIERED_STORAGE if !wanted.of_follower => {
                partition.failed(Instant::now(), &why);
                self.wants_refresh = true;
                self.retry_later(key);
            }
            // Our epoch is ahead of the broker's, which will catch up.
            ErrorCode::UNKNOWN_LEADER_EPOCH | ErrorCode::OFFSET_NOT_AVAILABLE => {
                partition.failed(Instant::now(), &why);
                self.wants_refresh |= partition.failures > 3;
                self.retry_later(key);
            }
            ErrorCode::CORRUPT_MESSAGE if !wanted.of_follower && partition.second_try.is_none() => {
                partition.second_try = Some(wanted.offset);
                partition.failed(Instant::now(), &why);
                self.retry_later(key);
            }
            ErrorCode::CORRUPT_MESSAGE if !wanted.of_follower => {
                partition.second_try = None;
                partition.fail(why);
            }
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
                if self.follow_hint(origin, wanted, part) => {}
            _ => self.trouble(key, why),
        }
    }

    /// The broker names the leader that there is by now (KIP-951): no need to ask anyone else.
    fn follow_hint(&mut self, origin: &Origin, wanted: &Wanted, part: &FetchedPartition) -> bool {
        let hint = &part.current_leader;
        let Some(partition) = self.partitions.get_mut(&wanted.key) else { return false };
        // A hint that leads back here a second time is worth a refresh.
        if hint.leader_id < 0 || partition.failures > 0 {
            return false;
        }
        let address = origin.endpoints.iter().find(|endpoint| endpoint.node_id == hint.leader_id);
        let address = address.and_then(|endpoint| {
            let port = u16::try_from(endpoint.port).ok()?;
            let address = BrokerAddress::new(endpoint.host.clone(), port);
            Some(BrokerInfo { id: endpoint.node_id, address, rack: endpoint.rack.clone() })
        });
        let taken =
            self.shared.hint(&wanted.topic, wanted.partition, hint.leader_id, hint.leader_epoch, address);
        if !taken {
            return false;
        }
        partition.failures += 1;
        partition.phase = Phase::NoLeader;
        let picture = self.shared.picture();
        self.look_at(picture);
        true
    }

    /// Fetch 0–2: the first record is larger than the limit.
    fn raise_limit(&mut self, origin: &Origin, wanted: &Wanted, set: &RecordSet) {
        let settings = &self.shared.settings.client;
        let frame = settings.frame_limit.saturating_sub(64 << 10);
        let most = settings.fetch_limit.min(i32::try_from(frame).unwrap_or(i32::MAX));
        let Some(partition) = self.partitions.get_mut(&wanted.key) else { return };
        match oversize(set.bytes(), wanted.max_bytes, most) {
            Oversize::Grow(limit) => {
                tracing::debug!(topic = %wanted.topic, partition = wanted.partition, offset = wanted.offset, limit, "fetch limit raised");
                partition.raised = Some(limit);
                partition.lagging = true;
                partition.passed_over = true;
                self.settle(wanted.key);
            }
            Oversize::TooLarge(needed) => {
                let limit = u64::from(most.unsigned_abs());
                partition.fail(origin.place(Error::new(ErrorKind::RecordTooLarge { needed, limit })));
            }
        }
    }
}

impl super::partition::Partition {
    /// A raised limit goes down again once what came would have fitted in half of it.
    fn shrink(&mut self, came: usize) {
        if let Some(raised) = self.raised
            && came <= raised.unsigned_abs() as usize / 2
        {
            self.raised = Some(raised / 2).filter(|limit| *limit > self.options.partition_bytes);
        }
    }
}

impl Origin {
    fn place(&self, why: Error) -> Error {
        why.with_request::<FetchRequest>(self.version).with_broker(&self.address)
    }
}

impl Chunk {
    /// Whether the reader is to see nothing from that offset on.
    pub(in crate::client) fn is_behind_end(&self, offset: i64) -> bool {
        self.end.is_some_and(|end| offset >= end)
    }

    /// Moves what is left into a buffer of its own, if its frame is kept for little else. Says
    /// whether it did.
    pub(super) fn compact(&mut self, budget: &Budget, key: Key) -> bool {
        if !self.charge.frame().is_some_and(|frame| frame.is_mostly_dead()) {
            return false;
        }
        let bytes = bytes::Bytes::copy_from_slice(self.set.bytes());
        let charge = Arc::new(Charge::buffered(budget, key, bytes.len(), None));
        self.set = RecordSet::new(charged(bytes, Arc::clone(&charge)));
        self.charge = charge;
        true
    }
}
