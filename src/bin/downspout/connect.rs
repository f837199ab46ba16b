//! What the subcommands that talk to brokers share: where they are, and how to talk to them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use downspout::checkpoint::Problem;
use downspout::client::Cluster;
use downspout::discovery::{Bootstrap, BrokerReader, CrossChecked, TopicSelection, ZooKeeperBrokers};
use downspout::net::{BrokerAddress, Dialer, Security, VersionSource};
use downspout::records::CrcCheck;
use downspout::{Error, ErrorKind, Fault};

use crate::exit::{Exit, Failure};
use crate::progress::say;
use crate::properties::Properties;
use crate::security::values;
use crate::zookeeper;

/// Where the brokers are.
#[derive(Clone, Args)]
pub(crate) struct ConnectArgs {
    /// Brokers to begin with: host:port,host:port; the port is 9092 unless given. Or the ZooKeeper that
    /// knows them: zk://host:port,host:port/chroot
    #[arg(short, long, value_name = "LIST", help_heading = "Connection")]
    brokers: Option<String>,
    /// A setting under the name that other clients use, such as client.id=me; may be repeated.
    /// An unknown name is an error that names near ones. A value may stand elsewhere: ${env:NAME}, ${file:PATH}
    #[arg(short = 'X', long = "property", value_name = "NAME=VALUE", help_heading = "Connection")]
    properties: Vec<String>,
    /// A properties file with such settings, as Kafka's own commands take it (client.properties); -X weighs more
    #[arg(short = 'F', long = "config", value_name = "FILE", help_heading = "Connection")]
    config: Option<PathBuf>,
}

/// What to connect to, and how.
#[derive(Debug)]
pub(crate) struct Target {
    origin: Origin,
    /// For each request.
    pub(crate) timeout: Duration,
    pub(crate) properties: Properties,
    security: Security,
}

/// Where brokers are heard of.
#[derive(Debug)]
enum Origin {
    /// Brokers to begin with, at least one.
    Brokers(Vec<BrokerAddress>),
    /// The servers of the ZooKeeper that they use, with the chroot.
    ZooKeeper(String),
}

impl fmt::Debug for ConnectArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectArgs").field(&self.again()).finish()
    }
}

impl ConnectArgs {
    /// The arguments that say the same again, without secrets.
    pub(crate) fn again(&self) -> Vec<String> {
        let brokers = self.brokers.iter().flat_map(|list| ["--brokers".to_owned(), list.clone()]);
        let properties = self.properties.iter().flat_map(|one| ["-X".to_owned(), values::shown(one)]);
        let config = self.config.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        brokers.chain(properties).chain(config).collect()
    }

    /// The same way, to other brokers.
    pub(crate) fn to(&self, brokers: &str) -> Self {
        ConnectArgs { brokers: Some(brokers.to_owned()), ..self.clone() }
    }

    /// These brokers, if none are named.
    pub(crate) fn or(self, brokers: &str) -> Self {
        ConnectArgs { brokers: self.brokers.or_else(|| Some(brokers.to_owned())), ..self }
    }

    pub(crate) fn new(brokers: Option<String>, properties: Vec<String>, config: Option<PathBuf>) -> Self {
        ConnectArgs { brokers, properties, config }
    }

    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let properties = Properties::read(self.config.as_deref(), &self.properties)?;
        let security = properties.security.security().map_err(Failure::usage)?;
        if let Some(warning) = properties.security.warning() {
            say(&format!("warning: {warning}"));
        }
        if !properties.passed_over.is_empty() {
            say(&format!("passed over in the file: {}", properties.passed_over.join(", ")));
        }
        let list = self.brokers.as_ref().or(properties.brokers.as_ref()).ok_or_else(|| {
            Failure::usage("no brokers: say where one listens with --brokers host:port (-b)")
        })?;
        let timeout = properties.request_timeout.unwrap_or(Duration::from_secs(30));
        if let Some(servers) = list.trim().strip_prefix(zookeeper::SCHEME) {
            let origin = Origin::ZooKeeper(servers.to_owned());
            return Ok(Target { origin, timeout, properties, security });
        }
        let mut bootstrap = Vec::new();
        for address in list.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            bootstrap.push(
                address.parse().map_err(|why: Error| Failure::usage(format_args!("--brokers: {why}")))?,
            );
        }
        if bootstrap.is_empty() {
            return Err(Failure::usage("--brokers: the list is empty"));
        }
        Ok(Target { origin: Origin::Brokers(bootstrap), timeout, properties, security })
    }
}

impl Target {
    /// The cluster, once a broker of it has answered.
    pub(crate) async fn cluster(&self) -> Result<Cluster, Error> {
        /// What passes by itself, passes within this time mostly: an election, a topic in the making.
        const PATIENCE: Duration = Duration::from_secs(5);
        let properties = &self.properties;
        let builder = match &self.origin {
            Origin::Brokers(addresses) => Cluster::builder(addresses.iter().map(BrokerAddress::to_string)),
            Origin::ZooKeeper(servers) => {
                Cluster::builder([] as [&str; 0]).reader(self.through_zookeeper(servers).await?)
            }
        };
        let mut builder = builder
            .security(self.security.clone())
            .request_timeout(self.timeout)
            .api_timeout(PATIENCE)
            .isolation(properties.isolation.unwrap_or_default())
            .crc(self.crc())
            // Any record that an answer has room for.
            .fetch_limit(i32::MAX);
        if let Some(rack) = &properties.rack {
            builder = builder.rack(rack);
        }
        if let Some(bytes) = properties.memory {
            builder = builder.memory(bytes);
        }
        if let Some(client_id) = &properties.client_id {
            builder = builder.client_id(client_id);
        }
        if let Some(timeout) = properties.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        builder.connect().await
    }

    /// The brokers that ZooKeeper knows, and from then on both.
    async fn through_zookeeper(&self, servers: &str) -> Result<CrossChecked, Error> {
        let session = zookeeper::session(servers, self.properties.zookeeper_session).await?;
        let mut zookeeper = ZooKeeperBrokers::new(session);
        if let Some(protocol) = self.properties.security.protocol_name() {
            zookeeper = zookeeper.listener(protocol);
        }
        let zookeeper = Arc::new(zookeeper);
        let known = zookeeper.read(&TopicSelection::Named(BTreeSet::new())).await?;
        let addresses = known.brokers.iter().map(|broker| broker.address.clone());
        let dialer = self.dialer(VersionSource::Advertised)?;
        let brokers = Bootstrap::new(dialer, addresses)?.request_timeout(self.timeout);
        Ok(CrossChecked::new(Arc::new(brokers), zookeeper))
    }

    /// What to do about checksums.
    pub(crate) fn crc(&self) -> CrcCheck {
        if self.properties.check_crcs == Some(false) { CrcCheck::Skip } else { CrcCheck::Verify }
    }

    /// For what is sent without an answer to a broker whose versions became known like that.
    pub(crate) fn dialer(&self, source: VersionSource) -> Result<Dialer, Error> {
        let mut dialer = Dialer::default().security(self.security.clone())?;
        if let Some(client_id) = &self.properties.client_id {
            dialer = dialer.client_id(client_id)?;
        }
        if let Some(timeout) = self.properties.connect_timeout {
            dialer = dialer.connect_timeout(timeout);
        }
        if let VersionSource::Detected(release) | VersionSource::Configured(release) = source {
            dialer = dialer.assume_release(release);
        }
        Ok(dialer)
    }
}

/// The exit code that tells what went wrong.
impl From<&Error> for Exit {
    fn from(error: &Error) -> Exit {
        match error.kind() {
            ErrorKind::Config(_) => Exit::Usage,
            ErrorKind::Decode(_) | ErrorKind::RecordTooLarge { .. } => Exit::Found,
            ErrorKind::OutOfRange(_) => Exit::Stopped,
            ErrorKind::Checkpoint(
                Problem::Locked { .. } | Problem::Foreign { .. } | Problem::Members { .. },
            ) => Exit::Owner,
            ErrorKind::Broker { code, .. } if code.0 == 1 => Exit::Stopped,
            _ if error.fault() == Fault::Data => Exit::Found,
            _ => Exit::Unreachable,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(Exit::from(&error), &error)
    }
}
