//! What the broker answers: one file per API, from the typed request to the typed response.

mod api_versions;
mod fetch;
mod groups;
mod list_offsets;
mod metadata;
mod offsets;
mod produce;
mod small;
mod throttle;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::fault::Injected;
use super::state::{Partition, State};
use crate::protocol as p;
use crate::protocol::{ApiKey, Request, RequestHeader};
use crate::wire::{DecodeError, Problem, Reader};
use throttle::Throttled;
pub(crate) use throttle::mutes;

/// A request being answered: who was asked, by which version, when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) node: i32,
    pub(crate) version: i16,
    /// Time of the broker's clock, in ms since 1970.
    pub(crate) wall_ms: i64,
    pub(crate) injected: &'a Injected,
    /// The same since the cluster's start.
    pub(crate) now: Duration,
}

/// What a request comes to.
pub(crate) enum Outcome {
    Answer(Bytes),
    /// Done, and there is nothing to say.
    NoAnswer,
    /// Nothing to say yet: again after a change, or at this time since the cluster's start.
    Wait(Duration, Waiting),
    /// Whatever the release does with what it does not know.
    Close,
}

/// A request that waits for something, taken in already.
#[derive(Debug)]
pub(crate) enum Waiting {
    Fetch(fetch::Waiting),
    Join(groups::Waiting),
    Sync(groups::Waiting),
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
            return respond::<p::ApiVersionsRequest>(Call { version: 0, ..call }, header, answer);
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
            respond::<$request>(call, header, answer)
        }};
    }
    match key {
        ApiKey::API_VERSIONS => answer!(p::ApiVersionsRequest, api_versions::answer),
        ApiKey::METADATA => answer!(p::MetadataRequest, metadata::answer),
        ApiKey::LIST_OFFSETS => answer!(p::ListOffsetsRequest, list_offsets::answer),
        ApiKey::OFFSET_COMMIT => answer!(p::OffsetCommitRequest, offsets::commit),
        ApiKey::OFFSET_FETCH => answer!(p::OffsetFetchRequest, offsets::fetch),
        ApiKey::LIST_GROUPS => answer!(p::ListGroupsRequest, groups::list),
        ApiKey::INIT_PRODUCER_ID => answer!(p::InitProducerIdRequest, small::init_producer_id),
        ApiKey::OFFSET_FOR_LEADER_EPOCH => {
            answer!(p::OffsetForLeaderEpochRequest, small::offset_for_leader_epoch)
        }
        ApiKey::SASL_HANDSHAKE => answer!(p::SaslHandshakeRequest, small::sasl_handshake),
        ApiKey::FIND_COORDINATOR => {
            let request = decode::<p::FindCoordinatorRequest>(header, frame, version)?;
            let answer = offsets::find_coordinator(state, call, request);
            let forgotten = answer.error_code.is_err() && state.release().forgets_correlation_id();
            let correlation_id = if forgotten { 0 } else { header.correlation_id };
            let header = RequestHeader { correlation_id, ..header.clone() };
            respond::<p::FindCoordinatorRequest>(call, &header, answer)
        }
        ApiKey::PRODUCE => {
            let request = decode::<p::ProduceRequest>(header, frame, version)?;
            let wants_answer = request.acks != 0;
            match produce::answer(state, call, request) {
                (answer, _) if wants_answer => respond::<p::ProduceRequest>(call, header, answer),
                // The only way to tell a producer that wants no answer (from 0.8.2 on).
                (_, true) => Ok(Outcome::Close),
                (_, false) => Ok(Outcome::NoAnswer),
            }
        }
        ApiKey::FETCH => {
            let request = decode::<p::FetchRequest>(header, frame, version)?;
            match fetch::begin(state, call, &request) {
                Ok(waiting) => fetched(state, call, header, waiting),
                Err(refusal) => respond::<p::FetchRequest>(call, header, refusal),
            }
        }
        ApiKey::HEARTBEAT => answer!(p::HeartbeatRequest, groups::heartbeat),
        ApiKey::CONSUMER_GROUP_HEARTBEAT => {
            answer!(p::ConsumerGroupHeartbeatRequest, groups::consumer_heartbeat)
        }
        ApiKey::LEAVE_GROUP => answer!(p::LeaveGroupRequest, groups::leave),
        ApiKey::JOIN_GROUP => {
            let request = decode::<p::JoinGroupRequest>(header, frame, version)?;
            let client = header.client_id.as_deref().unwrap_or_default();
            let answer = groups::join(state, call, client, &request);
            or_wait::<p::JoinGroupRequest, _>(call, header, answer, Waiting::Join)
        }
        ApiKey::SYNC_GROUP => {
            let request = decode::<p::SyncGroupRequest>(header, frame, version)?;
            let answer = groups::sync(state, call, request);
            or_wait::<p::SyncGroupRequest, _>(call, header, answer, Waiting::Sync)
        }
        _ => {
            tracing::warn!(api = %key, version, "not built into the embedded broker");
            Ok(Outcome::Close)
        }
    }
}

/// Goes on with a request that waits.
pub(crate) fn go_on(
    state: &mut State,
    call: Call<'_>,
    header: &RequestHeader,
    waiting: Waiting,
) -> Result<Outcome, Refused> {
    let key = header.request_api_key;
    let known = state.apis.iter().find(|(api, _)| *api == key).map(|(_, versions)| *versions);
    let known = known.ok_or(Refused)?;
    let version = state.release().reads_as(key, header.request_api_version, known).ok_or(Refused)?;
    let call = Call { version, ..call };
    match waiting {
        Waiting::Fetch(waiting) => fetched(state, call, header, waiting),
        Waiting::Join(waiting) => {
            let answer = groups::join_again(state, call, waiting);
            or_wait::<p::JoinGroupRequest, _>(call, header, answer, Waiting::Join)
        }
        Waiting::Sync(waiting) => {
            let answer = groups::sync_again(state, call, waiting);
            or_wait::<p::SyncGroupRequest, _>(call, header, answer, Waiting::Sync)
        }
    }
}

fn fetched(
    state: &mut State,
    call: Call<'_>,
    header: &RequestHeader,
    waiting: fetch::Waiting,
) -> Result<Outcome, Refused> {
    let answer = fetch::answer(state, call, waiting).map_err(|waiting| (waiting.until, waiting));
    or_wait::<p::FetchRequest, _>(call, header, answer, Waiting::Fetch)
}

fn or_wait<R: Request<Response: Throttled>, W>(
    call: Call<'_>,
    header: &RequestHeader,
    answer: Result<R::Response, (Duration, W)>,
    waiting: impl FnOnce(W) -> Waiting,
) -> Result<Outcome, Refused> {
    match answer {
        Ok(answer) => respond::<R>(call, header, answer),
        Err((until, what)) => Ok(Outcome::Wait(until, waiting(what))),
    }
}

/// Reads the body by `version`. Where the release did not check the version asked for, it did not
/// mind what follows the fields it knows either.
fn decode<R: Request>(header: &RequestHeader, frame: &Bytes, version: i16) -> Result<R, Refused> {
    let lenient = || -> Result<R, DecodeError> {
        let mut reader = Reader::of_frame(frame, "header");
        RequestHeader::read(&mut reader)?;
        match R::read(&mut reader, R::version(version)) {
            // A negative count, which is what another version's field may look like, was taken for
            // "no topics"; only Metadata looked at it.
            Err(DecodeError { problem: Problem::Null, .. }) if R::KEY != ApiKey::METADATA => Ok(R::default()),
            read => read,
        }
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

fn respond<R: Request<Response: Throttled>>(
    call: Call<'_>,
    header: &RequestHeader,
    mut answer: R::Response,
) -> Result<Outcome, Refused> {
    if let Some(time) = call.injected.throttle {
        answer.throttle(time);
    }
    let version = call.version;
    let encoded = p::encode_response::<R>(&answer, version, header.correlation_id);
    encoded.map(Outcome::Answer).map_err(|error| {
        tracing::error!(request = R::NAME, version, %error, "cannot write the answer");
        Refused
    })
}

fn leader(partition: &Partition) -> p::LeaderIdAndEpoch {
    p::LeaderIdAndEpoch { leader_id: partition.leader.unwrap_or(-1), leader_epoch: partition.epoch }
}

/// The addresses of the leaders that an answer hints at (KIP-951).
fn endpoints(state: &State, hinted: impl Iterator<Item = i32>) -> Vec<p::NodeEndpoint> {
    let hinted: BTreeSet<i32> = hinted.collect();
    let nodes = hinted.into_iter().filter_map(|id| state.node(id));
    nodes
        .map(|node| p::NodeEndpoint {
            node_id: node.id,
            host: node.host.clone(),
            port: node.port.into(),
            rack: node.rack.clone(),
        })
        .collect()
}
