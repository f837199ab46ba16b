//! JoinGroup (key 11): becomes a member of a group.
//!
//! 1: a time-out of its own for rebalances (KIP-62) · 4: the first join answers 79 with a member id
//! (KIP-394) · 5: static members (KIP-345) · 7: names type and protocol (KIP-559) · 8: a reason
//! (KIP-800) · 9: the leader may skip the assignment (KIP-814). 4.0.0 alone lacks 0 and 1
//! (KAFKA-19444).

use bytes::Bytes;

use super::ErrorCode;
use super::api::request;

request!(JoinGroupRequest => JoinGroupResponse, JOIN_GROUP, 0-9, flexible 6);

message! {
    /// Joins a group.
    JoinGroupRequest {
        /// The group.
        [0+] group_id: String;
        /// Silence after which the member counts as dead, in ms.
        [0+] session_timeout_ms: i32;
        /// How long the broker waits for members to join again, in ms; −1 for the session time-out
        /// (KIP-62).
        [1+, ignorable] rebalance_timeout_ms: i32 = -1;
        /// The member, empty at the first join.
        [0+] member_id: String;
        /// Name of a static member, null for none (KIP-345).
        [5+, null 5+] group_instance_id: Option<String>;
        /// What kind of group it is: `consumer`.
        [0+] protocol_type: String;
        /// The ways to assign that the member knows, the best one first.
        [0+] protocols: Vec<JoinGroupProtocol>;
        /// Why it joins, for the broker's log (KIP-800).
        [8+, null 8+, ignorable] reason: Option<String>;
    }

    /// A way to assign.
    JoinGroupProtocol {
        /// Its name.
        [0+] name: String;
        /// What the leader needs to know: a [`ConsumerSubscription`](super::ConsumerSubscription).
        [0+] metadata: Bytes;
    }

    /// Membership.
    JoinGroupResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 3 on).
        [2+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// Generation of the group.
        [0+] generation_id: i32 = -1;
        /// What kind of group it is (KIP-559).
        [7+, null 7+, ignorable] protocol_type: Option<String>;
        /// The way to assign that all members know.
        [0+, null 7+] protocol_name: Option<String> = String::new();
        /// The member that assigns.
        [0+] leader: String;
        /// Whether the leader must leave the assignment as it is (KIP-814).
        [9+] skip_assignment: bool;
        /// The id of this member.
        [0+] member_id: String;
        /// For the leader: all members. Empty for the others.
        [0+] members: Vec<JoinGroupMember>;
    }

    /// A member.
    JoinGroupMember {
        /// Its id.
        [0+] member_id: String;
        /// Its name, if it is a static member (KIP-345).
        [5+, null 5+, ignorable] group_instance_id: Option<String>;
        /// What it said about itself: a [`ConsumerSubscription`](super::ConsumerSubscription).
        [0+] metadata: Bytes;
    }
}
