//! Appending records, without a producer: for tests, demos and dead letters.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::requests::leader;
use super::tries::Tries;
use super::{Cluster, TopicState};
use crate::discovery::BrokerInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::net::BrokerAddress;
use crate::protocol::{ProducePartition, ProduceRequest, ProduceTopic, ProducedPartition, Versions};
use crate::records::{Magic, NewRecord, RecordSetWriter};

impl Cluster {
    /// Appends records to a partition, with acks of all replicas in sync, and gives the offset of the
    /// first one.
    ///
    /// They go out as one uncompressed set, in the format that the broker's version of Produce asks
    /// for: magic 0 up to 0.9, 1 on 0.10, 2 since. Records without a timestamp get the time of now,
    /// where the format has times. Offsets are the broker's to give: those of the records are not
    /// looked at.
    ///
    /// When a leader moves, or an answer is lost, they are sent again: then they may be in the log
    /// twice.
    ///
    /// # Errors
    ///
    /// What the broker refused them for; [`ErrorKind::Config`] if a record does not fit the format, or
    /// if there are none.
    pub async fn produce(&self, topic: &str, partition: i32, records: &[NewRecord<'_>]) -> Result<i64> {
        if records.is_empty() {
            return Err(Error::config("no records to append").with_topic(topic).with_partition(partition));
        }
        let mut tries = Tries::new(&self.shared);
        loop {
            let seen = self.shared.picture().serial;
            match self.try_produce(topic, partition, records).await {
                Ok(offset) => return Ok(offset),
                Err(why) => {
                    let why = why.with_topic(topic).with_partition(partition);
                    tries.again(&self.shared, seen, why).await?;
                }
            }
        }
    }

    async fn try_produce(&self, topic: &str, partition: i32, records: &[NewRecord<'_>]) -> Result<i64> {
        /// Produce names topics up to here.
        const LAST_BY_NAME: i16 = 12;
        /// For the answer to come, after the time that the broker itself may take.
        const MARGIN: Duration = Duration::from_secs(5);
        let picture = self.known(topic, Some(partition)).await?;
        let address = self.shared.address(leader(&picture, topic, partition)?)?;
        let topic_id = match picture.topic(topic) {
            Some(TopicState::Known(known)) => known.id,
            _ => None,
        };
        let allowed = Versions { min: 0, max: topic_id.map_or(LAST_BY_NAME, |_| i16::MAX) };
        let timeout = self.shared.settings.client.request_timeout;
        let exchange = self
            .shared
            .at(&address)
            .ask_within(allowed, timeout.saturating_add(MARGIN), 0, |version| {
                let set = record_set(version, records)?;
                let partition_data = vec![ProducePartition { index: partition, records: Some(set) }];
                let topic_id = topic_id.unwrap_or_default();
                Ok(ProduceRequest {
                    acks: -1,
                    timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
                    topic_data: vec![ProduceTopic { name: topic.to_owned(), topic_id, partition_data }],
                    ..ProduceRequest::default()
                })
            })
            .await?;
        let principal = self.shared.settings.client.principal.as_ref();
        let place = |why: Error| {
            why.with_request::<ProduceRequest>(exchange.version)
                .with_broker(&address)
                .with_principal(principal)
        };
        let answer = exchange
            .response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .find(|answer| answer.index == partition)
            .ok_or_else(|| place(Error::new(ErrorKind::Incomplete("this partition"))))?;
        if !answer.error_code.is_err() {
            return Ok(answer.base_offset);
        }
        let ProducedPartition { error_code: code, error_message, current_leader, .. } = answer;
        let endpoints = exchange.response.node_endpoints.into_iter();
        let hinted = endpoints.filter_map(|endpoint| {
            let address = BrokerAddress::new(endpoint.host, u16::try_from(endpoint.port).ok()?);
            Some(BrokerInfo { id: endpoint.node_id, address, rack: endpoint.rack })
        });
        let hinted = hinted.into_iter().find(|broker| broker.id == current_leader.leader_id);
        self.shared.hint(topic, partition, current_leader.leader_id, current_leader.leader_epoch, hinted);
        Err(place(Error::new(ErrorKind::Broker { code, message: error_message })))
    }
}

/// The set for that version of Produce.
fn record_set(version: i16, records: &[NewRecord<'_>]) -> Result<Bytes> {
    let magic = match version {
        0 | 1 => Magic::V0,
        2 => Magic::V1,
        _ => Magic::V2,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(-1, |now| now.as_millis() as i64);
    let mut set = RecordSetWriter::new(magic);
    for record in records {
        let timestamp = (magic != Magic::V0).then(|| record.timestamp.unwrap_or(now));
        set.push(NewRecord { offset: None, timestamp, ..*record })
            .map_err(|why| Error::config(format!("a record cannot be appended: {why}")))?;
    }
    set.finish().map_err(|why| Error::config(format!("the records cannot be appended: {why}")))
}
