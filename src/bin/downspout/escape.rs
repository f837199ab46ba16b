//! Escapes in delimiters and formats: `\n`, `\t`, `\0`, `\x1f`, `\\`.

/// Undoes the escapes of `text`. A backslash before anything else stands for that character.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let [first, rest @ ..] = left {
        left = rest;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let [escape, rest @ ..] = left else {
            return Err(format!("{text:?} ends with a lone backslash"));
        };
        left = rest;
        let (radix, most) = match escape {
            b'n' => {
                bytes.push(b'\n');
                continue;
            }
            b'r' => {
                bytes.push(b'\r');
                continue;
            }
            b't' => {
                bytes.push(b'\t');
                continue;
            }
            b'x' => (16, 2),
            b'0'..=b'7' => {
                left = &text.as_bytes()[text.len() - left.len() - 1..];
                (8, 3)
            }
            other => {
                bytes.push(*other);
                continue;
            }
        };
        let mut value = 0u32;
        let mut digits = 0;
        while let Some(digit) = left.first().and_then(|byte| char::from(*byte).to_digit(radix)) {
            if digits == most {
                break;
            }
            value = value * radix + digit;
            digits += 1;
            left = &left[1..];
        }
        if digits == 0 {
            return Err(format!("{text:?}: \\x must be followed by hex digits"));
        }
        bytes.push(u8::try_from(value).map_err(|_| format!("{text:?}: \\{value:o} is more than a byte"))?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn the_escapes_that_kcat_users_type() {
        let table: &[(&str, &[u8])] = &[
            ("", b""),
            (",", b","),
            ("\\n", b"\n"),
            ("a\\tb\\r", b"a\tb\r"),
            ("\\0", b"\0"),
            ("\\012", b"\n"),
            ("\\x1f|", b"\x1f|"),
            ("\\xFFf", b"\xfff"),
            ("\\\\", b"\\"),
            ("ä", "ä".as_bytes()),
        ];
        for (text, bytes) in table {
            assert_eq!(unescape(text).as_deref(), Ok(*bytes), "{text}");
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["\\", "\\x", "\\xg", "\\777"] {
            assert!(unescape(text).is_err(), "{text}");
        }
    }
}
