use std::fmt;

use super::message::Kind;
use super::{Field, Version, Visitor};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// An error code of a broker; unknown ones are kept.
///
/// Shown as `OFFSET_OUT_OF_RANGE (1)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct ErrorCode(pub i16);

/// What helps against an error, seen from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Nothing is wrong.
    None,
    /// The same request again, to the same broker, after a pause.
    Retry,
    /// New metadata, then the same request, to the leader it names.
    RefreshMetadata,
    /// Another offset, by the reset policy.
    ResetOffset,
    /// A fetch session from scratch.
    NewFetchSession,
    /// The coordinator looked up again, then the same request there.
    FindCoordinator,
    /// Membership of the group from scratch.
    Rejoin,
    /// All connections closed, and the bootstrap addresses again.
    Rebootstrap,
    /// Nothing that a client can do alone.
    Raise,
}

impl ErrorCode {
    /// Kafka's name of the code.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|entry| entry.name)
    }

    /// The code with that name, in any case.
    pub fn from_name(name: &str) -> Option<ErrorCode> {
        TABLE.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)).map(|entry| entry.code)
    }

    /// Whether this is an error at all.
    pub fn is_err(self) -> bool {
        self != ErrorCode::NONE
    }

    /// `Ok` for [`ErrorCode::NONE`].
    pub fn ok(self) -> Result<(), ErrorCode> {
        if self.is_err() { Err(self) } else { Ok(()) }
    }

    /// Whether Kafka's own clients count it as worth a retry. Unknown codes are not.
    pub fn retriable(self) -> bool {
        self.entry().is_some_and(|entry| entry.retriable)
    }

    /// What helps against it, as far as the code alone tells.
    pub fn remedy(self) -> Remedy {
        self.entry().map_or(Remedy::Raise, |entry| entry.remedy)
    }

    /// What to do about it, in one sentence.
    pub fn advice(self) -> &'static str {
        self.entry().map_or("This client does not know the code: see the broker's log.", |entry| entry.advice)
    }

    fn entry(self) -> Option<&'static Entry> {
        // The table has no gaps: code −1 stands first.
        TABLE.get(usize::try_from(i32::from(self.0) + 1).ok()?)
    }
}

struct Entry {
    code: ErrorCode,
    name: &'static str,
    retriable: bool,
    remedy: Remedy,
    advice: &'static str,
}

macro_rules! error_codes {
    ($($code:literal $name:ident $retriable:ident $remedy:ident $advice:expr;)+) => {
        #[allow(missing_docs)]
        impl ErrorCode {
            $( pub const $name: ErrorCode = ErrorCode($code); )+
        }

        const TABLE: &[Entry] = &[$( Entry {
            code: ErrorCode($code),
            name: stringify!($name),
            retriable: error_codes!(@ $retriable),
            remedy: Remedy::$remedy,
            advice: $advice,
        }, )+];
    };
    (@ retriable) => { true };
    (@ final) => { false };
}

const ADMIN: &str = "Answers administrative requests only, which this client does not send.";
const BROKERS: &str =
    "Meant for brokers and controllers among themselves: check that this is a client's port.";
const SHARE: &str = "Belongs to share groups, which this client does not join.";
const STREAMS: &str = "Belongs to streams groups, which this client does not join.";
const TOKENS: &str = "Belongs to delegation tokens, which this client does not manage.";
const TRANSACTION_OVER: &str = "The transaction cannot go on: close this producer and start a new one.";

// "retriable" as Kafka's clients have it; what helps may still be something else than a retry.
error_codes! {
    -1 UNKNOWN_SERVER_ERROR final Retry "The broker met an error without a code: try a few times, then see its log.";
    0 NONE final None "All is well.";
    1 OFFSET_OUT_OF_RANGE final ResetOffset "The log does not have this offset: ask the leader, then seek by the reset policy.";
    2 CORRUPT_MESSAGE retriable Retry "Fetch once more on a new connection; if it stays corrupt, seek past it or repair the replica.";
    3 UNKNOWN_TOPIC_OR_PARTITION retriable RefreshMetadata "Refresh metadata for a while: the topic may be new; then check its name and the right to describe it.";
    4 INVALID_FETCH_SIZE final Raise "Ask for more than zero bytes.";
    5 LEADER_NOT_AVAILABLE retriable RefreshMetadata "An election is on or the topic is being created: refresh metadata after a pause.";
    6 NOT_LEADER_OR_FOLLOWER retriable RefreshMetadata "Ask the leader that the answer names, or refresh metadata.";
    7 REQUEST_TIMED_OUT retriable Retry "Ask again; for an append, look first whether it was kept.";
    8 BROKER_NOT_AVAILABLE final RefreshMetadata "Refresh metadata: the broker is not among the living.";
    9 REPLICA_NOT_AVAILABLE retriable RefreshMetadata "In metadata it can be ignored; elsewhere refresh metadata and ask the leader.";
    10 MESSAGE_TOO_LARGE final Raise "Send smaller batches, or raise max.message.bytes of the topic.";
    11 STALE_CONTROLLER_EPOCH final Raise BROKERS;
    12 OFFSET_METADATA_TOO_LARGE final Raise "Commit less metadata beside the offset, or raise offset.metadata.max.bytes of the brokers.";
    13 NETWORK_EXCEPTION retriable RefreshMetadata "An old broker lost its leadership: refresh metadata and ask again.";
    14 COORDINATOR_LOAD_IN_PROGRESS retriable Retry "The coordinator is reading its log: ask it again after a pause.";
    15 COORDINATOR_NOT_AVAILABLE retriable FindCoordinator "Look the coordinator up again after a pause.";
    16 NOT_COORDINATOR retriable FindCoordinator "The coordinator moved: look it up again.";
    17 INVALID_TOPIC_EXCEPTION final Raise "Check the topic's name: letters, digits, '.', '_' and '-', at most 249.";
    18 RECORD_LIST_TOO_LARGE final Raise "Send smaller batches: this one is larger than a segment.";
    19 NOT_ENOUGH_REPLICAS retriable Retry "Fewer replicas are in sync than min.insync.replicas: try again, and look at the brokers.";
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable Retry "It was written, but to too few replicas: trying again may write it twice.";
    21 INVALID_REQUIRED_ACKS final Raise "Use acks 0, 1 or -1.";
    22 ILLEGAL_GENERATION final Rejoin "The group moved on: join again and drop commits that wait.";
    23 INCONSISTENT_GROUP_PROTOCOL final Raise "The group's members share no way to assign: give them the same assignor.";
    24 INVALID_GROUP_ID final Raise "Name the group: it must not be empty.";
    25 UNKNOWN_MEMBER_ID final Rejoin "Forget the member id and join again.";
    26 INVALID_SESSION_TIMEOUT final Raise "Choose a session time-out within the brokers' group.min and group.max.session.timeout.ms.";
    27 REBALANCE_IN_PROGRESS final Rejoin "Join again now; commit afterwards what is still owned.";
    28 INVALID_COMMIT_OFFSET_SIZE final Raise "Commit fewer partitions or less metadata at once.";
    29 TOPIC_AUTHORIZATION_FAILED final Raise "Grant the principal the right to this topic; others go on.";
    30 GROUP_AUTHORIZATION_FAILED final Raise "Grant the principal the right to read this group.";
    31 CLUSTER_AUTHORIZATION_FAILED final Raise "Grant the principal the right to the cluster.";
    32 INVALID_TIMESTAMP final Raise "Send timestamps within the topic's limits.";
    33 UNSUPPORTED_SASL_MECHANISM final Raise "Choose one of the mechanisms that the answer lists.";
    34 ILLEGAL_SASL_STATE final Raise "Close the connection: the login's steps came in the wrong order.";
    35 UNSUPPORTED_VERSION final Raise "Ask in a version that the broker lists; in a fetch, the data is newer than the version asked in.";
    36 TOPIC_ALREADY_EXISTS final Raise ADMIN;
    37 INVALID_PARTITIONS final Raise ADMIN;
    38 INVALID_REPLICATION_FACTOR final Raise ADMIN;
    39 INVALID_REPLICA_ASSIGNMENT final Raise ADMIN;
    40 INVALID_CONFIG final Raise ADMIN;
    41 NOT_CONTROLLER retriable RefreshMetadata "The controller moved: refresh metadata and ask the new one.";
    42 INVALID_REQUEST final Raise "The request breaks a rule (a partition listed twice, say): report it as a fault of this client.";
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT final Raise "The log's format has no timestamps: take it as 'no such offset' and start at an end.";
    44 POLICY_VIOLATION final Raise ADMIN;
    45 OUT_OF_ORDER_SEQUENCE_NUMBER final Raise "Records of this producer are missing: start a new producer after checking what arrived.";
    46 DUPLICATE_SEQUENCE_NUMBER final None "Take it as written: the broker has this batch already.";
    47 INVALID_PRODUCER_EPOCH final Raise "A newer producer took over this id: get a new epoch or close.";
    48 INVALID_TXN_STATE final Raise TRANSACTION_OVER;
    49 INVALID_PRODUCER_ID_MAPPING final Raise "The broker forgot this producer: get a new id.";
    50 INVALID_TRANSACTION_TIMEOUT final Raise "Choose a time-out up to the brokers' transaction.max.timeout.ms.";
    51 CONCURRENT_TRANSACTIONS retriable Retry "The last transaction is being completed: try again after a pause.";
    52 TRANSACTION_COORDINATOR_FENCED final Raise TRANSACTION_OVER;
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED final Raise "Grant the principal the right to this transactional id.";
    54 SECURITY_DISABLED final Raise "Give the brokers an authorizer, or leave this request.";
    55 OPERATION_NOT_ATTEMPTED final Raise ADMIN;
    56 KAFKA_STORAGE_ERROR retriable RefreshMetadata "The broker's disk failed: refresh metadata and ask the new leader.";
    57 LOG_DIR_NOT_FOUND final Raise ADMIN;
    58 SASL_AUTHENTICATION_FAILED final Raise "Check user, password and mechanism; trying the same again cannot help.";
    59 UNKNOWN_PRODUCER_ID final Raise "The broker has no record of this producer left: compare the log start, then begin its sequence anew.";
    60 REASSIGNMENT_IN_PROGRESS final Raise ADMIN;
    61 DELEGATION_TOKEN_AUTH_DISABLED final Raise TOKENS;
    62 DELEGATION_TOKEN_NOT_FOUND final Raise TOKENS;
    63 DELEGATION_TOKEN_OWNER_MISMATCH final Raise TOKENS;
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED final Raise TOKENS;
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED final Raise TOKENS;
    66 DELEGATION_TOKEN_EXPIRED final Raise "Get a new delegation token and log in with it.";
    67 INVALID_PRINCIPAL_TYPE final Raise TOKENS;
    68 NON_EMPTY_GROUP final Raise "Stop the group's members first.";
    69 GROUP_ID_NOT_FOUND final Rejoin "There is no such group: join it (or, when reading offsets, take it as 'none').";
    70 FETCH_SESSION_ID_NOT_FOUND retriable NewFetchSession "The broker dropped the session: open a new one.";
    71 INVALID_FETCH_SESSION_EPOCH retriable NewFetchSession "The session is out of step: close it and open a new one.";
    72 LISTENER_NOT_FOUND retriable RefreshMetadata "The leader lacks the listener that we use: refresh metadata, and compare the brokers' listeners.";
    73 TOPIC_DELETION_DISABLED final Raise ADMIN;
    74 FENCED_LEADER_EPOCH retriable RefreshMetadata "Our leader epoch is old: take the leader in the answer, or refresh metadata.";
    75 UNKNOWN_LEADER_EPOCH retriable RefreshMetadata "The broker has not heard of this epoch yet: pause, refresh metadata, ask again.";
    76 UNSUPPORTED_COMPRESSION_TYPE final Raise "The topic is zstd: fetch with version 10 or later (brokers from 2.1 on).";
    77 STALE_BROKER_EPOCH final Raise BROKERS;
    78 OFFSET_NOT_AVAILABLE retriable RefreshMetadata "The new leader does not know its high watermark yet: ask again after a pause.";
    79 MEMBER_ID_REQUIRED final Rejoin "Join again with the member id in the answer.";
    80 PREFERRED_LEADER_NOT_AVAILABLE retriable Raise ADMIN;
    81 GROUP_MAX_SIZE_REACHED final Raise "The group is full: run fewer members, or raise group.max.size.";
    82 FENCED_INSTANCE_ID final Raise "Another member uses the same group.instance.id: give each its own.";
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable Raise ADMIN;
    84 ELECTION_NOT_NEEDED retriable Raise ADMIN;
    85 NO_REASSIGNMENT_IN_PROGRESS final Raise ADMIN;
    86 GROUP_SUBSCRIBED_TO_TOPIC final Raise ADMIN;
    87 INVALID_RECORD final Raise "The broker refused records: record_errors says which ones.";
    88 UNSTABLE_OFFSET_COMMIT retriable Retry "An open transaction may still move the offset: ask again after a pause.";
    89 THROTTLING_QUOTA_EXCEEDED retriable Retry "Wait for the throttle time in the answer, then ask again.";
    90 PRODUCER_FENCED final Raise "Another producer with the same transactional id took over: close this one.";
    91 RESOURCE_NOT_FOUND final Raise ADMIN;
    92 DUPLICATE_RESOURCE final Raise ADMIN;
    93 UNACCEPTABLE_CREDENTIAL final Raise ADMIN;
    94 INCONSISTENT_VOTER_SET final Raise BROKERS;
    95 INVALID_UPDATE_VERSION final Raise ADMIN;
    96 FEATURE_UPDATE_FAILED final Raise ADMIN;
    97 PRINCIPAL_DESERIALIZATION_FAILURE final Raise BROKERS;
    98 SNAPSHOT_NOT_FOUND final Raise BROKERS;
    99 POSITION_OUT_OF_RANGE final Raise BROKERS;
    100 UNKNOWN_TOPIC_ID retriable RefreshMetadata "Refresh metadata: if the name has a new id, the topic was made anew and old offsets mean nothing.";
    101 DUPLICATE_BROKER_REGISTRATION final Raise BROKERS;
    102 BROKER_ID_NOT_REGISTERED final Raise BROKERS;
    103 INCONSISTENT_TOPIC_ID retriable RefreshMetadata "Refresh metadata and fetch with the new topic id in a new session.";
    104 INCONSISTENT_CLUSTER_ID final Rebootstrap "This is another cluster: close the connections and start from the bootstrap addresses.";
    105 TRANSACTIONAL_ID_NOT_FOUND final Raise ADMIN;
    106 FETCH_SESSION_TOPIC_ID_ERROR retriable NewFetchSession "The session mixed topic names and ids: open a new one with one kind only.";
    107 INELIGIBLE_REPLICA final Raise BROKERS;
    108 NEW_LEADER_ELECTED final Raise BROKERS;
    109 OFFSET_MOVED_TO_TIERED_STORAGE final RefreshMetadata "Meant for followers: refresh metadata and ask the leader.";
    110 FENCED_MEMBER_EPOCH final Rejoin "Drop the assignment and join with epoch 0.";
    111 UNRELEASED_INSTANCE_ID final Raise "The last owner of this group.instance.id has not left: wait for its session to end.";
    112 UNSUPPORTED_ASSIGNOR final Raise "Choose an assignor that the brokers have: see group.consumer.assignors.";
    113 STALE_MEMBER_EPOCH final Retry "Send a heartbeat, then try again with the epoch that it brings.";
    114 MISMATCHED_ENDPOINT_TYPE final Raise "This port belongs to a controller: give the address of a broker.";
    115 UNSUPPORTED_ENDPOINT_TYPE final Raise "The broker does not know this kind of endpoint: give the address of a broker.";
    116 UNKNOWN_CONTROLLER_ID final Raise BROKERS;
    117 UNKNOWN_SUBSCRIPTION_ID final Raise "Belongs to client telemetry, which this client does not send.";
    118 TELEMETRY_TOO_LARGE final Raise "Belongs to client telemetry, which this client does not send.";
    119 INVALID_REGISTRATION final Raise BROKERS;
    120 TRANSACTION_ABORTABLE final Raise "Abort the transaction; the producer may then go on.";
    121 INVALID_RECORD_STATE final Raise SHARE;
    122 SHARE_SESSION_NOT_FOUND retriable Raise SHARE;
    123 INVALID_SHARE_SESSION_EPOCH retriable Raise SHARE;
    124 FENCED_STATE_EPOCH final Raise SHARE;
    125 INVALID_VOTER_KEY final Raise BROKERS;
    126 DUPLICATE_VOTER final Raise BROKERS;
    127 VOTER_NOT_FOUND final Raise BROKERS;
    128 INVALID_REGULAR_EXPRESSION final Raise "Correct the subscription's pattern: brokers take RE2 syntax.";
    129 REBOOTSTRAP_REQUIRED final Rebootstrap "Close all connections, forget the brokers learnt, and start from the bootstrap addresses.";
    130 STREAMS_INVALID_TOPOLOGY final Raise STREAMS;
    131 STREAMS_INVALID_TOPOLOGY_EPOCH final Raise STREAMS;
    132 STREAMS_TOPOLOGY_FENCED final Raise STREAMS;
    133 SHARE_SESSION_LIMIT_REACHED retriable Raise SHARE;
    134 GROUP_DELETION_FAILED final Raise ADMIN;
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED final Raise STREAMS;
    136 CONTROLLER_ID_NOT_REGISTERED final Raise BROKERS;
}

impl Field for ErrorCode {
    const KIND: Kind = Kind::Int16;

    fn smallest(_: Version) -> usize {
        2
    }

    fn read(reader: &mut Reader<'_>, _: Version) -> Result<Self, DecodeError> {
        reader.i16().map(ErrorCode)
    }

    fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.i16(self.0);
        Ok(())
    }

    fn visit(&self, _: Version, visitor: &mut dyn Visitor) {
        visitor.integer(self.0.into());
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "unknown error ({})", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_without_gaps() {
        for (code, entry) in (-1..).zip(TABLE) {
            assert_eq!(entry.code.0, code, "{}", entry.name);
            assert!(entry.advice.ends_with('.'), "{}", entry.name);
            assert_eq!(ErrorCode::from_name(entry.name), Some(ErrorCode(code)));
        }
        assert_eq!(TABLE.len(), 138);
    }

    #[test]
    fn an_unknown_code_is_kept_and_not_retried() {
        for code in [ErrorCode(i16::MIN), ErrorCode(-2), ErrorCode(137), ErrorCode(i16::MAX)] {
            assert_eq!((code.name(), code.retriable(), code.remedy()), (None, false, Remedy::Raise));
            assert_eq!(code.to_string(), format!("unknown error ({})", code.0));
        }
    }

    #[test]
    fn a_code_is_shown_with_its_name() {
        assert_eq!(ErrorCode::OFFSET_OUT_OF_RANGE.to_string(), "OFFSET_OUT_OF_RANGE (1)");
        assert_eq!(ErrorCode(6).ok(), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert!(ErrorCode(6).retriable());
    }
}
