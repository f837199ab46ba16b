use kafka::consumer::{Consumer, FetchOffset};

use crate::Result;
use crate::meter::Meter;
use crate::topics::PARTITION_BYTES;

pub fn consume(address: &str, check: bool, mut meter: Meter) -> Result<()> {
    let mut consumer = Consumer::from_hosts(vec![address.to_owned()])
        .with_topic("bench".to_owned())
        .with_fallback_offset(FetchOffset::Earliest)
        .with_fetch_max_bytes_per_partition(PARTITION_BYTES)
        .create()
        .map_err(|error| error.to_string())?;
    // The builder's setting of that name is lost on its way to the client.
    consumer.client_mut().set_fetch_crc_validation(check);
    loop {
        for set in consumer.poll().map_err(|error| error.to_string())?.iter() {
            for message in set.messages() {
                if !meter.record(message.value.len())? {
                    return Ok(());
                }
            }
        }
    }
}
