//! `-f`: text with tokens, as kcat has them.

use std::io::Write;

use super::Shown;
use crate::escape::unescape;
use crate::output::Output;

/// A parsed template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    /// What stands for null; otherwise nothing does.
    null: &'static [u8],
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Value,
    ValueLength,
    ValueLengthBinary,
    Key,
    KeyLength,
    Topic,
    Partition,
    Offset,
    Timestamp,
    Headers,
}

impl Template {
    /// Reads a template.
    pub(crate) fn parse(format: &str, null: bool) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut left = format;
        while let Some((text, rest)) = left.split_once('%') {
            let mut chars = rest.chars();
            push_text(&mut parts, unescape(text)?);
            match chars.next() {
                Some('s') => parts.push(Part::Value),
                Some('S') => parts.push(Part::ValueLength),
                Some('R') => parts.push(Part::ValueLengthBinary),
                Some('k') => parts.push(Part::Key),
                Some('K') => parts.push(Part::KeyLength),
                Some('t') => parts.push(Part::Topic),
                Some('p') => parts.push(Part::Partition),
                Some('o') => parts.push(Part::Offset),
                Some('T') => parts.push(Part::Timestamp),
                Some('h') => parts.push(Part::Headers),
                Some('%') => push_text(&mut parts, b"%".to_vec()),
                Some(other) => return Err(format!("there is no token %{other}; a percent sign is %%")),
                None => return Err("a lone % at the end; a percent sign is %%".into()),
            }
            left = chars.as_str();
        }
        push_text(&mut parts, unescape(left)?);
        Ok(Template { parts, null: if null { b"NULL" } else { b"" } })
    }

    /// The key, if asked for, the value, and what follows each.
    pub(crate) fn lines(delimiter: Vec<u8>, key_delimiter: Option<Vec<u8>>, null: bool) -> Template {
        let mut parts = Vec::new();
        if let Some(between) = key_delimiter {
            parts.push(Part::Key);
            push_text(&mut parts, between);
        }
        parts.push(Part::Value);
        push_text(&mut parts, delimiter);
        Template { parts, null: if null { b"NULL" } else { b"" } }
    }

    pub(super) fn show<W: Write>(&self, output: &mut Output<W>, shown: Shown<'_>) {
        let Shown { topic, partition, offset, content, .. } = shown;
        let length = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        for part in &self.parts {
            match part {
                Part::Text(text) => output.raw(text),
                Part::Value => output.raw(content.value.unwrap_or(self.null)),
                Part::ValueLength => output.integer(length(content.value)),
                Part::ValueLengthBinary => output.raw(&(length(content.value) as i32).to_be_bytes()),
                Part::Key => output.raw(content.key.unwrap_or(self.null)),
                Part::KeyLength => output.integer(length(content.key)),
                Part::Topic => output.raw(topic.as_bytes()),
                Part::Partition => output.integer(partition.into()),
                Part::Offset => output.integer(offset),
                Part::Timestamp => output.integer(content.timestamp.unwrap_or(-1)),
                Part::Headers => {
                    for (i, header) in content.headers.enumerate() {
                        output.raw(if i > 0 { b"," } else { b"" });
                        output.raw(header.key);
                        output.raw(b"=");
                        output.raw(header.value.unwrap_or(b"NULL"));
                    }
                }
            }
        }
    }
}

fn push_text(parts: &mut Vec<Part>, text: Vec<u8>) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.extend(text),
        _ => parts.push(Part::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_escapes() {
        let template = Template::parse("%t [%p] at %o: 100%%\\n%k\\x3a%s", false).unwrap();
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(
            template.parts,
            [
                Part::Topic,
                text(" ["),
                Part::Partition,
                text("] at "),
                Part::Offset,
                text(": 100%\n"),
                Part::Key,
                text(":"),
                Part::Value
            ]
        );
    }

    #[test]
    fn unknown_tokens_are_refused() {
        assert_eq!(Template::parse("%z", false).unwrap_err(), "there is no token %z; a percent sign is %%");
        assert!(Template::parse("100%", false).is_err());
    }
}
