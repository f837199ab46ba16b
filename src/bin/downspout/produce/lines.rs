//! Cuts the input into records: by a delimiter, and each record into key and value.

use std::io::{self, BufRead};

/// A record of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl Line {
    /// Bytes of key and value.
    pub(super) fn size(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        length(&self.key) + length(&self.value)
    }
}

/// How the input is cut.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    /// Between records.
    pub(super) delimiter: Vec<u8>,
    /// Between key and value, if there are keys.
    pub(super) key_delimiter: Option<Vec<u8>>,
    /// The key of records that have none of their own.
    pub(super) key: Option<Vec<u8>>,
    /// Whether what is empty is null.
    pub(super) empty_is_null: bool,
}

impl Cut {
    /// The next record; `None` at the end of the input. What follows the last delimiter is a record
    /// too, unless it is empty.
    pub(super) fn next(&self, input: &mut impl BufRead) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let Some(last) = self.delimiter.last() else {
            // Without a delimiter all of the input is one record.
            input.read_to_end(&mut bytes)?;
            return Ok((!bytes.is_empty()).then(|| self.line(bytes)));
        };
        loop {
            let before = bytes.len();
            input.read_until(*last, &mut bytes)?;
            if bytes.ends_with(&self.delimiter) {
                bytes.truncate(bytes.len() - self.delimiter.len());
                return Ok(Some(self.line(bytes)));
            }
            if bytes.len() == before || bytes.last() != Some(last) {
                return Ok((!bytes.is_empty()).then(|| self.line(bytes)));
            }
        }
    }

    fn line(&self, bytes: Vec<u8>) -> Line {
        let null = |bytes: Vec<u8>| (!bytes.is_empty() || !self.empty_is_null).then_some(bytes);
        let place = self.key_delimiter.as_ref().and_then(|between| find(&bytes, between));
        match (place, &self.key_delimiter) {
            (Some(place), Some(between)) => {
                let value = bytes[place + between.len()..].to_vec();
                let mut key = bytes;
                key.truncate(place);
                Line { key: null(key), value: null(value) }
            }
            _ => Line { key: self.key.clone(), value: null(bytes) },
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(cut: &Cut, mut input: &[u8]) -> Vec<(Option<String>, Option<String>)> {
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        let next = || cut.next(&mut input).unwrap().map(|line| (text(line.key), text(line.value)));
        std::iter::from_fn(next).collect()
    }

    fn cut(delimiter: &str, key_delimiter: Option<&str>) -> Cut {
        let key_delimiter = key_delimiter.map(|text| text.as_bytes().to_vec());
        Cut { delimiter: delimiter.into(), key_delimiter, key: None, empty_is_null: false }
    }

    fn value(text: &str) -> (Option<String>, Option<String>) {
        (None, Some(text.into()))
    }

    #[test]
    fn lines_with_and_without_a_last_delimiter() {
        assert_eq!(lines(&cut("\n", None), b"a\nb\n"), [value("a"), value("b")]);
        assert_eq!(lines(&cut("\n", None), b"a\n\nb"), [value("a"), value(""), value("b")]);
        assert_eq!(lines(&cut("\n", None), b""), []);
        assert_eq!(lines(&cut("", None), b"a\nb\n"), [value("a\nb\n")]);
    }

    #[test]
    fn delimiters_of_several_bytes_and_what_looks_like_them() {
        assert_eq!(lines(&cut("--\n", None), b"a\n--\nb-\n--\n"), [value("a\n"), value("b-\n")]);
        assert_eq!(lines(&cut("\r\n", None), b"a\nb\r\n"), [value("a\nb")]);
    }

    #[test]
    fn keys_stand_before_the_first_key_delimiter() {
        let key = |key: &str, value: &str| (Some(key.to_string()), Some(value.to_string()));
        assert_eq!(
            lines(&cut("\n", Some(":")), b"k:v:w\n:v\nv\n"),
            [key("k", "v:w"), key("", "v"), value("v")]
        );
        let fixed = Cut { key: Some(b"f".to_vec()), ..cut("\n", Some("::")) };
        assert_eq!(lines(&fixed, b"k::v\nv:w\n"), [key("k", "v"), key("f", "v:w")]);
    }

    #[test]
    fn empty_is_null_where_asked_for() {
        let cut = Cut { empty_is_null: true, ..cut("\n", Some(":")) };
        assert_eq!(lines(&cut, b"k:\n:v\n\n"), [(Some("k".into()), None), value("v"), (None, None)]);
    }
}
