//! [`Error`]: what went wrong, where, whose fault it is, and whether trying again can help.

mod denied;
mod security;
mod sentence;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{ApiKey, ErrorCode, Remedy, Request, Versions};
use crate::records::Corruption;
use crate::wire::{DecodeError, EncodeError};

use denied::Denied;
pub use security::{LoginTrouble, TlsTrouble};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong, with the place where it did.
///
/// `Display` is one sentence that says what happened, where, and what to do about it. Programs ask
/// [`Error::kind`], [`Error::fault`] and [`Error::retry`].
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    topic: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    group: Option<String>,
    broker: Option<String>,
    api: Option<(ApiKey, i16)>,
    principal: Option<Arc<str>>,
}

/// What went wrong.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that cannot be; the text says what and why.
    Config(String),
    /// The request asks for what its version cannot say.
    Encode(EncodeError),
    /// The broker and this crate (or the pinned version) have no version of the API in common.
    Unsupported {
        /// What this side can speak.
        ours: Versions,
        /// What the broker speaks; `None` if it does not have the API.
        broker: Option<Versions>,
    },
    /// More requests than this wait for answers on one connection.
    TooManyInFlight(usize),
    /// A blocking call was made on a thread that runs an async runtime.
    InsideRuntime,

    /// No connection could be made.
    Connect(Arc<io::Error>),
    /// None of the brokers could be asked; what each of them met.
    NoBroker(Vec<Error>),
    /// The connection was given up, with all others: the cluster is being looked for anew (KIP-1102).
    Rebootstrap,
    /// The client was closed.
    ClientClosed,
    /// The connection broke.
    Io(Arc<io::Error>),
    /// The other side closed the connection.
    Closed,
    /// No answer within this time.
    Timeout(Duration),
    /// Connections are accepted, but nothing is answered on them within this time.
    Unresponsive(Duration),
    /// The port speaks something else than Kafka, or wants more than was said.
    WrongProtocol(Speaks),
    /// No TLS connection came about.
    Tls(TlsTrouble),
    /// The login with SASL failed.
    Login(LoginTrouble),
    /// An answer to something that was not asked.
    OutOfStep {
        /// The correlation id that was due, if any answer was.
        expected: Option<i32>,
        /// The correlation id that came.
        found: i32,
    },
    /// An answer whose declared size cannot be right.
    FrameSize {
        /// As declared, in bytes.
        size: i32,
        /// The limit, in bytes.
        limit: usize,
    },

    /// The broker answered with an error.
    Broker {
        /// Its code.
        code: ErrorCode,
        /// Its own words, where the API carries any.
        message: Option<String>,
    },
    /// The topic does not exist, as far as this broker knows.
    UnknownTopic {
        /// Names that are close to the one asked for.
        near: Vec<String>,
    },
    /// The topic exists, but has no partition of this number.
    UnknownPartition {
        /// How many it has.
        partitions: usize,
    },
    /// Another broker leads the partition.
    NotLeader {
        /// Its address, if the broker asked knows it.
        leader: Option<String>,
    },
    /// No broker leads the partition now.
    NoLeader,
    /// No broker of this id is known.
    UnknownBroker(i32),
    /// Another broker keeps the offsets of the group.
    NotCoordinator {
        /// The group.
        group: String,
        /// Its address, if it is known.
        coordinator: Option<String>,
    },
    /// The position is not in the log any more.
    OutOfRange(crate::client::OutOfRange),
    /// The record at this offset is larger than the fetch limit may grow (Fetch 0–2 only).
    RecordTooLarge {
        /// Bytes that it needs; a lower bound where not even its size came in.
        needed: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The broker sent bytes, but nothing complete that lies at or after the offset asked.
    NoProgress,
    /// The answer does not hold what was asked for.
    Incomplete(&'static str),

    /// An answer that does not fit its layout.
    Decode(DecodeError),
    /// A damaged record set.
    Corrupt(Corruption),

    /// A position cannot be kept, or read.
    Checkpoint(crate::checkpoint::Problem),
    /// There is no answer from ZooKeeper.
    ZooKeeper {
        /// The servers and the chroot.
        at: String,
        /// Why.
        why: crate::zookeeper::Trouble,
    },
}

/// What a port that does not talk Kafka's plain protocol seems to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaks {
    /// TLS.
    Tls,
    /// Kafka, where something else was expected: without TLS.
    Kafka,
    /// HTTP.
    Http,
    /// ZooKeeper.
    ZooKeeper,
    /// SSH.
    Ssh,
    /// Some other protocol made of text; its first words.
    Text(String),
    /// Kafka, but only after SASL authentication; the mechanisms it offers, if it told them.
    Sasl(Vec<String>),
    /// It closes the connection whatever it is asked.
    Nothing,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The program that uses this crate, or its settings.
    Caller,
    /// The broker, or the state of the cluster.
    Broker,
    /// The way between here and the broker.
    Network,
    /// What is stored in the log, or came over the wire damaged.
    Data,
}

/// What can be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same will fail again: ask for something else.
    No,
    /// The same again, after a back-off.
    Again,
    /// Ask for metadata (or the coordinator) again, then the same at the broker it names.
    RefreshMetadata,
    /// The position is not valid any more: choose another one.
    ResetOffset,
    /// Somebody has to change the cluster or the settings.
    Human,
}

impl Error {
    /// An error without a place.
    pub fn new(kind: ErrorKind) -> Self {
        Error(Box::new(Inner {
            kind,
            topic: None,
            partition: None,
            offset: None,
            group: None,
            broker: None,
            api: None,
            principal: None,
        }))
    }

    pub(crate) fn config(why: impl Into<String>) -> Self {
        Error::new(ErrorKind::Config(why.into()))
    }

    /// An error code in an answer.
    pub fn broker_code(code: ErrorCode) -> Self {
        Error::new(ErrorKind::Broker { code, message: None })
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The broker's error code, if it is one that the broker sent.
    pub fn code(&self) -> Option<ErrorCode> {
        match self.kind() {
            ErrorKind::Broker { code, .. } => Some(*code),
            ErrorKind::UnknownTopic { .. } | ErrorKind::UnknownPartition { .. } => {
                Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            }
            ErrorKind::NotLeader { .. } => Some(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            ErrorKind::NoLeader => Some(ErrorCode::LEADER_NOT_AVAILABLE),
            ErrorKind::OutOfRange(_) => Some(ErrorCode::OFFSET_OUT_OF_RANGE),
            ErrorKind::NotCoordinator { .. } => Some(ErrorCode::NOT_COORDINATOR),
            _ => None,
        }
    }

    /// The topic it is about.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// The partition it is about.
    pub fn partition(&self) -> Option<i32> {
        self.0.partition
    }

    /// The offset it is about.
    pub fn offset(&self) -> Option<i64> {
        self.0.offset
    }

    /// The consumer group it is about.
    pub fn group(&self) -> Option<&str> {
        self.0.group.as_deref()
    }

    /// Who was refused, as the broker names them (`User:alice`), where a broker denies a right and it is known here.
    pub fn principal(&self) -> Option<&str> {
        self.0.principal.as_deref()
    }

    /// The broker it is about, as `host:port`.
    pub fn broker(&self) -> Option<&str> {
        self.0.broker.as_deref()
    }

    /// The API and version of the request it is about.
    pub fn api(&self) -> Option<(ApiKey, i16)> {
        self.0.api
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self.kind() {
            // A broker that is being stopped looks like this too.
            ErrorKind::WrongProtocol(Speaks::Nothing) => Fault::Network,
            ErrorKind::Config(_)
            | ErrorKind::Encode(_)
            | ErrorKind::Unsupported { .. }
            | ErrorKind::TooManyInFlight(_)
            | ErrorKind::InsideRuntime
            | ErrorKind::ClientClosed
            | ErrorKind::WrongProtocol(_)
            | ErrorKind::UnknownPartition { .. }
            | ErrorKind::UnknownTopic { .. } => Fault::Caller,
            ErrorKind::NoBroker(errors) => errors.first().map_or(Fault::Network, Error::fault),
            ErrorKind::Connect(_)
            | ErrorKind::Rebootstrap
            | ErrorKind::Io(_)
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::Unresponsive(_) => Fault::Network,
            ErrorKind::Broker { .. }
            | ErrorKind::NotLeader { .. }
            | ErrorKind::NoLeader
            | ErrorKind::UnknownBroker(_)
            | ErrorKind::NotCoordinator { .. }
            | ErrorKind::OutOfStep { .. }
            | ErrorKind::NoProgress
            | ErrorKind::Incomplete(_) => Fault::Broker,
            ErrorKind::Tls(trouble) => trouble.fault(),
            ErrorKind::Login(trouble) => trouble.fault(),
            ErrorKind::Checkpoint(problem) => problem.fault(),
            ErrorKind::ZooKeeper { why, .. } => why.fault(),
            ErrorKind::FrameSize { .. }
            | ErrorKind::OutOfRange(_)
            | ErrorKind::RecordTooLarge { .. }
            | ErrorKind::Decode(_)
            | ErrorKind::Corrupt(_) => Fault::Data,
        }
    }

    /// What can be done about it.
    pub fn retry(&self) -> Retry {
        match self.kind() {
            ErrorKind::Config(_)
            | ErrorKind::Encode(_)
            | ErrorKind::Unsupported { .. }
            | ErrorKind::InsideRuntime
            | ErrorKind::ClientClosed
            | ErrorKind::RecordTooLarge { .. }
            | ErrorKind::UnknownPartition { .. }
            | ErrorKind::Decode(_)
            | ErrorKind::Corrupt(_) => Retry::No,
            ErrorKind::OutOfRange(_) => Retry::ResetOffset,
            ErrorKind::Tls(trouble) => trouble.retry(),
            ErrorKind::Login(trouble) => trouble.retry(),
            ErrorKind::Checkpoint(problem) => problem.retry(),
            ErrorKind::ZooKeeper { why, .. } => why.retry(),
            ErrorKind::WrongProtocol(Speaks::Nothing) => Retry::Again,
            ErrorKind::WrongProtocol(_) | ErrorKind::FrameSize { .. } => Retry::Human,
            // One that may be well later is enough.
            ErrorKind::NoBroker(errors) => match errors.iter().find(|why| why.retry() == Retry::Again) {
                Some(_) => Retry::Again,
                None => errors.first().map_or(Retry::Again, Error::retry),
            },
            ErrorKind::TooManyInFlight(_)
            | ErrorKind::Connect(_)
            | ErrorKind::Io(_)
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::Unresponsive(_)
            | ErrorKind::OutOfStep { .. }
            | ErrorKind::Incomplete(_)
            | ErrorKind::NoProgress => Retry::Again,
            ErrorKind::UnknownTopic { .. }
            | ErrorKind::NotLeader { .. }
            | ErrorKind::NoLeader
            | ErrorKind::UnknownBroker(_)
            | ErrorKind::Rebootstrap
            | ErrorKind::NotCoordinator { .. } => Retry::RefreshMetadata,
            ErrorKind::Broker { code, .. } => retry_of(*code),
        }
    }

    /// The same place, another story.
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Names the topic, unless one is named.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.0.topic.get_or_insert_with(|| topic.into());
        self
    }

    /// Names the partition, unless one is named.
    #[must_use]
    pub fn with_partition(mut self, partition: i32) -> Self {
        self.0.partition.get_or_insert(partition);
        self
    }

    /// Names the offset, unless one is named.
    #[must_use]
    pub fn with_offset(mut self, offset: i64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the consumer group, unless one is named.
    #[must_use]
    pub fn with_group(mut self, group: impl Into<String>) -> Self {
        self.0.group.get_or_insert_with(|| group.into());
        self
    }

    /// Names who was refused, if it is a refusal.
    #[must_use]
    pub(crate) fn with_principal(mut self, principal: Option<&Arc<str>>) -> Self {
        if self.code().is_some_and(|code| DENIED.contains(&code)) && self.0.principal.is_none() {
            self.0.principal = principal.cloned();
        }
        self
    }

    /// Names the broker, unless one is named.
    #[must_use]
    pub fn with_broker(mut self, broker: impl fmt::Display) -> Self {
        self.0.broker.get_or_insert_with(|| broker.to_string());
        self
    }

    /// Names the API and version of the request, unless they are named.
    #[must_use]
    pub fn with_api(mut self, api: ApiKey, version: i16) -> Self {
        self.0.api.get_or_insert((api, version));
        self
    }

    /// Names the API and version of the request, unless they are named.
    #[must_use]
    pub(crate) fn with_request<R: Request>(self, version: i16) -> Self {
        self.with_api(R::KEY, version)
    }
}

/// Refused for what the client is, not for what it asks.
const DENIED: [ErrorCode; 7] = [
    ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ErrorCode::GROUP_AUTHORIZATION_FAILED,
    ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ErrorCode::SASL_AUTHENTICATION_FAILED,
    ErrorCode::SECURITY_DISABLED,
];

/// What to do about a broker's error code.
fn retry_of(code: ErrorCode) -> Retry {
    match code.remedy() {
        Remedy::ResetOffset => Retry::ResetOffset,
        Remedy::RefreshMetadata | Remedy::FindCoordinator => Retry::RefreshMetadata,
        Remedy::Retry | Remedy::NewFetchSession | Remedy::Rejoin | Remedy::Rebootstrap => Retry::Again,
        _ if DENIED.contains(&code) => Retry::Human,
        _ => Retry::No,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, topic, partition, offset, group, broker, api, principal } = &*self.0;
        let mut parts = Vec::new();
        if let Some((api, version)) = api {
            parts.push(format!("{api} {version}"));
        }
        match (topic, partition) {
            (Some(topic), Some(partition)) => parts.push(format!("{topic}/{partition}")),
            (Some(topic), None) => parts.push(format!("topic {topic}")),
            (None, Some(partition)) => parts.push(format!("partition {partition}")),
            (None, None) => {}
        }
        if let Some(offset) = offset {
            parts.push(format!("offset {offset}"));
        }
        if let Some(group) = group {
            parts.push(format!("group {group}"));
        }
        if let Some(broker) = broker {
            parts.push(format!("broker {broker}"));
        }
        if !parts.is_empty() {
            write!(f, "{}: ", parts.join(", "))?;
        }
        let denied = self.code().and_then(|code| {
            let api = api.map(|(api, _)| api);
            Denied::of(code, api, topic.as_deref(), group.as_deref(), principal.as_deref())
        });
        match denied {
            Some(denied) => write!(f, "{denied}"),
            None => write!(f, "{kind}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The sentence is what `unwrap` and `main` should show; the kind is for whoever debugs.
        write!(f, "{self} [{:?}]", self.kind())
    }
}

// No `source`: the sentence holds the cause already, and `kind` gives it as a value.
impl std::error::Error for Error {}

impl From<DecodeError> for Error {
    fn from(why: DecodeError) -> Self {
        Error::new(ErrorKind::Decode(why))
    }
}

impl From<EncodeError> for Error {
    fn from(why: EncodeError) -> Self {
        Error::new(ErrorKind::Encode(why))
    }
}

impl From<Corruption> for Error {
    fn from(why: Corruption) -> Self {
        Error::new(ErrorKind::Corrupt(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_place_and_what_to_do() {
        let error = Error::new(ErrorKind::NotLeader { leader: Some("k2:9092".into()) })
            .with_topic("clicks")
            .with_partition(3)
            .with_broker("k1:9092")
            .with_broker("not this one");
        assert_eq!(
            error.to_string(),
            "clicks/3, broker k1:9092: another broker leads this partition: connect to k2:9092"
        );
        assert_eq!((error.fault(), error.retry()), (Fault::Broker, Retry::RefreshMetadata));
    }

    #[test]
    fn a_denied_right_is_named_with_its_operation_its_resource_and_its_principal() {
        let bob: Arc<str> = "User:bob".into();
        let topic = Error::broker_code(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            .with_topic("clicks")
            .with_api(ApiKey::FETCH, 12)
            .with_principal(Some(&bob));
        assert!(topic.to_string().contains("User:bob may not Read the topic clicks"), "{topic}");
        assert!(topic.to_string().contains("--operation Read --topic clicks"), "{topic}");
        let group = Error::broker_code(ErrorCode::GROUP_AUTHORIZATION_FAILED)
            .with_group("billing")
            .with_api(ApiKey::OFFSET_FETCH, 5);
        assert!(group.to_string().contains("may not Describe the group billing"), "{group}");
        // Who is who is told with refusals alone.
        let other = Error::broker_code(ErrorCode::NOT_COORDINATOR).with_principal(Some(&bob));
        assert_eq!(other.principal(), None);
    }

    #[test]
    fn b3_no_common_version_names_both_ranges() {
        let error = Error::new(ErrorKind::Unsupported {
            ours: Versions { min: 0, max: 0 },
            broker: Some(Versions { min: 1, max: 11 }),
        });
        assert!(error.to_string().contains("speaks 0, the broker 1–11"), "{error}");
        assert_eq!(error.retry(), Retry::No);
    }

    #[test]
    fn an_error_is_one_pointer_and_travels_between_threads() {
        fn sendable<T: Send + Sync + 'static>() {}
        sendable::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
