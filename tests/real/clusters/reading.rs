//! The streams under test: a client of the cluster, and what its streams hand out.

use std::ops::Range;
use std::time::Duration;

use downspout::client::{
    Cluster, ClusterBuilder, Item, PartitionStream, Recovered, ResetPolicy, StartOffset,
};
use downspout::records::Batch;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::harness::{Kafka, Result};

/// How long a stream may take for the next thing it hands out: a fail-over on a busy machine and then some.
const PATIENCE: Duration = Duration::from_secs(90);

/// Offset and value.
pub type Record = (i64, String);

/// A client and the threads it runs on; streams go on fetching between calls.
pub struct Reading {
    pub runtime: Runtime,
    pub cluster: Cluster,
}

impl Reading {
    /// Knows of topics that go or grow within a second.
    pub fn connect(kafka: &Kafka) -> Result<Self> {
        Self::with(kafka, |builder| builder.metadata_max_age(Duration::from_secs(1)))
    }

    pub fn with(kafka: &Kafka, settings: impl Fn(ClusterBuilder) -> ClusterBuilder) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        let builder = settings(Cluster::builder(kafka.bootstrap().split(',')));
        let cluster = runtime.block_on(builder.connect()).map_err(|e| e.to_string())?;
        Ok(Self { runtime, cluster })
    }

    pub fn stream(&self, topic: &str, start: StartOffset, policy: ResetPolicy) -> Result<Stream<'_>> {
        let builder = self.cluster.partition(topic, 0).stream(start).reset(policy);
        let stream = self.runtime.block_on(builder.open()).map_err(|e| e.to_string())?;
        Ok(Stream { reading: self, stream })
    }
}

/// A stream of partition 0, asked from plain code.
pub struct Stream<'a> {
    reading: &'a Reading,
    pub stream: PartitionStream,
}

impl Stream<'_> {
    /// The next thing, except that it says that nothing could be read for long: that depends on the machine.
    pub fn next(&mut self) -> Result<std::result::Result<Item, downspout::Error>> {
        loop {
            let next = self.reading.runtime.block_on(async { timeout(PATIENCE, self.stream.next()).await });
            match next.map_err(|_| format!("nothing in {PATIENCE:?} at {:?}", self.stream.position()))? {
                Ok(Some(Item::Recovered(Recovered::Stalled { .. }))) => {}
                Ok(Some(item)) => return Ok(Ok(item)),
                Ok(None) => return Err("the stream ended".to_owned()),
                Err(why) => return Ok(Err(why)),
            }
        }
    }

    /// Reads records up to and without offset `end`, in whole batches; anything else is an error.
    pub fn read_to(&mut self, end: i64) -> Result<Vec<Record>> {
        let mut found = Vec::new();
        while self.stream.position().is_none_or(|position| position < end) {
            match self.next()? {
                Ok(Item::Batch(batch)) => found.extend(records(&batch)?),
                other => return Err(format!("instead of records up to {end}: {other:?}")),
            }
        }
        Ok(found)
    }

    /// The next thing, which must be an event.
    pub fn event(&mut self) -> Result<Recovered> {
        match self.next()? {
            Ok(Item::Recovered(event)) => Ok(event),
            other => Err(format!("instead of an event: {other:?}")),
        }
    }

    /// The next thing, which must be an error.
    pub fn error(&mut self) -> Result<downspout::Error> {
        match self.next()? {
            Err(why) => Ok(why),
            other => Err(format!("instead of an error: {other:?}")),
        }
    }

    /// The next thing but the word that the topic is gone or back, which depends on when the stream looked.
    pub fn after_vanishing(&mut self) -> Result<std::result::Result<Item, downspout::Error>> {
        loop {
            match self.next()? {
                Ok(Item::Recovered(Recovered::Vanished { .. } | Recovered::Returned { .. })) => {}
                other => return Ok(other),
            }
        }
    }

    pub fn seek(&mut self, to: StartOffset) -> Result<()> {
        self.stream.seek(to).map_err(|e| e.to_string())
    }
}

/// The records of a batch.
pub fn records(batch: &Batch) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    for record in batch.records() {
        let record = record.map_err(|e| e.to_string())?;
        let value = String::from_utf8_lossy(record.value().ok_or("a null value")?);
        found.push((record.offset(), value.trim_end().to_owned())); // padded, if at all, with blanks
    }
    Ok(found)
}

/// Numbers as they stand in a log that has nothing else, from an offset on.
pub fn numbers(first_offset: i64, numbers: Range<u64>) -> Vec<Record> {
    (first_offset..).zip(numbers.map(|number| number.to_string())).collect()
}

/// Names the first difference instead of printing two long lists.
pub fn same(what: &str, expected: &[Record], found: &[Record]) -> Result<()> {
    if let Some(at) = (0..expected.len().max(found.len())).find(|&at| expected.get(at) != found.get(at)) {
        return Err(format!(
            "{what}: record {at} of {} is {:?}, not {:?}, which is record {at} of {}",
            found.len(),
            found.get(at),
            expected.get(at),
            expected.len()
        ));
    }
    Ok(())
}
