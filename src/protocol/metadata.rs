//! Metadata (key 3): brokers, topics, and who leads what. Version 0 is the one request that every
//! broker understands.

use super::ErrorCode;
use super::api::request;
use crate::wire::Uuid;

request!(MetadataRequest => MetadataResponse, METADATA, 0-13, flexible 9);

message! {
    /// Asks about topics: all of them if `topics` is null (version 1 on) or empty (version 0).
    ///
    /// Versions 0–3 create a topic that does not exist, where the broker allows it.
    MetadataRequest {
        /// The topics asked about.
        [0+, null 1+] topics: Option<Vec<MetadataRequestTopic>> = Vec::new();
        /// Whether the broker may create topics that do not exist.
        [4+] allow_auto_topic_creation: bool = true;
        /// Whether to tell what the client may do with the cluster.
        [8-10] include_cluster_authorized_operations: bool;
        /// Whether to tell what the client may do with the topics.
        [8+] include_topic_authorized_operations: bool;
    }

    /// A topic asked about.
    MetadataRequestTopic {
        /// Its id; only from version 12 on may it stand for the name.
        [10+, ignorable] topic_id: Uuid;
        /// Its name.
        [0+, null 10+] name: Option<String> = String::new();
    }

    /// Brokers and topics.
    MetadataResponse {
        /// How long the broker throttles this client, in ms (KIP-219 from version 6 on).
        [3+, ignorable] throttle_time_ms: i32;
        /// Live brokers; 0.8.0 and 0.8.1 list only those with a part in the topics returned.
        [0+] brokers: Vec<MetadataBroker>;
        /// Id of the cluster.
        [2+, null 2+, ignorable] cluster_id: Option<String>;
        /// The controller; under KRaft a broker picked at random.
        [1+, ignorable] controller_id: i32 = -1;
        /// The topics, in no order.
        [0+] topics: Vec<MetadataTopic>;
        /// What the client may do with the cluster, as a bit field.
        [8-10] cluster_authorized_operations: i32 = -2147483648;
        /// An error about the whole answer: 129 asks to bootstrap again (KIP-1102).
        [13+, ignorable] error_code: ErrorCode;
    }

    /// A broker.
    MetadataBroker {
        /// Its id.
        [0+] node_id: i32;
        /// Host name or address, without brackets.
        [0+] host: String;
        /// Port.
        [0+] port: i32;
        /// Its rack.
        [1+, null 1+, ignorable] rack: Option<String>;
    }

    /// A topic.
    MetadataTopic {
        /// The error, or 0.
        [0+] error_code: ErrorCode;
        /// Its name; null if it was asked for by an id that nobody knows.
        [0+, null 12+] name: Option<String> = String::new();
        /// Its id, zero for none.
        [10+, ignorable] topic_id: Uuid;
        /// Whether it is one of Kafka's own.
        [1+, ignorable] is_internal: bool;
        /// Its partitions, in no order.
        [0+] partitions: Vec<MetadataPartition>;
        /// What the client may do with it, as a bit field.
        [8+] topic_authorized_operations: i32 = -2147483648;
    }

    /// A partition.
    MetadataPartition {
        /// The error, or 0; 9 only says that some replica is down.
        [0+] error_code: ErrorCode;
        /// Its number.
        [0+] partition_index: i32;
        /// The broker that leads it, −1 for none.
        [0+] leader_id: i32;
        /// Epoch of the leader; to be trusted from version 9 on (KAFKA-9212).
        [7+, ignorable] leader_epoch: i32 = -1;
        /// Brokers with a replica.
        [0+] replica_nodes: Vec<i32>;
        /// Brokers with a replica in sync.
        [0+] isr_nodes: Vec<i32>;
        /// Replicas that are down.
        [5+, ignorable] offline_replicas: Vec<i32>;
    }
}
