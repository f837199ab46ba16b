//! A connector that counts, and can slow connections down to a crawl or to nothing.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector};
use downspout::testing::InMemoryConnector;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;

/// Connects to an embedded cluster and counts the bytes that go both ways.
#[derive(Debug, Clone)]
pub(crate) struct Counting {
    inner: InMemoryConnector,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    received: AtomicU64,
    sent: AtomicU64,
    connections: AtomicU64,
}

impl Counting {
    pub(crate) fn new(brokers: &EmbeddedBroker) -> Self {
        Counting { inner: brokers.connector(), counts: Arc::default() }
    }

    /// Bytes that came from brokers.
    pub(crate) fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Bytes that went to brokers.
    pub(crate) fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// Connections that were made.
    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }
}

impl Connector for Counting {
    fn connect<'a>(&'a self, broker: &'a BrokerAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let inner = self.inner.connect(broker).await?;
            self.counts.connections.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Counted { inner, counts: Arc::clone(&self.counts) }) as Box<dyn ByteStream>)
        })
    }
}

struct Counted {
    inner: Box<dyn ByteStream>,
    counts: Arc<Counts>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(cx, into);
        self.counts.received.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        poll
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = poll {
            self.counts.sent.fetch_add(count as u64, Ordering::Relaxed);
        }
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
