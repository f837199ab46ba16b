//! Produce (key 0): appends record sets.
//!
//! 2: magic 1, the append time (KIP-32) · 3: magic 2 only, transactions (KIP-98) · 4: may return
//! 56 · 5: the log start · 7: zstd allowed (KIP-110) · 8: errors by record (KIP-467) · 10: leader
//! hints (KIP-951) · 11: may return 120 · 12: adds partitions to the transaction itself (KIP-890) ·
//! 13: topic ids (KIP-516).
//!
//! Brokers from 4.0 on list version 0 as their oldest but close the connection on 0–2
//! (KAFKA-18659). With `acks` 0 there is no response at all.

use bytes::Bytes;

use super::api::request;
use super::{ErrorCode, LeaderIdAndEpoch, NodeEndpoint};
use crate::wire::Uuid;

request!(ProduceRequest => ProduceResponse, PRODUCE, 0-13, flexible 9);

message! {
    /// Appends record sets.
    ProduceRequest {
        /// The transaction it belongs to, null for none (KIP-98).
        [3+, null 3+] transactional_id: Option<String>;
        /// Who must have it before the broker answers: 1 the leader, −1 all replicas in sync, 0 no
        /// answer wanted.
        [0+] acks: i16;
        /// How long the broker may wait for the replicas, in ms.
        [0+] timeout_ms: i32;
        /// What to append.
        [0+] topic_data: Vec<ProduceTopic>;
    }

    /// A topic to append to.
    ProduceTopic {
        /// Its name.
        [0-12, ignorable] name: String;
        /// Its id.
        [13+, ignorable] topic_id: Uuid;
        /// What to append, one entry per partition.
        [0+] partition_data: Vec<ProducePartition>;
    }

    /// What to append to a partition.
    ProducePartition {
        /// Number of the partition.
        [0+] index: i32;
        /// The record set: from version 3 on exactly one batch of magic 2.
        [0+, null 0+] records: Option<Bytes>;
    }

    /// Where record sets were appended.
    ProduceResponse {
        /// What became of each topic.
        [0+] responses: Vec<ProducedTopic>;
        /// How long the broker throttles this client, in ms (KIP-219 from version 6 on).
        [1+, ignorable] throttle_time_ms: i32;
        /// Addresses of the leaders named in `current_leader` (KIP-951).
        [10+, tag 0] node_endpoints: Vec<NodeEndpoint>;
    }

    /// A topic in the answer.
    ProducedTopic {
        /// Its name.
        [0-12, ignorable] name: String;
        /// Its id.
        [13+, ignorable] topic_id: Uuid;
        /// What became of each partition.
        [0+] partition_responses: Vec<ProducedPartition>;
    }

    /// A partition in the answer.
    ProducedPartition {
        /// Its number.
        [0+] index: i32;
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// Offset of the first record appended, −1 on an error.
        [0+] base_offset: i64;
        /// When the broker appended it, in ms since 1970, if the topic keeps that time; else −1.
        [2+, ignorable] log_append_time_ms: i64 = -1;
        /// First offset of the log.
        [5+, ignorable] log_start_offset: i64 = -1;
        /// The records that made the broker refuse the whole batch (KIP-467).
        [8+, ignorable] record_errors: Vec<RecordError>;
        /// Why it refused the batch.
        [8+, null 8+, ignorable] error_message: Option<String>;
        /// The leader to ask instead, on error 6 (KIP-951).
        [10+, tag 0] current_leader: LeaderIdAndEpoch;
    }

    /// A record that was refused.
    RecordError {
        /// Its place in the batch, from 0.
        [8+] batch_index: i32;
        /// Why.
        [8+, null 8+] batch_index_error_message: Option<String>;
    }
}
