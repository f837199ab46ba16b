//! What a field of a message can be: the protocol's primitive types, arrays of them, and structs.

use bytes::Bytes;

use super::message::{Kind, Message};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Uuid, Writer};

/// The version of a message being read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The API version.
    pub number: i16,
    /// Whether this version has compact lengths and tagged fields (KIP-482).
    pub flexible: bool,
}

/// A value that can stand in a field of a message.
pub trait Field: Sized + Clone + PartialEq + Default {
    /// The protocol's name for the type.
    const KIND: Kind;

    /// The fewest bytes that a value takes.
    fn smallest(version: Version) -> usize;

    /// Reads the value.
    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError>;

    /// Writes the value.
    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError>;

    /// Shows the value to a visitor.
    fn visit(&self, version: Version, visitor: &mut dyn Visitor);

    /// Whether the value is null.
    fn is_null(&self) -> bool {
        false
    }
}

/// Someone who is shown a message field by field, in wire order: a JSON printer, say.
pub trait Visitor {
    /// Null.
    fn null(&mut self);
    /// A boolean.
    fn boolean(&mut self, value: bool);
    /// An integer of any width.
    fn integer(&mut self, value: i64);
    /// Text.
    fn text(&mut self, value: &str);
    /// A byte string.
    fn bytes(&mut self, value: &[u8]);
    /// A UUID.
    fn uuid(&mut self, value: Uuid);
    /// An array begins; its elements follow.
    fn begin_array(&mut self);
    /// The array ends.
    fn end_array(&mut self);
    /// A struct begins; its fields follow.
    fn begin_struct(&mut self);
    /// The name of the field that follows, as the protocol guide has it.
    fn name(&mut self, name: &'static str);
    /// The struct ends.
    fn end_struct(&mut self);
}

macro_rules! fixed_width {
    ($($type:ty: $kind:ident, $method:ident, $visit:ident);* $(;)?) => { $(
        impl Field for $type {
            const KIND: Kind = Kind::$kind;

            fn smallest(_: Version) -> usize {
                size_of::<$type>()
            }

            fn read(reader: &mut Reader<'_>, _: Version) -> Result<Self, DecodeError> {
                reader.$method()
            }

            fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }

            fn visit(&self, _: Version, visitor: &mut dyn Visitor) {
                visitor.$visit((*self).into());
            }
        }
    )* };
}

fixed_width! {
    bool: Bool, bool, boolean;
    i8: Int8, i8, integer;
    i16: Int16, i16, integer;
    i32: Int32, i32, integer;
    i64: Int64, i64, integer;
    Uuid: Uuid, uuid, uuid;
}

impl Field for String {
    const KIND: Kind = Kind::String;

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 2 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        Option::<String>::read(reader, version)?.ok_or_else(|| reader.error(Problem::Null))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.string_length(Some(self.len()), version.flexible)?;
        writer.raw(self.as_bytes());
        Ok(())
    }

    fn visit(&self, _: Version, visitor: &mut dyn Visitor) {
        visitor.text(self);
    }
}

impl Field for Option<String> {
    const KIND: Kind = Kind::String;

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 2 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        match reader.string_length(version.flexible)? {
            Some(length) => Ok(Some(reader.text(length)?.to_owned())),
            None => Ok(None),
        }
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Some(text) => text.write(writer, version),
            None => writer.string_length(None, version.flexible),
        }
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        match self {
            Some(text) => text.visit(version, visitor),
            None => visitor.null(),
        }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// BYTES and RECORDS: the same on the wire.
impl Field for Bytes {
    const KIND: Kind = Kind::Bytes;

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        Option::<Bytes>::read(reader, version)?.ok_or_else(|| reader.error(Problem::Null))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.length(Some(self.len()), version.flexible)?;
        writer.raw(self);
        Ok(())
    }

    fn visit(&self, _: Version, visitor: &mut dyn Visitor) {
        visitor.bytes(self);
    }
}

impl Field for Option<Bytes> {
    const KIND: Kind = Kind::Bytes;

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        match reader.length(version.flexible)? {
            Some(length) => Ok(Some(reader.bytes(length)?)),
            None => Ok(None),
        }
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Some(bytes) => bytes.write(writer, version),
            None => writer.length(None, version.flexible),
        }
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        match self {
            Some(bytes) => bytes.visit(version, visitor),
            None => visitor.null(),
        }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    const KIND: Kind = Kind::Array(&T::KIND);

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        Option::<Vec<T>>::read(reader, version)?.ok_or_else(|| reader.error(Problem::Null))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.length(Some(self.len()), version.flexible)?;
        self.iter().try_for_each(|element| element.write(writer, version))
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        visitor.begin_array();
        self.iter().for_each(|element| element.visit(version, visitor));
        visitor.end_array();
    }
}

impl<T: Field> Field for Option<Vec<T>> {
    const KIND: Kind = Kind::Array(&T::KIND);

    fn smallest(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        let Some(count) = reader.count(version.flexible, T::smallest(version))? else { return Ok(None) };
        // At first, memory is set aside for no more than the bytes that are there to fill it; then it
        // doubles, but never beyond what is needed.
        let mut elements: Vec<T> = Vec::with_capacity(count.min(reader.left() / size_of::<T>().max(1) + 1));
        for missing in (1..=count).rev() {
            if elements.len() == elements.capacity() {
                elements.reserve_exact(missing.min(elements.len()));
            }
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Some(elements) => elements.write(writer, version),
            None => writer.length(None, version.flexible),
        }
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        match self {
            Some(elements) => elements.visit(version, visitor),
            None => visitor.null(),
        }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// A struct that may be null: one byte says whether it is (−1) or follows (1).
impl<T: Message> Field for Option<T> {
    const KIND: Kind = T::KIND;

    fn smallest(_: Version) -> usize {
        1
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, DecodeError> {
        match reader.i8()? {
            -1 => Ok(None),
            1 => T::read(reader, version).map(Some),
            found => {
                let problem = Problem::Value { found: found.into(), expected: "-1 (null) or 1" };
                Err(reader.error(problem))
            }
        }
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Some(message) => {
                writer.i8(1);
                message.write(writer, version)
            }
            None => {
                writer.i8(-1);
                Ok(())
            }
        }
    }

    fn visit(&self, version: Version, visitor: &mut dyn Visitor) {
        match self {
            Some(message) => message.visit(version, visitor),
            None => visitor.null(),
        }
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }
}
