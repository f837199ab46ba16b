//! The core behind a lock and a clock, serving byte streams.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::core::{ConnectionId, Core, Reaction};
use super::endless::{Endless, Endlessly};

/// A request larger than this closes its connection (`socket.request.max.bytes`).
const REQUEST_LIMIT: usize = 104_857_600;

/// The cluster, shared by everything that serves it or changes it.
#[derive(Debug)]
pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    clock: Clock,
    /// Topics without an end, which the core knows by name only.
    endless: BTreeMap<String, Endless>,
}

#[derive(Debug)]
struct Cluster {
    core: Core,
    /// By connection, so that they are woken in the same order in every run: tokio's own channels
    /// for many receivers wake them in a random one.
    wakers: BTreeMap<ConnectionId, Arc<Notify>>,
}

/// Which clock the cluster's time is read from.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The machine's.
    Real(Instant),
    /// That of the runtime, which a test may have paused.
    Runtime(tokio::time::Instant),
}

impl Clock {
    fn elapsed(&self) -> Duration {
        match self {
            Clock::Real(start) => start.elapsed(),
            Clock::Runtime(start) => start.elapsed(),
        }
    }
}

impl Shared {
    pub(crate) fn new(core: Core, clock: Clock, endless: BTreeMap<String, Endless>) -> Arc<Self> {
        Arc::new(Shared { cluster: Mutex::new(Cluster { core, wakers: BTreeMap::new() }), clock, endless })
    }

    /// Works on the core, and wakes the requests that wait for a change if there was one.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        self.with_cluster(|cluster| work(&mut cluster.core))
    }

    fn with_cluster<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        // A panic of a test's closure leaves the core as usable as any request does.
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.core.advance(self.clock.elapsed());
        let before = cluster.core.changes();
        let result = work(&mut cluster);
        let Cluster { core, wakers } = &*cluster;
        if core.changes() != before {
            wakers.iter().filter(|(id, _)| core.is_waiting(**id)).for_each(|(_, waker)| waker.notify_one());
        }
        result
    }

    /// Serves one connection to a broker until either side closes it.
    pub(crate) async fn serve(self: Arc<Self>, node: i32, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let changed = Arc::new(Notify::new());
        let connected = self.with_cluster(|cluster| {
            let id = cluster.core.connect(node)?;
            cluster.wakers.insert(id, changed.clone());
            Some(id)
        });
        let Some(id) = connected else { return };
        let endlessly = Endlessly::default();
        let mut connection =
            Connection { shared: self, changed, id, stream, buffer: BytesMut::new(), endlessly };
        if let Err(error) = connection.run().await {
            tracing::debug!(node, %error, "connection of the embedded broker ended");
        }
    }
}

struct Connection<S> {
    shared: Arc<Shared>,
    changed: Arc<Notify>,
    id: ConnectionId,
    stream: S,
    buffer: BytesMut,
    endlessly: Endlessly,
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.shared.with_cluster(|cluster| {
            cluster.core.disconnect(self.id);
            cluster.wakers.remove(&self.id);
        });
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        while let Some(frame) = self.frame().await? {
            if !self.shared.endless.is_empty() {
                let names = || self.shared.with(|core| core.topic_names());
                if let Some(answer) = self.endlessly.answer(&self.shared.endless, names, &frame) {
                    self.stream.write_all(answer).await?;
                    self.stream.flush().await?;
                    continue;
                }
            }
            let mut reaction = self.shared.with(|core| core.request(self.id, frame));
            loop {
                match reaction {
                    Reaction::Answer(answer) => {
                        self.stream.write_all(&answer).await?;
                        self.stream.flush().await?;
                        break;
                    }
                    Reaction::Nothing => break,
                    Reaction::Close(last_words) => {
                        self.stream.write_all(&last_words).await?;
                        return self.stream.shutdown().await;
                    }
                    Reaction::Wait { until } => {
                        let wait = until.map(|until| until.saturating_sub(self.shared.clock.elapsed()));
                        tokio::select! {
                            biased;
                            () = self.changed.notified() => {}
                            () = sleep(wait) => {}
                            more = self.stream.read_buf(&mut self.buffer), if self.buffer.len() < 1 << 16 => {
                                if more? == 0 {
                                    return Ok(());
                                }
                            }
                        }
                        reaction = self.shared.with(|core| core.resume(self.id));
                    }
                }
            }
        }
        Ok(())
    }

    /// The next request without its size; `None` at the end.
    async fn frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(size) = self.buffer.first_chunk().map(|size| i32::from_be_bytes(*size)) {
                let size = usize::try_from(size).ok().filter(|size| (1..=REQUEST_LIMIT).contains(size));
                let size = size.ok_or(io::ErrorKind::InvalidData)?;
                if self.buffer.len() >= 4 + size {
                    let mut frame = self.buffer.split_to(4 + size);
                    return Ok(Some(frame.split_off(4).freeze()));
                }
            }
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.buffer) => {
                    if read? == 0 {
                        return Ok(None);
                    }
                }
                () = self.changed.notified() => {
                    if !self.shared.with(|core| core.is_open(self.id)) {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
