//! A command as a process, with all that it starts in a group of its own: a Ctrl-C at the terminal must not
//! end it before its records are finished, and nothing of it may be left behind.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use super::lines::Lines;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts a program with its arguments. Its standard error is ours.
    pub(super) fn start(program: &[String]) -> io::Result<(Process, ChildStdin, Lines<ChildStdout>)> {
        let (name, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Process { child }, stdin, Lines::new(stdout)))
    }

    /// Waits at most that long for it to end by itself; asks it to if `ask`; then ends it, and what it has
    /// started.
    pub(super) async fn end(
        mut self,
        stdout: Lines<ChildStdout>,
        ask: bool,
        within: Duration,
    ) -> io::Result<ExitStatus> {
        if ask {
            self.signal(Signal::TERM);
        }
        // It may have something to say, and must not wait for a reader.
        tokio::select! {
            () = self.ended(within) => {}
            () = drained(stdout) => self.ended(within).await,
        }
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    /// Until it ended by itself. It is looked at without being taken notice of, so that its number stays its
    /// group's until that was signalled.
    async fn ended(&self, within: Duration) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let (deadline, mut pause) = (Instant::now() + within, Duration::from_millis(1));
        while let Some(pid) = self.pid()
            && let Ok(None) = waitid(WaitId::Pid(pid), options)
            && Instant::now() < deadline
        {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // All of it may have ended by itself.
            let _ = kill_process_group(group, signal);
        }
    }

    /// While nobody has taken notice of its end.
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn drained(mut stdout: Lines<ChildStdout>) {
    while let Ok(true) = stdout.fill().await {
        while stdout.next().is_some() {}
    }
}
