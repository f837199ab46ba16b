//! OffsetCommit (key 8): keeps positions of a group.
//!
//! Version 0 keeps them in ZooKeeper, 1 on in Kafka (KAFKA-1012) · 2–4: a retention of their own ·
//! 6: leader epochs (KIP-320) · 7: static members (KIP-345) · 9: groups of KIP-848 · 10: topic ids.

use super::ErrorCode;
use super::api::request;
use crate::wire::Uuid;

request!(OffsetCommitRequest => OffsetCommitResponse, OFFSET_COMMIT, 0-10, flexible 8);

message! {
    /// Commits offsets.
    OffsetCommitRequest {
        /// The group.
        [0+] group_id: String;
        /// Generation of the group, or epoch of the member (KIP-848); −1 outside any membership.
        [1+, ignorable] generation_id_or_member_epoch: i32 = -1;
        /// The member, empty outside any membership.
        [1+, ignorable] member_id: String;
        /// Name of a static member, null for none (KIP-345).
        [7+, null 7+] group_instance_id: Option<String>;
        /// How long the broker keeps the offsets, in ms; −1 for its own setting.
        [2-4, ignorable] retention_time_ms: i64 = -1;
        /// What to commit.
        [0+] topics: Vec<OffsetCommitRequestTopic>;
    }

    /// A topic to commit offsets of.
    OffsetCommitRequestTopic {
        /// Its name.
        [0-9, ignorable] name: String;
        /// Its id.
        [10+, ignorable] topic_id: Uuid;
        /// Its partitions.
        [0+] partitions: Vec<OffsetCommitRequestPartition>;
    }

    /// A partition's offset.
    OffsetCommitRequestPartition {
        /// Number of the partition.
        [0+] partition_index: i32;
        /// The next offset to read.
        [0+] committed_offset: i64;
        /// Epoch of the last record read, −1 for unknown (KIP-320).
        [6+, ignorable] committed_leader_epoch: i32 = -1;
        /// When it was committed, in ms since 1970; −1 for now.
        [1] commit_timestamp: i64 = -1;
        /// Anything that the client wants to keep beside the offset.
        [0+, null 0+] committed_metadata: Option<String> = String::new();
    }

    /// What became of a commit.
    OffsetCommitResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 4 on).
        [3+, ignorable] throttle_time_ms: i32;
        /// The topics committed.
        [0+] topics: Vec<OffsetCommitResponseTopic>;
    }

    /// A topic in the answer.
    OffsetCommitResponseTopic {
        /// Its name.
        [0-9, ignorable] name: String;
        /// Its id.
        [10+, ignorable] topic_id: Uuid;
        /// Its partitions.
        [0+] partitions: Vec<OffsetCommitResponsePartition>;
    }

    /// A partition in the answer.
    OffsetCommitResponsePartition {
        /// Its number.
        [0+] partition_index: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
    }
}
