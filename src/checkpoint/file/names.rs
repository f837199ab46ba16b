//! Names of topics and ids as names of directories, and of partitions as names of files.

use std::fmt::Write as _;

/// A name that is safe as that of a directory: what is no letter, digit, `.`, `_` or `-` of ASCII
/// becomes `%XX`, and so does the first character where a name would look like one of ours.
///
/// Kafka allows nothing else in a topic's name; a broker that names another one leads nowhere.
pub(super) fn escape(name: &str) -> String {
    let is_ours = name.starts_with('.') || partition_of(name).is_some();
    let mut escaped = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        if (byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) && !(at == 0 && is_ours) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    if escaped.is_empty() { "%".to_owned() } else { escaped }
}

/// The name that was escaped like this, if any was.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' if escaped.len() > 1 => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                bytes.push((digit()? * 16 + digit()?) as u8);
            }
            b'%' => {}
            _ => bytes.push(byte),
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (escape(&name) == escaped).then_some(name)
}

/// The file of a partition.
pub(super) fn file(partition: i32) -> String {
    format!("partition_{partition}")
}

/// The partition of a file.
pub(super) fn partition_of(file: &str) -> Option<i32> {
    let number = file.strip_prefix("partition_")?.parse().ok()?;
    (self::file(number) == file).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_kafka_allows_stay_as_they_are_unless_they_look_like_ours() {
        for (name, escaped) in [
            ("clicks", "clicks"),
            ("A.b_c-9", "A.b_c-9"),
            ("partition_x", "partition_x"),
            ("partition_007", "partition_007"),
            ("partition_0", "%70artition_0"),
            ("partition_-1", "%70artition_-1"),
            (".lock", "%2Elock"),
            (".", "%2E"),
            ("..", "%2E."),
            ("../../etc", "%2E.%2F..%2Fetc"),
            ("a/b\\c:d%e f\0", "a%2Fb%5Cc%3Ad%25e%20f%00"),
            ("é", "%C3%A9"),
            ("", "%"),
        ] {
            assert_eq!(escape(name), escaped, "{name}");
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_directory_that_is_not_ours_is_no_topic() {
        for name in ["%zz", "%2", "%61", "%C3", "%2e", ".lock", "partition_0", "a b", "%%"] {
            assert_eq!(unescape(name), None, "{name}");
        }
        for (file, partition) in [
            ("partition_7", Some(7)),
            ("partition_07", None),
            ("partition_", None),
            ("partition_99999999999", None),
        ] {
            assert_eq!(partition_of(file), partition, "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_name_comes_back_and_leads_nowhere_else(name in ".{0,20}") {
            let escaped = escape(&name);
            let is_safe = !escaped.contains(['/', '\\', '\0']) && !escaped.starts_with('.') && !escaped.is_empty();
            prop_assert!(is_safe, "{}", escaped);
            prop_assert_eq!(unescape(&escaped), Some(name));
        }
    }
}
