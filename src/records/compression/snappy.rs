//! Snappy: a raw block, or the xerial stream of the Java clients, which is a header and raw blocks
//! behind their sizes.
//!
//! Only the 8 magic bytes tell the two apart: a raw block may begin with the first of them, and some
//! writers put the two version words in the wrong order. Once the magic is there, what follows is a
//! stream; falling back to raw would turn damage into garbage.

use snap::raw::{Decoder, Encoder, decompress_len};

use super::{CodecError, damaged};
use crate::records::Codec;

const MAGIC: &[u8] = b"\x82SNAPPY\0";
/// The magic and two version words, of 4 bytes each.
const HEADER: usize = 16;
/// What Java puts into a block.
const BLOCK: usize = 32 << 10;
/// No snappy block inflates more than this many times: 3 bytes can stand for 64.
const MOST_RATIO: usize = 22;

pub(super) fn inflate(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::new();
    if !input.starts_with(MAGIC) {
        append_block(input, &mut output, limit)?;
        return Ok(output);
    }
    let mut rest = after_header(input)?;
    while !rest.is_empty() {
        // Streams that were put together have a header in the middle.
        if rest.starts_with(MAGIC) {
            rest = after_header(rest)?;
            continue;
        }
        let Some((size, after)) = rest.split_first_chunk::<4>() else {
            return Err(damaged(Codec::Snappy, format!("a block size is cut to {} bytes", rest.len())));
        };
        let size = u32::from_be_bytes(*size);
        let Some(block) = usize::try_from(size).ok().and_then(|size| after.get(..size)) else {
            return Err(damaged(
                Codec::Snappy,
                format!("a block declares {size} bytes, but {} are left", after.len()),
            ));
        };
        append_block(block, &mut output, limit)?;
        rest = &after[block.len()..];
    }
    Ok(output)
}

fn after_header(stream: &[u8]) -> Result<&[u8], CodecError> {
    stream.get(HEADER..).ok_or_else(|| damaged(Codec::Snappy, "the stream ends inside its header"))
}

fn append_block(block: &[u8], output: &mut Vec<u8>, limit: usize) -> Result<(), CodecError> {
    let size = decompress_len(block).map_err(|error| damaged(Codec::Snappy, error))?;
    if size > block.len().saturating_mul(MOST_RATIO) {
        return Err(damaged(
            Codec::Snappy,
            format!("a block of {} bytes claims to inflate to {size}", block.len()),
        ));
    }
    let start = output.len();
    if size > limit.saturating_sub(start) {
        return Err(CodecError::OverLimit { codec: Codec::Snappy, limit });
    }
    output.resize(start + size, 0);
    let written = Decoder::new()
        .decompress(block, &mut output[start..])
        .map_err(|error| damaged(Codec::Snappy, error))?;
    output.truncate(start + written);
    Ok(())
}

pub(super) fn deflate(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::with_capacity(HEADER + input.len() / 2);
    output.extend_from_slice(MAGIC);
    output.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = Encoder::new();
    for block in input.chunks(BLOCK) {
        let block = encoder.compress_vec(block).map_err(|error| damaged(Codec::Snappy, error))?;
        output.extend_from_slice(&(block.len() as u32).to_be_bytes());
        output.extend_from_slice(&block);
    }
    Ok(output)
}
