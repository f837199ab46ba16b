//! A partition that is this task's, and the warning when one record blocks it.

use std::sync::Arc;

use crate::client::TopicPartition;
use crate::client::fetcher::inbox::Slot;
use crate::spout::parked::Millis;
use crate::spout::partition_manager::PartitionManager;
use crate::wire::Uuid;

/// One record that blocks a full window is warned about after that time.
const BLOCKED: Millis = 1_000;
/// How often a warning about the same is repeated.
const WARN: Millis = 60_000;

/// A partition that is this task's.
pub(super) struct Part {
    pub(super) manager: PartitionManager,
    /// The topic that its offsets are of: what has the name by now may be another one.
    pub(super) topic_id: Option<Uuid>,
    /// What it is read by, once its position was claimed.
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) reading: bool,
    pub(super) due: Option<Millis>,
    /// It was lost; by then it is let go.
    pub(super) leaving: Option<Millis>,
    pub(super) pressure: Option<Pressure>,
}

/// Little room is left.
pub(super) struct Pressure {
    pub(super) why: String,
    /// The record that blocks it.
    at: i64,
    since: Millis,
    warned: Option<Millis>,
}

impl Part {
    /// Looks whether its window, or what waits for a retry, is nearly full. A handler that is slow fills its
    /// window all the time; one record that blocks it for a while is worth a warning.
    pub(super) fn feel_pressure(&mut self, now: Millis, partition: &TopicPartition) {
        let Some(why) = self.manager.pressure() else {
            self.pressure = None;
            return;
        };
        let at = self.manager.point();
        let before = self.pressure.take().filter(|before| before.at == at);
        let (since, mut warned) = before.map_or((now, None), |before| (before.since, before.warned));
        if now >= since + BLOCKED && warned.is_none_or(|warned| now >= warned + WARN) {
            warned = Some(now);
            tracing::warn!(topic = %partition.topic, partition = partition.partition, %why, "little room is left");
        }
        self.pressure = Some(Pressure { why, at, since, warned });
    }

    /// Reading may have come past markers that no batch shows.
    pub(super) fn reached(&mut self) {
        if let Some(position) = self.slot.as_ref().and_then(|slot| slot.position()) {
            self.manager.on_reached(position);
        }
    }
}
