//! Java: our few classes, compiled once for each release, and commands that run them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::libs::Libs;
use super::process::{LeftOut, Process, Result};

/// A release's jars with our classes compiled against them.
#[derive(Clone, Debug)]
pub struct Java {
    libs: Libs,
    classes: PathBuf,
    flags: Vec<&'static str>,
}

impl Java {
    /// Compiles `Launch` and the given classes of `tests/real/java`, unless that was done before.
    pub fn new(libs: Libs, flags: Vec<&'static str>, classes: &[&str]) -> std::result::Result<Self, LeftOut> {
        let fail =
            |why: String| LeftOut(format!("the driver of {} is not there: {why}", libs.jars.display()));
        let sources: Vec<PathBuf> = std::iter::once(&"Launch")
            .chain(classes)
            .map(|class| source_dir().join(format!("{class}.java")))
            .collect();
        let mut sum = crc32fast::Hasher::new();
        for source in &sources {
            sum.update(&fs::read(source).map_err(|e| fail(format!("{}: {e}", source.display())))?);
        }
        let compiled = libs.compiled.join(format!("{:08x}", sum.finalize()));
        let java = Self { libs: libs.clone(), classes: compiled.clone(), flags };
        let io = |e: std::io::Error| fail(e.to_string());
        let marker = compiled.join("complete");
        if marker.exists() {
            return Ok(java);
        }
        fs::create_dir_all(&compiled).map_err(io)?;
        let lock = File::create(compiled.join("lock")).map_err(io)?;
        lock.lock().map_err(io)?;
        if marker.exists() {
            return Ok(java);
        }
        let output = Command::new("javac")
            .args(["-nowarn", "-Xlint:none", "-J-XX:TieredStopAtLevel=1", "-cp"])
            .arg(libs.classpath(&[]))
            .arg("-d")
            .arg(&compiled)
            .args(&sources)
            .output()
            .map_err(|e| fail(format!("javac does not start ({e}): a JDK is needed")))?;
        // Sources that don't compile are our fault, never a reason to leave a test out.
        assert!(output.status.success(), "javac: {}", String::from_utf8_lossy(&output.stderr));
        File::create(marker).map_err(io)?;
        Ok(java)
    }

    /// `java` with this release's classes, running `main` under `Launch`.
    pub fn launch(&self, heap: &str, config: &Path, main: &str) -> Command {
        let mut command = self.command(heap, config);
        command.args(["Launch", main]);
        command
    }

    /// `java` with this release's classes, up to and without the main class.
    pub fn command(&self, heap: &str, config: &Path) -> Command {
        let mut command = Command::new("java");
        command
            .arg(format!("-Xmx{heap}"))
            .args(&self.flags)
            .arg("-cp")
            .arg(self.libs.classpath(&[config, &self.classes]));
        command
    }

    /// Runs a main class to its end and gives what it printed. A failure shows all it said.
    pub fn run(&self, dir: &Path, main: &str, args: &[String], limit: Duration) -> Result<Vec<u8>> {
        let stamp = format!("{:?}", std::time::Instant::now()).replace(|c: char| !c.is_ascii_digit(), "");
        let log = dir.join(format!("{main}-{stamp}.err"));
        let out = dir.join(format!("{main}-{stamp}.out"));
        let output = File::create(&out).map_err(|e| e.to_string())?;
        let errors = File::create(&log).map_err(|e| e.to_string())?;
        let mut command = self.launch("256m", dir, main);
        command.args(args).stdout(output).stderr(errors).stdin(Stdio::piped());
        let mut process = Process::started(main, &mut command, &log)?;
        let status = process.wait_exit(limit)?;
        if !status.success() {
            return Err(format!("{main} {}: {status}\n{}", args.join(" "), process.log_tail()));
        }
        fs::read(&out).map_err(|e| e.to_string())
    }
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/java")
}

/// Logging of the releases that use log4j 1; the others have slf4j-simple, which needs nothing.
pub const LOG4J: &str = "log4j.rootLogger=INFO, console\n\
     log4j.appender.console=org.apache.log4j.ConsoleAppender\n\
     log4j.appender.console.target=System.err\n\
     log4j.appender.console.layout=org.apache.log4j.PatternLayout\n\
     log4j.appender.console.layout.ConversionPattern=%d %p %m (%c)%n\n";
