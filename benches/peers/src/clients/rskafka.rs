use std::sync::Arc;

use futures::stream::{StreamExt, select_all};
use rskafka::client::ClientBuilder;
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::partition::UnknownTopicHandling;

use crate::Result;
use crate::meter::Meter;
use crate::topics::{PARTITION_BYTES, Topic};

pub async fn consume(topic: &Topic, address: &str, mut meter: Meter) -> Result<()> {
    let client = ClientBuilder::new(vec![address.to_owned()]).build().await?;
    let mut streams = Vec::new();
    for partition in 0..topic.partitions {
        let partition = client.partition_client("bench", partition, UnknownTopicHandling::Error).await?;
        let stream = StreamConsumerBuilder::new(Arc::new(partition), StartOffset::At(0));
        streams.push(stream.with_max_batch_size(PARTITION_BYTES).build());
    }
    let mut records = select_all(streams);
    while let Some(next) = records.next().await {
        let (record, _) = next?;
        if !meter.record(record.record.value.as_ref().map_or(0, Vec::len))? {
            break;
        }
    }
    Ok(())
}
