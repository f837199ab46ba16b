use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::diagnosis;
use crate::error::{Error, ErrorKind, Result};

/// Bytes read ahead of a size prefix: one read takes many small answers, and of a large one no more
/// than this is copied.
const READ_AHEAD: usize = 4 << 10;
/// Memory set aside on a size prefix alone, unless that much was asked for.
const TRUSTED: usize = 1 << 20;

/// Cuts a stream of bytes into frames; does no I/O.
///
/// A large frame is read straight into a buffer of its own, exactly as large as the frame. A size
/// that was not asked for is believed only as its bytes arrive (KAFKA-4090).
#[derive(Debug)]
pub(super) struct FrameReader {
    ahead: BytesMut,
    body: Option<Body>,
    limit: usize,
    first: bool,
}

/// What is known of the next frame before it comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// How many bytes its sender was asked for.
    pub(super) asked: usize,
    /// The fewest bytes that it can have.
    pub(super) least: usize,
    /// The most bytes that it may have, within the limit for all.
    pub(super) most: usize,
}

impl Default for Due {
    fn default() -> Self {
        // Four bytes are the correlation id.
        Due { asked: 0, least: 4, most: usize::MAX }
    }
}

#[derive(Debug)]
struct Body {
    buffer: BytesMut,
    size: usize,
}

impl FrameReader {
    /// Frames of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        FrameReader { ahead: BytesMut::with_capacity(READ_AHEAD), body: None, limit, first: true }
    }

    /// Where the next bytes go; never empty.
    pub(super) fn space(&mut self) -> Limit<&mut BytesMut> {
        match &mut self.body {
            Some(Body { buffer, size }) => {
                if buffer.len() == buffer.capacity() {
                    buffer.reserve(buffer.len().min(*size - buffer.len()));
                }
                let space = buffer.capacity().min(*size) - buffer.len();
                buffer.limit(space)
            }
            None => {
                self.ahead.reserve(READ_AHEAD - self.ahead.len());
                let space = READ_AHEAD - self.ahead.len();
                (&mut self.ahead).limit(space)
            }
        }
    }

    /// The next whole frame without its size, if its bytes are there.
    pub(super) fn next(&mut self, due: Due) -> Result<Option<Bytes>> {
        if let Some(body) = self.body.take() {
            if body.buffer.len() < body.size {
                self.body = Some(body);
                return Ok(None);
            }
            return Ok(Some(body.buffer.freeze()));
        }
        if self.first
            && let Some(speaks) = diagnosis::of_first_bytes(&self.ahead)
        {
            return Err(Error::new(ErrorKind::WrongProtocol(speaks)));
        }
        let Some(&prefix) = self.ahead.first_chunk::<4>() else { return Ok(None) };
        let declared = i32::from_be_bytes(prefix);
        let limit = self.limit.min(due.most);
        let size = match usize::try_from(declared) {
            Ok(size) if (due.least..=limit).contains(&size) => size,
            _ => return Err(Error::new(ErrorKind::FrameSize { size: declared, limit })),
        };
        self.first = false;
        self.ahead.advance(4);
        if self.ahead.len() >= size {
            let frame = Bytes::copy_from_slice(&self.ahead[..size]);
            self.ahead.advance(size);
            return Ok(Some(frame));
        }
        let mut buffer = BytesMut::with_capacity(size.min(due.asked.max(TRUSTED)));
        buffer.put_slice(&self.ahead);
        self.ahead.clear();
        self.body = Some(Body { buffer, size });
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Speaks;

    fn feed(reader: &mut FrameReader, mut bytes: &[u8], at_once: usize) -> Vec<Bytes> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let mut space = reader.space();
            let size = at_once.min(bytes.len()).min(space.remaining_mut());
            space.put_slice(&bytes[..size]);
            bytes = &bytes[size..];
            while let Some(frame) = reader.next(Due::default()).unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    fn stream_of(sizes: &[usize]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let frames: Vec<Vec<u8>> =
            sizes.iter().map(|size| (0..*size).map(|i| (i * 7 + size) as u8).collect()).collect();
        let mut bytes = Vec::new();
        for frame in &frames {
            bytes.extend((frame.len() as i32).to_be_bytes());
            bytes.extend(frame);
        }
        (frames, bytes)
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let (frames, bytes) = stream_of(&[4, 5, 4096, 4, 4092, 4091, 10_000, 3 << 20, 17, 4]);
        for at_once in [1, 3, 4, 5, 1000, 4096, 5000, usize::MAX] {
            let mut reader = FrameReader::new(4 << 20);
            assert_eq!(feed(&mut reader, &bytes, at_once), frames, "{at_once} bytes at once");
        }
    }

    #[test]
    fn a_large_frame_is_read_into_one_buffer_of_its_size() {
        let (_, bytes) = stream_of(&[8 << 20]);
        let mut reader = FrameReader::new(16 << 20);
        reader.space().put_slice(&bytes[..100]);
        assert_eq!(reader.next(Due { asked: 8 << 20, ..Due::default() }).unwrap(), None);
        assert_eq!(reader.space().remaining_mut(), (8 << 20) - 96);
    }

    #[test]
    fn s8_a_size_that_was_not_asked_for_is_believed_only_as_its_bytes_arrive() {
        let mut reader = FrameReader::new(200 << 20);
        reader.space().put_slice(&(150i32 << 20).to_be_bytes());
        assert_eq!(reader.next(Due::default()).unwrap(), None);
        assert_eq!(reader.space().remaining_mut(), TRUSTED);
        reader.space().put_slice(&vec![0; TRUSTED]);
        assert_eq!(reader.next(Due::default()).unwrap(), None);
        assert_eq!(reader.space().remaining_mut(), TRUSTED, "doubled");
    }

    #[test]
    fn g5_case_64_sizes_below_four_and_above_the_limit_are_refused() {
        for size in [-1, i32::MIN, 0, 3, 1001, i32::MAX] {
            let mut reader = FrameReader::new(1000);
            reader.first = false;
            reader.space().put_slice(&size.to_be_bytes());
            let error = reader.next(Due::default()).unwrap_err();
            let ErrorKind::FrameSize { size: found, limit: 1000 } = *error.kind() else {
                panic!("{error:?}")
            };
            assert_eq!(found, size);
        }
    }

    #[test]
    fn a_token_may_be_empty_and_what_comes_before_the_login_is_small() {
        let token = Due { least: 0, most: 100, ..Due::default() };
        let mut reader = FrameReader::new(1000);
        reader.space().put_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 7]);
        assert_eq!(reader.next(token).unwrap().unwrap(), b"".as_slice());
        assert_eq!(reader.next(token).unwrap().unwrap(), b"\x07".as_slice());
        reader.space().put_slice(&101i32.to_be_bytes());
        let error = reader.next(token).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::FrameSize { size: 101, limit: 100 }), "{error:?}");
    }

    #[test]
    fn s8_a_tls_alert_is_named_even_if_the_limit_would_let_its_size_pass() {
        let mut reader = FrameReader::new(i32::MAX as usize);
        reader.space().put_slice(&[0x15, 3, 3, 0, 2, 2, 80]);
        let error = reader.next(Due::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongProtocol(Speaks::Tls)), "{error:?}");
    }
}
