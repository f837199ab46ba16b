use super::Record;

/// What a control record says: a transaction's end, or a note in the metadata log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Version of the key's layout; later ones only add to it.
    pub version: i16,
    /// What it is.
    pub kind: ControlKind,
}

/// The type of a control record. Only the first two stand in ordinary topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlKind {
    /// The transaction of this producer is aborted (KIP-98).
    Abort,
    /// The transaction of this producer is committed (KIP-98).
    Commit,
    /// A new leader of a KRaft quorum (KIP-595).
    LeaderChange,
    /// A KRaft snapshot begins (KIP-630).
    SnapshotHeader,
    /// A KRaft snapshot ends (KIP-630).
    SnapshotFooter,
    /// The version of a KRaft quorum (KIP-853).
    KRaftVersion,
    /// The voters of a KRaft quorum (KIP-853).
    KRaftVoters,
    /// A type that did not exist yet: to be skipped.
    Unknown(i16),
}

impl Control {
    /// Reads the key of a control record: its version, then its type.
    ///
    /// `None` if the key is too short to tell.
    pub fn of(record: &Record<'_>) -> Option<Control> {
        let [a, b, c, d, ..] = *record.key()? else { return None };
        let kind = match i16::from_be_bytes([c, d]) {
            0 => ControlKind::Abort,
            1 => ControlKind::Commit,
            2 => ControlKind::LeaderChange,
            3 => ControlKind::SnapshotHeader,
            4 => ControlKind::SnapshotFooter,
            5 => ControlKind::KRaftVersion,
            6 => ControlKind::KRaftVoters,
            other => ControlKind::Unknown(other),
        };
        Some(Control { version: i16::from_be_bytes([a, b]), kind })
    }
}

impl ControlKind {
    /// A short name, as in `"control": "commit"`.
    pub fn name(self) -> &'static str {
        match self {
            ControlKind::Abort => "abort",
            ControlKind::Commit => "commit",
            ControlKind::LeaderChange => "leader_change",
            ControlKind::SnapshotHeader => "snapshot_header",
            ControlKind::SnapshotFooter => "snapshot_footer",
            ControlKind::KRaftVersion => "kraft_version",
            ControlKind::KRaftVoters => "kraft_voters",
            ControlKind::Unknown(_) => "unknown",
        }
    }
}
