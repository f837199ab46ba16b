//! Frames of responses. The first byte chooses the API, the second the version that was asked for.

#![no_main]

use bytes::Bytes;
use downspout::protocol::any::{decode_response, decode_response_body};
use downspout::protocol::{APIS, Api, ApiKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [key, version, frame @ ..] = input else { return };
    let known = Api::of(ApiKey(i16::from(*key)));
    let api = known.unwrap_or(&APIS[usize::from(*key) % APIS.len()]);
    let version = i16::from(*version) % (api.versions.max + 1);
    let Ok(answer) = decode_response(api.key, version, &Bytes::copy_from_slice(frame)) else { return };
    // What can be read can be written, and is the same when it is read again.
    let message = answer.message;
    let written = message.encode().expect("what was read can be written");
    let again = decode_response_body(api.key, message.version().number, &written);
    assert_eq!(again.expect("what was written can be read"), message);
});
