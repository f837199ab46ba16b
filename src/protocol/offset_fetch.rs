//! OffsetFetch (key 9): positions that a group has committed.
//!
//! Version 0 reads ZooKeeper, 1 on Kafka (KAFKA-1012) · 2: all topics at once (KIP-88) · 5: leader
//! epochs (KIP-320) · 7: waits for open transactions (KIP-447) · 8: several groups (KIP-709) · 9:
//! groups of KIP-848 · 10: topic ids.
//!
//! "Nothing committed" is offset −1 with error 0, but in version 0 offset −1 with error 3, also for
//! a topic that exists.

use super::ErrorCode;
use super::api::request;
use crate::wire::Uuid;

request!(OffsetFetchRequest => OffsetFetchResponse, OFFSET_FETCH, 0-10, flexible 6);

message! {
    /// Asks for committed offsets.
    OffsetFetchRequest {
        /// The group.
        [0-7] group_id: String;
        /// What to ask about; null for everything (KIP-88).
        [0-7, null 2+] topics: Option<Vec<OffsetFetchRequestTopic>> = Vec::new();
        /// The groups (KIP-709).
        [8+] groups: Vec<OffsetFetchRequestGroup>;
        /// Whether to answer 88 instead of an offset that an open transaction may still move
        /// (KIP-447).
        [7+] require_stable: bool;
    }

    /// A topic to ask about.
    OffsetFetchRequestTopic {
        /// Its name.
        [0-7] name: String;
        /// Its partitions.
        [0-7] partition_indexes: Vec<i32>;
    }

    /// A group to ask about.
    OffsetFetchRequestGroup {
        /// The group.
        [8+] group_id: String;
        /// The member that asks, null for none (KIP-848).
        [9+, null 9+, ignorable] member_id: Option<String>;
        /// Its epoch, −1 for none (KIP-848).
        [9+, ignorable] member_epoch: i32 = -1;
        /// What to ask about; null for everything.
        [8+, null 8+] topics: Option<Vec<OffsetFetchRequestTopics>> = Vec::new();
    }

    /// A topic to ask about, within a group.
    OffsetFetchRequestTopics {
        /// Its name.
        [8-9, ignorable] name: String;
        /// Its id.
        [10+, ignorable] topic_id: Uuid;
        /// Its partitions.
        [8+] partition_indexes: Vec<i32>;
    }

    /// Committed offsets.
    OffsetFetchResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 4 on).
        [3+, ignorable] throttle_time_ms: i32;
        /// The topics asked about.
        [0-7] topics: Vec<OffsetFetchResponseTopic>;
        /// An error about the whole group.
        [2-7, ignorable] error_code: ErrorCode;
        /// The groups asked about (KIP-709).
        [8+] groups: Vec<OffsetFetchResponseGroup>;
    }

    /// A topic in the answer.
    OffsetFetchResponseTopic {
        /// Its name.
        [0-7] name: String;
        /// Its partitions.
        [0-7] partitions: Vec<OffsetFetchResponsePartition>;
    }

    /// A partition in the answer.
    OffsetFetchResponsePartition {
        /// Its number.
        [0-7] partition_index: i32;
        /// The next offset to read, −1 for none.
        [0-7] committed_offset: i64;
        /// Epoch of the last record read, −1 for unknown (KIP-320).
        [5-7, ignorable] committed_leader_epoch: i32 = -1;
        /// What the client kept beside the offset.
        [0-7, null 0+] metadata: Option<String> = String::new();
        /// The error, or 0.
        [0-7] error_code: ErrorCode;
    }

    /// A group in the answer.
    OffsetFetchResponseGroup {
        /// The group.
        [8+] group_id: String;
        /// The topics asked about.
        [8+] topics: Vec<OffsetFetchResponseTopics>;
        /// An error about the whole group.
        [8+] error_code: ErrorCode;
    }

    /// A topic in the answer, within a group.
    OffsetFetchResponseTopics {
        /// Its name.
        [8-9, ignorable] name: String;
        /// Its id.
        [10+, ignorable] topic_id: Uuid;
        /// Its partitions.
        [8+] partitions: Vec<OffsetFetchResponsePartitions>;
    }

    /// A partition in the answer, within a group.
    OffsetFetchResponsePartitions {
        /// Its number.
        [8+] partition_index: i32;
        /// The next offset to read, −1 for none.
        [8+] committed_offset: i64;
        /// Epoch of the last record read, −1 for unknown (KIP-320).
        [8+, ignorable] committed_leader_epoch: i32 = -1;
        /// What the client kept beside the offset.
        [8+, null 8+] metadata: Option<String> = String::new();
        /// The error, or 0.
        [8+] error_code: ErrorCode;
    }
}
