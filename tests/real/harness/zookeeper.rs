//! A ZooKeeper server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::java::{Java, LOG4J};
use super::libs::Libs;
use super::process::{LeftOut, Process, Result, wait_for};

pub struct ZooKeeper {
    process: Process,
    address: SocketAddr,
}

impl ZooKeeper {
    /// What it needs, before anything is started.
    pub fn java() -> std::result::Result<Java, LeftOut> {
        Java::new(Libs::zookeeper()?, vec!["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k"], &[])
    }

    /// Starts it with its data in `dir`, and returns when it answers `ruok`.
    pub fn start(java: &Java, dir: &Path) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let config = dir.join("zoo.cfg");
        std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
        std::fs::write(dir.join("log4j.properties"), LOG4J).map_err(|e| e.to_string())?;
        std::fs::write(
            &config,
            // tickTime 500 allows sessions of 1 to 10 s
            format!(
                "tickTime=500\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
                 admin.enableServer=false\n4lw.commands.whitelist=*\n",
                dir.join("data").display(),
                address.port()
            ),
        )
        .map_err(|e| e.to_string())?;
        let mut command = java.launch("64m", dir, "org.apache.zookeeper.server.ZooKeeperServerMain");
        let process = Process::server("ZooKeeper", command.arg(&config), &dir.join("zookeeper.log"))?;
        let mut zookeeper = Self { process, address };
        wait_for("ZooKeeper to answer ruok", Duration::from_secs(30), || {
            if let Some(status) = zookeeper.process.exited()? {
                return Err(format!("ZooKeeper ended: {status}"));
            }
            Ok(imok(address).then_some(()))
        })
        .map_err(|e| format!("{e}\n{}", zookeeper.process.log_tail()))?;
        Ok(zookeeper)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn imok(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer == "imok")
}

/// A port nobody listens on now.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}
