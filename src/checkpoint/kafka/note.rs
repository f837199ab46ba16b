//! What stands beside an offset in Kafka.

use crate::checkpoint::extras::{self, Encoded, Signature};
use crate::checkpoint::{Checkpoint, Extras, Owner};

/// Most brokers have room for so many bytes.
pub(super) const ROOM: usize = 4096;

/// The room to try after a broker had less; the last one is none.
pub(super) fn less_than(room: usize) -> usize {
    [1024, 320].into_iter().find(|less| *less < room).unwrap_or(0)
}

/// What to keep beside an offset: owner, serial and extras, as they fit.
pub(super) fn write(checkpoint: &Checkpoint, room: usize) -> Encoded {
    let none = || Encoded { text: String::new(), done_until: checkpoint.offset };
    let extras = checkpoint.extras.clone().unwrap_or_default();
    if checkpoint.owner.is_none() && checkpoint.extras.is_none() {
        return none();
    }
    let signature = Signature::whole(checkpoint.owner.as_ref());
    extras::encode(checkpoint.offset, &signature, &extras, room).unwrap_or_else(none)
}

/// Ours, read from beside an offset; else why it is not.
pub(super) fn read(text: &str, offset: i64) -> Result<(Option<Owner>, Extras), String> {
    extras::parse(text, offset).map(|(signature, extras)| (owner(signature), extras))
}

/// Who wrote it, if it was storm-kafka-client: `{"topologyId":"t-1","taskId":3,"threadName":"…"}`.
pub(super) fn storm_kafka_client(text: &str) -> Option<Owner> {
    let found: serde_json::Value = serde_json::from_str(text).ok()?;
    let instance = found.get("topologyId")?.as_str()?.to_owned();
    Some(Owner { instance, ..Owner::default() })
}

fn owner(signature: Signature) -> Option<Owner> {
    let Signature { run, instance, name } = signature;
    if run.is_none() && instance.is_none() && name.is_none() {
        return None;
    }
    let text = Option::unwrap_or_default;
    Some(Owner { instance: text(instance), name: text(name), run: text(run) })
}
