use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::core::{CORRELATION_ID_AT, CorrelationIds, Expected};
use super::driver::{Driver, LoginStep, Outgoing, Reply};
#[cfg(feature = "sasl")]
use super::login_lane::LoginLane;
use super::versions::BrokerVersions;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, Request, decode_response, encode_request};
use crate::wire::DecodeError;

/// Requests that may lie between the callers and the connection's task.
const QUEUE: usize = 256;

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Names this client in the broker's logs and quotas; never empty (KAFKA-3088).
    pub client_id: Arc<str>,
    /// The largest answer that is accepted, in bytes.
    pub frame_limit: usize,
    /// The broker at the other end, for messages.
    pub broker: Arc<str>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        ConnectionOptions { client_id: "downspout".into(), frame_limit: 100_000_000, broker: "broker".into() }
    }
}

/// What goes with one request.
#[derive(Default)]
pub struct RequestOptions {
    /// How long the answer may take; the connection is closed when it takes longer.
    pub timeout: Option<Duration>,
    /// About how many bytes were asked for: so many are set aside at once for the answer.
    pub asked: usize,
    /// Kept until the last slice of the answer's buffer is dropped: a permit of a memory budget, say.
    pub permit: Option<Box<dyn Send>>,
}

impl RequestOptions {
    /// Answered within `timeout`.
    pub fn within(timeout: Duration) -> Self {
        RequestOptions { timeout: Some(timeout), ..RequestOptions::default() }
    }
}

impl fmt::Debug for RequestOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOptions").field("timeout", &self.timeout).field("asked", &self.asked).finish()
    }
}

/// The time an answer may take unless the request says otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// One connection to a broker: requests go out in the order of the calls, answers come back in the
/// same order, and any number may be on the way (a broker works on one at a time).
///
/// A task owns the byte stream; this is a handle to it, cheap to clone. The task ends, and the
/// stream closes, when all handles are gone and nothing waits, or on the first error: a time-out,
/// a frame that cannot be, an answer out of step. All that wait get that error. Dropping the future
/// of a request leaves the connection right: its answer is read and discarded.
#[derive(Debug, Clone)]
pub struct Connection {
    requests: mpsc::Sender<Outgoing>,
    #[cfg_attr(not(feature = "sasl"), allow(dead_code))]
    logins: mpsc::Sender<LoginStep>,
    shared: Arc<Shared>,
    versions: Option<Arc<BrokerVersions>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    ids: CorrelationIds,
    pub(super) options: ConnectionOptions,
    /// Why the connection ended.
    pub(super) ended: OnceLock<Error>,
    /// Tells the task to end.
    cut: Mutex<Option<oneshot::Sender<()>>>,
}

/// A connection that this handle does not keep open.
#[derive(Debug)]
pub(super) struct WeakConnection(Weak<Shared>);

impl Connection {
    /// Takes over a byte stream. Must be called inside a tokio runtime.
    pub fn start<S>(stream: S, options: ConnectionOptions) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (logins, login_steps) = mpsc::channel(LoginStep::AT_ONCE);
        let (cut, when_cut) = oneshot::channel();
        let shared = Arc::new(Shared {
            ids: CorrelationIds::starting_at(1),
            options,
            ended: OnceLock::new(),
            cut: Mutex::new(Some(cut)),
        });
        tokio::spawn(Driver::new(stream, queue, login_steps, when_cut, Arc::clone(&shared)));
        Connection { requests, logins, shared, versions: None }
    }

    /// The same connection, with the versions that its broker speaks.
    pub(super) fn with_versions(self, versions: BrokerVersions) -> Self {
        Connection { versions: Some(Arc::new(versions)), ..self }
    }

    /// The versions that the broker speaks, if they were negotiated on this connection.
    pub fn versions(&self) -> Option<&Arc<BrokerVersions>> {
        self.versions.as_ref()
    }

    /// The broker at the other end.
    pub fn broker(&self) -> &Arc<str> {
        &self.shared.options.broker
    }

    /// Whether the connection has ended: every further request fails.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a request now, and gives a future of its answer.
    ///
    /// The request goes out whether or not the future is polled; if that is dropped, the answer is
    /// discarded.
    pub fn request<R: Request>(
        &self,
        request: &R,
        version: i16,
        options: RequestOptions,
    ) -> Result<Answer<R>> {
        let (outgoing, answer) = self.shared.prepare(request, version, options)?;
        self.hand_over(outgoing).map_err(|why| why.with_request::<R>(version))?;
        Ok(answer)
    }

    /// Sends a request that no broker answers: Produce with acks 0.
    pub fn request_without_answer<R: Request>(&self, request: &R, version: i16) -> Result<()> {
        let id = self.shared.ids.next();
        let frame = encode_request(request, version, id, &self.shared.options.client_id)
            .map_err(|why| Error::from(why).with_request::<R>(version).with_broker(self.broker()))?;
        self.hand_over(Outgoing { frame, expected: None }).map_err(|why| why.with_request::<R>(version))
    }

    /// Sends a request whose header and body are there already (without the size), and gives a
    /// future of the answer's frame: for tools and proxies. The correlation id is replaced.
    pub fn request_raw(
        &self,
        api: ApiKey,
        version: i16,
        request: &[u8],
        timeout: Duration,
    ) -> Result<RawAnswer> {
        let size = i32::try_from(request.len()).unwrap_or(-1);
        if !(10..=i32::MAX).contains(&size) {
            return Err(Error::config(format!("a request of {} bytes has no header", request.len())));
        }
        let id = self.shared.ids.next();
        let mut frame = BytesMut::with_capacity(4 + request.len());
        frame.extend_from_slice(&size.to_be_bytes());
        frame.extend_from_slice(request);
        frame[CORRELATION_ID_AT..CORRELATION_ID_AT + 4].copy_from_slice(&id.to_be_bytes());
        let (expected, answer) = self.shared.expect(Some(id), api, version, RequestOptions::within(timeout));
        self.hand_over(Outgoing { frame: frame.freeze(), expected: Some(expected) })
            .map_err(|why| why.with_api(api, version))?;
        Ok(answer)
    }

    /// The way to log in, past the requests that wait.
    #[cfg(feature = "sasl")]
    pub(super) fn login_lane(&self) -> LoginLane {
        LoginLane::new(self.logins.clone(), Arc::clone(&self.shared))
    }

    fn hand_over(&self, outgoing: Outgoing) -> Result<()> {
        self.requests.try_send(outgoing).map_err(|why| match why {
            mpsc::error::TrySendError::Full(_) => {
                Error::new(ErrorKind::TooManyInFlight(QUEUE)).with_broker(self.broker())
            }
            mpsc::error::TrySendError::Closed(_) => self.shared.error(),
        })
    }

    /// Closes the connection for all handles; whoever waits for an answer gets this error.
    pub(crate) fn close(&self, why: Error) {
        self.shared.cut(why);
    }

    pub(super) fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.shared))
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> Error {
        self.requests.closed().await;
        self.shared.error()
    }
}

impl WeakConnection {
    /// Whether nobody has the connection any more.
    pub(super) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    pub(super) fn close(&self, why: Error) {
        if let Some(shared) = self.0.upgrade() {
            shared.cut(why);
        }
    }
}

impl Shared {
    /// A request on its way, and the future of its answer.
    pub(super) fn prepare<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        options: RequestOptions,
    ) -> Result<(Outgoing, Answer<R>)> {
        let id = self.ids.next();
        let frame = encode_request(request, version, id, &self.options.client_id)
            .map_err(|why| Error::from(why).with_request::<R>(version).with_broker(&self.options.broker))?;
        let (expected, raw) = self.expect(Some(id), R::KEY, version, options);
        Ok((Outgoing { frame, expected: Some(expected) }, Answer { raw, response: PhantomData }))
    }

    /// What waits for an answer in the connection's task, and what waits for it here.
    pub(super) fn expect(
        self: &Arc<Self>,
        correlation_id: Option<i32>,
        api: ApiKey,
        version: i16,
        options: RequestOptions,
    ) -> (Expected<Reply>, RawAnswer) {
        let (sender, receiver) = oneshot::channel();
        let patience = options.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let expected = Expected {
            correlation_id,
            api,
            version,
            asked: options.asked,
            deadline: (Instant::now() + patience).into_std(),
            patience,
            reply: Reply { sender, permit: options.permit },
        };
        (expected, RawAnswer { receiver, shared: Arc::clone(self), api, version })
    }

    /// Ends the connection; whoever waits for an answer gets this error.
    pub(super) fn cut(&self, why: Error) {
        let _ = self.ended.set(why);
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(cut) = cut {
            // An error means that the task has ended already.
            let _ = cut.send(());
        }
    }

    /// Why the connection ended.
    pub(super) fn error(&self) -> Error {
        let why = self.ended.get().cloned().unwrap_or_else(|| Error::new(ErrorKind::Closed));
        why.with_broker(&self.options.broker)
    }
}

/// The future of an answer; see [`Connection::request`].
#[must_use = "without it the answer is discarded"]
pub struct Answer<R> {
    raw: RawAnswer,
    response: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answer").field(&self.raw).finish()
    }
}

impl<R> Answer<R> {
    /// The answer as it came, to be decoded by the caller.
    pub fn raw(self) -> RawAnswer {
        self.raw
    }
}

impl<R: Request> Future for Answer<R> {
    type Output = Result<R::Response>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let frame = ready!(Pin::new(&mut self.raw).poll(cx))?;
        let decoded = decode_response::<R>(&frame, self.raw.version);
        Poll::Ready(decoded.map(|(_, response)| response).map_err(|why| self.raw.explain(why)))
    }
}

/// The future of an answer's frame, without its size; see [`Connection::request_raw`].
#[derive(Debug)]
#[must_use = "without it the answer is discarded"]
pub struct RawAnswer {
    receiver: oneshot::Receiver<Result<Bytes>>,
    shared: Arc<Shared>,
    api: ApiKey,
    version: i16,
}

impl RawAnswer {
    /// A decode error of this answer, with its place.
    pub(super) fn explain(&self, why: DecodeError) -> Error {
        Error::from(why).with_api(self.api, self.version).with_broker(&self.shared.options.broker)
    }
}

impl Future for RawAnswer {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.receiver).poll(cx));
        // No answer and no error: the runtime that drove the connection is gone.
        let answer = answer.unwrap_or_else(|_| Err(self.shared.error()));
        Poll::Ready(
            answer
                .map_err(|why| why.with_api(self.api, self.version).with_broker(&self.shared.options.broker)),
        )
    }
}
