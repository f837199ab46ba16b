//! FindCoordinator (key 10): which broker keeps a group's offsets and members.
//!
//! 1: transactions too (KIP-98), an error message · 4: several keys at once (KIP-699) · 5: may
//! return 120 · 6: share groups (KIP-932).

use super::ErrorCode;
use super::api::request;

request!(FindCoordinatorRequest => FindCoordinatorResponse, FIND_COORDINATOR, 0-6, flexible 3);

message! {
    /// Asks for coordinators.
    FindCoordinatorRequest {
        /// The group, or transactional id.
        [0-3] key: String;
        /// 0 a group, 1 a transaction, 2 a share group's partition.
        [1+] key_type: i8;
        /// The groups, or transactional ids (KIP-699).
        [4+] coordinator_keys: Vec<String>;
    }

    /// Coordinators.
    FindCoordinatorResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 2 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// The error, or 0.
        [0-3] error_code: ErrorCode;
        /// The error in words.
        [1-3, null 1+, ignorable] error_message: Option<String> = String::new();
        /// The coordinator's broker id.
        [0-3] node_id: i32;
        /// Its host name or address.
        [0-3] host: String;
        /// Its port.
        [0-3] port: i32;
        /// One entry per key (KIP-699).
        [4+] coordinators: Vec<Coordinator>;
    }

    /// The coordinator of one key.
    Coordinator {
        /// The group, or transactional id.
        [4+] key: String;
        /// The coordinator's broker id.
        [4+] node_id: i32;
        /// Its host name or address.
        [4+] host: String;
        /// Its port.
        [4+] port: i32;
        /// The error, or 0.
        [4+] error_code: ErrorCode;
        /// The error in words.
        [4+, null 4+, ignorable] error_message: Option<String> = String::new();
    }
}
