//! A child process with a log file, ended by its handle.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What went wrong, for a person to read.
pub type Result<T> = std::result::Result<T, String>;

/// Why a test could not run here. It is printed and never counts as success.
#[derive(Debug)]
pub struct LeftOut(pub String);

/// Asks `check` again and again until it has an answer. It is an error, naming `what`, not to have one in time.
pub fn wait_for<T>(what: &str, limit: Duration, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = check()? {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            return Err(format!("gave up after {limit:?} waiting for {what}"));
        }
        std::thread::sleep(Duration::from_millis(15)); // only the pace of asking
    }
}

/// A running child. Its standard input stays open as long as the handle lives.
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    /// While it is frozen.
    guard: Option<Child>,
}

impl Process {
    /// Starts a server whose whole output goes to `log`.
    pub fn server(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let output =
            File::options().create(true).append(true).open(log).map_err(|e| format!("{name}: {e}"))?;
        let errors = output.try_clone().map_err(|e| format!("{name}: {e}"))?;
        Self::spawn(name, command.stdout(output).stderr(errors), log)
    }

    /// Starts a child we talk to over standard input and output; its standard error goes to `log`.
    pub fn talking(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let errors = File::create(log).map_err(|e| format!("{name}: {e}"))?;
        Self::spawn(name, command.stdout(Stdio::piped()).stderr(errors), log)
    }

    fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        Self::started(name, command.stdin(Stdio::piped()), log)
    }

    /// Starts a child whose streams are set up already; `log` is what [`log_tail`](Self::log_tail) shows.
    pub fn started(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let mut child = command.spawn().map_err(|e| format!("{name} does not start: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, name: name.to_owned(), log: log.to_owned(), stdin, stdout, guard: None })
    }

    /// Sends a signal (`TERM`, `STOP`, `CONT`) to this very process.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status()
            .map_err(|e| format!("kill: {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("{}: kill -{signal}: {status}", self.name)) }
    }

    /// SIGSTOP. A guard lets it go on when this process ends without having done so: what is stopped cannot see the
    /// end of its standard input, and would be left behind.
    pub fn freeze(&mut self) -> Result<()> {
        if self.guard.is_some() {
            return Ok(());
        }
        let guard = Command::new("sh")
            .args(["-c", "read -r end; kill -CONT \"$0\" 2>/dev/null", &self.child.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| format!("sh: {e}"))?;
        self.guard = Some(guard);
        self.signal("STOP")?;
        let what = format!("{} to stand still", self.name);
        wait_for(&what, Duration::from_secs(10), || Ok(self.stands_still().then_some(())))
    }

    /// Whether all threads have stopped. A signal stops them one after another, and one that runs may still answer.
    fn stands_still(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            // No such table here: what is left is to give them time.
            std::thread::sleep(Duration::from_millis(200));
            return true;
        };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // After the name, which is in brackets: the state.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
        })
    }

    /// SIGCONT, after [`freeze`](Self::freeze).
    pub fn resume(&mut self) -> Result<()> {
        let Some(mut guard) = self.guard.take() else { return Ok(()) };
        drop(guard.stdin.take());
        guard.wait().map(drop).map_err(|e| format!("{}: {e}", self.name))
    }

    pub fn is_frozen(&self) -> bool {
        self.guard.is_some()
    }

    /// `None` while it runs.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|e| format!("{}: {e}", self.name))
    }

    pub fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        wait_for(&what, limit, || self.exited()).map_err(|e| format!("{e}\n{}", self.log_tail()))
    }

    pub fn kill(&mut self) {
        // Either fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.resume(); // before its id is free for others
        let _ = self.child.wait();
    }

    /// The last lines it wrote, to be shown with a failure.
    pub fn log_tail(&self) -> String {
        let text =
            std::fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        format!("--- the end of the log of {} ---\n{tail}\n---", self.name)
    }

    pub fn log_contains(&self, words: &str) -> bool {
        std::fs::read(&self.log).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
