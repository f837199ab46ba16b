//! SyncGroup (key 14): the leader of a group hands out the assignment, every member gets its own.
//!
//! 3: static members (KIP-345) · 5: names type and protocol (KIP-559).

use bytes::Bytes;

use super::ErrorCode;
use super::api::request;

request!(SyncGroupRequest => SyncGroupResponse, SYNC_GROUP, 0-5, flexible 4);

message! {
    /// Hands out the assignment, or asks for it.
    SyncGroupRequest {
        /// The group.
        [0+] group_id: String;
        /// Its generation.
        [0+] generation_id: i32;
        /// The member.
        [0+] member_id: String;
        /// Name of a static member, null for none (KIP-345).
        [3+, null 3+] group_instance_id: Option<String>;
        /// What kind of group it is (KIP-559).
        [5+, null 5+, ignorable] protocol_type: Option<String>;
        /// The way to assign that was chosen (KIP-559).
        [5+, null 5+, ignorable] protocol_name: Option<String>;
        /// From the leader: one entry per member. Empty from the others.
        [0+] assignments: Vec<SyncGroupAssignment>;
    }

    /// What a member gets.
    SyncGroupAssignment {
        /// The member.
        [0+] member_id: String;
        /// A [`ConsumerAssignment`](super::ConsumerAssignment).
        [0+] assignment: Bytes;
    }

    /// What this member gets.
    SyncGroupResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// What kind of group it is (KIP-559).
        [5+, null 5+, ignorable] protocol_type: Option<String>;
        /// The way to assign that was chosen (KIP-559).
        [5+, null 5+, ignorable] protocol_name: Option<String>;
        /// A [`ConsumerAssignment`](super::ConsumerAssignment); no bytes at all if there is none.
        [0+] assignment: Bytes;
    }
}
