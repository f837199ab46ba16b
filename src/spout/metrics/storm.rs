//! Metrics under storm-kafka's names, as its dashboards know them.

use std::collections::BTreeMap;

use super::{PartitionMetrics, SpoutMetrics};

type Value = fn(&PartitionMetrics) -> Option<i64>;

/// `kafkaOffset`: the name of a partition, the name of the topic's total, and the value.
const OFFSETS: [(&str, &str, Value); 5] = [
    ("spoutLag", "totalSpoutLag", PartitionMetrics::spout_lag),
    ("earliestTimeOffset", "totalEarliestTimeOffset", |p| p.earliest),
    ("latestTimeOffset", "totalLatestTimeOffset", |p| p.latest),
    ("latestEmittedOffset", "totalLatestEmittedOffset", |p| p.latest_emitted),
    ("latestCompletedOffset", "totalLatestCompletedOffset", |p| p.latest_completed),
];

impl SpoutMetrics {
    /// storm-kafka's metric `kafkaOffset`, under its names since 1.0: `<topic>/partition_<n>/spoutLag`,
    /// `…/earliestTimeOffset`, `…/latestTimeOffset`, `…/latestEmittedOffset`, `…/latestCompletedOffset`,
    /// and of each topic `<topic>/totalSpoutLag` and so on.
    ///
    /// What is not known is left out, and a total is left out when any of its parts is; nothing is ever
    /// 0 for "unknown". Reading it does no I/O (STORM-1027), and one read gives all (STORM-2775).
    #[doc(alias = "kafkaOffset")]
    pub fn kafka_offset(&self) -> BTreeMap<String, i64> {
        let mut values = BTreeMap::new();
        for (name, total, value) in OFFSETS {
            let mut totals: BTreeMap<&str, Option<i64>> = BTreeMap::new();
            for (at, partition) in &self.partitions {
                let value = value(partition);
                let sum = totals.entry(&at.topic).or_insert(Some(0));
                *sum = sum.zip(value).map(|(sum, value)| sum.saturating_add(value));
                if let Some(value) = value {
                    values.insert(format!("{}/partition_{}/{name}", at.topic, at.partition), value);
                }
            }
            let known = totals.into_iter().filter_map(|(topic, sum)| Some((topic, sum?)));
            values.extend(known.map(|(topic, sum)| (format!("{topic}/{total}"), sum)));
        }
        values
    }

    /// storm-kafka's metric `kafkaPartition`, under its names since 1.1.2:
    /// `<topic>/partition_<n>/fetchAPILatencyMax` and `…/fetchAPILatencyMean` (in ms),
    /// `…/fetchAPICallCount`, `…/fetchAPIMessageCount`, `…/lostMessageCount` and
    /// `…/messageIneligibleForRetryCount`.
    ///
    /// Counts are since the start of the spout; storm-kafka began them anew at each read. Times that are
    /// not known are left out.
    #[doc(alias = "kafkaPartition")]
    pub fn kafka_partition(&self) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        for (at, partition) in &self.partitions {
            let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            let rows = [
                ("fetchAPILatencyMax", partition.fetch_latency_max.map(ms)),
                ("fetchAPILatencyMean", partition.fetch_latency_mean.map(ms)),
                ("fetchAPICallCount", Some(partition.fetches as f64)),
                ("fetchAPIMessageCount", Some(partition.messages as f64)),
                ("lostMessageCount", Some(partition.lost as f64)),
                ("messageIneligibleForRetryCount", Some(partition.ineligible as f64)),
            ];
            let known = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
            values.extend(
                known.map(|(name, value)| (format!("{}/partition_{}/{name}", at.topic, at.partition), value)),
            );
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::TopicPartition;

    fn partition(earliest: i64, latest: i64, emitted: i64, completed: i64) -> PartitionMetrics {
        PartitionMetrics {
            earliest: Some(earliest),
            latest: Some(latest),
            latest_emitted: Some(emitted),
            latest_completed: Some(completed),
            ..PartitionMetrics::default()
        }
    }

    fn metrics(partitions: impl IntoIterator<Item = (&'static str, i32, PartitionMetrics)>) -> SpoutMetrics {
        let partitions =
            partitions.into_iter().map(|(topic, number, it)| (TopicPartition::new(topic, number), it));
        SpoutMetrics { partitions: partitions.collect(), active: true }
    }

    #[test]
    fn storm_713_kafka_offset_has_the_names_of_1_0_with_the_topic_in_front() {
        let metrics = metrics([("clicks", 0, partition(2, 10, 8, 5)), ("clicks", 1, partition(0, 4, 4, 4))]);
        let values = metrics.kafka_offset();
        let lines: Vec<_> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "clicks/partition_0/earliestTimeOffset=2",
                "clicks/partition_0/latestCompletedOffset=5",
                "clicks/partition_0/latestEmittedOffset=8",
                "clicks/partition_0/latestTimeOffset=10",
                "clicks/partition_0/spoutLag=5",
                "clicks/partition_1/earliestTimeOffset=0",
                "clicks/partition_1/latestCompletedOffset=4",
                "clicks/partition_1/latestEmittedOffset=4",
                "clicks/partition_1/latestTimeOffset=4",
                "clicks/partition_1/spoutLag=0",
                "clicks/totalEarliestTimeOffset=2",
                "clicks/totalLatestCompletedOffset=9",
                "clicks/totalLatestEmittedOffset=12",
                "clicks/totalLatestTimeOffset=14",
                "clicks/totalSpoutLag=5",
            ]
        );
    }

    #[test]
    fn what_is_unknown_is_left_out_and_takes_its_total_along_but_no_other_topics() {
        let unknown = PartitionMetrics { latest: None, ..partition(0, 0, 3, 1) };
        let metrics =
            metrics([("a", 0, partition(0, 7, 7, 7)), ("b", 0, partition(0, 9, 9, 2)), ("b", 1, unknown)]);
        let values = metrics.kafka_offset();
        assert_eq!(values.get("a/totalSpoutLag"), Some(&0));
        assert_eq!(values.get("b/partition_0/spoutLag"), Some(&7));
        for name in ["b/partition_1/spoutLag", "b/partition_1/latestTimeOffset", "b/totalSpoutLag"] {
            assert_eq!(values.get(name), None, "{name}");
        }
        assert_eq!(values.get("b/totalLatestCompletedOffset"), Some(&3));
    }

    #[test]
    fn storm_2775_kafka_partition_gives_counts_and_times_under_one_read() {
        let partition = PartitionMetrics {
            fetches: 4,
            messages: 100,
            lost: 2,
            ineligible: 1,
            fetch_latency_max: Some(Duration::from_micros(2500)),
            ..PartitionMetrics::default()
        };
        let metrics = metrics([("clicks", 3, partition)]);
        let (first, second) = (metrics.kafka_partition(), metrics.kafka_partition());
        assert_eq!(first, second, "reading changes nothing");
        let lines: Vec<_> = first.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "clicks/partition_3/fetchAPICallCount=4",
                "clicks/partition_3/fetchAPILatencyMax=2.5",
                "clicks/partition_3/fetchAPIMessageCount=100",
                "clicks/partition_3/lostMessageCount=2",
                "clicks/partition_3/messageIneligibleForRetryCount=1",
            ]
        );
    }
}
