//! A record, to be looked at.

use std::fmt;

use downspout::client::{Cluster, Fetch, TopicPartition};
use downspout::{Error, ErrorKind};

use crate::exit::Failure;

/// As much of a key or a value as is shown.
const SHOWN: usize = 60;

/// A record that was found at a position, or next behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) offset: i64,
    /// In ms since 1970.
    pub(super) timestamp: Option<i64>,
    key: Option<String>,
    value: Option<String>,
}

/// The first record from this offset on; `None` at the end of the log, or if what is there is not for reading.
pub(super) async fn record(
    cluster: &Cluster,
    partition: &TopicPartition,
    offset: i64,
) -> Result<Option<Seen>, Failure> {
    let TopicPartition { topic, partition } = partition;
    let end = cluster.latest_offset(topic, *partition).await?;
    let mut next = offset;
    while next < end {
        let leader = cluster.leader(topic, *partition).await?;
        let fetch = Fetch::new(&**topic, *partition, next).max_bytes(1 << 20);
        let fetched = cluster.consumer(leader.id)?.fetch(fetch).await?;
        if let Some(why) = fetched.partition(topic, *partition).and_then(|fetched| fetched.error()) {
            return Err(why.clone().into());
        }
        for batch in fetched.batches() {
            let batch = batch?;
            for record in batch.records() {
                let record = record.map_err(|why| Error::new(ErrorKind::Corrupt(why)))?;
                if record.offset() >= offset && !batch.is_control() {
                    return Ok(Some(Seen {
                        offset: record.offset(),
                        timestamp: record.timestamp(),
                        key: record.key().map(shown),
                        value: record.value().map(shown),
                    }));
                }
            }
        }
        match fetched.next_offset() {
            Some(further) if further > next => next = further,
            _ => break,
        }
    }
    Ok(None)
}

/// On one line, not too long.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.escape_debug().take(SHOWN).collect();
    if text.escape_debug().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
        write!(f, "offset {}, time ", self.offset)?;
        match self.timestamp {
            Some(time) => write!(f, "{time}")?,
            None => f.write_str("-")?,
        }
        write!(f, ", key {}, value {}", text(&self.key), text(&self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_that_is_not_too_long() {
        let seen = Seen {
            offset: 7,
            timestamp: Some(1000),
            key: None,
            value: Some(shown(format!("a\nb\u{ff}{}", "x".repeat(100)).as_bytes())),
        };
        let line = seen.to_string();
        assert!(line.starts_with("offset 7, time 1000, key null, value \"a\\nbÿx"), "{line}");
        assert!(line.ends_with("…\"") && line.chars().count() < 110, "{line}");
        assert_eq!(shown(b"\xff"), "\"\u{fffd}\"");
    }
}
