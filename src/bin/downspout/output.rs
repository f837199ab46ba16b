//! Standard output: buffered by us, with a JSON writer that does not allocate per record.

use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 16;

/// How byte strings look in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BytesAs {
    /// A string where the bytes are UTF-8, else {"base64": …}.
    Auto,
    /// Always {"base64": …}.
    Base64,
    /// Always {"hex": …}.
    Hex,
}

/// A buffered sink of text.
///
/// Even a value of many megabytes passes through in pieces, so that memory stays flat. A failed
/// write is kept, and told at the next [`Output::check`] or [`Output::flush`].
pub(crate) struct Output<W: Write> {
    sink: W,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
    bytes_as: BytesAs,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(sink: W) -> Self {
        Output { sink, buffer: Vec::with_capacity(BUFFER + 1024), failed: None, bytes_as: BytesAs::Auto }
    }

    /// Says how byte strings shall look.
    pub(crate) fn bytes_as(self, bytes_as: BytesAs) -> Self {
        Output { bytes_as, ..self }
    }

    /// The error of an earlier write, if there was one. Cheap: once per line.
    #[inline]
    pub(crate) fn check(&mut self) -> io::Result<()> {
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Hands everything on.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.spill();
        self.check()?;
        self.sink.flush()
    }

    #[cold]
    fn spill(&mut self) {
        if self.failed.is_none() {
            self.failed = self.sink.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Bytes as they are.
    #[inline]
    pub(crate) fn raw(&mut self, mut bytes: &[u8]) {
        while bytes.len() > BUFFER {
            let (piece, rest) = bytes.split_at(BUFFER);
            self.raw(piece);
            bytes = rest;
        }
        if self.buffer.len() + bytes.len() > BUFFER {
            self.spill();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// A number.
    #[inline]
    pub(crate) fn integer(&mut self, value: i64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.raw(&digits[at..]);
    }

    /// A JSON string.
    pub(crate) fn string(&mut self, text: &str) {
        self.raw(b"\"");
        let bytes = text.as_bytes();
        let mut plain = 0;
        for (i, byte) in bytes.iter().enumerate() {
            let short: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0..0x20 | 0x7f => b"",
                _ => continue,
            };
            self.raw(&bytes[plain..i]);
            plain = i + 1;
            if short.is_empty() {
                let hex = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                self.raw(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
            } else {
                self.raw(short);
            }
        }
        self.raw(&bytes[plain..]);
        self.raw(b"\"");
    }

    /// A byte string as JSON: see [`BytesAs`].
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        match self.bytes_as {
            BytesAs::Auto => match std::str::from_utf8(bytes) {
                Ok(text) => self.string(text),
                Err(_) => self.base64(bytes),
            },
            BytesAs::Base64 => self.base64(bytes),
            BytesAs::Hex => {
                self.raw(b"{\"hex\":\"");
                for byte in bytes {
                    let hex = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                    self.raw(&[hex(byte >> 4), hex(byte & 15)]);
                }
                self.raw(b"\"}");
            }
        }
    }

    fn base64(&mut self, bytes: &[u8]) {
        self.raw(b"{\"base64\":\"");
        // A multiple of three, so that no padding stands between the pieces.
        for piece in bytes.chunks(3 << 12) {
            self.raw(BASE64_STANDARD.encode(piece).as_bytes());
        }
        self.raw(b"\"}");
    }

    /// A byte string or null as JSON.
    #[inline]
    pub(crate) fn nullable_bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.raw(b"null"),
        }
    }
}

impl Output<Vec<u8>> {
    /// What was written since the last time.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.spill();
        std::mem::take(&mut self.sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Output<&mut Vec<u8>>)) -> String {
        let mut sink = Vec::new();
        let mut output = Output::new(&mut sink);
        write(&mut output);
        output.flush().unwrap();
        drop(output);
        String::from_utf8(sink).unwrap()
    }

    #[test]
    fn strings_are_json_whatever_is_in_them() {
        for text in ["", "plain", "quote \" and \\", "\0\u{1f}\u{7f}\n\r\t", "größer 日本 🦀"] {
            let json = written(|output| output.string(text));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn bytes_are_a_string_where_they_are_utf8_and_base64_where_not() {
        assert_eq!(written(|output| output.bytes(b"text")), "\"text\"");
        assert_eq!(written(|output| output.bytes(b"\xff\x00")), "{\"base64\":\"/wA=\"}");
        assert_eq!(written(|output| output.nullable_bytes(None)), "null");
        assert_eq!(written(|output| output.nullable_bytes(Some(b""))), "\"\"");
    }

    #[test]
    fn the_pieces_of_a_long_value_join_without_a_seam() {
        let long: Vec<u8> = (0..500_000u32).map(|i| (i * 7) as u8).collect();
        let json: serde_json::Value = serde_json::from_str(&written(|output| output.bytes(&long))).unwrap();
        assert_eq!(BASE64_STANDARD.decode(json["base64"].as_str().unwrap()).unwrap(), long);
    }

    #[test]
    fn integers_of_every_size() {
        for value in [0, 7, -1, 10, 1_234_567, i64::MAX, i64::MIN] {
            assert_eq!(written(|output| output.integer(value)), value.to_string());
        }
    }

    #[test]
    fn a_failed_write_is_told_and_ends_the_writing() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut output = Output::new(Broken);
        output.raw(&[b'x'; 3 * BUFFER]);
        assert_eq!(output.check().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
