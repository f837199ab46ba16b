//! ListOffsets (key 2): where a log starts and ends, and which offset belongs to a time.
//!
//! 1: one exact offset instead of a list (KIP-79) · 2: isolation (KIP-98) · 4: leader epochs
//! (KIP-320) · 5: may return 78 · 7: timestamp −3 (KIP-734) · 8: −4 (KIP-405) · 9: −5 (KIP-1005) ·
//! 10: a time-out for tiered storage (KIP-1075) · 11: −6 (KIP-1023).
//!
//! Only the leader answers it, also where fetches go to a follower.

use super::ErrorCode;
use super::api::request;

request!(ListOffsetsRequest => ListOffsetsResponse, LIST_OFFSETS, 0-11, flexible 6);

message! {
    /// Asks for offsets by time.
    ListOffsetsRequest {
        /// −1 for a consumer; −2 asks a replica that does not lead.
        [0+] replica_id: i32;
        /// 0 read_uncommitted, 1 read_committed: then the end is the last stable offset (KIP-98).
        [2+] isolation_level: i8;
        /// What to ask about.
        [0+] topics: Vec<ListOffsetsTopic>;
        /// How long the broker may look in tiered storage, in ms (KIP-1075).
        [10+, ignorable] timeout_ms: i32;
    }

    /// A topic to ask about.
    ListOffsetsTopic {
        /// Its name.
        [0+] name: String;
        /// Its partitions; one listed twice is refused with error 42 from version 1 on.
        [0+] partitions: Vec<ListOffsetsPartition>;
    }

    /// A partition to ask about.
    ListOffsetsPartition {
        /// Its number.
        [0+] partition_index: i32;
        /// The leader epoch that the client knows, −1 for none (KIP-320).
        [4+, ignorable] current_leader_epoch: i32 = -1;
        /// ms since 1970, for the first record that is not older; or −1 the end, −2 the start, −3
        /// the record with the largest timestamp, −4 the local start, −5 the last tiered offset,
        /// −6 the first offset that is not tiered yet.
        [0+] timestamp: i64;
        /// The most offsets wanted.
        [0] max_num_offsets: i32 = 1;
    }

    /// Offsets.
    ListOffsetsResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 3 on).
        [2+, ignorable] throttle_time_ms: i32;
        /// The topics asked about.
        [0+] topics: Vec<ListOffsetsTopicResponse>;
    }

    /// A topic in the answer.
    ListOffsetsTopicResponse {
        /// Its name.
        [0+] name: String;
        /// Its partitions.
        [0+] partitions: Vec<ListOffsetsPartitionResponse>;
    }

    /// A partition in the answer.
    ListOffsetsPartitionResponse {
        /// Its number.
        [0+] partition_index: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// Descending: the end or a segment's base offset, and those of segments before it. Empty if
        /// every segment is newer than the time asked for.
        [0] old_style_offsets: Vec<i64>;
        /// Timestamp of the record found, in ms since 1970; −1 for the start, the end, and "none".
        [1+] timestamp: i64 = -1;
        /// The offset; −1 for "none".
        [1+] offset: i64 = -1;
        /// Epoch of that offset's leader, −1 for unknown.
        [4+] leader_epoch: i32 = -1;
    }
}
