use std::fmt;

use super::message::Kind;
use super::{Field, Version, Visitor};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// An error code of a broker; unknown ones are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct ErrorCode(pub i16);

impl Field for ErrorCode {
    const KIND: Kind = Kind::Int16;

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

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
