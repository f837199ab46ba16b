//! `downspout produce`: lines of the input as records of a topic.

mod lines;
mod partitioner;
mod sender;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use downspout::records::Codec;
use tokio::sync::mpsc;

use crate::connect::ConnectArgs;
use crate::escape::unescape;
use crate::exit::{Exit, Failure};
use crate::properties;
use crate::signals::until_signal;
use lines::{Cut, Line};
use partitioner::Partitioner;
use sender::{Format, Sender};

/// Send the lines of standard input to a topic
///
/// Each is acknowledged before the next ones go out; what fails in passing is sent again, so that a
/// record may arrive twice.
#[derive(Debug, Args)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The topic; it is not created unasked
    #[arg(short, long)]
    topic: String,
    /// The partition; -1 lets the key decide, as with the Java producer, or records without a key
    /// take turns
    #[arg(short, long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    partition: i32,
    /// Read the lines of this file instead
    #[arg(short, long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// What ends a record; \n, \t, \0 and \xNN are understood. Empty: the whole input is one record
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n")]
    delimiter: String,
    /// What stands between key and value
    #[arg(short = 'K', long, value_name = "TEXT")]
    key_delimiter: Option<String>,
    /// The key of records that have none of their own
    #[arg(short, long)]
    key: Option<String>,
    /// Send what is empty as null
    #[arg(short = 'Z', long)]
    null: bool,
    /// A header, as name=value, or name alone for null; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// none, gzip, snappy, lz4 or zstd [default: none]
    #[arg(short = 'z', long)]
    codec: Option<Codec>,
    /// The format on the wire: 0, 1 or 2 [default: the newest that the broker takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=2))]
    message_format: Option<u8>,
    /// Who must have a record before it counts as sent: all, 1 (the leader) or 0 (nobody)
    /// [default: all]
    #[arg(long, value_parser = properties::acks, allow_hyphen_values = true)]
    acks: Option<i16>,
    /// Exit after so many records
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Wait for the topic if it does not exist yet
    #[arg(long)]
    wait_for_topic: bool,
    /// Print the offsets that records got, one JSON object per acknowledged batch
    #[arg(short = 'J', long)]
    json: bool,
    /// Say nothing on standard error but errors
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: &ProduceArgs) -> Result<Exit, Failure> {
    let cut = args.cut()?;
    let input = args.input()?;
    let headers = args.headers.iter().map(|header| match header.split_once('=') {
        Some((name, value)) => (name.as_bytes().to_vec(), Some(value.as_bytes().to_vec())),
        None => (header.as_bytes().to_vec(), None),
    });
    let headers = headers.collect();
    let mut target = args.connect.target()?;
    let properties = &target.properties;
    let format = Format {
        magic: args.message_format,
        codec: args.codec.or(properties.codec).unwrap_or_default(),
        headers,
        acks: args.acks.or(properties.acks).unwrap_or(-1),
        timeout: target.timeout,
        batch_bytes: properties.batch_bytes.unwrap_or(512 << 10),
    };
    let retries = properties.retries.unwrap_or(5);
    // A broker may take the whole time-out; its answer needs some more.
    target.timeout += Duration::from_secs(5);
    until_signal(async {
        let cluster = target.cluster().await?;
        let known = match args.wait_for_topic {
            true => cluster.wait_for_topic(&args.topic, Duration::MAX).await?,
            false => cluster.partitions(&args.topic).await?,
        };
        if args.partition != -1 && !known.contains(&args.partition) {
            let what = format!(
                "{} has no partition {}: it has {}, numbered from 0",
                args.topic,
                args.partition,
                known.len()
            );
            return Err(Failure::new(Exit::Unreachable, what));
        }
        let mut chunks = read(input, cut);
        let mut sender = Sender::new(cluster, target, &args.topic, format, retries, args.json);
        let mut partitioner = Partitioner::default();
        let mut left = args.count.unwrap_or(u64::MAX);
        while left > 0
            && let Some(chunk) = chunks.recv().await
        {
            let chunk = chunk.map_err(|error| args.failed(&error))?;
            for line in chunk.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                left -= 1;
                let partition = match args.partition {
                    -1 => known[partitioner.choose(line.key.as_deref(), known.len())],
                    partition => partition,
                };
                sender.add(partition, line);
            }
            sender.send().await?;
        }
        Ok(sender.exit())
    })
    .await
}

impl ProduceArgs {
    fn cut(&self) -> Result<Cut, Failure> {
        let bytes = |name: &str, text: &str| {
            unescape(text).map_err(|why| Failure::usage(format_args!("{name}: {why}")))
        };
        let between = self.key_delimiter.as_deref().map(|text| bytes("--key-delimiter", text));
        Ok(Cut {
            delimiter: bytes("--delimiter", &self.delimiter)?,
            key_delimiter: between.transpose()?,
            key: self.key.as_ref().map(|key| key.as_bytes().to_vec()),
            empty_is_null: self.null,
        })
    }

    fn input(&self) -> Result<Box<dyn Read + Send>, Failure> {
        Ok(match &self.lines {
            Some(file) => Box::new(File::open(file).map_err(|error| self.failed(&error))?),
            None => Box::new(io::stdin()),
        })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let name = self.lines.as_ref().map_or("standard input".into(), |file| file.display().to_string());
        Failure::usage(format_args!("cannot read {name}: {error}"))
    }
}

/// Bytes of records that are handed over together.
const CHUNK: usize = 1 << 20;

/// Cuts the input on a thread of its own, since reading blocks; a chunk is what is there already.
fn read(input: Box<dyn Read + Send>, cut: Cut) -> mpsc::Receiver<io::Result<Vec<Line>>> {
    let (sender, chunks) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut input = BufReader::with_capacity(CHUNK, input);
        loop {
            let mut chunk = Vec::new();
            let mut size = 0;
            let ended = loop {
                match cut.next(&mut input) {
                    Ok(Some(line)) => {
                        size += line.size();
                        chunk.push(line);
                    }
                    Ok(None) => break Ok(true),
                    Err(error) => break Err(error),
                }
                if size >= CHUNK || input.buffer().is_empty() {
                    break Ok(false);
                }
            };
            let sent = chunk.is_empty() || sender.blocking_send(Ok(chunk)).is_ok();
            match ended {
                Ok(false) if sent => {}
                Ok(_) => return,
                Err(error) => {
                    // Nobody listens any more: nobody to tell.
                    let _ = sender.blocking_send(Err(error));
                    return;
                }
            }
        }
    });
    chunks
}
