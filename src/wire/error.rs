use std::fmt;

/// Bytes that do not fit the layout they should have: which field, where, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The field that was being read, by the protocol guide's name.
    pub field: &'static str,
    /// Byte position, counted from the start of the outermost slice that was read.
    pub position: usize,
    /// What was wrong there.
    pub problem: Problem,
}

/// What is wrong with the bytes of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The enclosing slice ends before the value does.
    CutShort {
        /// Bytes that the value needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length or count that cannot be: negative, or more than the enclosing slice holds.
    Length {
        /// The length or count as declared.
        declared: i64,
        /// Bytes that are left.
        left: usize,
    },
    /// Null where this version has no null.
    Null,
    /// A varint that runs past its 5 (or 10) bytes.
    Varint,
    /// Text that is not UTF-8.
    Utf8,
    /// Bytes after the end of the value.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A value outside what the field can hold.
    Value {
        /// What was found.
        found: i64,
        /// What the field allows.
        expected: &'static str,
    },
}

/// A value that cannot be written: it asks for what this version of the layout cannot say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The field is set, but this version of the message has no place for it.
    NoSuchField {
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// The field is null, but this version of the message has no null for it.
    Null {
        /// The field.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// The field is longer than its length prefix can say.
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length: bytes, or elements of an array.
        length: usize,
    },
    /// The message has no such version.
    Version {
        /// The message.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} {}", self.field, self.position, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::CutShort { needed, left } => write!(f, "needs {needed} bytes, but {left} are left"),
            Problem::Length { declared, left } if *declared < 0 => {
                write!(f, "declares a negative length, {declared} ({left} bytes are left)")
            }
            Problem::Length { declared, left } => {
                write!(f, "declares a length of {declared}, but {left} bytes are left")
            }
            Problem::Null => f.write_str("is null where null is not allowed"),
            Problem::Varint => f.write_str("is a varint without an end"),
            Problem::Utf8 => f.write_str("is not UTF-8"),
            Problem::Trailing { bytes } => write!(f, "is followed by {bytes} bytes that belong to nothing"),
            Problem::Value { found, expected } => write!(f, "is {found}, expected {expected}"),
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::NoSuchField { field, version } => {
                write!(f, "{field} is set, but version {version} of the message cannot carry it")
            }
            EncodeError::Null { field, version } => {
                write!(f, "{field} is null, but version {version} of the message has no null for it")
            }
            EncodeError::TooLong { field, length } => write!(f, "{field} is too long: {length}"),
            EncodeError::Version { message, version } => write!(f, "{message} has no version {version}"),
        }
    }
}

impl std::error::Error for DecodeError {}
impl std::error::Error for EncodeError {}
