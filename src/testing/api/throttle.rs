//! Throttling: the time that an answer names, and from which versions on the broker mutes the
//! connection instead of being late (KIP-219).

use std::time::Duration;

use crate::protocol as p;
use crate::protocol::ApiKey;

/// An answer that can tell how long the client is throttled.
pub(super) trait Throttled {
    fn throttle(&mut self, time: Duration);
}

macro_rules! throttled {
    ($($response:ident)+) => {
        $(impl Throttled for p::$response {
            fn throttle(&mut self, time: Duration) {
                self.throttle_time_ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
            }
        })+
    };
}

throttled! {
    ApiVersionsResponse ConsumerGroupHeartbeatResponse FetchResponse FindCoordinatorResponse HeartbeatResponse InitProducerIdResponse
    JoinGroupResponse LeaveGroupResponse ListGroupsResponse ListOffsetsResponse MetadataResponse
    OffsetCommitResponse OffsetFetchResponse OffsetForLeaderEpochResponse ProduceResponse SyncGroupResponse
}

/// Logins are never throttled.
impl Throttled for p::SaslHandshakeResponse {
    fn throttle(&mut self, _: Duration) {}
}

/// Whether the broker answers such a request at once and then does not read for the time it names;
/// otherwise its answer is late by that time.
pub(crate) fn mutes(api: ApiKey, version: i16) -> bool {
    let from = match api.0 {
        0 | 3 => 6,
        1 => 8,
        2 | 11 => 3,
        8 | 9 => 4,
        10 | 12..=14 | 16 | 18 | 23 => 2,
        22 => 1,
        _ => 0,
    };
    version >= from
}
