//! Fetch (key 1): record sets from an offset on.
//!
//! 3: a limit for the whole response and the promise of at least one batch (KIP-74) · 4: magic 2,
//! isolation (KIP-98) · 7: sessions (KIP-227) · 9: leader epochs (KIP-320) · 10: the client knows
//! zstd (KIP-110) · 11: racks (KIP-392) · 13: topic ids (KIP-516) · 16: leader hints (KIP-951).

use bytes::Bytes;

use super::api::request;
use super::{ErrorCode, LeaderIdAndEpoch, NodeEndpoint};
use crate::wire::Uuid;

request!(FetchRequest => FetchResponse, FETCH, 0-18, flexible 12);

message! {
    /// Asks for record sets.
    FetchRequest {
        /// −1 for a consumer.
        [0-14] replica_id: i32 = -1;
        /// How long the broker may wait for `min_bytes`, in ms.
        [0+] max_wait_ms: i32;
        /// Bytes that must be there before the broker answers early.
        [0+] min_bytes: i32;
        /// Limit of the whole response in bytes; the first batch may exceed it (KIP-74).
        [3+, ignorable] max_bytes: i32 = 0x7fffffff;
        /// 0 read_uncommitted, 1 read_committed (KIP-98).
        [4+, ignorable] isolation_level: i8;
        /// Session id, 0 for none (KIP-227).
        [7+, ignorable] session_id: i32;
        /// Session epoch; −1 for no session, 0 to open one.
        [7+, ignorable] session_epoch: i32 = -1;
        /// What to fetch.
        [0+] topics: Vec<FetchTopic>;
        /// What an incremental request takes out of the session.
        [7+] forgotten_topics_data: Vec<ForgottenTopic>;
        /// Rack of the client, empty for none (KIP-392).
        [11+, ignorable] rack_id: String;
        /// The cluster asked, for brokers that fetch metadata (KIP-595).
        [12+, tag 0, null 12+, ignorable] cluster_id: Option<String>;
        /// Who fetches, if a replica (KIP-903).
        [15+, tag 1] replica_state: ReplicaState;
    }

    /// A replica that fetches.
    ReplicaState {
        /// −1 for a consumer.
        [15+] replica_id: i32 = -1;
        /// Its broker epoch, −1 for none.
        [15+] replica_epoch: i64 = -1;
    }

    /// A topic to fetch from.
    FetchTopic {
        /// Its name.
        [0-12, ignorable] topic: String;
        /// Its id.
        [13+, ignorable] topic_id: Uuid;
        /// Partitions to fetch from, in the order of their turns.
        [0+] partitions: Vec<FetchPartition>;
    }

    /// A partition to fetch from.
    FetchPartition {
        /// Its number.
        [0+] partition: i32;
        /// The leader epoch that the client knows, −1 for none (KIP-320).
        [9+, ignorable] current_leader_epoch: i32 = -1;
        /// First offset wanted.
        [0+] fetch_offset: i64;
        /// −1 for a consumer.
        [12+] last_fetched_epoch: i32 = -1;
        /// −1 for a consumer.
        [5+, ignorable] log_start_offset: i64 = -1;
        /// Limit for this partition, in bytes.
        [0+] partition_max_bytes: i32;
        /// Replicas only (KIP-853).
        [17+, tag 0, ignorable] replica_directory_id: Uuid;
        /// Replicas only (KIP-1166).
        [18+, tag 1, ignorable] high_watermark: i64 = 0x7fffffffffffffff;
    }

    /// A topic with partitions that leave the session.
    ForgottenTopic {
        /// Its name.
        [7-12, ignorable] topic: String;
        /// Its id.
        [13+, ignorable] topic_id: Uuid;
        /// The partitions.
        [7+] partitions: Vec<i32>;
    }

    /// Record sets, one per partition.
    FetchResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 8 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// An error about the whole request or session.
        [7+, ignorable] error_code: ErrorCode;
        /// Session id, 0 for none.
        [7+] session_id: i32;
        /// What was fetched.
        [0+] responses: Vec<FetchedTopic>;
        /// Addresses of the leaders named in `current_leader` (KIP-951).
        [16+, tag 0] node_endpoints: Vec<NodeEndpoint>;
    }

    /// A topic in the answer.
    FetchedTopic {
        /// Its name.
        [0-12, ignorable] topic: String;
        /// Its id.
        [13+, ignorable] topic_id: Uuid;
        /// Its partitions.
        [0+] partitions: Vec<FetchedPartition>;
    }

    /// A partition in the answer.
    FetchedPartition {
        /// Its number.
        [0+] partition_index: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// Offset after the last one that consumers may see; −1 on an error.
        [0+] high_watermark: i64;
        /// Offset after the last one that is not in an open transaction; −1 unless asked for.
        [4+, ignorable] last_stable_offset: i64 = -1;
        /// First offset of the log.
        [5+, ignorable] log_start_offset: i64 = -1;
        /// Where the log of the client and of the leader part (replicas only).
        [12+, tag 0] diverging_epoch: EpochEndOffset;
        /// The leader to ask instead, on errors 6 and 74 (KIP-951).
        [12+, tag 1] current_leader: LeaderIdAndEpoch;
        /// Replicas only.
        [12+, tag 2] snapshot_id: SnapshotId;
        /// Aborted transactions in this set; null and empty mean the same (KIP-98).
        [4+, null 4+, ignorable] aborted_transactions: Option<Vec<AbortedTransaction>> = Vec::new();
        /// The follower to read from instead, −1 for none (KIP-392).
        [11+] preferred_read_replica: i32 = -1;
        /// The record set; null and empty mean the same.
        [0+, null 0+] records: Option<Bytes>;
    }

    /// The last epoch the leader agrees on.
    EpochEndOffset {
        /// Its number.
        [12+] epoch: i32 = -1;
        /// Where it ends.
        [12+] end_offset: i64 = -1;
    }

    /// A snapshot of the metadata log.
    SnapshotId {
        /// Where it ends.
        [0+] end_offset: i64 = -1;
        /// Its epoch.
        [0+] epoch: i32 = -1;
    }

    /// A transaction that was aborted.
    AbortedTransaction {
        /// Who wrote it.
        [4+] producer_id: i64;
        /// Its first offset.
        [4+] first_offset: i64;
    }
}
