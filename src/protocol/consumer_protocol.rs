//! What consumers tell each other through JoinGroup and SyncGroup: bytes that no broker looks into.
//!
//! Never flexible; a 2-byte version in front, 0–3. 1: partitions owned (KIP-429) · 2: their
//! generation · 3: racks (KIP-881).

use bytes::Bytes;

use super::{Message, Version};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// The newest version that this crate speaks.
pub const CONSUMER_PROTOCOL_VERSION: i16 = 3;

message! {
    /// What a member wants.
    ConsumerSubscription {
        /// The topics.
        [0+] topics: Vec<String>;
        /// Whatever its assignor needs.
        [0+, null 0+] user_data: Option<Bytes>;
        /// What it owns now (KIP-429).
        [1+, ignorable] owned_partitions: Vec<AssignedPartitions>;
        /// The generation in which it got that, −1 for unknown.
        [2+, ignorable] generation_id: i32 = -1;
        /// Its rack (KIP-881).
        [3+, null 3+, ignorable] rack_id: Option<String>;
    }

    /// What a member gets.
    ConsumerAssignment {
        /// The partitions.
        [0+] assigned_partitions: Vec<AssignedPartitions>;
        /// Whatever its assignor wants to say.
        [0+, null 0+] user_data: Option<Bytes>;
    }

    /// Partitions of a topic.
    AssignedPartitions {
        /// The topic.
        [0+] topic: String;
        /// The partitions.
        [0+] partitions: Vec<i32>;
    }
}

impl ConsumerSubscription {
    /// Reads it. A version newer than ours is read as ours, and what follows is left alone.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        decode(bytes)
    }

    /// Writes it in `version`, 0–3.
    pub fn encode(&self, version: i16) -> Result<Bytes, EncodeError> {
        encode(self, version)
    }
}

impl ConsumerAssignment {
    /// Reads it; no bytes at all are an empty assignment. A version newer than ours is read as ours,
    /// and what follows is left alone.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        if bytes.is_empty() { Ok(Self::default()) } else { decode(bytes) }
    }

    /// Writes it in `version`, 0–3.
    pub fn encode(&self, version: i16) -> Result<Bytes, EncodeError> {
        encode(self, version)
    }
}

fn decode<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    let mut reader = Reader::of_frame(bytes, "version");
    let found = reader.i16()?;
    if found < 0 {
        let problem = Problem::Value { found: found.into(), expected: "a version from 0 on" };
        return Err(DecodeError { field: "version", position: 0, problem });
    }
    let number = found.min(CONSUMER_PROTOCOL_VERSION);
    let message = M::read(&mut reader, Version { number, flexible: false })?;
    if found == number {
        reader.field(M::NAME).finish()?;
    }
    Ok(message)
}

fn encode<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    if !(0..=CONSUMER_PROTOCOL_VERSION).contains(&version) {
        return Err(EncodeError::Version { message: M::NAME, version });
    }
    let mut writer = Writer::new();
    writer.i16(version);
    message.write(&mut writer, Version { number: version, flexible: false })?;
    Ok(writer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_from_the_future_is_read_as_the_newest_known_one() {
        let subscription = ConsumerSubscription {
            topics: vec!["t".into()],
            owned_partitions: vec![AssignedPartitions { topic: "t".into(), partitions: vec![1, 2] }],
            generation_id: 7,
            rack_id: Some("r".into()),
            ..Default::default()
        };
        let mut bytes = subscription.encode(3).unwrap().to_vec();
        bytes[1] = 9;
        bytes.extend_from_slice(b"fields of version 9");
        assert_eq!(ConsumerSubscription::decode(&bytes.into()).unwrap(), subscription);
    }

    #[test]
    fn older_versions_drop_what_they_cannot_say() {
        let subscription =
            ConsumerSubscription { topics: vec!["t".into()], generation_id: 7, ..Default::default() };
        let bytes = subscription.encode(0).unwrap();
        assert_eq!(&bytes[..], b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff");
        assert_eq!(ConsumerSubscription::decode(&bytes).unwrap().generation_id, -1);
    }

    #[test]
    fn no_bytes_are_an_empty_assignment() {
        assert_eq!(ConsumerAssignment::decode(&Bytes::new()).unwrap(), ConsumerAssignment::default());
        assert!(ConsumerSubscription::decode(&Bytes::new()).is_err());
        assert!(ConsumerAssignment::decode(&Bytes::from_static(b"\xff\xff")).is_err());
    }
}
