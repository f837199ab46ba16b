use super::topic;
use super::{DeadLetters, Letter, Oversize};
use crate::client::Cluster;
use crate::error::{Error, Result};
use crate::protocol::ErrorCode;
use crate::records::NewRecord;

/// Writes to a dead-letter topic.
#[derive(Debug)]
pub(crate) struct DeadLetterWriter {
    cluster: Cluster,
    settings: DeadLetters,
}

impl DeadLetterWriter {
    /// Looks at the topic: it exists, or is created if that was asked for; this client may write to it,
    /// as far as the brokers tell; and its brokers can keep the form that was asked for.
    ///
    /// # Errors
    ///
    /// What is the matter with the topic, and what to do about it.
    pub(crate) async fn open(cluster: &Cluster, settings: &DeadLetters) -> Result<Self> {
        topic::ready(cluster, settings).await?;
        Ok(DeadLetterWriter { cluster: cluster.clone(), settings: settings.clone() })
    }

    /// Appends a record, and returns when all replicas in sync have it. After a lost answer it may be
    /// there twice. It goes to the partition of the source's number, modulo how many there are.
    ///
    /// # Errors
    ///
    /// Why the record is not there: it is still unfinished then (PC8-13). Errors that
    /// [`retry`](Error::retry) does not call final are worth another try later.
    pub(crate) async fn write(&self, letter: &Letter) -> Result<()> {
        match self.append(letter, false).await {
            Err(why) if self.settings.oversize == Oversize::DropValue && is_too_large(&why) => {
                tracing::warn!(
                    topic = &*letter.topic, partition = letter.partition, offset = letter.offset, error = %why,
                    "the record is too large for the dead-letter topic: it goes there without its value"
                );
                self.append(letter, true).await
            }
            done => done,
        }
    }

    async fn append(&self, letter: &Letter, drop_value: bool) -> Result<()> {
        let topic = &self.settings.topic;
        let count = self.cluster.partitions(topic).await?.len();
        let partition = usize::try_from(letter.partition).unwrap_or(0).checked_rem(count).unwrap_or(0);
        let partition = i32::try_from(partition).unwrap_or(0);
        let written = letter.written(self.settings.form, drop_value);
        let headers = written.headers();
        let record = written.record(&headers);
        if size(&record) > MOST_BYTES {
            return Err(Error::broker_code(ErrorCode::MESSAGE_TOO_LARGE).with_topic(topic.as_str()));
        }
        self.cluster.produce(topic, partition, &[record]).await.map(drop)
    }
}

/// A broker cuts the connection at a larger request (`socket.request.max.bytes`, 100 MiB unless set
/// otherwise), which looks like any other lost connection.
const MOST_BYTES: usize = (100 << 20) - 4096;

fn size(record: &NewRecord<'_>) -> usize {
    let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let headers = record.headers.iter().map(|(key, value)| key.len() + length(*value));
    length(record.key) + length(record.value) + headers.sum::<usize>()
}

fn is_too_large(why: &Error) -> bool {
    [Some(ErrorCode::MESSAGE_TOO_LARGE), Some(ErrorCode::RECORD_LIST_TOO_LARGE)].contains(&why.code())
}
