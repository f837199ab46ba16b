//! LZ4 frames, and the header checksum that 0.8.2 and 0.9 got wrong.
//!
//! Clients of magic 0 computed the checksum of the frame header over the frame's magic number too
//! (KAFKA-3160), and brokers still write it so whenever they store or convert to magic 0. So for
//! magic 0 it is not looked at when reading, and written wrong; newer formats have the right one.

use std::io::Write;

use lz4_flex::block::{DecompressError, decompress_into_with_dict};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::{CodecError, damaged};
use crate::records::{Codec, Magic};

const FRAME_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Frame magic, flags, block descriptor.
const DESCRIPTOR: usize = 6;
const DICTIONARY_ID: u8 = 0x01;
const CONTENT_CHECKSUM: u8 = 0x04;
const CONTENT_SIZE: u8 = 0x08;
const BLOCK_CHECKSUMS: u8 = 0x10;
const INDEPENDENT_BLOCKS: u8 = 0x20;
/// The top bit of a block's size: the block is stored as it is.
const STORED: u32 = 0x8000_0000;
/// How far back a block may point.
const REACH: usize = 64 << 10;
/// No block inflates more than this many times: a byte adds 255 to a match at most.
const MOST_RATIO: usize = 255;

/// Frames are read here and only their blocks by the library: its frame reader sets the declared
/// block size aside for every frame, so that 17 bytes cost 4 MiB.
pub(super) fn inflate(input: &[u8], limit: usize, magic: Magic) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::new();
    let mut rest = input;
    loop {
        rest = Frame::open(rest, magic)?.inflate(&mut output, limit)?;
        if rest.is_empty() {
            break;
        }
    }
    if output.capacity() - output.len() > output.len() / 4 {
        output.shrink_to_fit();
    }
    Ok(output)
}

/// A frame, read as far as its blocks.
struct Frame<'a> {
    flags: u8,
    block_size: usize,
    content_size: Option<u64>,
    blocks: &'a [u8],
}

impl<'a> Frame<'a> {
    fn open(data: &'a [u8], magic: Magic) -> Result<Self, CodecError> {
        if !data.starts_with(&FRAME_MAGIC) {
            return Err(damaged(Codec::Lz4, "a frame does not begin with 04 22 4d 18"));
        }
        let [_, _, _, _, flags, block, rest @ ..] = data else { return Err(cut()) };
        let (flags, block) = (*flags, *block);
        // Version 1, and reserved bits that are clear.
        if flags & 0xc2 != 0x40 || block & 0x8f != 0 || block < 0x40 {
            let why = format!("a frame has the flags {flags:02x} {block:02x}, which mean nothing");
            return Err(damaged(Codec::Lz4, why));
        }
        if flags & DICTIONARY_ID != 0 {
            return Err(damaged(Codec::Lz4, "a frame wants a dictionary"));
        }
        let (content_size, rest) = match rest.split_first_chunk::<8>() {
            _ if flags & CONTENT_SIZE == 0 => (None, rest),
            Some((size, rest)) => (Some(u64::from_le_bytes(*size)), rest),
            None => return Err(cut()),
        };
        let (stored, blocks) = rest.split_first().ok_or_else(cut)?;
        let computed = checksum(&data[4..data.len() - rest.len()]);
        if magic != Magic::V0 && *stored != computed {
            let why = format!("a frame header has checksum {stored:02x}, its bytes give {computed:02x}");
            return Err(damaged(Codec::Lz4, why));
        }
        // 4 to 7 stand for 64 KiB, 256 KiB, 1 MiB and 4 MiB.
        Ok(Frame { flags, block_size: 1 << (8 + 2 * (block >> 4)), content_size, blocks })
    }

    /// Appends what is in the frame; gives what follows it.
    fn inflate(self, output: &mut Vec<u8>, limit: usize) -> Result<&'a [u8], CodecError> {
        let start = output.len();
        let mut rest = self.blocks;
        loop {
            let (word, after) = word(rest)?;
            rest = after;
            if word == 0 {
                break;
            }
            let size = (word & !STORED) as usize;
            if size > self.block_size {
                let why = format!("a block of {size} bytes is larger than its frame allows");
                return Err(damaged(Codec::Lz4, why));
            }
            let (block, after) = rest.split_at_checked(size).ok_or_else(cut)?;
            rest = after;
            if self.flags & BLOCK_CHECKSUMS != 0 {
                rest = verify(rest, block, "block")?;
            }
            self.block(block, word & STORED != 0, start, output, limit)?;
        }
        let content = &output[start..];
        if self.content_size.is_some_and(|size| size != content.len() as u64) {
            let why = format!("a frame holds {} bytes, but declares another size", content.len());
            return Err(damaged(Codec::Lz4, why));
        }
        if self.flags & CONTENT_CHECKSUM != 0 {
            rest = verify(rest, content, "frame")?;
        }
        Ok(rest)
    }

    fn block(
        &self,
        block: &[u8],
        stored: bool,
        frame_start: usize,
        output: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), CodecError> {
        let over = CodecError::OverLimit { codec: Codec::Lz4, limit };
        let at = output.len();
        let left = limit.saturating_sub(at);
        if stored {
            if block.len() > left {
                return Err(over);
            }
            output.extend_from_slice(block);
            return Ok(());
        }
        let most = self.block_size.min(block.len().saturating_mul(MOST_RATIO));
        output.resize(at + most.min(left), 0);
        let (before, room) = output.split_at_mut(at);
        let linked = if self.flags & INDEPENDENT_BLOCKS == 0 { before.len() - frame_start } else { 0 };
        let dictionary = &before[at - linked.min(REACH)..];
        match decompress_into_with_dict(block, room, dictionary) {
            Ok(size) => {
                output.truncate(at + size);
                Ok(())
            }
            Err(DecompressError::OutputTooSmall { .. }) if left < most => Err(over),
            Err(error) => Err(damaged(Codec::Lz4, error)),
        }
    }
}

fn cut() -> CodecError {
    damaged(Codec::Lz4, "the frame ends before its end mark")
}

fn word(data: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    let (word, rest) = data.split_first_chunk::<4>().ok_or_else(cut)?;
    Ok((u32::from_le_bytes(*word), rest))
}

/// Checks `data` against the checksum at the start of `rest`; gives what follows that.
fn verify<'a>(rest: &'a [u8], data: &[u8], what: &str) -> Result<&'a [u8], CodecError> {
    let (stored, rest) = word(rest)?;
    let computed = XxHash32::oneshot(0, data);
    if stored != computed {
        let why = format!("a {what} has checksum {stored:08x}, its bytes give {computed:08x}");
        return Err(damaged(Codec::Lz4, why));
    }
    Ok(rest)
}

fn checksum(descriptor: &[u8]) -> u8 {
    (XxHash32::oneshot(0, descriptor) >> 8) as u8
}

pub(super) fn deflate(input: &[u8], magic: Magic) -> Result<Vec<u8>, CodecError> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(input).map_err(|error| damaged(Codec::Lz4, error))?;
    let mut output = encoder.finish().map_err(|error| damaged(Codec::Lz4, error))?;
    if magic == Magic::V0 {
        output[DESCRIPTOR] = checksum(&output[..DESCRIPTOR]);
    }
    Ok(output)
}
