//! `downspout demo --read`: a topic written to a broker, and what comes back.

use std::fmt;
use std::io::{self, BufWriter, Write};

use downspout::client::{Cluster, EndOffset, Item, StartOffset};
use downspout::records::{Batch, Codec, Magic, NewHeader, NewRecord, Record, RecordSetWriter, WriteError};
use downspout::testing::{EmbeddedBroker, Release};

use crate::exit::{Exit, Failure};

const TOPIC: &str = "clicks";

/// A record as it is written.
struct Click {
    key: Option<&'static str>,
    value: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
}

/// What is written: one batch per row, with its partition and codec.
const WRITTEN: &[(i32, Codec, &[Click])] = &[
    (
        0,
        Codec::None,
        &[
            click("alice", "/", &[("trace", "4bf92f35"), ("device", "phone")]),
            click("alice", "/cart", &[("trace", "4bf92f36")]),
        ],
    ),
    (0, Codec::Gzip, &[click("dave", "/", &[]), click("dave", "/search?q=kafka", &[])]),
    (1, Codec::Snappy, &[click("bob", "/", &[("trace", "a3ce929d")]), click("bob", "/help", &[])]),
    // A tombstone, as in a compacted topic: the key with nothing any more.
    (1, Codec::None, &[Click { key: Some("bob"), value: None, headers: &[] }]),
    (2, Codec::Lz4, &[click("carol", "/", &[]), click("carol", "/größe", &[])]),
    (2, Codec::Zstd, &[Click { key: None, value: Some("/robots.txt"), headers: &[] }]),
];

const fn click(
    key: &'static str,
    value: &'static str,
    headers: &'static [(&'static str, &'static str)],
) -> Click {
    Click { key: Some(key), value: Some(value), headers }
}

/// 2026-01-01T09:00:00Z, the time of the first click; one follows every second.
const FIRST_CLICK_MS: i64 = 1_767_258_000_000;

pub(super) async fn run(release: Release) -> Result<Exit, Failure> {
    let broker = start(release).map_err(failed)?;
    let mut out = BufWriter::new(io::stdout().lock());
    show(&broker, release, &mut out).await?;
    out.flush().map_err(Failure::output)?;
    Ok(Exit::Ok)
}

/// A broker with the topic in it.
fn start(release: Release) -> Result<EmbeddedBroker, Box<dyn std::error::Error>> {
    let partitions = WRITTEN.iter().map(|(partition, ..)| partition + 1).max().unwrap_or(1);
    let broker = EmbeddedBroker::builder().release(release).topic(TOPIC, partitions).start()?;
    let mut time = FIRST_CLICK_MS;
    for (partition, codec, clicks) in WRITTEN {
        broker.append(TOPIC, *partition, &batch(release, *codec, clicks, time)?)?;
        time += 1_000 * clicks.len() as i64;
    }
    Ok(broker)
}

/// A record set in the format of the release.
fn batch(release: Release, codec: Codec, clicks: &[Click], time: i64) -> Result<bytes::Bytes, WriteError> {
    let magic = format(release);
    let mut set = RecordSetWriter::new(magic).codec(known(codec, release));
    for (click, timestamp) in clicks.iter().zip((time..).step_by(1_000)) {
        let headers: Vec<NewHeader<'_>> =
            click.headers.iter().map(|(key, value)| (key.as_bytes(), Some(value.as_bytes()))).collect();
        set.push(NewRecord {
            offset: None,
            timestamp: Some(timestamp),
            key: click.key.map(str::as_bytes),
            value: click.value.map(str::as_bytes),
            headers: if magic == Magic::V2 { &headers } else { &[] },
        })?;
    }
    set.finish()
}

fn format(release: Release) -> Magic {
    match release.magic() {
        0 => Magic::V0,
        1 => Magic::V1,
        _ => Magic::V2,
    }
}

/// The codec, or gzip where the release does not know it yet.
fn known(codec: Codec, release: Release) -> Codec {
    match codec {
        Codec::Lz4 if release < Release::V0_8_2 => Codec::Gzip,
        Codec::Zstd if release < Release::V2_1 => Codec::Gzip,
        codec => codec,
    }
}

/// Reads the topic back, a line a record, and says what it was in the end.
async fn show(broker: &EmbeddedBroker, release: Release, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "Kafka {release} is up inside this process, on {}. Read from it:\n", broker.addr())
        .map_err(Failure::output)?;
    let cluster = Cluster::connect([broker.addr()]).await.map_err(failed)?;
    let mut batches = Vec::new();
    let mut expected =
        WRITTEN.iter().flat_map(|(partition, _, clicks)| clicks.iter().map(|it| (*partition, it)));
    for partition in cluster.partitions(TOPIC).await.map_err(failed)? {
        let stream = cluster.partition(TOPIC, partition).stream(StartOffset::Earliest);
        let mut stream = stream.until(EndOffset::Latest).await.map_err(failed)?;
        while let Some(item) = stream.next().await.map_err(failed)? {
            let batch = match item {
                Item::Batch(batch) => batch,
                Item::Recovered(event) => return Err(failed(event)),
                other => return Err(failed(format_args!("{other:?} came, which was not written"))),
            };
            for record in batch.records() {
                let record = record.map_err(failed)?;
                let right = expected.next().is_some_and(|(to, click)| to == partition && click.is(&record));
                if !right {
                    let place = format_args!("{TOPIC}/{partition} @{}", record.offset());
                    return Err(failed(format_args!("{place}: this is not what was written")));
                }
                writeln!(out, "{}", Line { partition, record: &record }).map_err(Failure::output)?;
            }
            batches.push(Row::of(partition, &batch));
        }
    }
    if expected.next().is_some() {
        return Err(failed("not every record came"));
    }
    writeln!(out, "\n{:<10}{:<9}{:>8}  {:<8}format", "partition", "offsets", "inflated", "codec")
        .map_err(Failure::output)?;
    batches.iter().try_for_each(|row| writeln!(out, "{row}")).map_err(Failure::output)?;
    let (rows, bytes) = (batches.len(), batches.iter().map(|row| row.bytes).sum::<usize>());
    let count: usize = WRITTEN.iter().map(|(.., clicks)| clicks.len()).sum();
    writeln!(out, "\nAll {count} records came as they were written: {rows} batches, {bytes} bytes.")
        .map_err(Failure::output)
}

fn failed(error: impl fmt::Display) -> Failure {
    Failure::new(Exit::Found, error)
}

impl Click {
    /// Whether this is what came back; formats before magic 2 lose the headers.
    fn is(&self, record: &Record<'_>) -> bool {
        let headers = record.headers().into_iter().map(|header| (header.key, header.value));
        let own = self.headers.iter().map(|(key, value)| (key.as_bytes(), Some(value.as_bytes())));
        record.key() == self.key.map(str::as_bytes)
            && record.value() == self.value.map(str::as_bytes)
            && (record.headers().is_empty() || headers.eq(own))
    }
}

/// A record, as one line.
struct Line<'a> {
    partition: i32,
    record: &'a Record<'a>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        write!(f, "{TOPIC}/{} @{}", self.partition, record.offset())?;
        if let Some(timestamp) = record.timestamp() {
            let seconds = timestamp.div_euclid(1_000).rem_euclid(86_400);
            write!(f, "  {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        }
        let text = |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => "null".to_owned(),
        };
        write!(f, "  {} → {}", text(record.key()), text(record.value()))?;
        let mut before = "  (";
        for header in record.headers() {
            write!(f, "{before}{}={}", text(Some(header.key)), text(header.value))?;
            before = ", ";
        }
        if record.headers().is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// A batch, as one line.
struct Row {
    partition: i32,
    first: i64,
    last: i64,
    /// Inflated.
    bytes: usize,
    codec: &'static str,
    format: &'static str,
}

impl Row {
    fn of(partition: i32, batch: &Batch) -> Row {
        Row {
            partition,
            first: batch.base_offset(),
            last: batch.last_offset(),
            bytes: batch.size(),
            codec: batch.codec().name(),
            format: match batch.magic() {
                Magic::V0 => "messages, magic 0",
                Magic::V1 => "messages, magic 1",
                Magic::V2 => "batch, magic 2",
            },
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = format!("{TOPIC}/{}", self.partition);
        let offsets = match self.last - self.first {
            0 => self.first.to_string(),
            _ => format!("{}–{}", self.first, self.last),
        };
        write!(f, "{partition:<10}{offsets:<9}{:>8}  {:<8}{}", self.bytes, self.codec, self.format)
    }
}
