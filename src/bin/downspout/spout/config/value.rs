//! Values as they are written in flags, variables and the file, and how they are read.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use crate::properties;

/// What was given for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    One(String),
    Many(Vec<String>),
}

/// How values of a key are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Several texts; in a single one they stand apart by this character.
    List(char),
    /// A whole number from 0 on.
    Number,
    /// A number with a fraction.
    Decimal,
    Switch,
    /// `500ms`, `2s`, `5m`, `1h`.
    Duration,
    /// `4096`, `64KiB`, `16MiB`, `1GiB`.
    Size,
    Choice(&'static [&'static str]),
    /// A text for the shell, or a program and its arguments.
    Command,
}

impl Value {
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Value::One(text) => Ok(text),
            Value::Many(_) => Err("expected one value, not several".into()),
        }
    }

    pub(super) fn filled(&self) -> Result<&str, String> {
        Some(self.text()?).filter(|text| !text.is_empty()).ok_or_else(|| "it must not be empty".into())
    }

    /// The parts of a list.
    pub(super) fn parts(&self) -> Vec<&str> {
        match self {
            Value::One(text) => vec![text],
            Value::Many(parts) => parts.iter().map(String::as_str).collect(),
        }
    }

    pub(super) fn number<T: FromStr>(&self) -> Result<T, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("expected a whole number from 0 on; it is {text:?}"))
    }

    /// A number that is not 0.
    pub(super) fn count<T: FromStr + Default + PartialEq>(&self) -> Result<T, String> {
        let number = self.number()?;
        if number == T::default() { Err("expected a whole number from 1 on".into()) } else { Ok(number) }
    }

    pub(super) fn decimal(&self) -> Result<f64, String> {
        let text = self.text()?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("expected a number, as in 0.5; it is {text:?}"))
    }

    pub(super) fn switch(&self) -> Result<bool, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("expected true or false; it is {text:?}"))
    }

    pub(super) fn duration(&self) -> Result<Duration, String> {
        let text = self.text()?;
        duration(text).ok_or_else(|| {
            format!("expected a time with its unit, as in 500ms, 2s, 5m or 1h; it is {text:?}")
        })
    }

    pub(super) fn size(&self) -> Result<usize, String> {
        let text = self.text()?;
        let short = text.strip_suffix("iB").filter(|rest| rest.ends_with(['K', 'M', 'G'])).unwrap_or(text);
        properties::bytes(short).map_err(|_| {
            format!("expected a number of bytes, as in 65536, 512KiB, 64MiB or 1GiB; it is {text:?}")
        })
    }

    /// A size that requests have room for.
    pub(super) fn small_size(&self) -> Result<i32, String> {
        i32::try_from(self.size()?).map_err(|_| "it must be below 2GiB".into())
    }

    /// One of these; `-` and `_` are the same.
    pub(super) fn choice(&self, names: &'static [&'static str]) -> Result<&'static str, String> {
        let text = self.text()?;
        let plain = text.replace('-', "_");
        let found = names.iter().find(|name| **name == plain);
        found.copied().ok_or_else(|| format!("expected {}; it is {text:?}", or(names)))
    }

    /// As TOML has it.
    pub(super) fn to_toml(&self, kind: Kind) -> String {
        match (self, kind) {
            (Value::One(text), Kind::Number | Kind::Decimal | Kind::Switch) => text.clone(),
            (Value::One(text), Kind::Choice(_)) => quoted(&text.replace('-', "_")),
            (Value::One(text), _) => quoted(text),
            (Value::Many(parts), _) => {
                let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
                format!("[{}]", parts.join(", "))
            }
        }
    }
}

impl Kind {
    /// What a flag or a variable says, as a value.
    pub(super) fn read(self, text: &str) -> Value {
        match self {
            Kind::List(apart) => Value::Many(split(text, apart)),
            _ => Value::One(text.to_owned()),
        }
    }

    /// What stands for the value in the help.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Kind::Text => "TEXT",
            Kind::List(_) => "LIST",
            Kind::Number => "N",
            Kind::Decimal => "NUMBER",
            Kind::Switch => "BOOL",
            Kind::Duration => "TIME",
            Kind::Size => "BYTES",
            Kind::Choice(_) => "CHOICE",
            Kind::Command => "COMMAND",
        }
    }
}

/// `a, b or c`.
pub(super) fn or(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

pub(super) fn split(text: &str, apart: char) -> Vec<String> {
    text.split(apart).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // A year is long enough, and far from what overflows a clock.
    number.checked_mul(ms).filter(|ms| *ms <= 366 * 24 * 3_600_000).map(Duration::from_millis)
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // Writing to a string cannot fail.
            letter if letter.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Value {
        Value::One(text.into())
    }

    #[test]
    fn times_have_a_unit() {
        for (text, ms) in
            [("0", 0), ("0s", 0), ("500ms", 500), ("2s", 2_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(one(text).duration(), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "2",
            "s",
            "-1s",
            "1.5s",
            "2 s",
            "2sec",
            "99999999999999999999s",
            "18446744073709551615h",
            "367h0",
        ] {
            assert!(one(text).duration().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_counted_in_powers_of_1024() {
        for (text, bytes) in
            [("1", 1), ("64KiB", 64 << 10), ("64K", 64 << 10), ("64MiB", 64 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(one(text).size(), Ok(bytes), "{text}");
        }
        for text in ["", "0", "iB", "1iB", "64MB", "-1", "1.5MiB", "ä"] {
            assert!(one(text).size().is_err(), "{text}");
        }
        assert!(one("2GiB").small_size().is_err());
    }

    #[test]
    fn text_is_quoted_so_that_toml_reads_the_same() {
        for text in ["", "plain", "quote \" and \\", "\0\u{1f}\u{7f}\u{85}\n\r\t", "größer 日本 🦀"] {
            let file = format!("x = {}", quoted(text));
            let table = toml::de::DeTable::parse(&file).unwrap();
            assert_eq!(table.get_ref()["x"].get_ref().as_str(), Some(text));
        }
    }
}
