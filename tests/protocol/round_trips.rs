//! Any valid message survives reading and writing; anything else is an error and never a panic.

use bytes::Bytes;
use downspout::protocol::any::{self, AnyMessage};
use downspout::protocol::*;
use downspout::wire::{DecodeError, Uuid};
use proptest::prelude::*;

use crate::generate::{Side, body, every_message};

/// Failures are not kept in files: a bug that is found gets a test of its own.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn entropy() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..400)
}

/// The body in its frame, without the size.
fn frame(api: &Api, side: Side, version: Version, body: &[u8]) -> Bytes {
    let mut frame = Vec::new();
    if side == Side::Request {
        frame.extend(api.key.0.to_be_bytes());
        frame.extend(version.number.to_be_bytes());
    }
    frame.extend(7i32.to_be_bytes());
    if side == Side::Request {
        frame.extend(b"\0\x02me");
    }
    if version.flexible && !(side == Side::Response && api.key == ApiKey::API_VERSIONS) {
        frame.push(0);
    }
    frame.extend(body);
    frame.into()
}

fn decode(api: &Api, side: Side, version: Version, frame: &Bytes) -> Result<AnyMessage, DecodeError> {
    match side {
        Side::Request => any::decode_request(frame).map(|request| request.message),
        Side::Response => {
            any::decode_response(api.key, version.number, frame).map(|response| response.message)
        }
    }
}

/// Whether the answer says "no such version", which is in version 0 whatever was asked.
fn says_unsupported(api: &Api, side: Side, body: &[u8]) -> bool {
    (api.key, side) == (ApiKey::API_VERSIONS, Side::Response) && body.starts_with(&[0, 35])
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn every_message_is_written_back_as_it_was_read(entropy in entropy()) {
        for (api, side, version) in every_message() {
            let body = body(api, side, version, &entropy);
            if says_unsupported(api, side, &body) {
                continue;
            }
            let frame = frame(api, side, version, &body);
            let place = format!("{} {side:?} v{}", api.name, version.number);
            let message = decode(api, side, version, &frame).unwrap_or_else(|e| panic!("{place}: {e}"));
            prop_assert_eq!(message.encode().unwrap(), body, "{}", place);
            prop_assert_eq!(&message, &decode(api, side, version, &frame).unwrap(), "{}", place);
            let mut shown = Shown::default();
            message.visit(&mut shown);
            prop_assert_eq!(shown.open, 0, "{}", place);
        }
    }

    #[test]
    fn any_bytes_at_all_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        for (api, _, version) in every_message() {
            let _ = any::decode_request_body(api.key, version.number, &bytes);
            let _ = any::decode_response_body(api.key, version.number, &bytes);
        }
    }
}

// Each case tries every byte of every message.
proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn a_frame_that_is_too_short_or_too_long_is_an_error(entropy in entropy()) {
        for (api, side, version) in every_message() {
            let body = body(api, side, version, &entropy);
            let mut frame = frame(api, side, version, &body);
            for cut in 0..frame.len() {
                let read = decode(api, side, version, &frame.slice(..cut));
                prop_assert!(read.is_err(), "{} {:?} v{} cut at {}", api.name, side, version.number, cut);
            }
            frame = [&frame[..], &[0]].concat().into();
            let read = decode(api, side, version, &frame);
            prop_assert!(read.is_err(), "{} {:?} v{}, one byte more", api.name, side, version.number);
        }
    }

    #[test]
    fn a_changed_byte_never_panics(entropy in entropy(), bits in 1u8..) {
        for (api, side, version) in every_message() {
            let body = body(api, side, version, &entropy);
            let frame = frame(api, side, version, &body);
            for at in 0..frame.len() {
                let mut changed = frame.to_vec();
                changed[at] ^= bits;
                // What can be read can be written, and read again.
                if let Ok(message) = decode(api, side, version, &changed.into()) {
                    let again = message.encode().unwrap();
                    let version = message.version().number;
                    let read = match side {
                        Side::Request => any::decode_request_body(message.api().key, version, &again),
                        Side::Response => any::decode_response_body(message.api().key, version, &again),
                    };
                    prop_assert_eq!(read.unwrap(), message);
                }
            }
        }
    }
}

/// Counts what was begun and not ended.
#[derive(Default)]
struct Shown {
    open: i32,
}

impl Visitor for Shown {
    fn null(&mut self) {}
    fn boolean(&mut self, _: bool) {}
    fn integer(&mut self, _: i64) {}
    fn text(&mut self, _: &str) {}
    fn bytes(&mut self, _: &[u8]) {}
    fn uuid(&mut self, _: Uuid) {}
    fn begin_array(&mut self) {
        self.open += 1;
    }
    fn end_array(&mut self) {
        self.open -= 1;
    }
    fn begin_struct(&mut self) {
        self.open += 1;
    }
    fn name(&mut self, _: &'static str) {}
    fn end_struct(&mut self) {
        self.open -= 1;
    }
}
