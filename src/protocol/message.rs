//! `message!`: a message as a table of fields.

use std::fmt;

use super::field::{Field, Version};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// A struct of the protocol, with the table of its fields.
pub trait Message: Field + fmt::Debug + Send + Sync {
    /// Its fields, in wire order.
    const FIELDS: &'static [FieldSpec];
    /// Its name; a request or response has the one of Kafka's own definitions.
    const NAME: &'static str;
}

/// A range of versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The first.
    pub min: i16,
    /// The last; `i16::MAX` for "up to the newest".
    pub max: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Versions = Versions { min: 0, max: -1 };

    /// Whether `version` is one of them.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that both ranges have, if any.
    pub fn intersection(self, other: Versions) -> Option<Versions> {
        let both = Versions { min: self.min.max(other.min), max: self.max.min(other.max) };
        (both.min <= both.max).then_some(both)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, max) if min > max => f.write_str("none"),
            (min, i16::MAX) => write!(f, "{min}+"),
            (min, max) if min == max => write!(f, "{min}"),
            (min, max) => write!(f, "{min}–{max}"),
        }
    }
}

/// The type of a field, by the protocol's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uuid,
    String,
    Bytes,
    Array(&'static Kind),
    Struct(&'static [FieldSpec]),
}

/// One line of a message's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpec {
    /// The protocol guide's name.
    pub name: &'static str,
    /// The versions that carry the field.
    pub versions: Versions,
    /// The versions in which it may be null.
    pub nullable: Versions,
    /// Its tag, if it is a tagged field.
    pub tag: Option<u32>,
    /// Whether writing a version without it drops it silently (else a set value is an error).
    pub ignorable: bool,
    /// Its default as the table has it; empty for that of its type (null where it may be null).
    pub default: &'static str,
    /// Its type.
    pub kind: Kind,
}

impl FieldSpec {
    pub(crate) const fn new(name: &'static str, kind: Kind, min: i16, max: i16) -> Self {
        let versions = Versions { min, max };
        FieldSpec { name, versions, nullable: Versions::NONE, tag: None, ignorable: false, default: "", kind }
    }

    pub(crate) const fn with_tag(self, tag: u32) -> Self {
        FieldSpec { tag: Some(tag), ..self }
    }

    pub(crate) const fn null_from(self, min: i16) -> Self {
        FieldSpec { nullable: Versions { min, max: i16::MAX }, ..self }
    }

    pub(crate) const fn with_default(self, default: &'static str) -> Self {
        FieldSpec { default, ..self }
    }

    pub(crate) const fn ignorable(self) -> Self {
        FieldSpec { ignorable: true, ..self }
    }

    /// Whether the field stands in `version` in its place, untagged.
    pub const fn in_place(&self, version: i16) -> bool {
        self.tag.is_none() && self.versions.contains(version)
    }

    /// Whether the field is tagged with `tag` in `version`.
    pub const fn tagged(&self, version: i16, tag: u32) -> bool {
        matches!(self.tag, Some(own) if own == tag) && self.versions.contains(version)
    }
}

/// Defines the structs of a message, one line per field:
///
/// ```text
/// message! {
///     /// What it is.
///     FetchRequest {
///         /// What the field is, in which unit.
///         [0-14]                  replica_id: i32 = -1;
///         [0+]                    topics: Vec<FetchTopic>;
///         [4+, null 4+]           aborted: Option<Vec<Aborted>>;
///         [12+, tag 0, null 12+]  cluster_id: Option<String>;
///     }
///     /// Its parts follow.
///     FetchTopic { … }
/// }
/// ```
///
/// In brackets: the versions that carry the field; `null` the versions in which it may be null (its
/// type is an `Option` then); `tag` its number among the tagged fields; `ignorable` if setting it
/// for a version that cannot carry it is no mistake. After `=` its default, where that is not the
/// type's own.
macro_rules! message {
    ($(
        $(#[$struct_doc:meta])*
        $name:ident {
            $( $(#[$doc:meta])* [$($spec:tt)+] $field:ident : $type:ty $(= $default:expr)? ; )*
        }
    )+) => { $(
        $(#[$struct_doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$doc])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: default_of!($type $(, $default)?), )* }
            }
        }

        /// The line of each field, under the field's own name.
        #[allow(non_upper_case_globals)]
        impl $name {
            $( const $field: $crate::protocol::FieldSpec = field_spec!(
                stringify!($field),
                <$type as $crate::protocol::Field>::KIND,
                $($spec)+
            ) $( .with_default(stringify!($default)) )?; )*
        }

        impl $crate::protocol::Message for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::protocol::FieldSpec] = &[$( $name::$field, )*];
        }

        impl $crate::protocol::Field for $name {
            const KIND: $crate::protocol::Kind =
                $crate::protocol::Kind::Struct(<$name as $crate::protocol::Message>::FIELDS);

            #[allow(unused_variables, clippy::identity_op)]
            fn smallest(version: $crate::protocol::Version) -> usize {
                usize::from(version.flexible) $(
                    + if $name::$field.in_place(version.number) {
                        <$type as $crate::protocol::Field>::smallest(version)
                    } else {
                        0
                    }
                )*
            }

            #[allow(unused_mut)]
            fn read(
                reader: &mut $crate::wire::Reader<'_>,
                version: $crate::protocol::Version,
            ) -> Result<Self, $crate::wire::DecodeError> {
                use $crate::protocol::message::{read_in_place, read_tags, read_whole};
                let mut message = $name::default();
                $( read_in_place(&$name::$field, &mut message.$field, reader, version)?; )*
                if version.flexible {
                    read_tags(reader, |tag, reader| {
                        $( if $name::$field.tagged(version.number, tag) {
                            return read_whole(&$name::$field, &mut message.$field, reader, version);
                        } )*
                        Ok(())
                    })?;
                }
                Ok(message)
            }

            #[allow(unused_mut)]
            fn write(
                &self,
                writer: &mut $crate::wire::Writer,
                version: $crate::protocol::Version,
            ) -> Result<(), $crate::wire::EncodeError> {
                let mut tags = $crate::protocol::message::Tags::default();
                $( $crate::protocol::message::write_field(
                    &$name::$field,
                    &self.$field,
                    || self.$field == default_of!($type $(, $default)?),
                    &mut tags,
                    writer,
                    version,
                )?; )*
                if version.flexible {
                    tags.write(writer);
                }
                Ok(())
            }

            fn visit(
                &self,
                version: $crate::protocol::Version,
                visitor: &mut dyn $crate::protocol::Visitor,
            ) {
                visitor.begin_struct();
                $( if $name::$field.versions.contains(version.number) {
                    visitor.name($name::$field.name);
                    $crate::protocol::Field::visit(&self.$field, version, visitor);
                } )*
                visitor.end_struct();
            }
        }
    )+ };
}

macro_rules! default_of {
    ($type:ty) => {
        <$type>::default()
    };
    ($type:ty, $default:expr) => {
        <$type as $crate::protocol::message::DefaultFrom<_>>::default_from($default)
    };
}

macro_rules! field_spec {
    ($name:expr, $kind:expr, $min:literal + $($options:tt)*) => {
        field_spec!(@ $crate::protocol::FieldSpec::new($name, $kind, $min, i16::MAX); $($options)*)
    };
    ($name:expr, $kind:expr, $min:literal - $max:literal $($options:tt)*) => {
        field_spec!(@ $crate::protocol::FieldSpec::new($name, $kind, $min, $max); $($options)*)
    };
    ($name:expr, $kind:expr, $only:literal $($options:tt)*) => {
        field_spec!(@ $crate::protocol::FieldSpec::new($name, $kind, $only, $only); $($options)*)
    };
    (@ $spec:expr;) => { $spec };
    (@ $spec:expr; , tag $tag:literal $($rest:tt)*) => { field_spec!(@ $spec.with_tag($tag); $($rest)*) };
    (@ $spec:expr; , null $null:literal + $($rest:tt)*) => { field_spec!(@ $spec.null_from($null); $($rest)*) };
    (@ $spec:expr; , ignorable $($rest:tt)*) => { field_spec!(@ $spec.ignorable(); $($rest)*) };
}

/// Makes a field's value from the default written in its line: `Some` need not be said.
pub(crate) trait DefaultFrom<T> {
    fn default_from(value: T) -> Self;
}

impl<T> DefaultFrom<T> for T {
    fn default_from(value: T) -> T {
        value
    }
}

impl<T> DefaultFrom<T> for Option<T> {
    fn default_from(value: T) -> Self {
        Some(value)
    }
}

/// Reads a field that stands in its place, if this version has it.
#[inline(always)]
pub(crate) fn read_in_place<T: Field>(
    spec: &FieldSpec,
    into: &mut T,
    reader: &mut Reader<'_>,
    version: Version,
) -> Result<(), DecodeError> {
    if spec.in_place(version.number) {
        *into = T::read(reader.field(spec.name), version)?;
        if into.is_null() && !spec.nullable.contains(version.number) {
            return Err(reader.field(spec.name).error(Problem::Null));
        }
    }
    Ok(())
}

/// Reads a tagged field, which fills the whole of its slice.
pub(crate) fn read_whole<T: Field>(
    spec: &FieldSpec,
    into: &mut T,
    reader: &mut Reader<'_>,
    version: Version,
) -> Result<(), DecodeError> {
    *into = T::read(reader.field(spec.name), version)?;
    if into.is_null() && !spec.nullable.contains(version.number) {
        return Err(reader.field(spec.name).error(Problem::Null));
    }
    reader.field(spec.name).finish()
}

/// Writes a field where this version has it: in its place, or among the tagged ones unless it has
/// its default.
#[inline(always)]
pub(crate) fn write_field<T: Field>(
    spec: &FieldSpec,
    value: &T,
    is_default: impl Fn() -> bool,
    tags: &mut Tags,
    writer: &mut Writer,
    version: Version,
) -> Result<(), EncodeError> {
    let carried = spec.versions.contains(version.number);
    if carried && value.is_null() && !spec.nullable.contains(version.number) {
        return Err(EncodeError::Null { field: spec.name, version: version.number });
    }
    match spec.tag {
        None if carried => value.write(writer.field(spec.name), version),
        Some(tag) if carried && !is_default() => {
            tags.push(tag, |writer| value.write(writer.field(spec.name), version))
        }
        _ if !carried && !spec.ignorable && !is_default() => {
            Err(EncodeError::NoSuchField { field: spec.name, version: version.number })
        }
        _ => Ok(()),
    }
}

/// Reads a tag buffer: each tagged field is cut by its size first; unknown ones are skipped.
pub(crate) fn read_tags(
    reader: &mut Reader<'_>,
    mut known: impl FnMut(u32, &mut Reader<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let count = reader.field("_tagged_fields").unsigned_varint()?;
    let mut next = 0u64;
    for _ in 0..count {
        let tag = reader.field("_tagged_fields").unsigned_varint()?;
        if u64::from(tag) < next {
            return Err(
                reader.error(Problem::Value { found: tag.into(), expected: "tags in ascending order" })
            );
        }
        next = u64::from(tag) + 1;
        let size = reader.unsigned_varint()? as usize;
        known(tag, &mut reader.sub(size)?)?;
    }
    Ok(())
}

/// The tagged fields of a struct being written, in the order of their tags.
#[derive(Default)]
pub(crate) struct Tags(Vec<(u32, Vec<u8>)>);

impl Tags {
    pub(crate) fn push(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut writer = Writer::new();
        write(&mut writer)?;
        self.0.push((tag, writer.into_vec()));
        Ok(())
    }

    pub(crate) fn write(mut self, writer: &mut Writer) {
        self.0.sort_by_key(|(tag, _)| *tag);
        writer.unsigned_varint(self.0.len() as u32);
        for (tag, bytes) in self.0 {
            writer.unsigned_varint(tag);
            writer.unsigned_varint(bytes.len() as u32);
            writer.raw(&bytes);
        }
    }
}
