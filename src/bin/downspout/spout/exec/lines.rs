//! Lines out of a stream of bytes, with a limit on how long one may be.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a line; what is longer is told and passed over.
const LONGEST: usize = 64 << 10;
/// Bytes read at a time.
const CHUNK: usize = 16 << 10;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of one that is too long.
    Long(&'a [u8]),
}

/// Reads lines. Memory is bounded whatever comes.
#[derive(Debug)]
pub(super) struct Lines<R> {
    stream: R,
    buffer: Vec<u8>,
    /// What was given out already.
    start: usize,
    /// What was searched for an end already.
    searched: usize,
    /// In a line that is too long, whose beginning was given out.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R) -> Self {
        Lines { stream, buffer: Vec::new(), start: 0, searched: 0, skipping: false, ended: false }
    }

    /// Reads more; false at the end. Dropping the future loses nothing.
    pub(super) async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.buffer.reserve(CHUNK);
        let read = (&mut self.stream).take(CHUNK as u64).read_buf(&mut self.buffer).await?;
        self.ended = read == 0;
        Ok(read > 0)
    }

    /// The next line that was read. At the end the last one may do without an end of its own.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let from = self.start;
            let end = self.buffer.get(self.searched..)?.iter().position(|byte| *byte == b'\n');
            match end.map(|end| self.searched + end) {
                Some(end) => {
                    (self.start, self.searched) = (end + 1, end + 1);
                    if !std::mem::take(&mut self.skipping) {
                        return Some(Line::Whole(self.buffer.get(from..end)?));
                    }
                }
                None if self.buffer.len() - from > LONGEST || self.ended && self.buffer.len() > from => {
                    let is_long = !self.ended;
                    let skipped = std::mem::replace(&mut self.skipping, is_long);
                    (self.start, self.searched) = (self.buffer.len(), self.buffer.len());
                    if !skipped {
                        let line = self.buffer.get(from..)?;
                        return Some(if is_long { Line::Long(line) } else { Line::Whole(line) });
                    }
                }
                None => {
                    self.searched = self.buffer.len();
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<(bool, Vec<u8>)> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        loop {
            let more = lines.fill().await.unwrap();
            assert!(lines.buffer.capacity() < 2 * (LONGEST + CHUNK), "{}", lines.buffer.capacity());
            while let Some(line) = lines.next() {
                found.push(match line {
                    Line::Whole(line) => (true, line.to_vec()),
                    Line::Long(line) => (false, line[..3].to_vec()),
                });
            }
            if !more {
                return found;
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_also_the_last_one_without_an_end() {
        assert_eq!(all(b"").await, []);
        assert_eq!(all(b"a\n\nb").await, [(true, b"a".to_vec()), (true, vec![]), (true, b"b".to_vec())]);
        let many: Vec<u8> = (0..50_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        assert_eq!(all(&many).await.len(), 50_000);
    }

    #[tokio::test]
    async fn a_line_without_an_end_takes_no_memory() {
        let mut bytes = b"first\nxxx".to_vec();
        bytes.resize(10 << 20, b'x');
        bytes.extend(b"\nlast\n");
        assert_eq!(
            all(&bytes).await,
            [(true, b"first".to_vec()), (false, b"xxx".to_vec()), (true, b"last".to_vec())]
        );
    }
}
