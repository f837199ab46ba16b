use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::reader::Reader;
use super::streams::check_start;
use super::{
    CorruptPolicy, EndOffset, MergedStream, PartitionStream, StartOffset, StreamOptions, TopicPartition,
};
use crate::client::cluster::{Cluster, KnownTopic, Shared, TopicState};
use crate::client::fetcher::inbox::Inbox;
use crate::client::recovery::ResetPolicy;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::records::{CrcCheck, Isolation};

/// One partition of a cluster; see [`Cluster::partition`].
#[derive(Debug, Clone)]
pub struct PartitionRef {
    cluster: Cluster,
    topic: Arc<str>,
    partition: i32,
}

impl Cluster {
    /// A partition, to be streamed or asked about.
    pub fn partition(&self, topic: &str, partition: i32) -> PartitionRef {
        PartitionRef { cluster: self.clone(), topic: topic.into(), partition }
    }

    /// Streams several partitions as one.
    pub fn streams(&self) -> StreamsBuilder {
        StreamsBuilder {
            common: Common::new(self),
            start: StartOffset::Earliest,
            topics: Vec::new(),
            partitions: Vec::new(),
        }
    }
}

impl PartitionRef {
    /// A stream of its records; `.await` opens it.
    pub fn stream(&self, start: StartOffset) -> StreamBuilder {
        StreamBuilder {
            common: Common::new(&self.cluster),
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            start,
        }
    }

    /// Where its log starts.
    pub async fn earliest_offset(&self) -> Result<i64> {
        self.cluster.earliest_offset(&self.topic, self.partition).await
    }

    /// Where its log ends; under read_committed, where its first open transaction starts.
    pub async fn latest_offset(&self) -> Result<i64> {
        self.cluster.latest_offset(&self.topic, self.partition).await
    }
}

/// What both builders have.
#[derive(Debug, Clone)]
struct Common {
    cluster: Cluster,
    options: StreamOptions,
    end: EndOffset,
    wait_for_topic: Option<Duration>,
}

impl Common {
    fn new(cluster: &Cluster) -> Self {
        let settings = &cluster.shared().settings.client;
        let options = StreamOptions {
            isolation: settings.isolation,
            crc: settings.crc,
            max_inflated: settings.max_inflated,
            ..StreamOptions::default()
        };
        Common { cluster: cluster.clone(), options, end: EndOffset::Never, wait_for_topic: None }
    }

    fn check(&self) -> Result<()> {
        self.options.check(self.cluster.shared().settings.client.request_timeout)
    }

    async fn look_up(&self, topic: &str) -> Result<KnownTopic> {
        look_up(self.cluster.shared(), topic, self.wait_for_topic).await
    }

    fn reader(&self, inbox: &Arc<Inbox>, options: &Arc<StreamOptions>) -> Reader {
        Reader::new(self.cluster.fetcher(), Arc::clone(inbox), Arc::clone(options))
    }
}

macro_rules! common_settings {
    () => {
        /// All settings at once.
        pub fn options(mut self, options: StreamOptions) -> Self {
            self.common.options = options;
            self
        }

        /// What to do about a position that the log does not hold; an error by default.
        pub fn reset(mut self, policy: ResetPolicy) -> Self {
            self.common.options.reset = policy;
            self
        }

        /// What to do about damage; an error by default.
        pub fn corrupt(mut self, policy: CorruptPolicy) -> Self {
            self.common.options.corrupt = policy;
            self
        }

        /// Whose records are read; read_committed by default, where the broker can say (0.11 on).
        pub fn isolation(mut self, isolation: Isolation) -> Self {
            self.common.options.isolation = isolation;
            self
        }

        /// What to do about checksums; verified by default.
        pub fn crc(mut self, crc: CrcCheck) -> Self {
            self.common.options.crc = crc;
            self
        }

        /// Bytes of one partition in one answer; 1 MiB by default.
        pub fn partition_bytes(mut self, bytes: i32) -> Self {
            self.common.options.partition_bytes = bytes;
            self
        }

        /// How long a broker waits for records where there are none; 500 ms by default.
        pub fn max_wait(mut self, wait: Duration) -> Self {
            self.common.options.max_wait = wait;
            self
        }

        /// Bytes that a broker waits for, at most `max_wait`; 1 by default.
        pub fn min_bytes(mut self, bytes: i32) -> Self {
            self.common.options.min_bytes = bytes;
            self
        }

        /// Where it ends; nowhere by default.
        pub fn until(mut self, end: EndOffset) -> Self {
            self.common.end = end;
            self
        }

        /// Waits so long for a topic that does not exist yet, instead of an error at once.
        pub fn wait_for_topic(mut self, timeout: Duration) -> Self {
            self.common.wait_for_topic = Some(timeout);
            self
        }
    };
}

/// Settings of a [`PartitionStream`]; `.await` opens it.
#[derive(Debug, Clone)]
#[must_use = "a stream opens when this is awaited"]
pub struct StreamBuilder {
    common: Common,
    topic: Arc<str>,
    partition: i32,
    start: StartOffset,
}

impl StreamBuilder {
    common_settings!();

    /// Opens the stream: the topic and the partition must exist. Its start is found out by the
    /// stream itself, so that it need not be known for [`PartitionStream::seek`].
    pub async fn open(self) -> Result<PartitionStream> {
        let StreamBuilder { common, topic, partition, start } = self;
        let place = |why: Error| why.with_topic(&*topic).with_partition(partition);
        common.check()?;
        check_start(start).map_err(place)?;
        let known = common.look_up(&topic).await?;
        if usize::try_from(partition).is_err() || partition as usize >= known.partitions.len() {
            return Err(place(Error::new(ErrorKind::UnknownPartition {
                partitions: known.partitions.len(),
            })));
        }
        let inbox = Arc::new(Inbox::default());
        let options = Arc::new(common.options.clone());
        let reader = common.reader(&inbox, &options);
        let slot = reader.fetcher.add(&inbox, (&topic, partition), &options, start, common.end);
        Ok(PartitionStream::new(reader, slot))
    }
}

impl IntoFuture for StreamBuilder {
    type Output = Result<PartitionStream>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Settings of a [`MergedStream`]; `.await` opens it.
#[derive(Debug, Clone)]
#[must_use = "a stream opens when this is awaited"]
pub struct StreamsBuilder {
    common: Common,
    start: StartOffset,
    topics: Vec<Arc<str>>,
    partitions: Vec<(TopicPartition, Option<StartOffset>, Option<EndOffset>)>,
}

impl StreamsBuilder {
    common_settings!();

    /// Reads all partitions of a topic, those that are added to it later too (from their start).
    pub fn topic(mut self, topic: &str) -> Self {
        if !self.topics.iter().any(|known| **known == *topic) {
            self.topics.push(topic.into());
        }
        self
    }

    /// Reads all partitions of these topics.
    pub fn topics<T: AsRef<str>>(self, topics: impl IntoIterator<Item = T>) -> Self {
        topics.into_iter().fold(self, |builder, topic| builder.topic(topic.as_ref()))
    }

    /// Reads that partition.
    pub fn partition(mut self, topic: &str, partition: i32) -> Self {
        self.partitions.push((TopicPartition::new(topic, partition), None, None));
        self
    }

    /// Reads that partition from there on; also one of a topic that is read whole.
    pub fn partition_from(mut self, topic: &str, partition: i32, start: StartOffset) -> Self {
        self.partitions.push((TopicPartition::new(topic, partition), Some(start), None));
        self
    }

    /// Reads that partition from there to there, whatever is said of the others.
    pub fn partition_between(
        mut self,
        topic: &str,
        partition: i32,
        start: StartOffset,
        end: EndOffset,
    ) -> Self {
        self.partitions.push((TopicPartition::new(topic, partition), Some(start), Some(end)));
        self
    }

    /// Where partitions start for which nothing else is said; at their start by default.
    pub fn start(mut self, start: StartOffset) -> Self {
        self.start = start;
        self
    }

    /// Opens the stream: the topics and partitions must exist.
    pub async fn open(self) -> Result<MergedStream> {
        let StreamsBuilder { common, start, topics, partitions } = self;
        common.check()?;
        if topics.is_empty() && partitions.is_empty() {
            return Err(Error::config("a stream needs a topic or a partition to read"));
        }
        let mut wanted = std::collections::BTreeMap::new();
        let mut whole = Vec::new();
        let mut counts = std::collections::BTreeMap::new();
        for topic in topics {
            let count = common.look_up(&topic).await?.partitions.len();
            counts.insert(Arc::clone(&topic), count);
            let count = i32::try_from(count).unwrap_or(i32::MAX);
            for number in 0..count {
                wanted.insert(TopicPartition::new(Arc::clone(&topic), number), (start, common.end));
            }
            whole.push((topic, count));
        }
        for (partition, from, to) in partitions {
            let TopicPartition { topic, partition: number } = &partition;
            let place = |why: Error| why.with_topic(&**topic).with_partition(*number);
            let from = from.unwrap_or(start);
            check_start(from).map_err(place)?;
            let count = match counts.get(topic) {
                Some(count) => *count,
                None => common.look_up(topic).await?.partitions.len(),
            };
            counts.insert(Arc::clone(topic), count);
            if usize::try_from(*number).is_err() || *number as usize >= count {
                return Err(place(Error::new(ErrorKind::UnknownPartition { partitions: count })));
            }
            wanted.insert(partition, (from, to.unwrap_or(common.end)));
        }
        check_start(start)?;
        let inbox = Arc::new(Inbox::default());
        let options = Arc::new(common.options.clone());
        let reader = common.reader(&inbox, &options);
        for (partition, (start, end)) in wanted {
            let TopicPartition { topic, partition } = partition;
            reader.fetcher.add(&inbox, (&topic, partition), &options, start, end);
        }
        if common.end == EndOffset::Never {
            for (topic, count) in whole {
                reader.fetcher.grow(&inbox, &topic, count, &options);
            }
        }
        Ok(MergedStream::new(reader))
    }
}

impl IntoFuture for StreamsBuilder {
    type Output = Result<MergedStream>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Asks about a topic until it is there, for as long as `wait` says.
async fn look_up(shared: &Arc<Shared>, topic: &str, wait: Option<Duration>) -> Result<KnownTopic> {
    struct Wanted<'a>(&'a Shared, &'a str);
    impl Drop for Wanted<'_> {
        fn drop(&mut self) {
            self.0.forget_topic(self.1);
        }
    }
    shared.want_topic(topic);
    let _wanted = Wanted(shared, topic);
    let began = tokio::time::Instant::now();
    let mut picture = shared.picture();
    let mut fresh = false;
    loop {
        let why = match picture.topic(topic) {
            Some(TopicState::Known(known)) => return Ok(known.clone()),
            Some(TopicState::Missing { near }) if fresh => {
                let why = Error::new(ErrorKind::UnknownTopic { near: near.clone() }).with_topic(topic);
                if wait.is_none_or(|wait| began.elapsed() >= wait) {
                    return Err(why);
                }
                Some(why)
            }
            Some(TopicState::Failed(why)) if fresh => {
                let passes = matches!(why.retry(), Retry::Again | Retry::RefreshMetadata);
                let patience = wait.unwrap_or(shared.settings.api_timeout);
                if !passes || began.elapsed() >= patience {
                    return Err(why.clone().with_topic(topic));
                }
                Some(why.clone())
            }
            _ => None,
        };
        tracing::trace!(topic, ?why, "asking for metadata");
        picture = shared.refresh(picture.serial).await.map_err(|why| why.with_topic(topic))?;
        fresh = true;
    }
}
