//! Heartbeat (key 12): says that a member of a group is alive. 3: static members (KIP-345).

use super::ErrorCode;
use super::api::request;

request!(HeartbeatRequest => HeartbeatResponse, HEARTBEAT, 0-4, flexible 4);

message! {
    /// Says that a member is alive.
    HeartbeatRequest {
        /// The group.
        [0+] group_id: String;
        /// Its generation.
        [0+] generation_id: i32;
        /// The member.
        [0+] member_id: String;
        /// Name of a static member, null for none (KIP-345).
        [3+, null 3+] group_instance_id: Option<String>;
    }

    /// Whether the member is one still.
    HeartbeatResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// The error, or 0; 27 asks to join again.
        [0+] error_code: ErrorCode;
    }
}
