use std::time::Duration;

use krafka::Kafka;
use krafka::auth::{AuthConfig, TlsConfig};
use krafka::consumer::{AutoOffsetReset, IsolationLevel};

use crate::Result;
use crate::meter::Meter;
use crate::topics::{PARTITION_BYTES, Topic};

/// At its defaults a poll gives 500 records, and what else was fetched is fetched again; −1 is no limit.
pub async fn consume(
    topic: &Topic,
    address: &str,
    ca: Option<&str>,
    per_poll: Option<i32>,
    mut meter: Meter,
) -> Result<()> {
    let mut kafka = Kafka::builder(address);
    if let Some(pem) = ca {
        kafka = kafka.security(AuthConfig::ssl(TlsConfig::new().with_ca_cert_pem(pem)));
    }
    let kafka = kafka.connect().await?;
    let mut consumer = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_partition_fetch_bytes(PARTITION_BYTES);
    if let Some(records) = per_poll {
        consumer = consumer.max_poll_records(records);
    }
    let consumer = consumer.build().await?;
    consumer.assign("bench", (0..topic.partitions).collect()).await?;
    loop {
        for record in consumer.poll(Duration::from_secs(1)).await? {
            if !meter.record(record.value.as_ref().map_or(0, |value| value.len()))? {
                return Ok(());
            }
        }
    }
}
