//! A little HTTP/1.1: GET and HEAD, one request a connection, everything bounded in bytes and time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

impl Answer {
    pub(super) fn text(status: Status, body: impl Into<String>) -> Self {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Gives the answer for a path.
pub(super) type Answers = dyn Fn(&str) -> Answer + Send + Sync;

/// Connections at a time; those beyond wait to be accepted.
const CONNECTIONS: usize = 32;
/// Bytes of a request.
const LONGEST: usize = 8 << 10;
/// Time for the request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, answers: Arc<Answers>) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropped with this: no connection outlives it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answers = Arc::clone(&answers);
                connections.spawn(async move {
                    talk(stream, &*answers).await;
                    drop(permit);
                });
            }
            // Out of sockets: it passes.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn talk<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, answers: &Answers) {
    let Ok(Some(head)) = timeout(PATIENCE, head(&mut stream)).await else { return };
    let (answer, with_body) = answer(&head, answers);
    let Answer { status, kind, body } = &answer;
    let mut text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n",
        status.line(),
        body.len()
    );
    if *status == Status::MethodNotAllowed {
        text.push_str("Allow: GET, HEAD\r\n");
    }
    text.push_str("\r\n");
    if with_body {
        text.push_str(body);
    }
    // Whoever does not take the answer does without it.
    let _ = timeout(PATIENCE, async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// What stands before the empty line; `None` if it does not come. All that was read if it is too long.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(1 << 10);
    loop {
        if ends(&head) || head.len() > LONGEST {
            return Some(head);
        }
        let read = stream.take(LONGEST as u64).read_buf(&mut head).await.ok()?;
        if read == 0 {
            return None;
        }
    }
}

fn ends(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n") || head.windows(2).any(|two| two == b"\n\n")
}

/// The answer, and whether its body is wanted.
fn answer(head: &[u8], answers: &Answers) -> (Answer, bool) {
    let wrong = |status, why: &str| (Answer::text(status, format!("{why}\n")), true);
    if !ends(head) {
        return wrong(Status::TooLarge, "the request is too long");
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return wrong(Status::BadRequest, "this is no HTTP request");
    };
    if !version.starts_with("HTTP/1.") {
        return wrong(Status::BadRequest, "this is no HTTP/1 request");
    }
    if !matches!(method, "GET" | "HEAD") {
        return wrong(Status::MethodNotAllowed, "there is nothing here to change: GET and HEAD only");
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    (answers(path), method == "GET")
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn asked(request: &[u8]) -> String {
        let (mut ours, theirs) = duplex(64 << 10);
        let answers: Arc<Answers> = Arc::new(|path: &str| match path {
            "/there" => Answer::text(Status::Ok, "yes\n"),
            _ => Answer::text(Status::NotFound, "no\n"),
        });
        let talk = tokio::spawn(async move { talk(theirs, &*answers).await });
        let mut answer = String::new();
        // It may hang up before all was written.
        let _ = ours.write_all(request).await;
        ours.read_to_string(&mut answer).await.unwrap();
        talk.await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_is_answered_once_and_the_connection_closed() {
        let answer = asked(b"GET /there?x=1 HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nyes\n"), "{answer}");
        let answer = asked(b"HEAD /there HTTP/1.0\n\n").await;
        assert!(answer.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\n"), "{answer}");
        assert!(asked(b"GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_request_is_refused() {
        for (request, status) in [
            (&b"POST /there HTTP/1.1\r\n\r\n"[..], "405 "),
            (b"GET /there\r\n\r\n", "400 "),
            (b"GET  /there HTTP/1.1\r\n\r\n", "400 "),
            (b"GET /there HTTP/2\r\n\r\n", "400 "),
            (b"\xff\xfe\x00\r\n\r\n", "400 "),
            (b"\n\n", "400 "),
            (&[b'x'; 100_000], "431 "),
        ] {
            let answer = asked(request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_slowly_or_never_is_hung_up_on() {
        let begun = tokio::time::Instant::now();
        assert_eq!(asked(b"GET /there HTTP/1.1\r\nX: ").await, "");
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    #[tokio::test]
    async fn so_many_connections_that_say_nothing_keep_nobody_out_for_long() {
        tokio::time::pause();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(|_| Answer::text(Status::Ok, "yes\n"))));
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
        }
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("yes\n"), "{answer}");
        server.abort();
    }
}
