//! Sends records: batches per partition, one request per leader, again where that can help.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use downspout::client::{BrokerInfo, Cluster};
use downspout::net::{BrokerAddress, Connection, VersionSource};
use downspout::protocol::{
    ErrorCode, ProducePartition, ProduceRequest, ProduceTopic, ProducedPartition, Request, Versions,
};
use downspout::records::{Codec, Magic, NewHeader, NewRecord, RecordSetWriter};
use downspout::wire::Uuid;
use downspout::{Error, ErrorKind, Retry};
use serde_json::json;

use super::lines::Line;
use crate::connect::Target;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// How records are written.
pub(super) struct Format {
    /// The format on the wire, if one is asked for.
    pub(super) magic: Option<u8>,
    pub(super) codec: Codec,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) acks: i16,
    /// For the replicas that must have a record.
    pub(super) timeout: Duration,
    /// Keys and values of a batch, in bytes, before it is compressed.
    pub(super) batch_bytes: usize,
}

pub(super) struct Sender<'a> {
    cluster: Cluster,
    target: Target,
    /// From Produce 13 on topics go by their ids; asked for before the first batch.
    topic_id: Option<Uuid>,
    /// For acks 0.
    unanswered: HashMap<BrokerAddress, Connection>,
    topic: &'a str,
    format: Format,
    /// Batches to send, by partition.
    queues: BTreeMap<i32, VecDeque<Batch>>,
    output: Output<io::StdoutLock<'static>>,
    json: bool,
    retries: u32,
    /// Tries in a row that brought nothing forward.
    tries: u32,
    /// Records that the broker refused for their size.
    refused: u64,
}

/// Records that go out together.
#[derive(Default)]
struct Batch {
    lines: Vec<Line>,
    /// Bytes that they take, about.
    size: usize,
}

/// What a record takes beside key and value, in the format where that is most.
const OVERHEAD: usize = 34;

impl Batch {
    fn push(&mut self, line: Line) {
        self.size += line.size() + OVERHEAD;
        self.lines.push(line);
    }
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        cluster: Cluster,
        target: Target,
        topic: &'a str,
        format: Format,
        retries: u32,
        json: bool,
    ) -> Self {
        let output = Output::new(io::stdout().lock());
        let (topic_id, unanswered, queues, tries, refused) = Default::default();
        Sender {
            cluster,
            target,
            topic_id,
            unanswered,
            topic,
            format,
            queues,
            output,
            json,
            retries,
            tries,
            refused,
        }
    }

    /// Takes a record; it goes out with the next [`Sender::send`].
    pub(super) fn add(&mut self, partition: i32, line: Line) {
        let queue = self.queues.entry(partition).or_default();
        match queue.back_mut() {
            Some(batch) if batch.size + line.size() + OVERHEAD <= self.format.batch_bytes => batch.push(line),
            _ => {
                queue.push_back(Batch::default());
                if let Some(batch) = queue.back_mut() {
                    batch.push(line);
                }
            }
        }
    }

    /// The exit code, when all was sent.
    pub(super) fn exit(&self) -> Exit {
        if self.refused > 0 { Exit::Found } else { Exit::Ok }
    }

    /// Sends everything, and waits for the acknowledgements.
    pub(super) async fn send(&mut self) -> Result<(), Failure> {
        loop {
            self.queues.retain(|_, queue| !queue.is_empty());
            if self.queues.is_empty() {
                return self.output.flush().map_err(Failure::output);
            }
            if let Err(error) = self.round().await? {
                self.again(error).await?;
            }
        }
    }

    /// Waits before another try, if one can help.
    async fn again(&mut self, error: Error) -> Result<(), Failure> {
        if !matches!(error.retry(), Retry::RefreshMetadata | Retry::Again) || self.tries >= self.retries {
            let waiting: usize = self.queues.values().flatten().map(|batch| batch.lines.len()).sum();
            let what = format!("{error}. At least {waiting} records were not sent, or not acknowledged");
            return Err(Failure::new(Exit::from(&error), what));
        }
        tokio::time::sleep(Duration::from_millis(100 << self.tries.min(6))).await;
        self.tries += 1;
        self.topic_id = None;
        // If it fails, so does the next try, which says why.
        let _ = self.cluster.refresh().await;
        Ok(())
    }

    /// Sends one batch of each partition; gives an error that another try may mend.
    async fn round(&mut self) -> Result<Result<(), Error>, Failure> {
        if self.topic_id.is_none() {
            match self.cluster.metadata(&[self.topic]).await {
                Ok(metadata) => {
                    let id = metadata.topic(self.topic).and_then(|topic| topic.id);
                    self.topic_id = Some(id.unwrap_or_default());
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        let mut leaders: BTreeMap<i32, (BrokerInfo, Vec<i32>)> = BTreeMap::new();
        for partition in self.queues.keys() {
            match self.cluster.leader(self.topic, *partition).await {
                Ok(leader) => {
                    leaders.entry(leader.id).or_insert_with(|| (leader, Vec::new())).1.push(*partition)
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        for (leader, partitions) in leaders.into_values() {
            match self.produce(&leader, &partitions).await? {
                Ok(answers) => {
                    for answer in answers {
                        if let Err(error) = self.answered(&answer)? {
                            return Ok(Err(error));
                        }
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Sends the first batch of each of these partitions to their leader.
    async fn produce(
        &mut self,
        leader: &BrokerInfo,
        partitions: &[i32],
    ) -> Result<Result<Vec<ProducedPartition>, Error>, Failure> {
        let consumer = match self.cluster.consumer(leader.id) {
            Ok(consumer) => consumer,
            Err(error) => return Ok(Err(error)),
        };
        let topic_id = self.topic_id.unwrap_or_default();
        // From 13 on topics go by their ids; zstd came with 7 (KIP-110).
        let newest = if topic_id.is_zero() { 12 } else { i16::MAX };
        let within = match self.format.magic {
            Some(0) => Versions { min: 0, max: 1 },
            Some(1) => Versions { min: 2, max: 2 },
            _ if self.format.codec == Codec::Zstd => Versions { min: 7, max: newest },
            Some(_) => Versions { min: 3, max: newest },
            None => Versions { min: 0, max: newest },
        };
        let versions = match consumer.versions().await {
            Ok(versions) => versions,
            Err(error) => return Ok(Err(error)),
        };
        let version = versions
            .choose_within::<ProduceRequest>(within)
            .map_err(|error| error.with_broker(consumer.broker()))?;
        let magic = match version {
            0 | 1 => Magic::V0,
            2 => Magic::V1,
            _ => Magic::V2,
        };
        let mut partition_data = Vec::new();
        for index in partitions {
            let batch = self.queues.get(index).and_then(VecDeque::front);
            let records = batch.map(|batch| self.format.records(magic, &batch.lines)).transpose()?;
            partition_data.push(ProducePartition { index: *index, records });
        }
        let request = ProduceRequest {
            acks: self.format.acks,
            timeout_ms: self.format.timeout.as_millis() as i32,
            topic_data: vec![ProduceTopic { name: self.topic.to_owned(), topic_id, partition_data }],
            ..ProduceRequest::default()
        };
        if self.format.acks == 0 {
            let sent = match self.unanswered(&leader.address, versions.source()).await {
                Ok(connection) => connection.request_without_answer(&request, version),
                Err(error) => Err(error),
            };
            let answer =
                |index: &i32| ProducedPartition { index: *index, base_offset: -1, ..Default::default() };
            return Ok(sent.map(|()| partitions.iter().map(answer).collect()));
        }
        let answer = consumer.send_version(request, version).await;
        let place = |error: Error| error.with_topic(self.topic).with_api(ProduceRequest::KEY, version);
        Ok(answer.map_err(place).and_then(|response| {
            let answers: Vec<_> =
                response.responses.into_iter().flat_map(|topic| topic.partition_responses).collect();
            let complete = partitions.iter().all(|index| answers.iter().any(|answer| answer.index == *index));
            if complete {
                Ok(answers)
            } else {
                Err(place(Error::new(ErrorKind::Incomplete("every partition"))))
            }
        }))
    }

    /// A connection for requests that no broker answers.
    async fn unanswered(
        &mut self,
        leader: &BrokerAddress,
        source: VersionSource,
    ) -> Result<Connection, Error> {
        if let Some(connection) = self.unanswered.get(leader).filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = self.target.dialer(source)?.dial(leader).await?;
        self.unanswered.insert(leader.clone(), connection.clone());
        Ok(connection)
    }

    /// Takes what a broker says to the first batch of a partition.
    fn answered(&mut self, answer: &ProducedPartition) -> Result<Result<(), Error>, Failure> {
        let (partition, code) = (answer.index, answer.error_code);
        let Some(queue) = self.queues.get_mut(&partition) else { return Ok(Ok(())) };
        if code.is_err() && code != ErrorCode::MESSAGE_TOO_LARGE && code != ErrorCode::RECORD_LIST_TOO_LARGE {
            let kind = ErrorKind::Broker { code, message: answer.error_message.clone() };
            return Ok(Err(Error::new(kind).with_topic(self.topic).with_partition(partition)));
        }
        let Some(Batch { mut lines, size }) = queue.pop_front() else { return Ok(Ok(())) };
        self.tries = 0;
        if code.is_err() && lines.len() > 1 {
            // Too large together: the halves may pass. Nothing is added to them.
            let rest = lines.split_off(lines.len() / 2);
            queue.push_front(Batch { lines: rest, size });
            queue.push_front(Batch { lines, size });
        } else if code.is_err() {
            self.refused += 1;
            let size = lines.first().map_or(0, Line::size);
            let what = format!("{}/{partition}: a record of {size} bytes was refused: {code}", self.topic);
            crate::progress::say(&what);
        } else if self.json {
            let first = Some(answer.base_offset).filter(|offset| *offset >= 0);
            let line = json!({
                "topic": self.topic,
                "partition": partition,
                "first_offset": first,
                "last_offset": first.map(|first| first + lines.len() as i64 - 1),
                "records": lines.len(),
            });
            self.output.raw(format!("{line}\n").as_bytes());
            self.output.check().map_err(Failure::output)?;
        }
        Ok(Ok(()))
    }
}

impl Format {
    fn records(&self, magic: Magic, batch: &[Line]) -> Result<Bytes, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(-1, |now| now.as_millis() as i64);
        let headers: Vec<NewHeader<'_>> =
            self.headers.iter().map(|(name, value)| (name.as_slice(), value.as_deref())).collect();
        let mut writer = RecordSetWriter::new(magic).codec(self.codec);
        for line in batch {
            let record = NewRecord {
                offset: None,
                timestamp: (magic != Magic::V0).then_some(now),
                key: line.key.as_deref(),
                value: line.value.as_deref(),
                headers: &headers,
            };
            writer.push(record).map_err(Failure::usage)?;
        }
        writer.finish().map_err(Failure::usage)
    }
}
