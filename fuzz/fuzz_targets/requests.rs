//! Bodies of requests. The first byte chooses the API, the second the version.

#![no_main]

use bytes::Bytes;
use downspout::protocol::any::decode_request_body;
use downspout::protocol::{APIS, Api, ApiKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [key, version, body @ ..] = input else { return };
    let known = Api::of(ApiKey(i16::from(*key)));
    let api = known.unwrap_or(&APIS[usize::from(*key) % APIS.len()]);
    let version = i16::from(*version) % (api.versions.max + 1);
    let Ok(message) = decode_request_body(api.key, version, &Bytes::copy_from_slice(body)) else { return };
    // What can be read can be written, and is the same when it is read again.
    let written = message.encode().expect("what was read can be written");
    let again = decode_request_body(api.key, version, &written).expect("what was written can be read");
    assert_eq!(again, message);
});
