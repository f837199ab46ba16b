//! Codecs of record sets: into a buffer under a limit, and back.

use std::fmt;

use super::{Codec, Magic};

#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

/// Why compressed data could not be inflated, or data not compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// The number means no codec, or none that this format may use.
    Unknown(u8),
    /// The codec is known, but this build leaves it out.
    NotBuiltIn(Codec),
    /// The data would inflate to more than the limit.
    OverLimit {
        /// Whose data it is.
        codec: Codec,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The data is not what the codec makes.
    Damaged {
        /// The codec.
        codec: Codec,
        /// What it found.
        why: String,
    },
    /// Nothing came out of a wrapper, which always holds a message.
    Empty,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Unknown(number) => write!(f, "codec {number} does not exist in this format"),
            CodecError::NotBuiltIn(codec) => {
                write!(f, "this build has no {codec}: enable the feature \"{codec}\"")
            }
            CodecError::OverLimit { codec, limit } => {
                write!(
                    f,
                    "the {codec} data inflates to more than the limit of {limit} bytes: raise it if you trust the data"
                )
            }
            CodecError::Damaged { codec, why } => write!(f, "the {codec} data is damaged: {why}"),
            CodecError::Empty => f.write_str("the wrapper holds no message"),
        }
    }
}

impl std::error::Error for CodecError {}

/// Inflates `input` to at most `limit` bytes.
pub(crate) fn inflate(codec: Codec, magic: Magic, input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let _ = (magic, limit);
    match codec {
        Codec::None => Ok(input.to_vec()),
        #[cfg(feature = "gzip")]
        Codec::Gzip => gzip::inflate(input, limit),
        #[cfg(feature = "snappy")]
        Codec::Snappy => snappy::inflate(input, limit),
        #[cfg(feature = "lz4")]
        Codec::Lz4 => lz4::inflate(input, limit, magic),
        #[cfg(feature = "zstd")]
        Codec::Zstd => zstd::inflate(input, limit),
        #[allow(unreachable_patterns)]
        codec => Err(CodecError::NotBuiltIn(codec)),
    }
}

/// Compresses `input` in the form that Kafka's own clients write.
pub(super) fn deflate(codec: Codec, magic: Magic, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let _ = magic;
    match codec {
        Codec::None => Ok(input.to_vec()),
        #[cfg(feature = "gzip")]
        Codec::Gzip => gzip::deflate(input),
        #[cfg(feature = "snappy")]
        Codec::Snappy => snappy::deflate(input),
        #[cfg(feature = "lz4")]
        Codec::Lz4 => lz4::deflate(input, magic),
        #[cfg(feature = "zstd")]
        Codec::Zstd => zstd::deflate(input),
        #[allow(unreachable_patterns)]
        codec => Err(CodecError::NotBuiltIn(codec)),
    }
}

#[cfg(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"))]
fn damaged(codec: Codec, why: impl fmt::Display) -> CodecError {
    CodecError::Damaged { codec, why: why.to_string() }
}

/// Reads a stream to its end, appending to `output`, which stays within `limit`.
#[cfg(feature = "gzip")]
fn read_to_limit(
    codec: Codec,
    mut stream: impl std::io::Read,
    output: &mut Vec<u8>,
    limit: usize,
) -> Result<(), CodecError> {
    use std::io::Read as _;
    let room = limit.saturating_sub(output.len()) as u64;
    let read = stream.by_ref().take(room).read_to_end(output).map_err(|error| damaged(codec, error))?;
    if read as u64 == room && stream.read(&mut [0]).map_err(|error| damaged(codec, error))? != 0 {
        return Err(CodecError::OverLimit { codec, limit });
    }
    Ok(())
}
