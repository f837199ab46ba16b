//! OffsetForLeaderEpoch (key 23): where an epoch ended in the leader's log (KIP-101, KIP-320).
//!
//! 1: names the epoch found (KIP-279) · 2: fences by the current epoch (KIP-320) · 3: consumers may
//! ask; before it, only brokers have the permission.

use super::ErrorCode;
use super::api::request;

request!(OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse, OFFSET_FOR_LEADER_EPOCH, 0-4, flexible 4);

message! {
    /// Asks where epochs end.
    OffsetForLeaderEpochRequest {
        /// −1 for a consumer, −2 (the default) for anyone.
        [3+, ignorable] replica_id: i32 = -2;
        /// What to ask about.
        [0+] topics: Vec<OffsetForLeaderTopic>;
    }

    /// A topic to ask about.
    OffsetForLeaderTopic {
        /// Its name.
        [0+] topic: String;
        /// Its partitions.
        [0+] partitions: Vec<OffsetForLeaderPartition>;
    }

    /// A partition to ask about.
    OffsetForLeaderPartition {
        /// Its number.
        [0+] partition: i32;
        /// The leader epoch that the client knows, −1 for none (KIP-320).
        [2+, ignorable] current_leader_epoch: i32 = -1;
        /// The epoch whose end is asked for.
        [0+] leader_epoch: i32;
    }

    /// Where epochs end.
    OffsetForLeaderEpochResponse {
        /// How long the broker throttles this client, in ms.
        [2+, ignorable] throttle_time_ms: i32;
        /// The topics asked about.
        [0+] topics: Vec<OffsetForLeaderTopicResult>;
    }

    /// A topic in the answer.
    OffsetForLeaderTopicResult {
        /// Its name.
        [0+] topic: String;
        /// Its partitions.
        [0+] partitions: Vec<OffsetForLeaderPartitionResult>;
    }

    /// A partition in the answer.
    OffsetForLeaderPartitionResult {
        /// The error, or 0. It stands before the partition's number.
        [0+] error_code: ErrorCode;
        /// Number of the partition.
        [0+] partition: i32;
        /// The largest epoch not above the one asked for, −1 for none.
        [1+, ignorable] leader_epoch: i32 = -1;
        /// The offset after that epoch's last record, −1 for none.
        [0+] end_offset: i64 = -1;
    }
}
