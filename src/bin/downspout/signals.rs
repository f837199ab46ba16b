//! The first SIGINT or SIGTERM stops the work nicely; one that is stuck is ended after two seconds. Work that takes time to
//! close is told of the first and the second.

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::exit::{Exit, Failure};

/// Runs the work until it ends or a signal comes.
pub(crate) async fn until_signal(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::Unreachable, format_args!("cannot wait for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let (tell, told) = oneshot::channel();
    // A task of its own: the work may be stuck in a write to a pipe that nobody reads.
    tokio::spawn(async move {
        let exit = tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        };
        let _ = tell.send(exit);
        tokio::time::sleep(Duration::from_secs(2)).await;
        std::process::exit(exit as i32);
    });
    tokio::select! {
        exit = work => exit,
        Ok(exit) = told => Ok(exit),
    }
}

/// The signals that came, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Asked(watch::Receiver<Vec<Exit>>);

/// Listens for signals from now on. The process ends two seconds after the second one whatever it does.
pub(crate) fn listen() -> Result<Asked, Failure> {
    let failed = |error| Failure::new(Exit::Unreachable, format_args!("cannot wait for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let (tell, told) = watch::channel(Vec::new());
    tokio::spawn(async move {
        for _ in 0..2 {
            let exit = tokio::select! {
                _ = interrupt.recv() => Exit::Interrupted,
                _ = terminate.recv() => Exit::Terminated,
            };
            tell.send_modify(|came| came.push(exit));
        }
        let exit = tell.borrow().first().copied().unwrap_or(Exit::Interrupted);
        tokio::time::sleep(Duration::from_secs(2)).await;
        std::process::exit(exit as i32);
    });
    Ok(Asked(told))
}

impl Asked {
    /// Waits for the first signal.
    pub(crate) async fn first(&mut self) -> Exit {
        self.nth(1).await
    }

    /// Waits for the second one.
    pub(crate) async fn second(&mut self) -> Exit {
        self.nth(2).await
    }

    async fn nth(&mut self, count: usize) -> Exit {
        let came =
            self.0.wait_for(|came| came.len() >= count).await.ok().and_then(|came| came.first().copied());
        match came {
            Some(exit) => exit,
            // Nobody listens any more: the process is at its end.
            None => std::future::pending().await,
        }
    }
}
