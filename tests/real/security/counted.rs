//! Connections that are counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use downspout::net::{BoxFuture, BrokerAddress, ByteStream, Connector, TcpConnector};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Plain TCP that is counted.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    tcp: TcpConnector,
    made: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Connections {
    /// How many there have been.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// How many of them are over.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Connector for Connections {
    fn connect<'a>(
        &'a self,
        broker: &'a BrokerAddress,
    ) -> BoxFuture<'a, std::io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let stream = self.tcp.connect(broker).await?;
            self.made.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Counted { stream, ended: Arc::clone(&self.ended) }) as Box<dyn ByteStream>)
        })
    }
}

struct Counted {
    stream: Box<dyn ByteStream>,
    ended: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
