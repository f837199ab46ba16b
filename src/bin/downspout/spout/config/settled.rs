//! What the settings come to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use downspout::spout::{Backoff, DeadLetters, OnExhausted, Order, RetryMode, SpoutSettings};

use crate::checkpoint::store_in;
use crate::connect::{ConnectArgs, Target};
use crate::consume::Wanted;
use crate::exit::Failure;
use crate::output::BytesAs;
use crate::store::StoreName;
use crate::zookeeper::SCHEME;

/// What the command shall do.
#[derive(Debug)]
pub(crate) struct Config {
    pub(super) brokers: String,
    pub(super) zookeeper: Option<String>,
    pub(super) root: Option<String>,
    pub(super) properties: Vec<String>,
    pub(super) client_config: Option<PathBuf>,
    pub(super) rack: Option<String>,
    pub(super) memory: usize,
    pub(crate) topics: Vec<Wanted>,
    pub(super) id: Option<String>,
    pub(crate) store: StoreName,
    pub(crate) members: bool,
    pub(crate) settings: SpoutSettings,
    pub(super) retry: &'static str,
    pub(super) backoff: Backoff,
    pub(super) on_exhausted: Option<&'static str>,
    pub(super) dead_letters: DeadLetters,
    pub(super) by_key: bool,
    pub(super) null_is_a_key: bool,
    /// The program and its arguments.
    pub(crate) exec: Option<Vec<String>>,
    pub(crate) workers: usize,
    pub(crate) concurrency: usize,
    pub(crate) exec_timeout: Duration,
    pub(crate) ack_on_write: bool,
    pub(crate) bytes: BytesAs,
    pub(crate) exit_at_end: bool,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) log: Option<tracing::Level>,
    pub(crate) quiet: bool,
}

impl Config {
    /// Nothing set; the defaults of the table come next.
    pub(super) fn empty() -> Self {
        Config {
            brokers: String::new(),
            zookeeper: None,
            root: None,
            properties: Vec::new(),
            client_config: None,
            rack: None,
            memory: 0,
            topics: Vec::new(),
            id: None,
            store: StoreName::Memory,
            members: false,
            settings: SpoutSettings::default(),
            retry: "",
            backoff: Backoff::default(),
            on_exhausted: None,
            dead_letters: DeadLetters::to(""),
            by_key: false,
            null_is_a_key: false,
            exec: None,
            workers: 1,
            concurrency: 1,
            exec_timeout: Duration::ZERO,
            ack_on_write: false,
            bytes: BytesAs::Auto,
            exit_at_end: false,
            metrics: None,
            log: None,
            quiet: false,
        }
    }

    /// Puts together what belongs together; `is_changed` tells what is not as it would be by itself.
    pub(super) fn settle(&mut self, is_changed: impl Fn(&str) -> bool) -> Result<(), String> {
        let only_with = |name: &str, other: &str, holds: bool| {
            if is_changed(name) && !holds { Err(format!("{name} needs {other}")) } else { Ok(()) }
        };
        only_with("root", "zookeeper, where it is", self.zookeeper.is_some())?;
        if let Some(connect) = &self.zookeeper {
            if self.brokers.is_empty() {
                self.brokers = format!("{SCHEME}{connect}");
            }
            if let Some(root) = self.root.as_ref().filter(|_| !is_changed("store")) {
                self.store = store_in(connect, root)?;
            }
        }
        let backs_off = self.retry == "backoff";
        for name in ["retry_first", "retry_multiplier", "retry_longest", "retry_jitter"] {
            only_with(name, "retry = backoff", backs_off)?;
        }
        let goes_there = self.on_exhausted == Some("dead_letter");
        for name in ["topic", "create", "form", "oversize", "break_at"] {
            only_with(&format!("dead_letter_{name}"), "on_exhausted = dead_letter", goes_there)?;
        }
        only_with("null_is_a_key", "order = by_key", self.by_key)?;
        for name in ["workers", "concurrency", "exec_timeout"] {
            only_with(name, "exec, the command", self.exec.is_some())?;
        }
        only_with(
            "ack_on_write",
            "records on standard output, which --exec takes elsewhere",
            self.exec.is_none(),
        )?;
        if goes_there && self.dead_letters.topic.is_empty() {
            return Err("on_exhausted = dead_letter needs dead_letter_topic".into());
        }
        if self.topics.is_empty() {
            return Err("no topics: say what to read with --topic (-t)".into());
        }
        if self.id.is_none() && self.is_durable() {
            return Err("no id: say with --id under which name positions are kept".into());
        }
        only_with(
            "members",
            "a store in ZooKeeper (--store zk://…)",
            matches!(self.store, StoreName::ZooKeeper(_)),
        )?;
        if self.members && self.exit_at_end {
            return Err(
                "exit_at_end and members don't go together: partitions come and go, and no member knows when all is done"
                    .into(),
            );
        }
        if self.members && self.settings.total_tasks != 1 {
            return Err(
                "partitions are either those of a task (total_tasks) or shared (members), not both".into()
            );
        }
        self.settings.retry = match self.retry {
            "failed_set" => RetryMode::FailedSet,
            "rewind" => RetryMode::Rewind,
            _ => RetryMode::Backoff(self.backoff),
        };
        self.settings.on_exhausted = match self.on_exhausted {
            Some("dead_letter") => Some(OnExhausted::DeadLetter(self.dead_letters.clone())),
            Some("stop") => Some(OnExhausted::Stop),
            Some(_) => Some(OnExhausted::Skip),
            None => None,
        };
        if self.by_key {
            self.settings.order = Order::ByKey { null_is_a_key: self.null_is_a_key };
        }
        self.settings.check().map_err(|why| why.to_string())
    }

    /// Where the brokers are, and how to talk to them.
    pub(super) fn connect(&self) -> Result<Target, Failure> {
        let brokers = Some(self.brokers.clone()).filter(|list| !list.is_empty());
        let mut target =
            ConnectArgs::new(brokers, self.properties.clone(), self.client_config.clone()).target()?;
        let properties = &mut target.properties;
        properties.isolation = Some(self.settings.stream.isolation);
        properties.rack = self.rack.clone();
        properties.memory = Some(self.memory);
        Ok(target)
    }

    /// Whether positions outlive this process.
    pub(crate) fn is_durable(&self) -> bool {
        self.store.is_durable()
    }

    /// The name under which positions are kept.
    pub(crate) fn id(&self) -> &str {
        // Seen by nobody else when positions are in memory.
        self.id.as_deref().unwrap_or("spout")
    }
}

/// `[HOST:]PORT`.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("expected PORT or ADDRESS:PORT, as in 9898 or 0.0.0.0:9898; it is {text:?}");
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().map_err(|_| expected())?,
    };
    Ok(SocketAddr::new(host, port.parse().map_err(|_| expected())?))
}
