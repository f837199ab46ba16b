//! gzip: RFC 1952, several members in a row, as Java reads them.

use std::io::Write;

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{CodecError, damaged, read_to_limit};
use crate::records::Codec;

pub(super) fn inflate(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    // The last four bytes tell the size of the last member; deflate cannot do better than 1:1032,
    // which keeps a lie about it cheap.
    let size = match input {
        [.., a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => 0,
    };
    let mut output = Vec::with_capacity(size.min(input.len().saturating_mul(16)).min(limit));
    read_to_limit(Codec::Gzip, MultiGzDecoder::new(input), &mut output, limit)?;
    Ok(output)
}

pub(super) fn deflate(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(input).and_then(|()| encoder.finish()).map_err(|error| damaged(Codec::Gzip, error))
}
