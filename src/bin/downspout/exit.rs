//! How the command ends: the exit codes, and failures with their one paragraph.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit codes of every subcommand; `EXIT_CODES` tells them to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All well.
    Ok = 0,
    /// Something was found: corruption, say.
    Found = 1,
    /// Wrong usage.
    Usage = 2,
    /// No broker, no such topic, or access denied.
    Unreachable = 3,
    /// Partly done: something is left that was not finished.
    #[allow(dead_code, reason = "for `spout` and `checkpoint`, in the making")]
    Partly = 4,
    /// A partition stopped.
    Stopped = 5,
    /// Another owner is at work.
    Owner = 6,
    /// A signal (SIGINT) came.
    Interrupted = 130,
    /// A signal (SIGTERM) came.
    Terminated = 143,
}

/// The exit codes as the help and the man pages show them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    all well
  1    something was found: corrupt data, or records that did not all arrive
  2    wrong usage
  3    the brokers cannot be reached, there is no such topic, or access was denied
  4    partly done
  5    a partition stopped
  6    another owner
  130  interrupted (143: terminated)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The command cannot go on: the exit code, and what to say on stderr, if anything.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, message: Some(message.to_string()) }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// Standard output failed. A closed pipe is the reader's way to say "enough".
    pub(crate) fn output(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure { exit: Exit::Ok, message: None }
        } else {
            Failure::new(Exit::Found, format_args!("cannot write the output: {error}"))
        }
    }
}
