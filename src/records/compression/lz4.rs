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

pub(super) fn inflate(input: &[u8], limit: usize, magic: Magic) -> Result<Vec<u8>, CodecError> {
    let mut output = Vec::new();
    let mut rest = input;
    loop {
        let descriptor_end = descriptor_end(rest)?;
        let mut header = rest[..=descriptor_end].to_vec();
        if magic == Magic::V0 {
            header[descriptor_end] = checksum(&header[4..descriptor_end]);
        }
        let mut frame = FrameDecoder::new(header.as_slice().chain(&rest[descriptor_end + 1..]));
        read_to_limit(Codec::Lz4, &mut frame, &mut output, limit)?;
        let (_, after) = frame.into_inner().into_inner();
        rest = after;
        if rest.is_empty() {
            return Ok(output);
        }
    }
}

/// Where the descriptor of the frame at the start of `frame` ends: its checksum byte stands there.
fn descriptor_end(frame: &[u8]) -> Result<usize, CodecError> {
    let cut = || damaged(Codec::Lz4, "the frame ends inside its header");
    if !frame.starts_with(&FRAME_MAGIC) {
        return Err(damaged(Codec::Lz4, "a frame does not begin with 04 22 4d 18"));
    }
    let flags = *frame.get(4).ok_or_else(cut)?;
    let content_size = if flags & 0x08 == 0 { 0 } else { 8 };
    let dictionary_id = if flags & 0x01 == 0 { 0 } else { 4 };
    let end = DESCRIPTOR + content_size + dictionary_id;
    if frame.len() <= end { Err(cut()) } else { Ok(end) }
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
