//! `--print-config`, and the table in the documentation.

use super::Given;
use super::keys::{Key, SECTIONS};
use super::value::Value;
use crate::security::values;

/// The settings in force as a file that can be read again, with where each value comes from.
pub(super) fn effective(given: &Given) -> String {
    let mut text = String::new();
    for (heading, section) in SECTIONS {
        text.push_str(&format!("# {heading}\n"));
        for key in *section {
            text.push_str(&line(key, given));
        }
        text.push('\n');
    }
    text.pop();
    text
}

fn line(key: &Key, given: &Given) -> String {
    let name = key.name;
    if let Some((value, source)) = given.get(name) {
        let value = shown(name, value);
        return format!("{name} = {}  # {}\n", value.to_toml(key.kind), plain(&source.to_string()));
    }
    match key.default {
        Some(default) => format!("{name} = {}  # default\n", key.kind.read(default).to_toml(key.kind)),
        None => format!("# {name} is not set\n"),
    }
}

/// Without secrets, which must be put back before the text is used as a file.
fn shown(name: &str, value: &Value) -> Value {
    match value {
        value if name != "properties" => value.clone(),
        Value::One(text) => Value::One(values::shown(text)),
        Value::Many(parts) => Value::Many(parts.iter().map(|part| values::shown(part)).collect()),
    }
}

/// A file's name may hold anything, even the end of a comment.
fn plain(text: &str) -> String {
    text.replace(|letter: char| letter.is_control(), "?")
}

/// The table of all settings, in Markdown.
#[cfg(test)]
pub(super) fn table() -> String {
    let mut text = String::new();
    for (heading, section) in SECTIONS {
        text.push_str(&format!("## {heading}\n\n| key | flag | default | |\n|---|---|---|---|\n"));
        for key in *section {
            let default = key.default.map_or_else(String::new, |default| format!("`{default}`"));
            let short = key.short.map_or_else(String::new, |short| format!("`-{short}`, "));
            let mut help = key.help.to_owned();
            if let super::value::Kind::Choice(names) = key.kind {
                help.push_str(&format!(" ({})", super::value::or(names)));
            }
            text.push_str(&format!("| `{}` | {short}`--{}` | {default} | {help} |\n", key.name, key.flag()));
        }
        text.push('\n');
    }
    text.pop();
    text
}
