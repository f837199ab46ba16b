//! The workers: each keeps one command running.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::process::Process;
use super::talk::{End, Phase, Shared, Talk};
use super::work::Source;
use crate::exit::{Exit, Failure};
use crate::spout::voice::Complaint;

/// Runs the commands until there is no more work, or everything is over.
pub(in crate::spout) async fn run<S: Source>(
    shared: Arc<Shared<S>>,
    program: Vec<String>,
    workers: usize,
) -> Result<(), Failure> {
    let program: Arc<[String]> = program.into();
    let mut crew = JoinSet::new();
    for number in 0..workers {
        let worker =
            Worker { shared: Arc::clone(&shared), program: Arc::clone(&program), number, failures: 0 };
        crew.spawn(worker.run());
    }
    while let Some(worker) = crew.join_next().await {
        worker.map_err(|why| Failure::new(Exit::Found, why))??;
    }
    Ok(())
}

struct Worker<S> {
    shared: Arc<Shared<S>>,
    program: Arc<[String]>,
    number: usize,
    /// Deaths in a row of commands that had answered nothing.
    failures: u32,
}

/// So long has a command to end once its input is closed.
const FAREWELL: Duration = Duration::from_secs(5);
/// So long has one that was asked to end.
const ASKED: Duration = Duration::from_secs(1);
/// And so long when everything ends.
const AT_LAST: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl<S: Source> Worker<S> {
    async fn run(mut self) -> Result<(), Failure> {
        let mut complaint = Complaint::new();
        let mut is_first = true;
        loop {
            let why = match self.life().await? {
                Life::Over => return Ok(()),
                Life::NotStarted(why) if is_first => {
                    let program = self.program.first().map_or("", String::as_str);
                    return Err(Failure::usage(format_args!("cannot start {program:?}: {why}")));
                }
                Life::NotStarted(why) => format!("cannot be started: {why}"),
                Life::Ended { end, status, answered } => {
                    // What a shell says when it cannot run the command.
                    if is_first && !answered && matches!(status.code(), Some(126 | 127)) {
                        let program = self.program.join(" ");
                        return Err(Failure::usage(format_args!("{program:?} cannot be run ({status})")));
                    }
                    self.failures = if answered { 0 } else { self.failures };
                    match end {
                        End::Hung => {
                            let timeout = self.shared.terms.timeout;
                            self.shared.counts.hung.fetch_add(1, Ordering::Relaxed);
                            format!("answered for no record in {timeout:?} and was ended")
                        }
                        End::Deaf => format!("closed its input ({status})"),
                        _ => format!("ended ({status})"),
                    }
                }
            };
            is_first = false;
            self.shared.counts.deaths.fetch_add(1, Ordering::Relaxed);
            let pause = (Duration::from_millis(100) * 2u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
            self.failures = (self.failures + 1).min(16);
            let number = self.number;
            complaint.say(&self.shared.voice, || {
                format!("worker {number} {why}; its records were released, and it starts again in {pause:?}")
            });
            let mut phase = self.shared.phase.clone();
            tokio::select! {
                () = sleep(pause) => {}
                _ = phase.wait_for(|phase| *phase > Phase::Open) => return Ok(()),
            }
        }
    }

    /// One command, from its start to its end.
    async fn life(&self) -> Result<Life, Failure> {
        let (process, stdin, mut stdout) = match Process::start(&self.program) {
            Ok(started) => started,
            Err(why) => return Ok(Life::NotStarted(why)),
        };
        let mut talk = Talk::new(&self.shared, self.number);
        let end = talk.run(stdin, &mut stdout).await;
        let answered = talk.answered;
        let (ask, within) = match end {
            Ok(End::Finished) => (false, FAREWELL),
            // It is ending, mostly.
            Ok(End::Silent) => (false, ASKED),
            Ok(End::Over) => (true, AT_LAST),
            _ => (true, ASKED),
        };
        let mut phase = self.shared.phase.clone();
        let status = tokio::select! {
            status = process.end(stdout, ask, within) => status,
            // Dropping it ends it at once.
            _ = phase.wait_for(|phase| *phase == Phase::Over), if matches!(end, Ok(End::Finished)) => return Ok(Life::Over),
        };
        match (end?, status) {
            (End::Finished | End::Over, _) => Ok(Life::Over),
            (end, Ok(status)) => Ok(Life::Ended { end, status, answered }),
            (_, Err(why)) => Ok(Life::NotStarted(why)),
        }
    }
}

enum Life {
    /// There is nothing more to do.
    Over,
    NotStarted(io::Error),
    Ended {
        end: End,
        status: ExitStatus,
        answered: bool,
    },
}
