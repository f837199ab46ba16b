use std::fmt;
use std::str::FromStr;

/// The format of an entry: its magic byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Magic {
    /// Messages without timestamps; wrappers hold absolute offsets. Written by 0.8 and 0.9.
    V0,
    /// Messages with timestamps; wrappers hold relative offsets (KIP-31, KIP-32). From 0.10.
    V1,
    /// Batches of records, with headers and producer ids (KIP-82, KIP-98). From 0.11.
    V2,
}

impl Magic {
    pub(super) fn of(byte: u8) -> Option<Magic> {
        match byte {
            0 => Some(Magic::V0),
            1 => Some(Magic::V1),
            2 => Some(Magic::V2),
            _ => None,
        }
    }

    /// The byte on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// How a set is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Snappy, raw or in the xerial stream of the Java clients.
    Snappy,
    /// LZ4 frames. From 0.8.2.
    Lz4,
    /// zstd (KIP-110). From 2.1, in batches only.
    Zstd,
}

impl Codec {
    /// All of them, in the order of their numbers.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    pub(super) fn of(attributes: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(attributes & 0x07)).copied()
    }

    /// The number in the attributes.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Kafka's name for it: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Codec::ALL.into_iter().find(|codec| codec.name() == name);
        known.ok_or_else(|| format!("no codec is called {name:?}: use none, gzip, snappy, lz4 or zstd"))
    }
}

/// Whose clock a timestamp is from (KIP-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer's.
    #[default]
    CreateTime,
    /// The broker's, when it appended the set.
    LogAppendTime,
}

impl TimestampType {
    pub(super) fn of(attributes: u8) -> TimestampType {
        if attributes & 0x08 == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        }
    }
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
