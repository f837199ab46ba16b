//! zstd: one frame or several, most often without a content size (Java streams them).
//!
//! Inflated in one go into a buffer that grows: a streaming decoder would set aside the window that
//! the frame declares, and Java at level 22 declares 128 MiB for a batch of 700 bytes. What a frame
//! claims about its size is not believed either.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use super::{CodecError, damaged};
use crate::records::Codec;

/// First guess at how much a batch inflates.
const RATIO: usize = 8;
const LEAST: usize = 4 << 10;

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn inflate(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let fault = |error| damaged(Codec::Zstd, error);
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(Decompressor::new().map_err(fault)?),
        };
        let mut capacity = input.len().saturating_mul(RATIO).max(LEAST).min(limit);
        loop {
            let mut output = Vec::with_capacity(capacity);
            match decompressor.decompress_to_buffer(input, &mut output) {
                Ok(_) if output.len() > limit => {
                    return Err(CodecError::OverLimit { codec: Codec::Zstd, limit });
                }
                Ok(_) => return Ok(output),
                Err(error) if !is_too_small(&error) => return Err(fault(error)),
                Err(_) if capacity >= limit => {
                    return Err(CodecError::OverLimit { codec: Codec::Zstd, limit });
                }
                Err(_) => capacity = capacity.saturating_mul(4).min(limit),
            }
        }
    })
}

/// zstd's own words for "the output does not fit".
fn is_too_small(error: &std::io::Error) -> bool {
    error.to_string().contains("too small")
}

pub(super) fn deflate(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    zstd::bulk::compress(input, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|error| damaged(Codec::Zstd, error))
}
