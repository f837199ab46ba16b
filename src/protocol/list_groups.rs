//! ListGroups (key 16): the groups that a broker coordinates. An answer to version 0 shows a broker
//! of 0.9 at least.
//!
//! 4: states (KIP-518) · 5: types (KIP-848).

use super::ErrorCode;
use super::api::request;

request!(ListGroupsRequest => ListGroupsResponse, LIST_GROUPS, 0-5, flexible 3);

message! {
    /// Asks for groups.
    ListGroupsRequest {
        /// Only groups in these states; empty for all (KIP-518).
        [4+] states_filter: Vec<String>;
        /// Only groups of these types; empty for all (KIP-848).
        [5+] types_filter: Vec<String>;
    }

    /// Groups.
    ListGroupsResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// The groups.
        [0+] groups: Vec<ListedGroup>;
    }

    /// A group.
    ListedGroup {
        /// Its id.
        [0+] group_id: String;
        /// What kind of group it is: `consumer`, mostly.
        [0+] protocol_type: String;
        /// Its state (KIP-518).
        [4+, ignorable] group_state: String;
        /// Its type (KIP-848).
        [5+, ignorable] group_type: String;
    }
}
