//! Kafka clusters: one broker or several, each with its own handle to stop, kill, freeze and restart it.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::java::{Java, LOG4J};
use super::libs::Libs;
use super::process::{LeftOut, Process, Result, wait_for};
use super::release::{Mode, Release};
use super::wire;
use super::zookeeper::{ZooKeeper, free_port};

/// How long a start may take before it counts as failed. On a quiet machine it is one to three seconds.
const START: Duration = Duration::from_secs(60);

/// Any; the same for all nodes of a cluster.
const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// What the brokers of a test are like.
#[derive(Clone, Debug)]
pub struct Options {
    pub brokers: usize,
    /// Appended to `server.properties`; the last value of a key counts.
    pub properties: Vec<(String, String)>,
    /// When a silent broker counts as dead. Short for failover tests, long for a busy machine.
    pub session_timeout: Duration,
    pub heap: &'static str,
    /// Where in ZooKeeper it lives, as `/kafka`; where there is one.
    pub chroot: &'static str,
    /// Listeners beside the plain one, by name and security protocol; before 0.10.2 (KIP-103) the two are the same.
    pub more_listeners: &'static [(&'static str, &'static str)],
    /// Without the plain listener; then the first of the others carries all, and the broker's own word is what tells
    /// that it serves.
    pub without_plain: bool,
    /// Flags for the JVMs of the brokers.
    pub jvm: Vec<String>,
    /// Names and passwords of those who can log in with SCRAM (0.10.2 on).
    pub scram_users: &'static [(&'static str, &'static str)],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            brokers: 1,
            properties: Vec::new(),
            session_timeout: Duration::from_secs(6),
            heap: "256m",
            chroot: "",
            more_listeners: &[],
            without_plain: false,
            jvm: Vec::new(),
            scram_users: &[],
        }
    }
}

impl Options {
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The beginning of a line that says what each listener speaks.
    fn protocols(&self) -> String {
        let mut text = "listener.security.protocol.map=".to_owned();
        for (name, protocol) in self.more_listeners {
            let _ = write!(text, "{name}:{protocol},");
        }
        text
    }
}

/// A running cluster. Dropping it ends every process and removes all data.
pub struct Kafka {
    release: &'static Release,
    java: Java,
    options: Options,
    nodes: Vec<Node>,
    zookeeper: Option<ZooKeeper>,
    dir: tempfile::TempDir, // last: removed when everything that uses it has ended
}

struct Node {
    id: usize,
    port: u16,
    controller_port: u16,
    /// Of the listeners beside the plain one.
    more_ports: Vec<u16>,
    dir: PathBuf,
    process: Option<Process>,
    launches: usize,
}

/// The jars and classes a release needs: all that can be missing on a machine is found out here.
pub struct Prepared {
    kafka: Java,
    zookeeper: Option<Java>,
}

impl Prepared {
    pub fn of(release: &'static Release) -> std::result::Result<Self, LeftOut> {
        Self::in_mode(release, release.mode())
    }

    /// Up to 3.9 a release can live in ZooKeeper, whatever its table says.
    pub fn in_mode(release: &'static Release, mode: Mode) -> std::result::Result<Self, LeftOut> {
        let classes = release.driver();
        let sources: Vec<&str> = ["Driver"]
            .iter()
            .chain(classes.topics)
            .chain(classes.producing)
            .chain(classes.reading)
            .copied()
            .collect();
        let kafka = Java::new(Libs::of(release)?, release.jvm_flags(), &sources)?;
        let zookeeper = match mode {
            Mode::ZooKeeper => Some(ZooKeeper::java()?),
            Mode::KRaft => None,
        };
        Ok(Self { kafka, zookeeper })
    }
}

impl Kafka {
    /// Starts a cluster and returns when each broker tells of all of them.
    pub fn start(release: &'static Release, prepared: &Prepared, options: Options) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("downspout-kafka-").tempdir().map_err(|e| e.to_string())?;
        let zookeeper = match &prepared.zookeeper {
            Some(java) => Some(ZooKeeper::start(java, &dir.path().join("zookeeper"))?),
            None => None,
        };
        let first_id = if zookeeper.is_none() { 1 } else { 0 };
        let mut kafka =
            Self { release, java: prepared.kafka.clone(), options, nodes: Vec::new(), zookeeper, dir };
        for i in 0..kafka.options.brokers {
            let dir = kafka.dir.path().join(format!("broker-{i}"));
            std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
            std::fs::write(dir.join("log4j.properties"), LOG4J).map_err(|e| e.to_string())?;
            let (port, controller_port) = (free_port()?, free_port()?);
            let more_ports =
                kafka.options.more_listeners.iter().map(|_| free_port()).collect::<Result<_>>()?;
            kafka.nodes.push(Node {
                id: first_id + i,
                port,
                controller_port,
                more_ports,
                dir,
                process: None,
                launches: 0,
            });
        }
        kafka.add_scram_users()?;
        for i in 0..kafka.nodes.len() {
            kafka.format(i)?;
            kafka.launch(i)?;
        }
        for i in 0..kafka.nodes.len() {
            kafka.wait_serving(i, kafka.nodes.len(), true)?;
        }
        Ok(kafka)
    }

    pub fn release(&self) -> &'static Release {
        self.release
    }

    /// How many it has, running or not.
    pub fn brokers(&self) -> usize {
        self.nodes.len()
    }

    /// The replicas of each partition as ids, `0,1,2;1,2,0`: on these brokers, which lead in turn.
    pub fn assignment(&self, partitions: usize, brokers: &[usize]) -> String {
        let replicas = |partition: usize| {
            let ids = (0..brokers.len())
                .map(|replica| self.nodes[brokers[(partition + replica) % brokers.len()]].id.to_string());
            ids.collect::<Vec<_>>().join(",")
        };
        (0..partitions).map(replicas).collect::<Vec<_>>().join(";")
    }

    /// Of the first broker.
    pub fn address(&self) -> SocketAddr {
        self.broker_address(0)
    }

    pub fn broker_address(&self, broker: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.nodes[broker].port))
    }

    /// All brokers as `host:port,host:port`.
    pub fn bootstrap(&self) -> String {
        let all: Vec<String> = (0..self.nodes.len()).map(|i| self.broker_address(i).to_string()).collect();
        all.join(",")
    }

    /// `None` in KRaft mode.
    pub fn zookeeper(&self) -> Option<SocketAddr> {
        self.zookeeper.as_ref().map(ZooKeeper::address)
    }

    /// The same for clients: with the chroot.
    pub fn zookeeper_connect(&self) -> Option<String> {
        self.zookeeper().map(|address| format!("{address}{}", self.options.chroot))
    }

    /// Where a listener of [`Options::more_listeners`] is.
    pub fn listener_address(&self, broker: usize, listener: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.nodes[broker].more_ports[listener]))
    }

    pub fn java(&self) -> &Java {
        &self.java
    }

    /// A directory of this cluster's for a test's own files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where a broker keeps a partition.
    pub fn partition_dir(&self, broker: usize, topic: &str, partition: i32) -> PathBuf {
        self.nodes[broker].dir.join("log").join(format!("{topic}-{partition}"))
    }

    /// An orderly stop: SIGTERM, and wait for the end.
    pub fn stop(&mut self, broker: usize) -> Result<()> {
        let process = self.running(broker)?;
        process.signal("TERM")?;
        process.wait_exit(Duration::from_secs(30))?;
        self.nodes[broker].process = None;
        Ok(())
    }

    /// kill -9.
    pub fn kill(&mut self, broker: usize) -> Result<()> {
        self.running(broker)?.kill();
        self.nodes[broker].process = None;
        Ok(())
    }

    /// SIGSTOP: connections stay, nothing answers.
    pub fn freeze(&mut self, broker: usize) -> Result<()> {
        self.running(broker)?.freeze()
    }

    /// The end of a freeze.
    pub fn resume(&mut self, broker: usize) -> Result<()> {
        self.running(broker)?.resume()
    }

    /// Starts a stopped or killed broker again, on its port and data, and returns when it serves.
    pub fn start_again(&mut self, broker: usize) -> Result<()> {
        if self.nodes[broker].process.is_some() {
            return Err(format!("broker {broker} runs"));
        }
        self.launch(broker)?;
        self.wait_serving(broker, 1, false)
    }

    /// Changes a setting; a broker has it from its next start on.
    pub fn set(&mut self, key: &str, value: &str) {
        self.options.properties.push((key.to_owned(), value.to_owned()));
    }

    /// Stops, then starts again.
    pub fn restart(&mut self, broker: usize) -> Result<()> {
        self.stop(broker)?;
        self.start_again(broker)
    }

    /// Goes on as another release: the data of all brokers, which must have been stopped, are what it starts with.
    pub fn upgrade(&mut self, release: &'static Release, prepared: &Prepared) -> Result<()> {
        if let Some(runs) = self.nodes.iter().position(|node| node.process.is_some()) {
            return Err(format!("broker {runs} runs"));
        }
        if self.release.mode() != release.mode() {
            return Err(format!("{} cannot become {release} in place", self.release));
        }
        (self.release, self.java) = (release, prepared.kafka.clone());
        for broker in 0..self.nodes.len() {
            self.launch(broker)?;
        }
        (0..self.nodes.len()).try_for_each(|broker| self.wait_serving(broker, self.nodes.len(), false))
    }

    /// Returns when each partition of a topic has a leader, as told by all brokers that run.
    pub fn wait_topic(&self, topic: &str, partitions: usize) -> Result<()> {
        wait_for(&format!("leaders of all {partitions} partitions of {topic}"), START, || {
            Ok(self.answering().all(|node| {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, node.port));
                wire::metadata(address).is_ok_and(|metadata| {
                    metadata.topics.iter().any(|found| {
                        found.name == topic
                            && found.error == 0
                            && found.partitions.len() == partitions
                            && found.partitions.iter().all(|(_, leader)| metadata.brokers.contains(leader))
                    })
                })
            }))
            .map(|all| all.then_some(()))
        })
    }

    /// Returns when no broker that runs tells of a topic.
    pub fn wait_no_topic(&self, topic: &str) -> Result<()> {
        wait_for(&format!("the end of {topic}"), START, || {
            Ok(self
                .answering()
                .all(|node| {
                    wire::metadata(SocketAddr::from((Ipv4Addr::LOCALHOST, node.port)))
                        .is_ok_and(|metadata| metadata.topics.iter().all(|found| found.name != topic))
                })
                .then_some(()))
        })
    }

    /// The index of the broker that leads a partition, as any broker that runs and answers tells it.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<Option<usize>> {
        let metadata = self
            .answering()
            .find_map(|node| wire::metadata(SocketAddr::from((Ipv4Addr::LOCALHOST, node.port))).ok())
            .ok_or("no broker answers")?;
        let found = metadata.topics.iter().find(|found| found.name == topic);
        let found = found.ok_or_else(|| format!("no topic {topic}"))?;
        let leader = found.partitions.iter().find(|(id, _)| *id == partition).map(|(_, leader)| *leader);
        Ok(self.nodes.iter().position(|node| leader == i32::try_from(node.id).ok()))
    }

    /// Those that run and are not frozen.
    fn answering(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.process.as_ref().is_some_and(|process| !process.is_frozen()))
    }

    fn running(&mut self, broker: usize) -> Result<&mut Process> {
        self.nodes[broker].process.as_mut().ok_or_else(|| format!("broker {broker} does not run"))
    }

    /// Gives a new KRaft node its cluster id.
    fn format(&self, broker: usize) -> Result<()> {
        if self.zookeeper.is_some() {
            return Ok(());
        }
        let node = &self.nodes[broker];
        let config = self.write_properties(broker)?;
        let config = config.display().to_string();
        let mut args = ["format", "-t", CLUSTER_ID, "-c", &config].map(str::to_owned).to_vec();
        for (mechanism, (name, password)) in self.scram_credentials() {
            // KIP-900, from 3.5 on.
            args.push("--add-scram".to_owned());
            args.push(format!("{mechanism}=[name={name},password={password}]"));
        }
        self.java.run(&node.dir, "kafka.tools.StorageTool", &args, START).map(drop)
    }

    /// Before the brokers start, so that they know them from the first connection on; KRaft has them from the format.
    fn add_scram_users(&self) -> Result<()> {
        let Some(zookeeper) = self.zookeeper_connect() else { return Ok(()) };
        for (name, password) in self.options.scram_users {
            let both = format!("SCRAM-SHA-256=[password={password}],SCRAM-SHA-512=[password={password}]");
            let words = ["--zookeeper", &zookeeper, "--alter", "--add-config", &both];
            let whose = ["--entity-type", "users", "--entity-name", name];
            let args = [&words[..], &whose].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
            self.java.run(&self.nodes[0].dir, "kafka.admin.ConfigCommand", &args, START)?;
        }
        Ok(())
    }

    fn scram_credentials(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static (&'static str, &'static str))> {
        let users = self.options.scram_users;
        ["SCRAM-SHA-256", "SCRAM-SHA-512"].into_iter().flat_map(|how| users.iter().map(move |who| (how, who)))
    }

    fn launch(&mut self, broker: usize) -> Result<()> {
        let config = self.write_properties(broker)?;
        let node = &mut self.nodes[broker];
        let mut command = self.java.command(self.options.heap, &node.dir);
        command.args(&self.options.jvm).args(["Launch", "kafka.Kafka"]);
        let name = format!("{} broker {}", self.release, node.id);
        node.launches += 1;
        let log = node.dir.join(format!("server-{}.log", node.launches));
        node.process = Some(Process::server(&name, command.arg(&config), &log)?);
        Ok(())
    }

    /// An open port is not enough: brokers accept connections before they are registered.
    fn wait_serving(&mut self, broker: usize, brokers: usize, first_start: bool) -> Result<()> {
        let start = Instant::now();
        let mut moves = 3;
        let is_secret = self.options.without_plain;
        // 0.8 only tells of brokers that have partitions; there the broker's own word has to do.
        let told = self.release.since(&[0, 9]) && !self.options.without_plain;
        loop {
            let address = self.broker_address(broker);
            let node = &mut self.nodes[broker];
            let name = format!("{} broker {}", self.release, node.id);
            let process = node.process.as_mut().ok_or_else(|| format!("{name} does not run"))?;
            let ended = wait_for(&format!("{name} to serve"), START.saturating_sub(start.elapsed()), || {
                if let Some(status) = process.exited()? {
                    return Ok(Some(Some(status)));
                }
                let says_so =
                    || ["], Started", "], started", "] started"].iter().any(|it| process.log_contains(it));
                let serves = if told {
                    wire::metadata(address).is_ok_and(|m| m.brokers.len() >= brokers)
                } else {
                    (is_secret || wire::metadata(address).is_ok()) && says_so()
                };
                Ok(serves.then_some(None))
            })
            .map_err(|e| format!("{e}\n{}", process.log_tail()))?;
            let Some(status) = ended else { return Ok(()) };
            if first_start && moves > 0 && process.log_contains("Address already in use") {
                moves -= 1; // somebody took the port between our look and its bind
                node.port = free_port()?;
                for port in &mut node.more_ports {
                    *port = free_port()?;
                }
            } else if first_start || start.elapsed() > START {
                return Err(format!("{name} ended: {status}\n{}", process.log_tail()));
            }
            // After a kill ZooKeeper still knows the old session, and the new broker gives up: try until it is over.
            self.launch(broker)?;
        }
    }

    fn write_properties(&self, broker: usize) -> Result<PathBuf> {
        let node = &self.nodes[broker];
        let path = node.dir.join("server.properties");
        std::fs::write(&path, self.properties(node)).map_err(|e| e.to_string())?;
        Ok(path)
    }

    fn properties(&self, node: &Node) -> String {
        let mut text = String::new();
        let port = node.port;
        let session = self.options.session_timeout.as_millis();
        match self.zookeeper_connect() {
            Some(zookeeper) => {
                let _ = write!(
                    text,
                    "broker.id={}\nzookeeper.connect={zookeeper}\nzookeeper.connection.timeout.ms=15000\n\
                     zookeeper.session.timeout.ms={session}\ncontrolled.shutdown.enable=false\n",
                    node.id
                );
                if self.release.since(&[0, 9]) {
                    let plain = (!self.options.without_plain).then_some(("PLAINTEXT", port));
                    let _ = writeln!(text, "listeners={}", node.listeners(plain, &self.options));
                    if !self.options.more_listeners.is_empty() && self.release.since(&[0, 10, 2]) {
                        let _ = writeln!(text, "{}PLAINTEXT:PLAINTEXT", self.options.protocols());
                    }
                } else {
                    let _ = write!(text, "port={port}\nhost.name=127.0.0.1\n");
                }
            }
            None => {
                let voters: Vec<String> =
                    self.nodes.iter().map(|n| format!("{}@127.0.0.1:{}", n.id, n.controller_port)).collect();
                let all = node.listeners(Some(("PLAINTEXT", port)), &self.options);
                let _ = write!(
                    text,
                    "process.roles=broker,controller\nnode.id={}\ncontroller.quorum.voters={}\n\
                     controller.listener.names=CONTROLLER\n\
                     listeners={all},CONTROLLER://127.0.0.1:{}\n\
                     advertised.listeners={all}\n\
                     {}PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                     broker.session.timeout.ms={session}\nbroker.heartbeat.interval.ms={}\n",
                    node.id,
                    voters.join(","),
                    node.controller_port,
                    self.options.protocols(),
                    session / 6
                );
            }
        }
        let _ = writeln!(text, "log.dirs={}", node.dir.join("log").display());
        text.push_str(COMMON);
        for (key, value) in &self.options.properties {
            let _ = writeln!(text, "{key}={value}");
        }
        text
    }
}

impl Node {
    /// As `listeners` has them.
    fn listeners(&self, plain: Option<(&str, u16)>, options: &Options) -> String {
        let more =
            options.more_listeners.iter().zip(&self.more_ports).map(|((name, _), port)| (*name, *port));
        let all: Vec<_> =
            plain.into_iter().chain(more).map(|(name, port)| format!("{name}://127.0.0.1:{port}")).collect();
        all.join(",")
    }
}

/// Small and quick. A release warns about keys it does not know.
const COMMON: &str = "\
num.partitions=1
num.network.threads=2
num.io.threads=2
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
auto.create.topics.enable=false
delete.topic.enable=true
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
message.max.bytes=6291456
replica.fetch.max.bytes=8388608
log.cleaner.enable=true
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=300
";
