//! The clients, one file each. All ask for 1 MiB per partition and check the checksums unless the
//! title says otherwise, look at each record's value, and keep nothing.

mod downspout;
mod kafka;
mod krafka;
#[cfg(feature = "rdkafka")]
mod rdkafka;
mod rskafka;

use crate::Result;
use crate::meter::Meter;
use crate::topics::Topic;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Downspout,
    Rskafka,
    Krafka,
    KrafkaWholeAnswers,
    Kafka,
    KafkaUnchecked,
    #[cfg(feature = "rdkafka")]
    Rdkafka,
    #[cfg(feature = "rdkafka")]
    RdkafkaTuned,
}

impl Client {
    pub fn all() -> Vec<Client> {
        vec![
            Client::Downspout,
            Client::Rskafka,
            Client::Krafka,
            Client::KrafkaWholeAnswers,
            Client::Kafka,
            Client::KafkaUnchecked,
            #[cfg(feature = "rdkafka")]
            Client::Rdkafka,
            #[cfg(feature = "rdkafka")]
            Client::RdkafkaTuned,
        ]
    }

    pub fn title(self) -> &'static str {
        match self {
            Client::Downspout => "downspout",
            Client::Rskafka => "rskafka 0.6",
            Client::Krafka => "krafka 0.28",
            Client::KrafkaWholeAnswers => "krafka 0.28, no limit per poll",
            Client::Kafka => "kafka 0.10",
            Client::KafkaUnchecked => "kafka 0.10, CRC off",
            #[cfg(feature = "rdkafka")]
            Client::Rdkafka => "rdkafka 0.39",
            #[cfg(feature = "rdkafka")]
            Client::RdkafkaTuned => "rdkafka 0.39, tuned",
        }
    }

    pub fn named(title: &str) -> Result<Client> {
        let found = Client::all().into_iter().find(|client| client.title() == title);
        found.ok_or_else(|| format!("no client is '{title}'").into())
    }

    /// Whether it can read that topic at all: `kafka` knows Fetch 0 alone, which went with Kafka 4.0
    /// (KIP-896), and the others need ApiVersions, or record batches.
    pub fn reads(self, topic: &Topic) -> bool {
        match self {
            Client::Downspout => true,
            Client::Kafka | Client::KafkaUnchecked => topic.is_old(),
            _ => !topic.is_old(),
        }
    }

    /// Whether it is in the table of TLS.
    pub fn speaks_tls(self) -> bool {
        !matches!(self, Client::Rskafka | Client::Kafka | Client::KafkaUnchecked)
    }

    /// Reads until the meter says that time is up; with TLS if there is the certificate of a CA.
    pub fn consume(self, topic: &Topic, address: &str, ca: Option<&str>, meter: Meter) -> Result<()> {
        match self {
            Client::Downspout => on_tokio(downspout::consume(address, ca, meter)),
            Client::Rskafka => on_tokio(rskafka::consume(topic, address, meter)),
            Client::Krafka => on_tokio(krafka::consume(topic, address, ca, None, meter)),
            Client::KrafkaWholeAnswers => on_tokio(krafka::consume(topic, address, ca, Some(-1), meter)),
            Client::Kafka => kafka::consume(address, true, meter),
            Client::KafkaUnchecked => kafka::consume(address, false, meter),
            #[cfg(feature = "rdkafka")]
            Client::Rdkafka => rdkafka::consume(topic, address, ca, false, meter),
            #[cfg(feature = "rdkafka")]
            Client::RdkafkaTuned => rdkafka::consume(topic, address, ca, true, meter),
        }
    }
}

/// The same runtime for all who need one.
fn on_tokio(consume: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(consume)
}
