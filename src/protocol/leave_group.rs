//! LeaveGroup (key 13): ends a membership. 3: several members, static ones too (KIP-345) · 5: a
//! reason (KIP-800).

use super::ErrorCode;
use super::api::request;

request!(LeaveGroupRequest => LeaveGroupResponse, LEAVE_GROUP, 0-5, flexible 4);

message! {
    /// Leaves a group.
    LeaveGroupRequest {
        /// The group.
        [0+] group_id: String;
        /// The member.
        [0-2] member_id: String;
        /// The members (KIP-345).
        [3+] members: Vec<LeavingMember>;
    }

    /// A member that leaves.
    LeavingMember {
        /// Its id.
        [3+] member_id: String;
        /// Its name, if it is a static member.
        [3+, null 3+] group_instance_id: Option<String>;
        /// Why it leaves, for the broker's log (KIP-800).
        [5+, null 5+, ignorable] reason: Option<String>;
    }

    /// Who has left.
    LeaveGroupResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// The members (KIP-345).
        [3+] members: Vec<LeftMember>;
    }

    /// A member that left.
    LeftMember {
        /// Its id.
        [3+] member_id: String;
        /// Its name, if it is a static member.
        [3+, null 3+] group_instance_id: Option<String> = String::new();
        /// The error, or 0.
        [3+] error_code: ErrorCode;
    }
}
