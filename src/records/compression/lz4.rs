//! LZ4 frames, and the header checksum that 0.8.2 and 0.9 got wrong.
//!
//! Clients of magic 0 computed the checksum of the frame header over the frame's magic number too
//! (KAFKA-3160), and brokers still write it so whenever they store or convert to magic 0. So for
//! magic 0 it is not looked at when reading, and written wrong; newer formats have the right one.

use std::io::{Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::{CodecError, damaged, read_to_limit};
use crate::records::{Codec, Magic};

const FRAME_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Frame magic, flags, block descriptor.
const DESCRIPTOR: usize = 6;
const DICTIONARY_ID: u8 = 0x01;
const CONTENT_CHECKSUM: u8 = 0x04;
const CONTENT_SIZE: u8 = 0x08;
const BLOCK_CHECKSUMS: u8 = 0x10;

pub(super) fn inflate(input: &[u8], limit: usize, magic: Magic) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::new();
    let mut rest = input;
    loop {
        let (descriptor_end, frame_end) = extent(rest)?;
        let (frame, after) = rest.split_at(frame_end);
        let mut header = frame[..=descriptor_end].to_vec();
        if magic == Magic::V0 {
            header[descriptor_end] = checksum(&header[4..descriptor_end]);
        }
        let frame = FrameDecoder::new(header.as_slice().chain(&frame[descriptor_end + 1..]));
        read_to_limit(Codec::Lz4, frame, &mut output, limit)?;
        rest = after;
        if rest.is_empty() {
            return Ok(output);
        }
    }
}

/// Where the checksum of the descriptor stands in the frame at the start of `data`, and where the
/// frame ends: after its end mark. A frame without one was cut, at a block border or not.
fn extent(data: &[u8]) -> Result<(usize, usize), CodecError> {
    let cut = || damaged(Codec::Lz4, "the frame ends before its end mark");
    if !data.starts_with(&FRAME_MAGIC) {
        return Err(damaged(Codec::Lz4, "a frame does not begin with 04 22 4d 18"));
    }
    let flags = *data.get(4).ok_or_else(cut)?;
    let flagged = |bit: u8, bytes: usize| if flags & bit == 0 { 0 } else { bytes };
    let descriptor_end = DESCRIPTOR + flagged(CONTENT_SIZE, 8) + flagged(DICTIONARY_ID, 4);
    let mut at = descriptor_end + 1;
    loop {
        let size = data.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(cut)?;
        // The top bit marks a stored block.
        let size = u32::from_le_bytes(*size) & 0x7fff_ffff;
        at += 4;
        if size == 0 {
            break;
        }
        at = at.saturating_add(size as usize).saturating_add(flagged(BLOCK_CHECKSUMS, 4));
    }
    at += flagged(CONTENT_CHECKSUM, 4);
    if at > data.len() { Err(cut()) } else { Ok((descriptor_end, at)) }
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
