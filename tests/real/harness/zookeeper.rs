//! A ZooKeeper server.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::java::{Java, LOG4J};
use super::libs::Libs;
use super::process::{LeftOut, Process, Result, wait_for};

/// The one that is used where it does not matter.
pub const ZOOKEEPER: &str = "3.5.10";

/// One of each line that can serve Kafka.
pub const ZOOKEEPERS: [&str; 4] = ["3.4.14", ZOOKEEPER, "3.8.4", "3.9.4"];

/// A running, stopped or frozen server. Dropping it ends the process; the directory is the caller's.
///
/// Sessions of 1 to 10 s can be had (`tickTime` is 500 ms).
pub struct ZooKeeper {
    java: Java,
    dir: PathBuf,
    address: SocketAddr,
    main: &'static str,
    process: Option<Process>,
}

impl ZooKeeper {
    /// What it needs, before anything is started.
    pub fn java() -> std::result::Result<Java, LeftOut> {
        Self::java_of(ZOOKEEPER)
    }

    /// The same for one of [`ZOOKEEPERS`].
    pub fn java_of(release: &str) -> std::result::Result<Java, LeftOut> {
        let flags = vec!["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k"];
        Java::new(Libs::zookeeper(release)?, flags, &[])
    }

    /// Starts it with its data in `dir`, and returns when it serves.
    pub fn start(java: &Java, dir: &Path) -> Result<Self> {
        let mut zookeeper = Self::prepare(java, dir, free_port()?, "", "ZooKeeperServerMain")?;
        zookeeper.start_again()?;
        Ok(zookeeper)
    }

    /// Writes its configuration, with `more` in it, and starts nothing.
    pub(super) fn prepare(
        java: &Java,
        dir: &Path,
        port: u16,
        more: &str,
        main: &'static str,
    ) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let text = format!(
            "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n{more}",
            dir.join("data").display(),
        );
        std::fs::create_dir_all(dir.join("data")).map_err(|e| e.to_string())?;
        std::fs::write(dir.join("log4j.properties"), LOG4J).map_err(|e| e.to_string())?;
        std::fs::write(dir.join("zoo.cfg"), text).map_err(|e| e.to_string())?;
        Ok(Self { java: java.clone(), dir: dir.to_owned(), address, main, process: None })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts a stopped or killed one again, on its port and data, and returns when it serves.
    pub fn start_again(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_serving(Duration::from_secs(30))
    }

    pub(super) fn launch(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Err(format!("ZooKeeper {} runs", self.address));
        }
        let main = format!("org.apache.zookeeper.server.{}", self.main);
        let mut command = self.java.launch("64m", &self.dir, &main);
        let log = self.dir.join("zookeeper.log");
        self.process = Some(Process::server("ZooKeeper", command.arg(self.dir.join("zoo.cfg")), &log)?);
        Ok(())
    }

    /// `ruok` is answered by one that has no quorum as well: what counts is that it tells its role.
    pub(super) fn wait_serving(&mut self, limit: Duration) -> Result<()> {
        let address = self.address;
        let process = self.running()?;
        wait_for("ZooKeeper to serve", limit, || {
            if let Some(status) = process.exited()? {
                return Err(format!("ZooKeeper ended: {status}"));
            }
            Ok(role(address).map(drop))
        })
        .map_err(|e| format!("{e}\n{}", process.log_tail()))
    }

    /// `standalone`, `leader` or `follower`; `None` if it does not serve.
    pub fn role(&self) -> Option<String> {
        role(self.address)
    }

    /// The answer to a four letter word.
    pub fn ask(&self, word: &str) -> Result<String> {
        ask(self.address, word).map_err(|e| format!("{word}: {e}"))
    }

    /// The sessions that it knows; of an ensemble only the leader knows all.
    pub fn sessions(&self) -> Result<BTreeSet<String>> {
        let text = self.ask("dump")?;
        // Connections that were closed are listed for up to 10 s more, by the sessions that they had.
        let text = text.split("Connections dump").next().unwrap_or_default();
        let is_id = |word: &&str| word.starts_with("0x") && *word != "0x0";
        Ok(text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_id).map(str::to_owned).collect())
    }

    /// kill -9.
    pub fn kill(&mut self) -> Result<()> {
        self.running()?.kill();
        self.process = None;
        Ok(())
    }

    /// SIGSTOP: connections stay, nothing answers.
    pub fn freeze(&mut self) -> Result<()> {
        self.running()?.freeze()
    }

    /// The end of a freeze.
    pub fn resume(&mut self) -> Result<()> {
        self.running()?.resume()
    }

    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().ok_or_else(|| format!("ZooKeeper {} does not run", self.address))
    }
}

fn role(address: SocketAddr) -> Option<String> {
    let text = ask(address, "srvr").ok()?;
    text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
}

fn ask(address: SocketAddr, word: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A port nobody listens on now.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}
