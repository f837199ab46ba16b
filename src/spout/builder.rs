use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::driver;
use super::membership::Membership;
use super::settings::{Limits, OnExhausted, OnPoison, Order, RetryMode, SpoutSettings};
use super::spout::Spout;
use crate::checkpoint::CheckpointStore;
use crate::client::{Cluster, StartOffset};
use crate::error::{Error, Result};

/// The brokers that a spout reads from.
#[derive(Debug, Clone)]
pub struct Brokers(pub(super) From);

#[derive(Debug, Clone)]
pub(super) enum From {
    Bootstrap(Vec<String>),
    Cluster(Box<Cluster>),
}

impl Brokers {
    /// Those of a cluster that one of these addresses (`host`, `host:port`, `[v6]:port`) leads to.
    #[doc(alias = "ZkHosts")]
    #[doc(alias = "BrokerHosts")]
    pub fn bootstrap<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Self {
        Brokers(From::Bootstrap(addresses.into_iter().map(|address| address.as_ref().to_owned()).collect()))
    }

    /// Those of a cluster that is set up already, with its memory budget and time-outs.
    #[doc(alias = "StaticHosts")]
    pub fn cluster(cluster: Cluster) -> Self {
        Brokers(From::Cluster(Box::new(cluster)))
    }
}

impl std::convert::From<Cluster> for Brokers {
    fn from(cluster: Cluster) -> Self {
        Brokers::cluster(cluster)
    }
}

/// Topics by a rule over their names (storm-kafka's wildcard topics).
#[derive(Clone)]
pub struct TopicPattern {
    label: String,
    matches: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl TopicPattern {
    /// The topics for which `matches` holds; `label` is how the rule is shown.
    pub fn new(label: impl Into<String>, matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        TopicPattern { label: label.into(), matches: Arc::new(matches) }
    }

    /// Whether that name is meant. Names with two leading underscores are the brokers' own, and never are.
    pub fn matches(&self, topic: &str) -> bool {
        !topic.starts_with("__") && (self.matches)(topic)
    }
}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicPattern({})", self.label)
    }
}

/// What a spout is made of; see [`Spout::builder`].
#[derive(Debug)]
#[must_use = "a spout starts when this is built"]
#[doc(alias = "SpoutConfig")]
#[doc(alias = "KafkaConfig")]
pub struct SpoutBuilder {
    pub(super) brokers: Brokers,
    pub(super) topics: BTreeSet<String>,
    pub(super) patterns: Vec<TopicPattern>,
    pub(super) id: Option<String>,
    pub(super) store: Option<Arc<dyn CheckpointStore>>,
    pub(super) membership: Option<Membership>,
    pub(super) settings: SpoutSettings,
}

impl SpoutBuilder {
    pub(super) fn new(brokers: Brokers) -> Self {
        SpoutBuilder {
            brokers,
            topics: BTreeSet::new(),
            patterns: Vec::new(),
            id: None,
            store: None,
            membership: None,
            settings: SpoutSettings::default(),
        }
    }

    /// Reads this topic too.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.insert(topic.into());
        self
    }

    /// Reads these topics too.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// Reads the topics whose names match too, those that come later included.
    #[doc(alias = "kafka.topic.wildcard.match")]
    pub fn topics_matching(mut self, pattern: TopicPattern) -> Self {
        self.patterns.push(pattern);
        self
    }

    /// The name under which positions are kept. Two spouts with one id on one store are one too many.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Where positions are kept.
    pub fn checkpoints(mut self, store: impl CheckpointStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Shares the partitions among all processes that run this spout, instead of by [`task`](Self::task).
    pub fn members(mut self, membership: Membership) -> Self {
        self.membership = Some(membership);
        self
    }

    /// All settings at once.
    pub fn settings(mut self, settings: SpoutSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Where a partition without a checkpoint starts.
    pub fn start(mut self, start: StartOffset) -> Self {
        self.settings.start = start;
        self
    }

    /// How failed records come again.
    pub fn retry(mut self, retry: RetryMode) -> Self {
        self.settings.retry = retry;
        self
    }

    /// How often a record may fail, and what becomes of it then.
    pub fn retry_limit(mut self, limit: u32, then: OnExhausted) -> Self {
        self.settings.retry_limit = Some(limit);
        self.settings.on_exhausted = Some(then);
        self
    }

    /// What to do about records that cannot be read.
    pub fn on_poison(mut self, policy: OnPoison) -> Self {
        self.settings.on_poison = policy;
        self
    }

    /// Records taken in and not safely done, per partition.
    pub fn window(mut self, records: usize, bytes: usize) -> Self {
        self.settings.window = Limits { records, bytes };
        self
    }

    /// Which records may run at the same time.
    pub fn order(mut self, order: Order) -> Self {
        self.settings.order = order;
        self
    }

    /// Time between commits.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.settings.commit_interval = interval;
        self
    }

    /// A record that was handed out so long ago has failed.
    pub fn ack_timeout(mut self, timeout: Duration) -> Self {
        self.settings.ack_timeout = Some(timeout);
        self
    }

    /// Reads the partitions of task `index` of `total`.
    pub fn task(mut self, index: usize, total: usize) -> Self {
        self.settings.task_index = index;
        self.settings.total_tasks = total;
        self
    }

    /// Starts the spout: settings are checked, the store proves that it may write, topics must exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for settings that do not fit; else what the
    /// store or the cluster says.
    pub async fn build(self) -> Result<Spout> {
        self.settings.check()?;
        if self.membership.is_some() && self.settings.total_tasks != 1 {
            return Err(Error::config(
                "partitions are either those of a task (.task(…)) or shared among members (.members(…)), not both",
            ));
        }
        if self.topics.is_empty() && self.patterns.is_empty() {
            return Err(Error::config("a spout needs a topic to read: .topic(…) or .topics_matching(…)"));
        }
        let Some(id) = self.id.clone() else {
            return Err(Error::config("a spout needs an id, under which its positions are kept: .id(…)"));
        };
        if id.is_empty() || id.contains(['/', '\0']) || id == "." || id == ".." {
            return Err(Error::config(format!(
                "{id:?} is no id: it names a place in the store, without '/'"
            )));
        }
        driver::start(self, id).await
    }
}
