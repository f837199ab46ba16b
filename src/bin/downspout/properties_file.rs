//! Java's properties files (`java.util.Properties`).

use std::iter::Peekable;
use std::str::Chars;

/// Names and values, in their order.
pub(crate) fn parse(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start_matches(is_blank).to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        // An odd number of backslashes at the end: it goes on in the next line.
        while line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 {
            line.pop();
            match lines.next() {
                Some(next) => line.push_str(next.trim_start_matches(is_blank)),
                None => break,
            }
        }
        pairs.push(pair(&line));
    }
    pairs
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// The name ends at the first `=`, `:` or blank; one `=` or `:` may stand between blanks behind it.
fn pair(line: &str) -> (String, String) {
    let mut characters = line.chars().peekable();
    let mut name = String::new();
    while let Some(c) = characters.next_if(|c| !is_blank(*c) && *c != '=' && *c != ':') {
        push(&mut name, c, &mut characters);
    }
    let skip_blanks =
        |characters: &mut Peekable<Chars<'_>>| while characters.next_if(|c| is_blank(*c)).is_some() {};
    skip_blanks(&mut characters);
    if characters.next_if(|c| matches!(c, '=' | ':')).is_some() {
        skip_blanks(&mut characters);
    }
    let mut value = String::new();
    while let Some(c) = characters.next() {
        push(&mut value, c, &mut characters);
    }
    (name, value)
}

/// A character, or what a backslash and those behind it stand for.
fn push(text: &mut String, c: char, rest: &mut Peekable<Chars<'_>>) {
    if c != '\\' {
        return text.push(c);
    }
    match rest.next() {
        Some('n') => text.push('\n'),
        Some('t') => text.push('\t'),
        Some('r') => text.push('\r'),
        Some('f') => text.push('\x0c'),
        Some('u') => {
            let digits: String = rest.clone().take(4).collect();
            match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                Some(c) if digits.len() == 4 => {
                    text.push(c);
                    rest.nth(3);
                }
                _ => text.push('u'),
            }
        }
        Some(other) => text.push(other),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_java_reads_it() {
        let text = "# a comment\n! another\n\n a=1\nb : 2\r\nc 3\nd=\\\n   4\\\n5\ne=a\\=b\\\\\nf\\ g=h i \n\
                    j=\\u00e4\\tx\nk\nl=\nm==\nn:=o\np=q#r\ns=t\\\\\nu=v\\";
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", "45"),
            ("e", "a=b\\"),
            ("f g", "h i "),
            ("j", "ä\tx"),
            ("k", ""),
            ("l", ""),
            ("m", "="),
            ("n", "=o"),
            ("p", "q#r"),
            ("s", "t\\"),
            ("u", "v"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(parse(text), expected);
    }
}
