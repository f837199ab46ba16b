//! What the broker answers: one file per API, from the typed request to the typed response.

pub(super) mod api_versions;
pub(super) mod fetch;
pub(super) mod metadata;

use std::time::Duration;

use bytes::Bytes;

use super::fault::Injected;
use super::state::{Now, State};
use crate::protocol as p;
use crate::protocol::{ApiKey, Request, RequestHeader};
use crate::wire::{DecodeError, Reader};

/// A request being answered: who was asked, by which version, when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) node: i32,
    pub(crate) version: i16,
    pub(crate) now: Now,
    pub(crate) injected: &'a Injected,
    /// Its time to wait is over.
    pub(crate) last_chance: bool,
}

/// What a request comes to.
pub(crate) enum Outcome {
    Answer(Bytes),
    /// Done, and there is nothing to say.
    NoAnswer,
    /// Nothing has happened yet: again after a change, or after this time.
    WaitFor(Duration),
    /// Whatever the release does with what it does not know.
    Close,
}

/// The release does not know the request, or cannot read it.
#[derive(Debug)]
pub(crate) struct Refused;

/// Reads a request, carries it out and writes the answer.
pub(crate) fn carry_out(
    state: &mut State,
    call: Call<'_>,
    header: &RequestHeader,
    frame: &Bytes,
) -> Result<Outcome, Refused> {
    let key = header.request_api_key;
    let asked = header.request_api_version;
    let known = state.apis.iter().find(|(api, _)| *api == key).map(|(_, versions)| *versions);
    let version = match known.map(|known| state.release().reads_as(key, asked, known)) {
        Some(Some(version)) => version,
        Some(None) if key == ApiKey::API_VERSIONS => {
            let answer = api_versions::unsupported(state);
            return respond::<p::ApiVersionsRequest>(header, 0, &answer);
        }
        _ => {
            tracing::debug!(api = %key, version = asked, release = %state.release(), "refused");
            return Err(Refused);
        }
    };
    let call = Call { version, ..call };
    macro_rules! answer {
        ($request:ty, $handler:path) => {{
            let request = decode::<$request>(header, frame, version)?;
            let answer = $handler(state, call, request);
            respond::<$request>(header, version, &answer)
        }};
    }
    match key {
        ApiKey::API_VERSIONS => answer!(p::ApiVersionsRequest, api_versions::answer),
        ApiKey::METADATA => answer!(p::MetadataRequest, metadata::answer),
        ApiKey::FETCH => {
            let request = decode::<p::FetchRequest>(header, frame, version)?;
            let (answer, complete) = fetch::answer(state, call, &request);
            let wait = Duration::from_millis(request.max_wait_ms.max(0) as u64);
            if complete || call.last_chance || wait.is_zero() {
                respond::<p::FetchRequest>(header, version, &answer)
            } else {
                Ok(Outcome::WaitFor(wait))
            }
        }
        _ => {
            tracing::warn!(api = %key, version, "not built into the embedded broker");
            Ok(Outcome::Close)
        }
    }
}

/// Reads the body by `version`. Where the release did not check the version asked for, it did not
/// mind what follows the fields it knows either.
fn decode<R: Request>(header: &RequestHeader, frame: &Bytes, version: i16) -> Result<R, Refused> {
    let lenient = || -> Result<R, DecodeError> {
        let mut reader = Reader::of_frame(frame, "header");
        RequestHeader::read(&mut reader)?;
        R::read(&mut reader, R::version(version))
    };
    let decoded = if version == header.request_api_version {
        p::decode_request::<R>(frame).map(|(_, request)| request)
    } else {
        lenient()
    };
    decoded.map_err(|error| {
        tracing::warn!(request = R::NAME, version, %error, "cannot read the request");
        Refused
    })
}

fn respond<R: Request>(
    header: &RequestHeader,
    version: i16,
    answer: &R::Response,
) -> Result<Outcome, Refused> {
    let encoded = p::encode_response::<R>(answer, version, header.correlation_id);
    encoded.map(Outcome::Answer).map_err(|error| {
        tracing::error!(request = R::NAME, version, %error, "cannot write the answer");
        Refused
    })
}
