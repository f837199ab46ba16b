//! ConsumerGroupHeartbeat (key 68): membership of a group whose broker assigns (KIP-848).
//!
//! 1: the client makes the member id itself (KIP-1082), subscription by pattern.

use super::ErrorCode;
use super::api::request;
use crate::wire::Uuid;

request!(ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse, CONSUMER_GROUP_HEARTBEAT, 0-1, flexible 0);

message! {
    /// Joins, stays or leaves. A null says that nothing has changed since the last heartbeat.
    ConsumerGroupHeartbeatRequest {
        /// The group.
        [0+] group_id: String;
        /// The member; made by the client from version 1 on.
        [0+] member_id: String;
        /// Its epoch; 0 joins, −1 leaves, −2 leaves for a while (static members).
        [0+] member_epoch: i32;
        /// Name of a static member.
        [0+, null 0+] instance_id: Option<String>;
        /// Its rack.
        [0+, null 0+] rack_id: Option<String>;
        /// How long the broker waits for it to give up partitions, in ms; −1 for unchanged.
        [0+] rebalance_timeout_ms: i32 = -1;
        /// The topics it wants.
        [0+, null 0+] subscribed_topic_names: Option<Vec<String>>;
        /// Or a pattern of them (RE2).
        [1+, null 1+] subscribed_topic_regex: Option<String>;
        /// How the broker shall assign.
        [0+, null 0+] server_assignor: Option<String>;
        /// The partitions it owns.
        [0+, null 0+] topic_partitions: Option<Vec<TopicPartitions>>;
    }

    /// Partitions of a topic.
    TopicPartitions {
        /// Id of the topic.
        [0+] topic_id: Uuid;
        /// The partitions.
        [0+] partitions: Vec<i32>;
    }

    /// Membership.
    ConsumerGroupHeartbeatResponse {
        /// How long the broker throttles this client, in ms.
        [0+] throttle_time_ms: i32;
        /// The error, or 0; 25 and 110 ask to drop the assignment and join with epoch 0.
        [0+] error_code: ErrorCode;
        /// The error in words.
        [0+, null 0+] error_message: Option<String>;
        /// The member.
        [0+, null 0+] member_id: Option<String>;
        /// Its epoch.
        [0+] member_epoch: i32;
        /// How often to send this request, in ms.
        [0+] heartbeat_interval_ms: i32;
        /// What the member shall own, null for no change.
        [0+, null 0+] assignment: Option<TargetAssignment>;
    }

    /// What a member shall own.
    TargetAssignment {
        /// The partitions.
        [0+] topic_partitions: Vec<TopicPartitions>;
    }
}
