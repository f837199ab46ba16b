//! `downspout broker`, serving one endless topic in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use downspout::client::{Fetch, blocking::SimpleConsumer};

use crate::Result;
use crate::topics::{BATCH_RECORDS, PARTITION_BYTES, Topic};

pub struct Broker {
    process: Child,
    pub address: SocketAddr,
}

impl Broker {
    pub fn start(downspout: &str, topic: &Topic) -> Result<Self> {
        let mut process = Command::new(downspout)
            .args(["broker", "--listen", "127.0.0.1:0", "--release", topic.release])
            .args(["--endless", &format!("bench:{}", topic.partitions), "--codec", topic.codec])
            .args(["--record-size", &topic.size.to_string()])
            .args(["--batch-records", &BATCH_RECORDS.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{downspout}: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.split_whitespace().find_map(|word| word.parse().ok());
        let mut broker = Broker { process, address: ([127, 0, 0, 1], 0).into() };
        broker.address = address.ok_or("the broker did not say where it listens")?;
        Ok(broker)
    }

    /// Bytes that a record takes on the wire, its share of its batch's header included.
    pub fn record_size(&self) -> Result<f64> {
        let consumer = SimpleConsumer::connect(&self.address.to_string())?;
        let fetched = consumer.fetch(Fetch::new("bench", 0, 0).max_bytes(PARTITION_BYTES))?;
        let partition = fetched.partition("bench", 0).ok_or("the broker left out the partition")?;
        let records = partition.next_offset();
        if records <= 0 {
            Err("the topic is empty")?
        }
        Ok(partition.record_set().bytes().len() as f64 / records as f64)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
