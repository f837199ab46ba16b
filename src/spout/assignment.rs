//! Which partitions are this task's: a plain state machine over what the brokers say there is.
//!
//! Who leads a partition plays no part (STORM-1682, STORM-2394): all tasks that see the same topics
//! come to the same mapping, whatever happens to leaders meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::settings::AssignmentOrder;
use crate::client::TopicPartition;

/// Which partitions there are, and which of them are this spout's.
#[derive(Debug)]
#[doc(alias = "ZkCoordinator")]
#[doc(alias = "StaticCoordinator")]
#[doc(alias = "PartitionCoordinator")]
pub(crate) struct Assignment {
    rule: Rule,
    topics: BTreeMap<Arc<str>, Sightings>,
    mine: BTreeSet<TopicPartition>,
    said_idle: bool,
}

/// Whose they are.
#[derive(Debug)]
enum Rule {
    /// Static: of all partitions, those of task `task_index` of `total_tasks`, by position.
    Static { task_index: usize, total_tasks: usize, order: AssignmentOrder },
    /// As they were dealt.
    Dealt(BTreeSet<TopicPartition>),
}

/// What an update changed, both in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) added: Vec<TopicPartition>,
    pub(crate) removed: Vec<TopicPartition>,
}

/// How many partitions a topic had in the last updates. One that is absent once may only have been
/// read from a broker that has just started.
#[derive(Debug, Default)]
struct Sightings([usize; 3]);

impl Sightings {
    fn add(&mut self, partitions: usize) {
        let [_, second, last] = self.0;
        self.0 = [second, last, partitions];
    }

    fn partitions(&self) -> usize {
        self.0.into_iter().max().unwrap_or(0)
    }
}

impl Assignment {
    /// Nothing yet. `task_index` is less than `total_tasks`, as the settings' check has it.
    pub(crate) fn new(task_index: usize, total_tasks: usize, order: AssignmentOrder) -> Self {
        Assignment::by(Rule::Static { task_index, total_tasks: total_tasks.max(1), order })
    }

    /// Nothing yet, and then what [`dealt`](Self::dealt) says.
    pub(crate) fn by_deals() -> Self {
        Assignment::by(Rule::Dealt(BTreeSet::new()))
    }

    fn by(rule: Rule) -> Self {
        Assignment { rule, topics: BTreeMap::new(), mine: BTreeSet::new(), said_idle: false }
    }

    /// Takes in which topics there are, with how many partitions. A topic, or a partition, goes when it
    /// was absent from three updates in a row. A read that failed is no update; nor is a topic absent
    /// that the brokers could not tell about.
    pub(crate) fn update(&mut self, seen: &BTreeMap<Arc<str>, usize>) -> Change {
        for (topic, sightings) in &mut self.topics {
            sightings.add(seen.get(topic).copied().unwrap_or(0));
        }
        for (topic, &partitions) in seen {
            if !self.topics.contains_key(topic) {
                self.topics.insert(Arc::clone(topic), Sightings([0, 0, partitions]));
            }
        }
        self.topics.retain(|_, sightings| sightings.partitions() > 0);
        let change = self.change();
        self.say_if_idle();
        change
    }

    /// Takes in what was dealt to this spout.
    pub(crate) fn dealt(&mut self, share: BTreeSet<TopicPartition>) -> Change {
        self.rule = Rule::Dealt(share);
        self.change()
    }

    fn change(&mut self) -> Change {
        let mine = self.calculate();
        let change = Change {
            added: mine.difference(&self.mine).cloned().collect(),
            removed: self.mine.difference(&mine).cloned().collect(),
        };
        self.mine = mine;
        change
    }

    /// All partitions that there are.
    pub(crate) fn all(&self) -> BTreeSet<TopicPartition> {
        let of = |(topic, sightings): (&Arc<str>, &Sightings)| {
            let topic = Arc::clone(topic);
            let count = i32::try_from(sightings.partitions()).unwrap_or(i32::MAX);
            (0..count).map(move |number| TopicPartition::new(Arc::clone(&topic), number))
        };
        self.topics.iter().flat_map(of).collect()
    }

    /// How many partitions a topic has, as far as it is known.
    pub(crate) fn partitions(&self, topic: &str) -> Option<usize> {
        self.topics.get(topic).map(Sightings::partitions)
    }

    /// Whether that partition is this task's.
    pub(crate) fn owns(&self, partition: &TopicPartition) -> bool {
        self.mine.contains(partition)
    }

    /// storm-kafka's `calculatePartitionsForTask`.
    fn calculate(&self) -> BTreeSet<TopicPartition> {
        let (task_index, total_tasks, order) = match &self.rule {
            Rule::Static { task_index, total_tasks, order } => (*task_index, *total_tasks, *order),
            Rule::Dealt(share) => return share.clone(),
        };
        let mut mine = BTreeSet::new();
        let mut line = 0;
        for (topic, sightings) in &self.topics {
            let partitions = sightings.partitions();
            // Position of the topic's partition 0 among those that are dealt out in turns.
            let first = match order {
                AssignmentOrder::ByTopic => crc32c::crc32c(topic.as_bytes()) as usize % total_tasks,
                AssignmentOrder::Concatenated => line,
            };
            line += partitions;
            let skip = (task_index + total_tasks - first % total_tasks) % total_tasks;
            let own = (skip..partitions).step_by(total_tasks);
            mine.extend(own.filter_map(|number| {
                Some(TopicPartition { topic: Arc::clone(topic), partition: i32::try_from(number).ok()? })
            }));
        }
        mine
    }

    fn say_if_idle(&mut self) {
        let Rule::Static { task_index, total_tasks, .. } = self.rule else { return };
        let is_idle = self.mine.is_empty() && !self.topics.is_empty();
        if is_idle && !self.said_idle {
            let partitions: usize = self.topics.values().map(Sightings::partitions).sum();
            tracing::warn!(
                task = task_index,
                tasks = total_tasks,
                partitions,
                "this task has no partition to read: there are fewer than tasks, or they fall to others"
            );
        }
        self.said_idle = is_idle;
    }
}

#[cfg(test)]
mod tests {
    use super::AssignmentOrder::{ByTopic, Concatenated};
    use super::*;

    fn seen(topics: &[(&str, usize)]) -> BTreeMap<Arc<str>, usize> {
        topics.iter().map(|(topic, partitions)| (Arc::from(*topic), *partitions)).collect()
    }

    fn names(partitions: &[TopicPartition]) -> Vec<String> {
        partitions.iter().map(TopicPartition::to_string).collect()
    }

    /// What each of so many tasks gets.
    fn dealt(total: usize, order: AssignmentOrder, topics: &[(&str, usize)]) -> Vec<Vec<String>> {
        let of = |index| names(&Assignment::new(index, total, order).update(&seen(topics)).added);
        (0..total).map(of).collect()
    }

    #[test]
    fn kafka_utils_test_assign_one_partition_per_task() {
        assert_eq!(dealt(4, Concatenated, &[("t", 4)]), [["t/0"], ["t/1"], ["t/2"], ["t/3"]]);
    }

    #[test]
    fn kafka_utils_test_assign_all_partitions_to_one_task() {
        for order in [ByTopic, Concatenated] {
            assert_eq!(dealt(1, order, &[("t", 4)]), [["t/0", "t/1", "t/2", "t/3"]]);
        }
    }

    #[test]
    fn kafka_utils_test_multiple_partitions_per_task_by_position() {
        assert_eq!(
            dealt(3, Concatenated, &[("t", 8)]),
            [vec!["t/0", "t/3", "t/6"], vec!["t/1", "t/4", "t/7"], vec!["t/2", "t/5"]]
        );
    }

    #[test]
    fn kafka_utils_test_more_tasks_than_partitions_leaves_some_idle() {
        let idle: Vec<String> = Vec::new();
        assert_eq!(
            dealt(5, Concatenated, &[("t", 3)]),
            [vec!["t/0".to_owned()], vec!["t/1".to_owned()], vec!["t/2".to_owned()], idle.clone(), idle]
        );
    }

    #[test]
    fn zk_coordinator_test_several_topics_are_one_sorted_line_as_storm_has_them() {
        let dealt = dealt(2, Concatenated, &[("b", 2), ("a", 3)]);
        assert_eq!(dealt, [vec!["a/0", "a/2", "b/1"], vec!["a/1", "b/0"]]);
    }

    #[test]
    fn by_topic_every_partition_has_one_task_and_no_task_two_more_than_another() {
        let topics = [("clicks", 7), ("orders", 12), ("views", 1), ("a", 3)];
        for total in 1..20 {
            let dealt = dealt(total, ByTopic, &topics);
            let mut all: Vec<_> = dealt.concat();
            all.sort();
            all.dedup();
            assert_eq!((all.len(), dealt.concat().len()), (23, 23), "{total}");
            for (topic, _) in topics {
                let prefix = format!("{topic}/");
                let counts = dealt.iter().map(|own| own.iter().filter(|it| it.starts_with(&prefix)).count());
                let (least, most) = counts.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
                assert!(most - least <= 1, "{topic} over {total}: {least} to {most}");
            }
        }
    }

    #[test]
    fn by_topic_a_new_partition_of_one_topic_moves_nothing_of_another() {
        for total in [2, 3, 5] {
            for index in 0..total {
                let mut task = Assignment::new(index, total, ByTopic);
                task.update(&seen(&[("a", 3), ("b", 4), ("c", 5)]));
                let change = task.update(&seen(&[("a", 4), ("aa", 1), ("b", 4), ("c", 5)]));
                assert_eq!(change.removed, []);
                assert!(names(&change.added).iter().all(|it| it == "a/3" || it == "aa/0"), "{change:?}");
            }
        }
    }

    #[test]
    fn by_topic_the_first_task_is_a_stable_hash_of_the_name() {
        // Another hash would move partitions at an upgrade.
        let first = |topic: &str| {
            let tasks = dealt(1000, ByTopic, &[(topic, 1)]);
            tasks.iter().position(|own| !own.is_empty()).unwrap()
        };
        // The check value of CRC-32C.
        assert_eq!(first("123456789"), 0xE306_9283 % 1000);
    }

    #[test]
    fn zk_coordinator_test_partitions_change() {
        let mut task = Assignment::new(0, 2, Concatenated);
        assert_eq!(names(&task.update(&seen(&[("t", 2)])).added), ["t/0"]);
        let change = task.update(&seen(&[("t", 5)]));
        assert_eq!((names(&change.added), change.removed), (vec!["t/2".into(), "t/4".into()], vec![]));
        assert_eq!(task.update(&seen(&[("t", 5)])), Change::default());
    }

    #[test]
    fn storm_1682_a_partition_that_is_left_out_of_one_read_stays_and_shifts_nobody() {
        for index in 0..3 {
            let mut task = Assignment::new(index, 3, Concatenated);
            task.update(&seen(&[("a", 2), ("b", 4)]));
            assert_eq!(task.update(&seen(&[("a", 1), ("b", 4)])), Change::default());
            assert_eq!(task.update(&seen(&[("b", 4)])), Change::default());
            assert_eq!(task.update(&seen(&[("a", 2), ("b", 4)])), Change::default());
            // Absences count only in a row.
            assert_eq!(task.update(&seen(&[("b", 4)])), Change::default());
            assert_eq!(task.update(&seen(&[("a", 2)])), Change::default());
        }
    }

    #[test]
    fn storm_817_a_vanished_topic_goes_at_the_third_read_without_it_and_may_come_back() {
        let mut task = Assignment::new(0, 1, ByTopic);
        task.update(&seen(&[("a", 1), ("b", 2)]));
        assert_eq!(task.update(&seen(&[("b", 2)])), Change::default());
        assert_eq!(task.update(&seen(&[("b", 2)])), Change::default());
        assert_eq!(names(&task.update(&seen(&[("b", 2)])).removed), ["a/0"]);
        let change = task.update(&seen(&[("a", 1), ("ab", 1), ("b", 2)]));
        assert_eq!(names(&change.added), ["a/0", "ab/0"]);
    }

    #[test]
    fn fewer_partitions_are_believed_as_far_as_three_reads_in_a_row_agree() {
        let mut task = Assignment::new(0, 1, ByTopic);
        task.update(&seen(&[("t", 5)]));
        assert_eq!(task.update(&seen(&[("t", 2)])), Change::default());
        assert_eq!(task.update(&seen(&[("t", 3)])), Change::default());
        assert_eq!(names(&task.update(&seen(&[("t", 1)])).removed), ["t/3", "t/4"]);
        assert_eq!(names(&task.update(&seen(&[("t", 1)])).removed), [] as [&str; 0]);
        assert_eq!(names(&task.update(&seen(&[("t", 1)])).removed), ["t/1", "t/2"]);
    }

    #[test]
    fn storm_2394_tasks_that_see_the_same_topics_never_own_a_partition_twice() {
        // Each reads at another moment of an election; topics and counts are what all can agree on.
        let reads = [&[("a", 4), ("b", 3)][..], &[("a", 3)], &[("a", 4), ("b", 1)], &[("a", 4), ("b", 3)]];
        for order in [ByTopic, Concatenated] {
            let mut owned = Vec::new();
            for index in 0..3 {
                let mut task = Assignment::new(index, 3, order);
                task.update(&seen(reads[0]));
                for read in &reads[index..] {
                    task.update(&seen(read));
                }
                owned.extend(task.mine);
            }
            owned.sort();
            let count = owned.len();
            owned.dedup();
            assert_eq!((owned.len(), count), (7, 7), "{order:?}");
        }
    }

    #[test]
    fn a_topic_without_partitions_is_none_yet() {
        let mut task = Assignment::new(0, 1, Concatenated);
        assert_eq!(task.update(&seen(&[("t", 0)])), Change::default());
        assert_eq!(names(&task.update(&seen(&[("t", 1)])).added), ["t/0"]);
    }
}
