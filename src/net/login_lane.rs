//! How a login reaches the task of its connection, past the requests that wait: a broker takes everything that
//! comes within a login for a part of it (KIP-368).

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::sync::mpsc;

use super::connection::{Answer, RawAnswer, RequestOptions, Shared};
use super::driver::{LoginStep, Outgoing};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, Request};

/// The way to the connection's task. It does not keep the connection open.
#[derive(Debug)]
pub(super) struct LoginLane {
    steps: mpsc::Sender<LoginStep>,
    shared: Arc<Shared>,
}

/// A login under way. Dropped before its end, it takes the connection with it: the broker still waits for a token.
#[derive(Debug)]
pub(super) struct LoginTurn<'a> {
    lane: &'a LoginLane,
    is_over: bool,
}

impl LoginLane {
    pub(super) fn new(steps: mpsc::Sender<LoginStep>, shared: Arc<Shared>) -> Self {
        LoginLane { steps, shared }
    }

    /// Holds back everything else.
    pub(super) fn begin(&self) -> Result<LoginTurn<'_>> {
        self.tell(LoginStep::Begin)?;
        Ok(LoginTurn { lane: self, is_over: false })
    }

    /// The broker at the other end.
    pub(super) fn broker(&self) -> &Arc<str> {
        &self.shared.options.broker
    }

    /// Ends the connection.
    pub(super) fn close(&self, why: Error) {
        self.shared.cut(why);
    }

    /// Waits until the connection has ended.
    pub(super) async fn closed(&self) {
        self.steps.closed().await;
    }

    fn tell(&self, step: LoginStep) -> Result<()> {
        self.steps.try_send(step).map_err(|_| self.shared.error())
    }
}

impl LoginTurn<'_> {
    /// Sends a request of the login.
    pub(super) fn request<R: Request>(
        &self,
        request: &R,
        version: i16,
        patience: Duration,
    ) -> Result<Answer<R>> {
        let (outgoing, answer) =
            self.lane.shared.prepare(request, version, RequestOptions::within(patience))?;
        self.lane.tell(LoginStep::Say(outgoing))?;
        Ok(answer)
    }

    /// Sends a bare token: its size and itself, as after SaslHandshake 0 (KIP-43).
    pub(super) fn token(&self, token: &[u8], patience: Duration) -> Result<RawAnswer> {
        let mut frame = BytesMut::with_capacity(4 + token.len());
        frame.put_u32(token.len() as u32);
        frame.put_slice(token);
        let options = RequestOptions::within(patience);
        let (expected, answer) = self.lane.shared.expect(None, ApiKey::SASL_HANDSHAKE, 0, options);
        self.lane.tell(LoginStep::Say(Outgoing { frame: frame.freeze(), expected: Some(expected) }))?;
        Ok(answer)
    }

    /// Lets everything else go on.
    pub(super) fn end(mut self) -> Result<()> {
        self.is_over = true;
        self.lane.tell(LoginStep::End)
    }
}

impl Drop for LoginTurn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.lane.close(Error::new(ErrorKind::Closed));
        }
    }
}
