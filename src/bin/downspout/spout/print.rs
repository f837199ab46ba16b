//! Without `--exec`: JSON lines on standard output, acknowledged when they are written and flushed.

use std::future::ready;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, watch};

use super::exec::{Phase, Source, Work, next};
use crate::exit::Failure;
use crate::output::{BytesAs, Output};

/// Bytes, and records, that are written at a time.
const AT_A_TIME: (usize, usize) = (64 << 10, 10_000);

/// Prints until there is no more work, everything is over, or nobody reads any more.
pub(super) async fn run<S: Source>(
    source: Arc<Mutex<S>>,
    out: impl AsyncWrite + Unpin,
    bytes: BytesAs,
    mut phase: watch::Receiver<Phase>,
) -> Result<(), Failure> {
    let mut page =
        Page { out, line: Output::new(Vec::new()).bytes_as(bytes), text: Vec::new(), on_it: Vec::new() };
    let printed = tokio::select! {
        printed = page.print(&source) => printed,
        // The other side of it gone means the end too.
        _ = phase.wait_for(|phase| *phase == Phase::Over) => Ok(()),
    };
    page.on_it.into_iter().for_each(Work::release);
    printed
}

struct Page<O, W> {
    out: O,
    line: Output<Vec<u8>>,
    text: Vec<u8>,
    /// What is on it, and not safely written.
    on_it: Vec<W>,
}

impl<O: AsyncWrite + Unpin, W: Work> Page<O, W> {
    async fn print(&mut self, source: &Mutex<impl Source<Work = W>>) -> Result<(), Failure> {
        loop {
            let work = tokio::select! {
                biased;
                work = next(source) => work?,
                // Nothing is there: what was printed is to be seen before anything is waited for.
                () = ready(()), if !self.on_it.is_empty() => {
                    self.turn().await?;
                    continue;
                }
            };
            let Some(work) = work else { return self.turn().await };
            work.write(&mut self.line);
            self.text.extend(self.line.take());
            self.on_it.push(work);
            if self.text.len() >= AT_A_TIME.0 || self.on_it.len() >= AT_A_TIME.1 {
                self.turn().await?;
            }
        }
    }

    /// Writes the page; what is on it is done then.
    async fn turn(&mut self) -> Result<(), Failure> {
        let write = async {
            self.out.write_all(&self.text).await?;
            self.out.flush().await
        };
        write.await.map_err(|why: io::Error| Failure::output(why))?;
        self.text.clear();
        self.text.shrink_to(2 * AT_A_TIME.0);
        self.on_it.drain(..).for_each(Work::ack);
        Ok(())
    }
}
