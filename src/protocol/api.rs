use std::fmt;

use super::Version;
use super::message::{Message, Versions};

/// A request: what it asks, in which versions, and the type of its answer.
pub trait Request: Message {
    /// The API's key on the wire.
    const KEY: ApiKey;
    /// The versions that this crate speaks.
    const VERSIONS: Versions;
    /// The first version with compact lengths and tagged fields (KIP-482); `i16::MAX` for none.
    const FIRST_FLEXIBLE: i16;
    /// What answers it.
    type Response: Message;

    /// `number` as a version of this API.
    fn version(number: i16) -> Version {
        Version { number, flexible: number >= Self::FIRST_FLEXIBLE }
    }
}

/// Ties a request to its key, versions, first flexible version and response.
macro_rules! request {
    ($request:ident => $response:ident, $key:ident, $min:literal - $max:literal, flexible $flexible:expr) => {
        impl $crate::protocol::Request for $request {
            const KEY: $crate::protocol::ApiKey = $crate::protocol::ApiKey::$key;
            const VERSIONS: $crate::protocol::Versions = $crate::protocol::Versions { min: $min, max: $max };
            const FIRST_FLEXIBLE: i16 = $flexible;
            type Response = $response;
        }
    };
}
pub(super) use request;

/// The key of an API; unknown ones are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Kafka's name of the API: `Fetch`, `ListOffsets`, …
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(key, _)| *key == self).map(|(_, name)| *name)
    }

    /// The API of that name, in any case.
    pub fn from_name(name: &str) -> Option<ApiKey> {
        NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(key, _)| *key)
    }
}

impl fmt::Display for ApiKey {
    /// `Fetch`, or `API 500` for one without a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "API {}", self.0),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.0)
    }
}

macro_rules! api_keys {
    ($($key:literal $constant:ident $name:literal,)+) => {
        #[allow(missing_docs)]
        impl ApiKey {
            $( pub const $constant: ApiKey = ApiKey($key); )+
        }

        const NAMES: &[(ApiKey, &str)] = &[$( (ApiKey::$constant, $name), )+];
    };
}

// All that ever were, 0.8.0 to 4.4; 4–7 are gone since 4.0.
api_keys! {
    0 PRODUCE "Produce",
    1 FETCH "Fetch",
    2 LIST_OFFSETS "ListOffsets",
    3 METADATA "Metadata",
    4 LEADER_AND_ISR "LeaderAndIsr",
    5 STOP_REPLICA "StopReplica",
    6 UPDATE_METADATA "UpdateMetadata",
    7 CONTROLLED_SHUTDOWN "ControlledShutdown",
    8 OFFSET_COMMIT "OffsetCommit",
    9 OFFSET_FETCH "OffsetFetch",
    10 FIND_COORDINATOR "FindCoordinator",
    11 JOIN_GROUP "JoinGroup",
    12 HEARTBEAT "Heartbeat",
    13 LEAVE_GROUP "LeaveGroup",
    14 SYNC_GROUP "SyncGroup",
    15 DESCRIBE_GROUPS "DescribeGroups",
    16 LIST_GROUPS "ListGroups",
    17 SASL_HANDSHAKE "SaslHandshake",
    18 API_VERSIONS "ApiVersions",
    19 CREATE_TOPICS "CreateTopics",
    20 DELETE_TOPICS "DeleteTopics",
    21 DELETE_RECORDS "DeleteRecords",
    22 INIT_PRODUCER_ID "InitProducerId",
    23 OFFSET_FOR_LEADER_EPOCH "OffsetForLeaderEpoch",
    24 ADD_PARTITIONS_TO_TXN "AddPartitionsToTxn",
    25 ADD_OFFSETS_TO_TXN "AddOffsetsToTxn",
    26 END_TXN "EndTxn",
    27 WRITE_TXN_MARKERS "WriteTxnMarkers",
    28 TXN_OFFSET_COMMIT "TxnOffsetCommit",
    29 DESCRIBE_ACLS "DescribeAcls",
    30 CREATE_ACLS "CreateAcls",
    31 DELETE_ACLS "DeleteAcls",
    32 DESCRIBE_CONFIGS "DescribeConfigs",
    33 ALTER_CONFIGS "AlterConfigs",
    34 ALTER_REPLICA_LOG_DIRS "AlterReplicaLogDirs",
    35 DESCRIBE_LOG_DIRS "DescribeLogDirs",
    36 SASL_AUTHENTICATE "SaslAuthenticate",
    37 CREATE_PARTITIONS "CreatePartitions",
    38 CREATE_DELEGATION_TOKEN "CreateDelegationToken",
    39 RENEW_DELEGATION_TOKEN "RenewDelegationToken",
    40 EXPIRE_DELEGATION_TOKEN "ExpireDelegationToken",
    41 DESCRIBE_DELEGATION_TOKEN "DescribeDelegationToken",
    42 DELETE_GROUPS "DeleteGroups",
    43 ELECT_LEADERS "ElectLeaders",
    44 INCREMENTAL_ALTER_CONFIGS "IncrementalAlterConfigs",
    45 ALTER_PARTITION_REASSIGNMENTS "AlterPartitionReassignments",
    46 LIST_PARTITION_REASSIGNMENTS "ListPartitionReassignments",
    47 OFFSET_DELETE "OffsetDelete",
    48 DESCRIBE_CLIENT_QUOTAS "DescribeClientQuotas",
    49 ALTER_CLIENT_QUOTAS "AlterClientQuotas",
    50 DESCRIBE_USER_SCRAM_CREDENTIALS "DescribeUserScramCredentials",
    51 ALTER_USER_SCRAM_CREDENTIALS "AlterUserScramCredentials",
    52 VOTE "Vote",
    53 BEGIN_QUORUM_EPOCH "BeginQuorumEpoch",
    54 END_QUORUM_EPOCH "EndQuorumEpoch",
    55 DESCRIBE_QUORUM "DescribeQuorum",
    56 ALTER_PARTITION "AlterPartition",
    57 UPDATE_FEATURES "UpdateFeatures",
    58 ENVELOPE "Envelope",
    59 FETCH_SNAPSHOT "FetchSnapshot",
    60 DESCRIBE_CLUSTER "DescribeCluster",
    61 DESCRIBE_PRODUCERS "DescribeProducers",
    62 BROKER_REGISTRATION "BrokerRegistration",
    63 BROKER_HEARTBEAT "BrokerHeartbeat",
    64 UNREGISTER_BROKER "UnregisterBroker",
    65 DESCRIBE_TRANSACTIONS "DescribeTransactions",
    66 LIST_TRANSACTIONS "ListTransactions",
    67 ALLOCATE_PRODUCER_IDS "AllocateProducerIds",
    68 CONSUMER_GROUP_HEARTBEAT "ConsumerGroupHeartbeat",
    69 CONSUMER_GROUP_DESCRIBE "ConsumerGroupDescribe",
    70 CONTROLLER_REGISTRATION "ControllerRegistration",
    71 GET_TELEMETRY_SUBSCRIPTIONS "GetTelemetrySubscriptions",
    72 PUSH_TELEMETRY "PushTelemetry",
    73 ASSIGN_REPLICAS_TO_DIRS "AssignReplicasToDirs",
    74 LIST_CONFIG_RESOURCES "ListConfigResources",
    75 DESCRIBE_TOPIC_PARTITIONS "DescribeTopicPartitions",
    76 SHARE_GROUP_HEARTBEAT "ShareGroupHeartbeat",
    77 SHARE_GROUP_DESCRIBE "ShareGroupDescribe",
    78 SHARE_FETCH "ShareFetch",
    79 SHARE_ACKNOWLEDGE "ShareAcknowledge",
    80 ADD_RAFT_VOTER "AddRaftVoter",
    81 REMOVE_RAFT_VOTER "RemoveRaftVoter",
    82 UPDATE_RAFT_VOTER "UpdateRaftVoter",
    83 INITIALIZE_SHARE_GROUP_STATE "InitializeShareGroupState",
    84 READ_SHARE_GROUP_STATE "ReadShareGroupState",
    85 WRITE_SHARE_GROUP_STATE "WriteShareGroupState",
    86 DELETE_SHARE_GROUP_STATE "DeleteShareGroupState",
    87 READ_SHARE_GROUP_STATE_SUMMARY "ReadShareGroupStateSummary",
    88 STREAMS_GROUP_HEARTBEAT "StreamsGroupHeartbeat",
    89 STREAMS_GROUP_DESCRIBE "StreamsGroupDescribe",
    90 DESCRIBE_SHARE_GROUP_OFFSETS "DescribeShareGroupOffsets",
    91 ALTER_SHARE_GROUP_OFFSETS "AlterShareGroupOffsets",
    92 DELETE_SHARE_GROUP_OFFSETS "DeleteShareGroupOffsets",
    93 STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE "StreamsGroupTopologyDescriptionUpdate",
    94 UNREGISTER_CONTROLLER "UnregisterController",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_in_any_case() {
        for (key, name) in NAMES {
            assert_eq!(key.name(), Some(*name));
            assert_eq!(ApiKey::from_name(&name.to_uppercase()), Some(*key));
        }
        assert_eq!(ApiKey::from_name("listoffsets"), Some(ApiKey::LIST_OFFSETS));
        assert_eq!(ApiKey::from_name("nonsense"), None);
        assert_eq!(ApiKey(500).to_string(), "API 500");
        assert_eq!(format!("{:?}", ApiKey::FETCH), "Fetch (1)");
    }
}
