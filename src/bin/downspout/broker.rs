//! `downspout broker`: the embedded broker in the foreground, for trying things.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use bytes::Bytes;
use clap::Args;
use downspout::records::{Codec, Magic, NewRecord, RecordSetWriter};
use downspout::testing::{Builder, EmbeddedBroker, Release};

use crate::exit::{Exit, Failure};
use crate::signals::until_signal;

/// Run a broker in the foreground that keeps everything in memory, for trying things
///
/// It is the one that Downspout's own tests use, and can be any release. Once it listens it prints one
/// line with its address. What was written to it is gone when it ends.
#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// Where to listen; port 0 picks a free one. Further brokers listen on the ports after it
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_parser = listen)]
    listen: SocketAddr,
    /// The release of Kafka that it behaves as, from 0.8.0 on
    #[arg(long, value_name = "RELEASE", default_value_t = Release::LATEST)]
    release: Release,
    /// How many brokers there are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100))]
    brokers: i32,
    /// A topic that is there from the start; may be given several times
    #[arg(short, long, value_name = "NAME[:PARTITIONS]")]
    topic: Vec<NewTopic>,
    /// Do not create topics on first use
    #[arg(long)]
    no_auto_create: bool,
    /// A topic without an end, whose batch comes again and again, for measuring clients
    #[arg(long, value_name = "NAME[:PARTITIONS]")]
    endless: Vec<NewTopic>,
    /// Size of a record's value in an endless topic
    #[arg(long, value_name = "BYTES", default_value_t = 100, requires = "endless")]
    record_size: usize,
    /// Records in a batch of an endless topic
    #[arg(long, value_name = "N", default_value_t = 100, requires = "endless")]
    batch_records: usize,
    /// Codec of an endless topic
    #[arg(short = 'z', long, value_name = "CODEC", default_value_t = Codec::None, requires = "endless")]
    codec: Codec,
}

#[derive(Debug, Clone)]
struct NewTopic {
    name: String,
    partitions: i32,
}

impl FromStr for NewTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = text.rsplit_once(':').unwrap_or((text, "1"));
        let partitions = partitions.parse().ok().filter(|count| (1..=100_000).contains(count));
        let partitions = partitions.ok_or("expected NAME or NAME:PARTITIONS, with 1 to 100000 of them")?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 249 || !name.chars().all(allowed) {
            return Err("a topic's name holds letters, digits, '.', '_' and '-', at most 249".to_owned());
        }
        Ok(NewTopic { name: name.to_owned(), partitions })
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let expected = || "expected host:port, with a host that is an IP address or localhost".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host: IpAddr =
        if host == "localhost" { "127.0.0.1" } else { host }.parse().map_err(|_| expected())?;
    Ok(SocketAddr::new(host, port.parse().map_err(|_| "the port is a number up to 65535")?))
}

pub(crate) async fn run(args: &BrokerArgs) -> Result<Exit, Failure> {
    until_signal(serve(args)).await
}

async fn serve(args: &BrokerArgs) -> Result<Exit, Failure> {
    let mut builder = EmbeddedBroker::builder()
        .release(args.release)
        .brokers(args.brokers)
        .auto_create_topics(!args.no_auto_create)
        .host(args.listen.ip())
        .ports(&ports(args)?);
    for topic in &args.topic {
        builder = builder.topic(&topic.name, topic.partitions);
    }
    let broker = with_endless(builder, args)?.start().map_err(|error| {
        Failure::new(Exit::Unreachable, format_args!("cannot listen on {}: {error}", args.listen))
    })?;
    let mut out = io::stdout().lock();
    writeln!(out, "Kafka {} listens on {}", args.release, broker.addrs().join(","))
        .map_err(Failure::output)?;
    out.flush().map_err(Failure::output)?;
    drop(out);
    std::future::pending().await
}

fn ports(args: &BrokerArgs) -> Result<Vec<u16>, Failure> {
    let first = args.listen.port();
    let port = |index: u16| if first == 0 { Some(0) } else { first.checked_add(index) };
    let ports: Option<Vec<u16>> = (0..args.brokers as u16).map(port).collect();
    ports.ok_or_else(|| Failure::usage("there are not so many ports after the one given in --listen"))
}

fn with_endless(mut builder: Builder, args: &BrokerArgs) -> Result<Builder, Failure> {
    if args.endless.is_empty() {
        return Ok(builder);
    }
    let set = batch(args)?;
    for topic in &args.endless {
        builder = builder.endless_topic(&topic.name, topic.partitions, &set).map_err(Failure::usage)?;
    }
    Ok(builder)
}

/// One batch, in the format of the release.
fn batch(args: &BrokerArgs) -> Result<Bytes, Failure> {
    let magic = match args.release.magic() {
        0 if args.codec != Codec::None => {
            return Err(Failure::usage("an endless topic has no compressed messages before 0.10"));
        }
        0 => Magic::V0,
        1 => Magic::V1,
        _ => Magic::V2,
    };
    let mut set = RecordSetWriter::new(magic).codec(args.codec);
    for index in 0..args.batch_records.max(1) {
        let value = value(index, args.record_size);
        set.push(NewRecord { timestamp: Some(1_767_258_000_000), ..NewRecord::value(&value) })
            .map_err(Failure::usage)?;
    }
    set.finish().map_err(Failure::usage)
}

/// Text that a codec finds something in, as it does in JSON.
fn value(index: usize, size: usize) -> Vec<u8> {
    let mut state = index as u32 + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let mut text = String::new();
    while text.len() < size {
        text.push_str(&format!("{{\"user\":{},\"page\":\"/item/{}\"}}", next(), next()));
    }
    text.truncate(size);
    text.into_bytes()
}
