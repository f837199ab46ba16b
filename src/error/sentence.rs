//! The sentences of errors: what happened, and what to do about it.

use std::fmt;

use super::{ErrorKind, Speaks};

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Config(why) => f.write_str(why),
            ErrorKind::Encode(why) => write!(f, "the request cannot be written: {why}"),
            ErrorKind::Unsupported { ours, broker: Some(broker) } => write!(
                f,
                "no version in common: this client speaks {ours}, the broker {broker}; use a broker or a client of another release"
            ),
            ErrorKind::Unsupported { ours, broker: None } => write!(
                f,
                "the broker does not have this API at all (this client speaks versions {ours} of it); it is too old or too new for that"
            ),
            ErrorKind::TooManyInFlight(limit) => write!(
                f,
                "{limit} requests wait for their answers on this connection already; wait for some of them first"
            ),
            ErrorKind::InsideRuntime => f.write_str(
                "a blocking call inside an async runtime would stop its thread; use the async type, or make the call on a thread of its own",
            ),
            ErrorKind::Connect(why) => {
                write!(f, "cannot connect: {why}; check the address and that a broker listens there")
            }
            ErrorKind::Io(why) => write!(f, "the connection broke: {why}"),
            ErrorKind::Closed => f.write_str("the broker closed the connection"),
            ErrorKind::Timeout(after) => write!(f, "no answer within {after:?}; the connection was closed"),
            ErrorKind::Unresponsive(after) => write!(
                f,
                "connections are accepted, but nothing was answered within {after:?}: the broker is starting, frozen or overloaded, or this is no Kafka port"
            ),
            ErrorKind::WrongProtocol(speaks) => write!(f, "{speaks}"),
            ErrorKind::Tls(trouble) => write!(f, "{trouble}"),
            ErrorKind::Login(trouble) => write!(f, "{trouble}"),
            ErrorKind::OutOfStep { expected: Some(expected), found } => write!(
                f,
                "answer {found} came where answer {expected} was due; out of step, so the connection was closed"
            ),
            ErrorKind::OutOfStep { expected: None, found } => {
                write!(f, "answer {found} came although nothing was asked; the connection was closed")
            }
            ErrorKind::FrameSize { size, limit } => write!(
                f,
                "an answer declares {size} bytes, which is below 4 or above the limit of {limit}; this is no Kafka port, or the frame limit is too low"
            ),
            ErrorKind::Broker { code, message: Some(message) } => {
                write!(f, "the broker answers {code}: {message}. {}", code.advice())
            }
            ErrorKind::Broker { code, message: None } => write!(f, "the broker answers {code}. {}", code.advice()),
            ErrorKind::UnknownTopic { near } if near.is_empty() => f.write_str(
                "no such topic on this broker; it is not created unasked (list the topics, or create it)",
            ),
            ErrorKind::UnknownTopic { near } => {
                write!(f, "no such topic on this broker; did you mean {}?", near.join(", "))
            }
            ErrorKind::UnknownPartition { partitions } => {
                write!(f, "no such partition: the topic has {partitions}, numbered from 0")
            }
            ErrorKind::NotLeader { leader: Some(leader) } => {
                write!(f, "another broker leads this partition: connect to {leader}")
            }
            ErrorKind::NotLeader { leader: None } => {
                f.write_str("this broker does not lead the partition, and no leader is known now; ask again later")
            }
            ErrorKind::NoLeader => {
                f.write_str("no broker leads the partition now: an election is on, or its replicas are down; ask again later")
            }
            ErrorKind::UnknownBroker(id) => {
                write!(f, "no broker has the id {id} as far as the cluster tells; refresh metadata")
            }
            ErrorKind::NoBroker(errors) => {
                f.write_str("none of the brokers answered")?;
                for (i, why) in errors.iter().enumerate() {
                    write!(f, "{} {why}", if i == 0 { ":" } else { ";" })?;
                }
                Ok(())
            }
            ErrorKind::Rebootstrap => {
                f.write_str("the connection was given up: the cluster is being looked for anew; ask again")
            }
            ErrorKind::ClientClosed => f.write_str("this client was closed"),
            ErrorKind::NotCoordinator { group, coordinator: Some(coordinator) } => {
                write!(f, "the offsets of group {group} are kept by another broker: connect to {coordinator}")
            }
            ErrorKind::NotCoordinator { group, coordinator: None } => write!(
                f,
                "this broker does not keep the offsets of group {group}, and no coordinator is known now; ask again later"
            ),
            ErrorKind::OutOfRange(why) => write!(
                f,
                "the position is out of range: {why}; seek to where reading should go on, or set a reset policy"
            ),
            ErrorKind::RecordTooLarge { needed, limit } => write!(
                f,
                "the record here needs {needed} bytes, the fetch limit may grow to {limit}; raise that limit, or skip the record"
            ),
            ErrorKind::NoProgress => f.write_str(
                "the broker sent bytes, but no complete record set at or after this offset; nothing was skipped",
            ),
            ErrorKind::Incomplete(what) => write!(f, "the answer does not hold {what}"),
            ErrorKind::Decode(why) => write!(f, "the answer does not fit its layout: {why}"),
            ErrorKind::Corrupt(why) => write!(f, "{why}"),
            ErrorKind::Checkpoint(problem) => write!(f, "{problem}"),
            ErrorKind::ZooKeeper { at, why } => write!(f, "ZooKeeper ({at}): {why}"),
        }
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speaks::Tls => f.write_str(
                "the port speaks TLS, this connection does not; connect with TLS (security.protocol SSL or SASL_SSL), or use the broker's PLAINTEXT listener",
            ),
            Speaks::Kafka => f.write_str("the port speaks Kafka without TLS"),
            Speaks::Http => {
                f.write_str("the port speaks HTTP; use the broker's own port (9092, say), not a REST proxy or console")
            }
            Speaks::ZooKeeper => {
                f.write_str("the port speaks ZooKeeper; use a broker's port (9092, say) instead")
            }
            Speaks::Ssh => f.write_str("the port speaks SSH; use a broker's port (9092, say) instead"),
            Speaks::Text(words) => write!(f, "the port speaks another protocol; it says {words:?}"),
            Speaks::Sasl(mechanisms) if mechanisms.is_empty() => f.write_str(
                "the broker closes the connection after the first request that needs authentication: its listener wants SASL",
            ),
            Speaks::Sasl(mechanisms) => write!(
                f,
                "the listener wants SASL authentication ({}); use another listener, or authenticate",
                mechanisms.join(", ")
            ),
            Speaks::Nothing => f.write_str(
                "the port accepts connections and closes them whatever it is asked: a broker that is being stopped or has too many connections, a proxy without its broker, or no Kafka at all",
            ),
        }
    }
}
