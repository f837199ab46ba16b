//! What `decode` reads: a file or standard input, as it is or written in hex.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::exit::Failure;

/// Where the bytes come from.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// The file to read; `-`, or nothing, for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How the input is written. `auto` takes it for hex text if all of it is hex digits, white
    /// space and colons, with or without 0x in front
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Auto)]
    input: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Auto,
    Hex,
    Binary,
}

/// Bytes looked at to tell text from binary before the rest is read.
const HEAD: u64 = 1 << 16;

/// The input, hex already undone: what was read so far, and the rest.
pub(crate) struct Input {
    pub(crate) head: Vec<u8>,
    pub(crate) rest: Box<dyn Read>,
}

impl InputArgs {
    /// Opens the input.
    pub(crate) fn open(&self) -> Result<Input, Failure> {
        let mut rest: Box<dyn Read> = if self.file.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.file).map_err(|error| self.failed(&error))?)
        };
        let mut head = Vec::new();
        rest.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| self.failed(&error))?;
        if self.input == Form::Binary || self.input == Form::Auto && !head.iter().all(|byte| in_hex(*byte)) {
            return Ok(Input { head, rest });
        }
        rest.read_to_end(&mut head).map_err(|error| self.failed(&error))?;
        let rest = Box::new(io::empty());
        match from_hex(&head) {
            Ok(head) => Ok(Input { head, rest }),
            Err(NotHex::Byte(_)) if self.input == Form::Auto => Ok(Input { head, rest }),
            Err(not_hex) => Err(Failure::usage(format_args!("{}: {not_hex}", self.name()))),
        }
    }

    /// Opens the input and reads all of it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let Input { mut head, mut rest } = self.open()?;
        rest.read_to_end(&mut head).map_err(|error| self.failed(&error))?;
        Ok(head)
    }

    /// The input could not be read.
    pub(crate) fn failed(&self, error: &io::Error) -> Failure {
        Failure::usage(format_args!("cannot read {}: {error}", self.name()))
    }

    fn name(&self) -> String {
        if self.file.as_os_str() == "-" { "standard input".into() } else { self.file.display().to_string() }
    }
}

/// Why text is not hex.
#[derive(Debug, PartialEq, Eq)]
enum NotHex {
    /// A byte that is no hex digit, at this position.
    Byte(usize),
    /// Half a byte is left over.
    Odd(usize),
}

impl fmt::Display for NotHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotHex::Byte(at) => write!(f, "this is not hex: the character at byte {at} is no hex digit"),
            NotHex::Odd(digits) => write!(
                f,
                "this looks like hex, but it has an odd number of digits ({digits}): one is missing or \
                 too many. If it is no hex text, say --input binary"
            ),
        }
    }
}

fn in_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || separates(byte) || matches!(byte, b'x' | b'X')
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b':'
}

/// Bytes written in hex: white space and colons may stand anywhere, 0x at the start of a word.
fn from_hex(text: &[u8]) -> Result<Vec<u8>, NotHex> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let (mut digits, mut high, mut in_word) = (0, 0, false);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if separates(byte) {
            in_word = false;
        } else if !in_word && byte == b'0' && matches!(text.get(at + 1), Some(b'x' | b'X')) {
            in_word = true;
            at += 1;
        } else {
            let digit = char::from(byte).to_digit(16).ok_or(NotHex::Byte(at))? as u8;
            if digits % 2 == 0 {
                high = digit << 4;
            } else {
                bytes.push(high | digit);
            }
            digits += 1;
            in_word = true;
        }
        at += 1;
    }
    if digits % 2 == 0 { Ok(bytes) } else { Err(NotHex::Odd(digits)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_with_and_without_prefix_spaces_and_colons() {
        for text in ["00ff10", "0x00FF10", "00 ff\n10\n", "00:ff:10", " 0x00 0xff 0x10", "0 0 f f 1 0"] {
            assert_eq!(from_hex(text.as_bytes()), Ok(vec![0, 0xff, 0x10]), "{text}");
        }
        assert_eq!(from_hex(b" \n"), Ok(vec![]));
    }

    #[test]
    fn what_is_not_hex_is_told_with_its_position() {
        assert_eq!(from_hex(b"00fg"), Err(NotHex::Byte(3)));
        assert_eq!(from_hex(b"00x1"), Err(NotHex::Byte(2)));
        assert_eq!(from_hex(b"00f"), Err(NotHex::Odd(3)));
        assert!(!in_hex(0) && !in_hex(b'g'));
    }
}
