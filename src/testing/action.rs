//! What can happen to a cluster, as values: a schedule is a list of them.

use std::fmt;
use std::time::Duration;

use super::core::Core;
use super::fault::Fault;
use crate::error::Result;
use crate::protocol::{ApiKey, ErrorCode};

/// Something that happens to a cluster. Shown as a line of an event log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Action {
    /// As [`Core::set_leader`].
    Lead { topic: String, partition: i32, leader: Option<i32> },
    /// As [`Core::stop_broker`].
    Stop { node: i32 },
    /// As [`Core::start_broker`].
    Start { node: i32 },
    /// As [`Core::freeze_broker`].
    Freeze { node: i32, freeze: bool },
    /// As [`Core::hold_metadata`].
    HoldMetadata { node: i32, hold: bool },
    /// As [`Core::hide_broker`].
    Hide { node: i32, hide: bool },
    /// As [`Core::forget_fetch_sessions`].
    ForgetSessions { node: i32 },
    /// As [`Core::show_epoch`].
    ShowEpoch { topic: String, partition: i32, epoch: Option<i32> },
    /// As [`Core::hold_follower`].
    HoldFollower { topic: String, partition: i32, node: i32, end: Option<i64> },
    /// As [`Core::hold_high_watermark`].
    HoldHighWatermark { topic: String, partition: i32, at: Option<i64> },
    /// As [`Core::add_partitions`].
    AddPartitions { topic: String, count: i32 },
    /// As [`Core::delete_before`].
    DeleteBefore { topic: String, partition: i32, offset: i64 },
    /// As [`Core::truncate`].
    Truncate { topic: String, partition: i32, offset: i64 },
    /// As [`Core::compact`].
    Compact { topic: String, partition: i32 },
    /// As [`Core::create_topic`]: an old one of that name is gone.
    Create { topic: String, partitions: i32 },
    /// As [`Core::delete_topic`].
    Delete { topic: String },
    /// Something that goes wrong with the next requests of a kind.
    Fault { api: Option<ApiKey>, node: Option<i32>, times: u32, what: Happening },
}

/// What goes wrong with a request; see [`Fault`] for each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Happening {
    /// An error code, on one partition or wherever there is a place for one.
    Error {
        code: ErrorCode,
        at: Option<(String, i32)>,
    },
    /// An error code at the top of the answer.
    TopError {
        code: ErrorCode,
    },
    Delay(Duration),
    Throttle(Duration),
    Close,
    Silence,
    Freeze,
    CutAfter(usize),
    Corrupt {
        at: usize,
        xor: u8,
    },
    CorruptRecords,
    CorrelationId(i32),
    Size(i32),
}

impl Action {
    /// Does it.
    ///
    /// # Errors
    ///
    /// A topic or partition that does not exist.
    pub fn apply(&self, cluster: &mut Core) -> Result<()> {
        match self {
            Action::Lead { topic, partition, leader } => cluster.set_leader(topic, *partition, *leader)?,
            Action::Stop { node } => cluster.stop_broker(*node),
            Action::Start { node } => cluster.start_broker(*node),
            Action::Freeze { node, freeze } => cluster.freeze_broker(*node, *freeze),
            Action::HoldMetadata { node, hold } => cluster.hold_metadata(*node, *hold),
            Action::Hide { node, hide } => cluster.hide_broker(*node, *hide),
            Action::ForgetSessions { node } => cluster.forget_fetch_sessions(*node),
            Action::ShowEpoch { topic, partition, epoch } => cluster.show_epoch(topic, *partition, *epoch)?,
            Action::HoldFollower { topic, partition, node, end } => {
                cluster.hold_follower(topic, *partition, *node, *end)?;
            }
            Action::HoldHighWatermark { topic, partition, at } => {
                cluster.hold_high_watermark(topic, *partition, *at)?;
            }
            Action::AddPartitions { topic, count } => cluster.add_partitions(topic, *count)?,
            Action::DeleteBefore { topic, partition, offset } => {
                cluster.delete_before(topic, *partition, *offset)?;
            }
            Action::Truncate { topic, partition, offset } => cluster.truncate(topic, *partition, *offset)?,
            Action::Compact { topic, partition } => cluster.compact(topic, *partition)?,
            Action::Create { topic, partitions } => cluster.create_topic(topic, *partitions),
            Action::Delete { topic } => cluster.delete_topic(topic),
            Action::Fault { api, node, times, what } => {
                let mut fault = what.fault().times(*times);
                if let Some(api) = api {
                    fault = fault.on(*api);
                }
                if let Some(node) = node {
                    fault = fault.at_node(*node);
                }
                cluster.inject(fault);
            }
        }
        Ok(())
    }
}

impl Happening {
    /// The fault, for every request until it is narrowed.
    pub fn fault(&self) -> Fault {
        match self {
            Happening::Error { code, at: None } => Fault::error(*code),
            Happening::Error { code, at: Some((topic, partition)) } => {
                Fault::error(*code).at_partition(topic, *partition)
            }
            Happening::TopError { code } => Fault::error(*code).at_top(),
            Happening::Delay(by) => Fault::delay(*by),
            Happening::Throttle(time) => Fault::throttle(*time),
            Happening::Close => Fault::close(),
            Happening::Silence => Fault::silence(),
            Happening::Freeze => Fault::freeze(),
            Happening::CutAfter(bytes) => Fault::cut_after(*bytes),
            Happening::Corrupt { at, xor } => Fault::corrupt(*at, *xor),
            Happening::CorruptRecords => Fault::corrupt_records(),
            Happening::CorrelationId(id) => Fault::correlation_id(*id),
            Happening::Size(size) => Fault::size(*size),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Lead { topic, partition, leader: Some(leader) } => {
                write!(f, "{topic}/{partition}: led by {leader}")
            }
            Action::Lead { topic, partition, leader: None } => write!(f, "{topic}/{partition}: no leader"),
            Action::Stop { node } => write!(f, "broker {node}: stopped"),
            Action::Start { node } => write!(f, "broker {node}: started"),
            Action::Freeze { node, freeze: true } => write!(f, "broker {node}: frozen"),
            Action::Freeze { node, freeze: false } => write!(f, "broker {node}: thawed"),
            Action::HoldMetadata { node, hold: true } => write!(f, "broker {node}: metadata held"),
            Action::HoldMetadata { node, hold: false } => write!(f, "broker {node}: metadata up to date"),
            Action::Hide { node, hide: true } => write!(f, "broker {node}: not listed"),
            Action::Hide { node, hide: false } => write!(f, "broker {node}: listed"),
            Action::ForgetSessions { node } => write!(f, "broker {node}: fetch sessions forgotten"),
            Action::ShowEpoch { topic, partition, epoch: Some(epoch) } => {
                write!(f, "{topic}/{partition}: shown in epoch {epoch}")
            }
            Action::ShowEpoch { topic, partition, epoch: None } => {
                write!(f, "{topic}/{partition}: shown in its own epoch")
            }
            Action::HoldFollower { topic, partition, node, end: Some(end) } => {
                write!(f, "{topic}/{partition}: follower {node} held at {end}")
            }
            Action::HoldFollower { topic, partition, node, end: None } => {
                write!(f, "{topic}/{partition}: follower {node} caught up")
            }
            Action::HoldHighWatermark { topic, partition, at: Some(at) } => {
                write!(f, "{topic}/{partition}: high watermark held at {at}")
            }
            Action::HoldHighWatermark { topic, partition, at: None } => {
                write!(f, "{topic}/{partition}: high watermark at the end")
            }
            Action::AddPartitions { topic, count } => write!(f, "{topic}: {count} partitions"),
            Action::DeleteBefore { topic, partition, offset } => {
                write!(f, "{topic}/{partition}: deleted before {offset}")
            }
            Action::Truncate { topic, partition, offset } => {
                write!(f, "{topic}/{partition}: truncated at {offset}")
            }
            Action::Compact { topic, partition } => write!(f, "{topic}/{partition}: compacted"),
            Action::Create { topic, partitions } => {
                write!(f, "{topic}: created with {partitions} partitions")
            }
            Action::Delete { topic } => write!(f, "{topic}: deleted"),
            Action::Fault { api, node, times, what } => {
                match api {
                    Some(api) => write!(f, "next {times} {api}")?,
                    None => write!(f, "next {times} requests")?,
                }
                if let Some(node) = node {
                    write!(f, " at broker {node}")?;
                }
                write!(f, ": {what}")
            }
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happening::Error { code, at: None } => write!(f, "{code}"),
            Happening::Error { code, at: Some((topic, partition)) } => {
                write!(f, "{code} on {topic}/{partition}")
            }
            Happening::TopError { code } => write!(f, "{code} at the top"),
            Happening::Delay(by) => write!(f, "late by {by:?}"),
            Happening::Throttle(time) => write!(f, "throttled for {time:?}"),
            Happening::Close => f.write_str("closed"),
            Happening::Silence => f.write_str("never answered"),
            Happening::Freeze => f.write_str("connection frozen"),
            Happening::CutAfter(bytes) => write!(f, "cut after {bytes} bytes"),
            Happening::Corrupt { at, xor } => write!(f, "byte {at} xor {xor:#04x}"),
            Happening::CorruptRecords => f.write_str("records corrupted"),
            Happening::CorrelationId(id) => write!(f, "correlation id {id}"),
            Happening::Size(size) => write!(f, "declared size {size}"),
        }
    }
}
