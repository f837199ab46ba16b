use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::Result;
use crate::meter::Meter;
use crate::topics::{PARTITION_BYTES, Topic};

/// At its defaults it stops fetching for a second whenever its queue is full (librdkafka#3662).
pub fn consume(topic: &Topic, address: &str, ca: Option<&str>, tuned: bool, mut meter: Meter) -> Result<()> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", address)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true")
        .set("fetch.message.max.bytes", PARTITION_BYTES.to_string());
    if let Some(pem) = ca {
        config.set("security.protocol", "SSL").set("ssl.ca.pem", pem);
    }
    if tuned {
        config.set("fetch.queue.backoff.ms", "0").set("queued.min.messages", "1000000");
    }
    let consumer: BaseConsumer = config.create()?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..topic.partitions {
        partitions.add_partition_offset("bench", partition, Offset::Offset(0))?;
    }
    consumer.assign(&partitions)?;
    loop {
        let Some(message) = consumer.poll(Duration::from_secs(1)) else { continue };
        if !meter.record(message?.payload_len())? {
            return Ok(());
        }
    }
}
