use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::Shared;
use super::core::{Core, Expected};
use crate::error::{Error, ErrorKind, Result};

/// Where an answer goes.
pub(super) struct Reply {
    pub(super) sender: oneshot::Sender<Result<Bytes>>,
    /// Kept as long as any slice of the answer.
    pub(super) permit: Option<Box<dyn Send>>,
}

/// A request on its way to the stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: Bytes,
    /// `None` if no answer comes.
    pub(super) expected: Option<Expected<Reply>>,
}

/// What a login wants of the task; without one nobody wants any of it.
#[derive(Debug)]
#[cfg_attr(not(feature = "sasl"), allow(dead_code))]
pub(super) enum LoginStep {
    /// Send nothing else from here on. What was sent before is answered before the login begins.
    Begin,
    /// Send this.
    Say(Outgoing),
    /// Go on.
    End,
}

impl LoginStep {
    /// A login waits for the answer to each step.
    pub(super) const AT_ONCE: usize = 4;
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// A frame, and what is kept until its last slice is dropped.
struct Permitted {
    frame: Bytes,
    _permit: Box<dyn Send>,
}

impl AsRef<[u8]> for Permitted {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

/// The task of one connection: moves bytes between the stream and the [`Core`].
pub(super) struct Driver<S> {
    stream: S,
    core: Core<Reply>,
    queue: mpsc::Receiver<Outgoing>,
    login: mpsc::Receiver<LoginStep>,
    /// Nothing but the login is sent.
    logging_in: bool,
    /// Frames to write; the front one may be written in part.
    out: VecDeque<Bytes>,
    unflushed: bool,
    /// All handles are gone.
    abandoned: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// Somebody closes the connection.
    when_cut: oneshot::Receiver<()>,
    shared: Arc<Shared>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    pub(super) fn new(
        stream: S,
        queue: mpsc::Receiver<Outgoing>,
        login: mpsc::Receiver<LoginStep>,
        when_cut: oneshot::Receiver<()>,
        shared: Arc<Shared>,
    ) -> Self {
        Driver {
            stream,
            core: Core::new(shared.options.frame_limit),
            queue,
            login,
            logging_in: false,
            out: VecDeque::new(),
            unflushed: false,
            abandoned: false,
            timer: None,
            when_cut,
            shared,
        }
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if Pin::new(&mut self.when_cut).poll(cx).is_ready() {
            return Poll::Ready(Err(self.shared.error()));
        }
        let muted = self.core.muted_until(Instant::now().into_std());
        if muted.is_none() {
            self.take_requests(cx);
        }
        // Reading comes after writing: with the answer to a request, the next is often there.
        self.write(cx)?;
        self.read(cx)?;
        if self.abandoned && self.out.is_empty() && !self.anyone_waits(cx) {
            return Poll::Ready(Ok(()));
        }
        self.watch_the_time(cx)
    }

    /// Takes what callers have handed over.
    fn take_requests(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(step)) = self.login.poll_recv(cx) {
            match step {
                LoginStep::Begin => self.logging_in = true,
                LoginStep::Say(outgoing) => self.take(outgoing),
                LoginStep::End => self.logging_in = false,
            }
        }
        while !self.abandoned && !self.logging_in {
            match self.queue.poll_recv(cx) {
                Poll::Ready(Some(outgoing)) => self.take(outgoing),
                Poll::Ready(None) => self.abandoned = true,
                Poll::Pending => return,
            }
        }
    }

    /// A request whose caller is gone already is not sent.
    fn take(&mut self, Outgoing { frame, expected }: Outgoing) {
        match expected {
            Some(expected) if expected.reply.sender.is_closed() => return,
            Some(expected) => self.core.sent(expected),
            None => {}
        }
        self.out.push_back(frame);
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while let Some(frame) = self.out.front_mut() {
            match Pin::new(&mut self.stream).poll_write(cx, frame) {
                Poll::Ready(Ok(0)) => return Err(broken(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    frame.advance(written);
                    if frame.is_empty() {
                        self.out.pop_front();
                    }
                    self.unflushed = true;
                }
                // A peer that has closed may have said why: what it sent is read first.
                Poll::Ready(Err(why)) => {
                    self.read(cx)?;
                    return Err(broken(why));
                }
                Poll::Pending => return Ok(()),
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(why)) => return Err(broken(why)),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            // `read_buf` keeps nothing between polls, and is all that can fill a buffer that was
            // not zeroed first without unsafe code.
            let mut space = self.core.space();
            let read = pin!(self.stream.read_buf(&mut space)).poll(cx);
            match read {
                Poll::Ready(Ok(0)) => return Err(Error::new(ErrorKind::Closed)),
                Poll::Ready(Ok(_)) => self.deliver()?,
                Poll::Ready(Err(why)) if why.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(why)) => return Err(broken(why)),
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn deliver(&mut self) -> Result<()> {
        let now = Instant::now().into_std();
        while let Some((request, frame)) = self.core.next_answer(now)? {
            let Reply { sender, permit } = request.reply;
            let frame = match permit {
                Some(permit) => Bytes::from_owner(Permitted { frame, _permit: permit }),
                None => frame,
            };
            // An error means that the caller is gone: the answer is discarded.
            let _ = sender.send(Ok(frame));
        }
        Ok(())
    }

    /// Whether anyone still wants an answer that is due. Being told when the last one stops wanting
    /// it, the task need not wait for an answer to nobody.
    fn anyone_waits(&mut self, cx: &mut Context<'_>) -> bool {
        let mut waits = false;
        for request in self.core.waiting_mut() {
            waits |= request.reply.sender.poll_closed(cx).is_pending();
        }
        waits
    }

    fn watch_the_time(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let now = Instant::now().into_std();
            if let Some(late) = self.core.expired(now) {
                return Poll::Ready(Err(late));
            }
            let muted = self.core.muted_until(now);
            let Some(next) = self.core.next_deadline().into_iter().chain(muted).min() else {
                self.timer = None;
                return Poll::Pending;
            };
            let next = Instant::from_std(next);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if muted.is_some_and(|until| until <= Instant::now().into_std()) {
                // Time to send again.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let why = match this.poll_once(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => return Poll::Ready(()),
            Poll::Ready(Err(why)) => why,
        };
        tracing::debug!(broker = %this.shared.options.broker, error = %why, "connection ended");
        let why = this.shared.ended.get_or_init(|| why).clone();
        this.queue.close();
        this.login.close();
        let core = std::mem::replace(&mut this.core, Core::new(0));
        for request in core.into_waiting() {
            let _ = request.reply.sender.send(Err(why.clone()));
        }
        while let Poll::Ready(Some(step)) = this.login.poll_recv(cx) {
            if let LoginStep::Say(Outgoing { expected: Some(request), .. }) = step {
                let _ = request.reply.sender.send(Err(why.clone()));
            }
        }
        while let Poll::Ready(Some(outgoing)) = this.queue.poll_recv(cx) {
            if let Some(request) = outgoing.expected {
                let _ = request.reply.sender.send(Err(why.clone()));
            }
        }
        Poll::Ready(())
    }
}

fn broken(why: io::Error) -> Error {
    // With TLS 1.3 a broker says after the handshake what it has against the client.
    #[cfg(feature = "tls")]
    if let Some(trouble) = super::tls::trouble_of(&why) {
        return Error::new(ErrorKind::Tls(trouble));
    }
    match why.kind() {
        // How a close arrives when something was still on its way to the peer.
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            Error::new(ErrorKind::Closed)
        }
        // TLS without its good-bye: the broker was killed.
        io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Closed),
        _ => Error::new(ErrorKind::Io(why.into())),
    }
}
