//! A session that is begun and ended, to learn what the client does not tell: that the server gives any, and for how
//! long.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Closes the session: its size, a number, and the operation −11.
const CLOSE: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5];

/// An answer is 37 bytes, or 36 from before 3.4.
const LONGEST: u32 = 1024;

/// The session timeout that a server makes of the one asked for.
///
/// # Errors
///
/// What the connection met; [`io::ErrorKind::InvalidData`] if the answer is none of ZooKeeper's.
pub(super) async fn session_timeout(stream: &mut TcpStream, asked: Duration) -> io::Result<Duration> {
    let asked = i32::try_from(asked.as_millis()).unwrap_or(i32::MAX);
    let mut request = Vec::with_capacity(49 + CLOSE.len());
    request.extend(45_i32.to_be_bytes());
    request.extend([0; 12]); // protocol version 0, nothing seen
    request.extend(asked.to_be_bytes());
    request.extend([0; 8]); // no session yet
    request.extend(16_i32.to_be_bytes());
    request.extend([0; 17]); // no password; not read-only
    request.extend(CLOSE); // at once: a server that is frozen now ends it when it goes on
    stream.write_all(&request).await?;
    let size = stream.read_u32().await?;
    if !(16..=LONGEST).contains(&size) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is none of ZooKeeper's"));
    }
    let _version = stream.read_i32().await?;
    let given = stream.read_i32().await?;
    // Read to the end, so that the connection does not break before the server has ended the session.
    while stream.read(&mut [0; 64]).await? > 0 {}
    match u64::try_from(given) {
        Ok(given) if given > 0 => Ok(Duration::from_millis(given)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it gives no session")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn asked_of(answer: &'static [u8]) -> io::Result<Duration> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let serve = tokio::spawn(async move {
            let mut request = [0; 61];
            server.read_exact(&mut request).await.unwrap();
            server.write_all(answer).await.unwrap();
            server.shutdown().await.unwrap();
            request
        });
        let timeout = session_timeout(&mut stream, Duration::from_secs(10)).await;
        drop(stream);
        let request = serve.await.unwrap();
        assert_eq!(request[..4], [0, 0, 0, 45]);
        assert_eq!(request[16..20], 10_000_i32.to_be_bytes());
        assert_eq!(request[49..], CLOSE);
        timeout
    }

    #[tokio::test]
    async fn the_timeout_that_a_server_gives_is_learnt_and_other_answers_are_refused() {
        let answer =
            b"\0\0\0\x25\0\0\0\0\0\0\x0f\xa0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x10pppppppppppppppp\0";
        assert_eq!(asked_of(answer).await.unwrap(), Duration::from_secs(4));
        for (answer, kind) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], io::ErrorKind::InvalidData),
            (b"\0\0\0\x25\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", io::ErrorKind::InvalidData),
            (b"\0\0\0\x25\0\0", io::ErrorKind::UnexpectedEof),
            (b"\0\0\0\0", io::ErrorKind::InvalidData),
            (b"", io::ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(asked_of(answer).await.unwrap_err().kind(), kind, "{answer:?}");
        }
    }
}
