use std::fmt;

use super::{CodecError, Magic};
use crate::wire::{DecodeError, Problem};

/// A part of a record set that cannot be read: what, where, and which offsets it takes with it.
///
/// The offsets are exact wherever the bytes tell them, so that a reader can go on at
/// `next_offset` and report `first_offset..next_offset` as lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// The first offset that cannot be read.
    pub first_offset: i64,
    /// Where to go on after the damage; `None` if the bytes do not tell.
    pub next_offset: Option<i64>,
    /// Where in the set the damaged entry starts, in bytes.
    pub entry_position: usize,
    /// Format of the damaged entry, if its magic byte is one.
    pub magic: Option<Magic>,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a part of a record set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Bytes that do not fit the layout. The position counts from the start of the set.
    Layout(DecodeError),
    /// Likewise, in data that was compressed: the position counts from the start of what came out.
    InflatedLayout(DecodeError),
    /// The checksum does not match.
    Crc {
        /// As stored.
        stored: u32,
        /// As computed over the bytes.
        computed: u32,
    },
    /// The compressed part cannot be inflated.
    Codec(CodecError),
}

impl Corruption {
    /// The field that does not fit, by the protocol guide's name.
    pub fn field(&self) -> &'static str {
        match &self.cause {
            Cause::Layout(error) | Cause::InflatedLayout(error) => error.field,
            Cause::Crc { .. } => "crc",
            Cause::Codec(_) if self.magic == Some(Magic::V2) => "records",
            Cause::Codec(_) => "value",
        }
    }

    /// Byte position of the damage in the set; of the damaged entry where it is compressed.
    pub fn position(&self) -> usize {
        match &self.cause {
            Cause::Layout(error) => error.position,
            Cause::Crc { .. } if self.magic == Some(Magic::V2) => self.entry_position + 17,
            Cause::Crc { .. } => self.entry_position + 12,
            _ => self.entry_position,
        }
    }

    /// Whether the bytes may well be sound, but this build or its limits cannot read them.
    pub fn is_our_limit(&self) -> bool {
        matches!(self.cause, Cause::Codec(CodecError::NotBuiltIn(_) | CodecError::OverLimit { .. }))
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.next_offset {
            Some(next) if next > self.first_offset.saturating_add(1) => {
                write!(f, "offsets {} to {} cannot be read: ", self.first_offset, next - 1)?;
            }
            Some(_) => write!(f, "offset {} cannot be read: ", self.first_offset)?,
            None => write!(f, "the set cannot be read from offset {} on: ", self.first_offset)?,
        }
        match &self.cause {
            Cause::Layout(DecodeError { field, position, problem }) => {
                write!(f, "{field} at byte {position} {problem}")
            }
            Cause::InflatedLayout(DecodeError { field, position, problem }) => write!(
                f,
                "{field} at byte {position} of the inflated entry at byte {} {problem}",
                self.entry_position
            ),
            Cause::Crc { stored, computed } => write!(
                f,
                "the entry at byte {} has checksum {stored:08x}, its bytes give {computed:08x}",
                self.entry_position
            ),
            Cause::Codec(error) => write!(f, "the entry at byte {}: {error}", self.entry_position),
        }
    }
}

impl std::error::Error for Corruption {}

/// A layout error at a place in a slice.
pub(super) fn layout(field: &'static str, position: usize, problem: Problem) -> DecodeError {
    DecodeError { field, position, problem }
}
