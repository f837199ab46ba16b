//! The first SIGINT or SIGTERM stops the work nicely; one that is stuck is ended after two seconds.

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

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
