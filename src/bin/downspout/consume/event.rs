//! What happened to a position, as a line of text or of JSON.

use downspout::client::{Recovered, TopicPartition};
use serde_json::{Value, json};

/// Whether records were lost, or come again: the exit code tells.
pub(super) fn is_found(event: &Recovered) -> bool {
    matches!(event, Recovered::OutOfRange { .. } | Recovered::Truncated { .. } | Recovered::Corrupt(_))
}

/// As one line for people.
pub(super) fn text(from: &TopicPartition, event: &Recovered) -> String {
    format!("downspout: {from}: {event}")
}

/// As one line for programs: what kind of event, where, and what it cost.
pub(super) fn json(from: &TopicPartition, event: &Recovered) -> String {
    let mut line = json!({
        "event": kind(event),
        "topic": &*from.topic,
        "partition": from.partition,
        "offset": offset(event),
        "lost": event.lost(),
        "repeated": event.repeated(),
    });
    let goes_on = match event {
        Recovered::OutOfRange { resumed_at, .. } => Some(*resumed_at),
        Recovered::Truncated { diverged_at, .. } => Some(*diverged_at),
        Recovered::Corrupt(damage) => damage.next_offset,
        _ => None,
    };
    if let Some(goes_on) = goes_on {
        line["resumed_at"] = Value::from(goes_on);
    }
    line["message"] = Value::from(event.to_string());
    line.to_string()
}

fn kind(event: &Recovered) -> &'static str {
    match event {
        Recovered::OutOfRange { .. } => "out_of_range",
        Recovered::Truncated { .. } => "truncated",
        Recovered::Corrupt(_) => "corrupt",
        Recovered::OpenTransaction { .. } => "open_transaction",
        Recovered::Vanished { .. } => "vanished",
        Recovered::Returned { .. } => "returned",
        Recovered::PartitionsAdded { .. } => "partitions_added",
        Recovered::Stalled { .. } => "stalled",
        _ => "other",
    }
}

/// The offset that came next when it happened.
fn offset(event: &Recovered) -> Option<i64> {
    match event {
        Recovered::OutOfRange { position, .. }
        | Recovered::Truncated { position, .. }
        | Recovered::OpenTransaction { position, .. }
        | Recovered::Vanished { position }
        | Recovered::Returned { position }
        | Recovered::Stalled { position, .. } => Some(*position).filter(|offset| *offset >= 0),
        Recovered::Corrupt(damage) => Some(damage.first_offset),
        _ => None,
    }
}
