use downspout::client::{Cluster, Item, StartOffset};
use downspout::net::{Security, Tls};

use crate::Result;
use crate::meter::Meter;
use crate::topics::PARTITION_BYTES;

pub async fn consume(address: &str, ca: Option<&str>, mut meter: Meter) -> Result<()> {
    let mut security = Security::plaintext();
    if let Some(pem) = ca {
        security = security.tls(Tls::new().ca_pem(pem));
    }
    let cluster = Cluster::builder([address]).security(security).connect().await?;
    let streams = cluster.streams().topic("bench").partition_bytes(PARTITION_BYTES);
    let mut stream = streams.start(StartOffset::At(0)).await?;
    while let Some((_, item)) = stream.next().await? {
        let Item::Batch(batch) = item else { continue };
        for record in batch.records() {
            if !meter.record(record?.value().map_or(0, <[u8]>::len))? {
                return Ok(());
            }
        }
    }
    Ok(())
}
