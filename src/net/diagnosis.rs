//! What a port speaks, judged by the first bytes that came from it.

use crate::error::Speaks;

/// Names the protocol of a peer whose first bytes are no Kafka frame; `None` if they may be one, or
/// if too few have come.
///
/// Read as sizes, all of these are above 300 MB, which no first answer is (KAFKA-4090).
pub(super) fn of_first_bytes(bytes: &[u8]) -> Option<Speaks> {
    match bytes {
        // TLS records: alert and handshake, versions SSL 3.0 to TLS 1.3.
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => Some(Speaks::Tls),
        // ZooKeeper's answers to the four-letter words.
        [b'Z', b'o', b'o', b'k', ..] | [b'i', b'm', b'o', b'k', ..] | [b's', b'r', b'v', b'r', ..] => {
            Some(Speaks::ZooKeeper)
        }
        [b'T', b'h', b'i', b's', ..] if bytes.starts_with(b"This ZooKeeper") => Some(Speaks::ZooKeeper),
        [b'H', b'T', b'T', b'P', ..] | [b'<', b'h' | b'H' | b'!', ..] if bytes.len() >= 4 => {
            Some(Speaks::Http)
        }
        [b'S', b'S', b'H', b'-', ..] => Some(Speaks::Ssh),
        [a, b, c, d, ..] if [a, b, c, d].iter().all(|byte| is_text(**byte)) => {
            let end = bytes.iter().position(|byte| !is_text(*byte)).unwrap_or(bytes.len()).min(60);
            Some(Speaks::Text(String::from_utf8_lossy(&bytes[..end]).into_owned()))
        }
        _ => None,
    }
}

fn is_text(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_15_first_bytes_name_the_protocol() {
        let table: &[(&[u8], Option<Speaks>)] = &[
            (&[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x50], Some(Speaks::Tls)),
            (&[0x15, 0x03, 0x01], Some(Speaks::Tls)),
            (&[0x16, 0x03, 0x03, 0x00, 0x7a, 0x02], Some(Speaks::Tls)),
            (b"HTTP/1.1 400 Bad Request\r\n", Some(Speaks::Http)),
            (b"<html><body>", Some(Speaks::Http)),
            (b"<!DOCTYPE", Some(Speaks::Http)),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Some(Speaks::Ssh)),
            (b"Zookeeper version: 3.5.10-", Some(Speaks::ZooKeeper)),
            (b"srvr is not executed because it is not in the whitelist.", Some(Speaks::ZooKeeper)),
            (b"This ZooKeeper instance is not currently serving requests", Some(Speaks::ZooKeeper)),
            (b"-ERR unknown command\r\n", Some(Speaks::Text("-ERR unknown command".into()))),
            (b"AMQP\x00\x00\x09\x01", Some(Speaks::Text("AMQP".into()))),
            // Kafka: sizes, and too little to say.
            (&[0, 0, 0, 10, 0, 0, 0, 1], None),
            (&[0x05, 0xf5, 0xe1, 0x00, 0, 0], None),
            (b"", None),
            (b"H", None),
            (b"HTT", None),
            (&[0x15, 0x03], None),
        ];
        for (bytes, speaks) in table {
            assert_eq!(of_first_bytes(bytes), *speaks, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
