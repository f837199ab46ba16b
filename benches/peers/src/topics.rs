//! The topics that are read.

use std::fmt;

use crate::Result;

/// Records in a batch.
pub const BATCH_RECORDS: usize = 1000;

/// Bytes of one partition that a client asks for.
pub const PARTITION_BYTES: i32 = 1 << 20;

/// A topic without an end.
pub struct Topic {
    pub partitions: i32,
    /// Bytes of a record's value.
    pub size: usize,
    pub codec: &'static str,
    /// The release that the broker is, which says in which format the records are.
    pub release: &'static str,
}

const fn topic(partitions: i32, size: usize, codec: &'static str, release: &'static str) -> Topic {
    Topic { partitions, size, codec, release }
}

/// Kafka 0.8.2 is there for the client that reads nothing newer than message sets of magic 0.
pub const TOPICS: [Topic; 12] = [
    topic(1, 100, "none", "4.4"),
    topic(4, 100, "none", "4.4"),
    topic(1, 1024, "none", "4.4"),
    topic(4, 1024, "none", "4.4"),
    topic(1, 100, "gzip", "4.4"),
    topic(1, 100, "snappy", "4.4"),
    topic(1, 100, "lz4", "4.4"),
    topic(1, 100, "zstd", "4.4"),
    topic(1, 100, "none", "0.8.2"),
    topic(4, 100, "none", "0.8.2"),
    topic(1, 1024, "none", "0.8.2"),
    topic(4, 1024, "none", "0.8.2"),
];

impl Topic {
    /// The one that a process was told of by its line in the table.
    pub fn named(title: &str) -> Result<&'static Topic> {
        let found = TOPICS.iter().find(|topic| topic.to_string() == title);
        found.ok_or_else(|| format!("no topic is '{title}'").into())
    }

    /// Magic 0 or 1, not record batches.
    pub fn is_old(&self) -> bool {
        self.release.starts_with("0.8")
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} B, {}, Kafka {}", self.partitions, self.size, self.codec, self.release)
    }
}
