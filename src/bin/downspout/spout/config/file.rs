//! The settings file: TOML, one key per setting.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Key};
use super::value::{Kind, Value, split};
use super::{Given, Source};
use crate::exit::Failure;
use crate::near;

/// Reads the file.
pub(super) fn read(file: &Path) -> Result<Given, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|why| Failure::usage(format_args!("cannot read {}: {why}", file.display())))?;
    parse(file, &text)
}

pub(super) fn parse(file: &Path, text: &str) -> Result<Given, Failure> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let at = |line: usize, what: &str| Failure::usage(format_args!("{}:{line}: {what}", file.display()));
    let table = DeTable::parse(text)
        .map_err(|why| at(line(why.span().map_or(0, |span| span.start)), why.message()))?;
    let mut given = Given::new();
    for (name, value) in table.get_ref() {
        let line = line(name.span().start);
        let name = name.get_ref().as_ref();
        let Some(key) = keys::all().find(|key| key.name == name) else {
            let hint = near::hint(name, keys::all().map(|key| key.name));
            return Err(at(line, &format!("there is no setting {name}.{hint}")));
        };
        let value =
            value_of(key, value).map_err(|expected| at(line, &format!("{name}: expected {expected}")))?;
        given.insert(key.name, (value, Source::File(file.to_owned(), line)));
    }
    Ok(given)
}

/// The value, or what was expected.
fn value_of(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Value, &'static str> {
    let value = value.get_ref();
    match key.kind {
        Kind::Switch => value.as_bool().map(|is| Value::One(is.to_string())).ok_or("true or false"),
        Kind::Number => integer(value).ok_or("a whole number"),
        Kind::Decimal => float(value).or_else(|| integer(value)).ok_or("a number"),
        Kind::Duration => string(value).ok_or("a time in quotes, as in \"2s\""),
        Kind::Choice(_) => string(value).ok_or("a text in quotes"),
        Kind::Size => string(value).or_else(|| integer(value)).ok_or("bytes, as in \"64MiB\""),
        Kind::Text => string(value).or_else(|| integer(value)).ok_or("a text in quotes"),
        Kind::Command => string(value).or_else(|| strings(value)).ok_or("a text, or a list of texts"),
        Kind::List(apart) => {
            let one = || value.as_str().map(|text| Value::Many(split(text, apart)));
            strings(value).or_else(one).ok_or("a list of texts, as in [\"a\", \"b\"]")
        }
    }
}

fn string(value: &DeValue<'_>) -> Option<Value> {
    value.as_str().map(|text| Value::One(text.to_owned()))
}

fn strings(value: &DeValue<'_>) -> Option<Value> {
    let parts = value.as_array()?.iter().map(|part| part.get_ref().as_str().map(str::to_owned));
    parts.collect::<Option<_>>().map(Value::Many)
}

fn integer(value: &DeValue<'_>) -> Option<Value> {
    let integer = value.as_integer()?;
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(Value::One(number.to_string()))
}

fn float(value: &DeValue<'_>) -> Option<Value> {
    let number: f64 = value.as_float()?.as_str().parse().ok()?;
    Some(Value::One(number.to_string()))
}
