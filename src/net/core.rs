//! The protocol of one connection as a plain state machine: bytes in, answers out, each tied to the
//! request it belongs to. No socket, and no clock but the instants it is handed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};

use super::frames::{Due, FrameReader};
use super::throttle;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::ApiKey;

/// Where the correlation id stands in a request frame.
pub(super) const CORRELATION_ID_AT: usize = 8;

/// A request that waits for its answer; `T` is where the answer goes.
#[derive(Debug)]
pub(super) struct Expected<T> {
    /// `None` for a bare token of a login (KIP-43), which carries none.
    pub(super) correlation_id: Option<i32>,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    /// About how many bytes were asked for.
    pub(super) asked: usize,
    pub(super) deadline: Instant,
    /// What `deadline` was set to allow, for the error.
    pub(super) patience: Duration,
    pub(super) reply: T,
}

/// One connection's state: what was asked, and what came so far.
///
/// A broker answers in the order of the requests, so each answer must carry the id of the oldest
/// one that waits. Anything else means that the stream is out of step, and ends the connection.
#[derive(Debug)]
pub(super) struct Core<T> {
    frames: FrameReader,
    waiting: VecDeque<Expected<T>>,
    muted_until: Option<Instant>,
    answered: u64,
}

impl<T> Core<T> {
    /// A fresh connection whose answers may have up to `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Core { frames: FrameReader::new(limit), waiting: VecDeque::new(), muted_until: None, answered: 0 }
    }

    /// A request was put on its way. One without an answer (Produce with acks 0) is not told here.
    pub(super) fn sent(&mut self, request: Expected<T>) {
        self.waiting.push_back(request);
    }

    /// Where the next bytes from the broker go.
    pub(super) fn space(&mut self) -> Limit<&mut BytesMut> {
        self.frames.space()
    }

    /// The next whole answer and its request, if its bytes are there.
    pub(super) fn next_answer(&mut self, now: Instant) -> Result<Option<(Expected<T>, Bytes)>> {
        let due = self.waiting.front().map_or(Due::default(), Expected::due);
        let Some(frame) = self.frames.next(due)? else { return Ok(None) };
        let found = frame.first_chunk().map_or(-1, |id| i32::from_be_bytes(*id));
        let Some(request) = self.waiting.pop_front() else {
            return Err(Error::new(ErrorKind::OutOfStep { expected: None, found }));
        };
        let expected = request.correlation_id;
        if expected.is_some_and(|id| found != id && !answers_with_id_zero(&request, found)) {
            // Back in the queue: it fails with all the others.
            self.waiting.push_front(request);
            return Err(Error::new(ErrorKind::OutOfStep { expected, found }));
        }
        self.answered += 1;
        if let Some(pause) = throttle::mute(request.api, request.version, &frame) {
            self.mute(now, pause);
        }
        Ok(Some((request, frame)))
    }

    /// The broker does not read for `pause` (KIP-219): hold back, and give those that wait the time.
    fn mute(&mut self, now: Instant, pause: Duration) {
        let until = now + pause;
        if self.muted_until.is_none_or(|already| already < until) {
            self.muted_until = Some(until);
        }
        for request in &mut self.waiting {
            request.deadline += pause;
        }
    }

    /// Until when nothing should be sent, if that lies ahead.
    pub(super) fn muted_until(&mut self, now: Instant) -> Option<Instant> {
        self.muted_until = self.muted_until.filter(|until| now < *until);
        self.muted_until
    }

    /// The earliest deadline among the requests that wait.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|request| request.deadline).min()
    }

    /// The error of a request whose time is up. The connection must be closed then: the answer may
    /// still come, and would be out of step.
    pub(super) fn expired(&self, now: Instant) -> Option<Error> {
        let late = self.waiting.iter().find(|request| request.deadline <= now)?;
        Some(Error::new(ErrorKind::Timeout(late.patience)).with_api(late.api, late.version))
    }

    /// How many requests wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Requests answered so far.
    #[cfg(test)]
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// The requests that wait.
    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Expected<T>> {
        self.waiting.iter_mut()
    }

    /// Gives up: everything that waited.
    pub(super) fn into_waiting(self) -> VecDeque<Expected<T>> {
        self.waiting
    }
}

impl<T> Expected<T> {
    fn due(&self) -> Due {
        /// The most that is read of a peer that has not shown yet who it is: a thousand times what brokers send.
        const BEFORE_LOGIN: usize = 1 << 20;
        let before_login =
            matches!(self.api, ApiKey::API_VERSIONS | ApiKey::SASL_HANDSHAKE | ApiKey::SASL_AUTHENTICATE);
        Due {
            asked: self.asked,
            least: if self.correlation_id.is_some() { 4 } else { 0 },
            most: if before_login { BEFORE_LOGIN } else { usize::MAX },
        }
    }
}

/// 0.8.2 answers FindCoordinator 0 with correlation id 0 while its offsets topic does not exist yet
/// (dpkp/kafka-python#1763).
fn answers_with_id_zero<T>(request: &Expected<T>, found: i32) -> bool {
    found == 0 && request.api == ApiKey::FIND_COORDINATOR && request.version == 0
}

/// Hands out correlation ids: 0 to 2³¹−1, then 0 again.
#[derive(Debug, Default)]
pub(super) struct CorrelationIds(AtomicI32);

impl CorrelationIds {
    pub(super) fn starting_at(first: i32) -> Self {
        CorrelationIds(AtomicI32::new(first))
    }

    pub(super) fn next(&self) -> i32 {
        self.0.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;
    use crate::error::Speaks;

    const METADATA: ApiKey = ApiKey::METADATA;
    const FIND_COORDINATOR: ApiKey = ApiKey::FIND_COORDINATOR;

    struct Peer {
        core: Core<&'static str>,
        now: Instant,
    }

    impl Peer {
        fn new() -> Self {
            Peer { core: Core::new(1 << 20), now: Instant::now() }
        }

        fn ask(&mut self, correlation_id: i32, api: ApiKey, version: i16, reply: &'static str) {
            let patience = Duration::from_secs(10 + correlation_id.clamp(0, 10) as u64);
            self.core.sent(Expected {
                correlation_id: Some(correlation_id),
                api,
                version,
                asked: 0,
                deadline: self.now + patience,
                patience,
                reply,
            });
        }

        fn bytes(&mut self, bytes: &[u8]) {
            self.core.space().put_slice(bytes);
        }

        fn answer(&mut self, id: i32, body: &[u8]) {
            self.bytes(&(4 + body.len() as i32).to_be_bytes());
            self.bytes(&id.to_be_bytes());
            self.bytes(body);
        }

        fn next(&mut self) -> Result<Option<(&'static str, Bytes)>> {
            let answer = self.core.next_answer(self.now)?;
            Ok(answer.map(|(request, frame)| (request.reply, frame.slice(4..))))
        }
    }

    #[test]
    fn answers_go_to_their_requests_in_order() {
        let mut peer = Peer::new();
        peer.ask(7, METADATA, 0, "first");
        peer.ask(8, METADATA, 0, "second");
        assert_eq!(peer.next().unwrap(), None);
        peer.answer(7, b"one");
        peer.answer(8, b"two");
        assert_eq!(peer.next().unwrap(), Some(("first", Bytes::from_static(b"one"))));
        assert_eq!(peer.next().unwrap(), Some(("second", Bytes::from_static(b"two"))));
        assert_eq!((peer.core.waiting(), peer.core.answered()), (0, 2));
    }

    #[test]
    fn case_63_an_answer_out_of_step_ends_the_connection_and_fails_all() {
        let mut peer = Peer::new();
        peer.ask(1, METADATA, 0, "first");
        peer.ask(2, METADATA, 0, "second");
        peer.answer(2, b"");
        let error = peer.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfStep { expected: Some(1), found: 2 }), "{error:?}");
        assert_eq!(peer.core.into_waiting().len(), 2);
    }

    #[test]
    fn case_63_an_answer_that_nobody_asked_for_ends_the_connection() {
        let mut peer = Peer::new();
        peer.answer(5, b"");
        let error = peer.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfStep { expected: None, found: 5 }), "{error:?}");
    }

    #[test]
    fn case_48_id_zero_is_right_for_find_coordinator_0_alone() {
        let mut peer = Peer::new();
        peer.ask(3, FIND_COORDINATOR, 0, "coordinator");
        peer.answer(0, b"");
        assert_eq!(peer.next().unwrap(), Some(("coordinator", Bytes::new())));

        for (api, version) in [(FIND_COORDINATOR, 1), (METADATA, 0)] {
            let mut peer = Peer::new();
            peer.ask(3, api, version, "other");
            peer.answer(0, b"");
            assert!(peer.next().is_err(), "{api:?} {version}");
        }
    }

    #[test]
    fn a_bare_token_has_no_id_and_may_be_empty() {
        let mut peer = Peer::new();
        peer.ask(1, ApiKey::SASL_HANDSHAKE, 0, "token");
        if let Some(token) = peer.core.waiting_mut().next() {
            token.correlation_id = None;
        }
        peer.ask(2, METADATA, 0, "after it");
        peer.bytes(&[0, 0, 0, 0]);
        let (request, frame) = peer.core.next_answer(peer.now).unwrap().unwrap();
        assert_eq!((request.reply, frame.len()), ("token", 0));
        peer.answer(2, b"");
        assert_eq!(peer.next().unwrap(), Some(("after it", Bytes::new())));
    }

    #[test]
    fn a_peer_that_nobody_has_logged_in_to_sends_no_large_frame() {
        for api in [ApiKey::API_VERSIONS, ApiKey::SASL_HANDSHAKE, ApiKey::SASL_AUTHENTICATE] {
            let mut core = Core::new(100 << 20);
            core.sent(Expected {
                correlation_id: Some(1),
                api,
                version: 0,
                asked: 0,
                deadline: Instant::now(),
                patience: Duration::ZERO,
                reply: (),
            });
            core.space().put_slice(&(2i32 << 20).to_be_bytes());
            let error = core.next_answer(Instant::now()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::FrameSize { limit: 1_048_576, .. }), "{error:?}");
        }
    }

    #[test]
    fn the_earliest_deadline_counts_wherever_it_stands() {
        let mut peer = Peer::new();
        peer.ask(5, METADATA, 0, "15 s");
        peer.ask(1, METADATA, 1, "11 s");
        assert_eq!(peer.core.next_deadline(), Some(peer.now + Duration::from_secs(11)));
        assert!(peer.core.expired(peer.now + Duration::from_secs(10)).is_none());
        let error = peer.core.expired(peer.now + Duration::from_secs(11)).unwrap();
        assert_eq!(error.api(), Some((METADATA, 1)));
        assert!(matches!(error.kind(), ErrorKind::Timeout(after) if *after == Duration::from_secs(11)));
    }

    #[test]
    fn c6_a_throttled_client_holds_back_and_gives_the_others_the_time() {
        let mut peer = Peer::new();
        peer.ask(1, METADATA, 6, "throttled");
        peer.ask(2, METADATA, 6, "waiting");
        peer.answer(1, &3_000i32.to_be_bytes());
        peer.next().unwrap().unwrap();
        let now = peer.now;
        assert_eq!(peer.core.muted_until(now), Some(now + Duration::from_secs(3)));
        assert_eq!(peer.core.next_deadline(), Some(now + Duration::from_secs(15)));
        assert_eq!(peer.core.muted_until(now + Duration::from_secs(3)), None);
    }

    #[test]
    fn a_cut_frame_is_no_answer() {
        let mut peer = Peer::new();
        peer.ask(1, METADATA, 0, "first");
        peer.bytes(&[0, 0, 0, 8, 0, 0, 0, 1, 9]);
        assert_eq!(peer.next().unwrap(), None);
        peer.bytes(&[9, 9, 9]);
        assert_eq!(peer.next().unwrap(), Some(("first", Bytes::from_static(&[9; 4]))));
    }

    #[test]
    fn gap_15_http_in_answer_to_the_first_request_is_named() {
        let mut peer = Peer::new();
        peer.ask(1, METADATA, 0, "first");
        peer.bytes(b"HTTP/1.1 400 Bad Request\r\n");
        let error = peer.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongProtocol(Speaks::Http)), "{error:?}");
    }

    #[test]
    fn correlation_ids_wrap_to_zero() {
        let ids = CorrelationIds::starting_at(i32::MAX - 1);
        assert_eq!([ids.next(), ids.next(), ids.next(), ids.next()], [i32::MAX - 1, i32::MAX, 0, 1]);
    }
}
