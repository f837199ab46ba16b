//! What a port is that takes connections and answers no Kafka request: asked in other protocols.
//!
//! Only ports that have just closed two connections on Kafka requests are asked. To a Kafka broker
//! all of these are frames of more than 300 MB, which it refuses by closing.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::connector::BrokerAddress;
use super::diagnosis;
use super::dialer::Dialer;
use crate::error::{Result, Speaks};
use crate::protocol::ApiKey;
use crate::wire::{DecodeError, Reader, Writer};

/// How long each question may take.
const PATIENCE: Duration = Duration::from_millis(1000);

/// A TLS 1.2 ClientHello with two common cipher suites. A server agrees or sends an alert; both show
/// what it is.
const CLIENT_HELLO: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x2f, // record: handshake, 47 bytes
    0x01, 0x00, 0x00, 0x2b, 0x03, 0x03, // ClientHello, 43 bytes, TLS 1.2
    b'd', b'o', b'w', b'n', b's', b'p', b'o', b'u', b't', b' ', b'a', b's', b'k', b's', b' ', b'w', b'h',
    b'a', b't', b' ', b't', b'h', b'i', b's', b' ', b'p', b'o', b'r', b't', b' ', b'i', b's', // random
    0x00, // no session
    0x00, 0x04, 0xc0, 0x2f, 0x00, 0x2f, // cipher suites
    0x01, 0x00, // no compression
];

/// Names what listens there.
pub(super) async fn what_is_there(dialer: &Dialer, broker: &BrokerAddress) -> Speaks {
    for question in [CLIENT_HELLO, b"srvr", b"GET / HTTP/1.0\r\n\r\n"] {
        if let Ok(Some(speaks)) = timeout(PATIENCE, ask(dialer, broker, question)).await {
            return speaks;
        }
    }
    Speaks::Nothing
}

/// Names what listens there and does not speak TLS; `None` if nothing comes of asking.
pub(super) async fn without_tls(dialer: &Dialer, broker: &BrokerAddress) -> Option<Speaks> {
    // ApiVersions 0, which 0.9 does not answer, and Metadata 0, which a listener that wants a login does not.
    let question =
        |key: u8| [&[0, 0, 0, 19, 0, key, 0, 0, 0, 0, 0, 1, 0, 9], b"downspout".as_slice()].concat();
    let metadata = [&[0, 0, 0, 23][..], &question(3)[4..], &[0; 4]].concat();
    for question in [question(18), metadata, b"GET / HTTP/1.0\r\n\r\n".to_vec()] {
        let Some(answer) = timeout(PATIENCE, first_bytes(dialer, broker, &question)).await.ok().flatten()
        else {
            continue;
        };
        // A size, and the correlation id that was asked with.
        if matches!(answer.as_slice(), [0, _, _, _, 0, 0, 0, 1, ..]) {
            return Some(Speaks::Kafka);
        }
        if let Some(speaks) = diagnosis::of_first_bytes(&answer).filter(|speaks| *speaks != Speaks::Tls) {
            return Some(speaks);
        }
    }
    None
}

async fn ask(dialer: &Dialer, broker: &BrokerAddress, question: &[u8]) -> Option<Speaks> {
    diagnosis::of_first_bytes(&first_bytes(dialer, broker, question).await?)
}

async fn first_bytes(dialer: &Dialer, broker: &BrokerAddress, question: &[u8]) -> Option<Vec<u8>> {
    let mut stream = dialer.open_stream(broker).await?;
    stream.write_all(question).await.ok()?;
    stream.flush().await.ok()?;
    let mut answer = Vec::with_capacity(64);
    while answer.len() < 16 && stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {}
    Some(answer)
}

/// The mechanisms of a listener that wants SASL; `None` if it does not.
///
/// Such a listener answers ApiVersions, and closes on anything else before authentication. Asked to
/// shake hands over a mechanism that is none, it names those it has; others answer that this is not
/// the place (error 34).
pub(super) async fn wants_sasl(dialer: &Dialer, broker: &BrokerAddress) -> Option<Vec<String>> {
    let ask = async {
        let connection = dialer.open(broker).await?;
        let mut request = Writer::new();
        request.i16(ApiKey::SASL_HANDSHAKE.0);
        request.i16(0);
        request.i32(0);
        for text in ["downspout", "NONE"] {
            request.i16(text.len() as i16);
            request.raw(text.as_bytes());
        }
        connection.request_raw(ApiKey::SASL_HANDSHAKE, 0, request.as_slice(), PATIENCE)?.await
    };
    let answer = ask.await.ok()?;
    mechanisms(&answer).ok().flatten()
}

fn mechanisms(answer: &[u8]) -> Result<Option<Vec<String>>, DecodeError> {
    const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
    let mut reader = Reader::new(answer, "correlation_id");
    reader.i32()?;
    if reader.field("error_code").i16()? != UNSUPPORTED_SASL_MECHANISM {
        return Ok(None);
    }
    let count = reader.field("mechanisms").length(false)?.unwrap_or(0);
    let mut names = Vec::new();
    for _ in 0..count {
        let length = reader.string_length(false)?.unwrap_or(0);
        names.push(reader.text(length)?.to_owned());
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_hello_has_the_sizes_it_declares() {
        let record = usize::from(u16::from_be_bytes([CLIENT_HELLO[3], CLIENT_HELLO[4]]));
        assert_eq!(record, CLIENT_HELLO.len() - 5);
        assert_eq!(usize::from(CLIENT_HELLO[8]), record - 4);
    }

    #[test]
    fn the_mechanisms_are_read_from_the_refusal_alone() {
        let refusal = b"\0\0\0\x01\0\x21\0\0\0\x02\0\x05PLAIN\0\x0dSCRAM-SHA-256";
        assert_eq!(mechanisms(refusal).unwrap(), Some(vec!["PLAIN".to_owned(), "SCRAM-SHA-256".to_owned()]));
        assert_eq!(mechanisms(b"\0\0\0\x01\0\x22\0\0\0\0").unwrap(), None);
        assert!(mechanisms(b"\0\0\0\x01\0\x21\0\0\0\x02\0\x05PL").is_err());
    }
}
