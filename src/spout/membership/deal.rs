//! Who gets which partitions: sticky and balanced. Plain functions.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::TopicPartition;

/// Partitions, and the member that has each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Deal {
    pub(super) members: BTreeMap<String, Identity>,
    pub(super) owners: BTreeMap<TopicPartition, String>,
    /// Who had a partition before and may not have let go of it yet.
    pub(super) from: BTreeMap<TopicPartition, BTreeSet<String>>,
}

/// What stays the same of a member over sessions and restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) instance: String,
    pub(super) run: String,
}

impl Deal {
    /// The partitions of one member.
    pub(super) fn share(&self, member: &str) -> BTreeSet<TopicPartition> {
        let own = self.owners.iter().filter(|(_, owner)| *owner == member);
        own.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether it is about these members and partitions.
    pub(super) fn fits(
        &self,
        members: &BTreeMap<String, Identity>,
        partitions: &BTreeSet<TopicPartition>,
    ) -> bool {
        self.members.keys().eq(members.keys()) && self.owners.keys().eq(partitions)
    }

    /// Those that have to let go of a partition before its owner begins it.
    pub(super) fn waits_for(&self, partition: &TopicPartition) -> impl Iterator<Item = &str> {
        self.from.get(partition).into_iter().flatten().map(String::as_str)
    }

    /// Deals anew. `let_go`: members that have nothing any more but what this deal gives them. Each member gets as many as the others, or one more; whoever has too many gives up the
    /// last ones, and nothing else moves. A member that came back under another name, the same run in another
    /// session or the same instance after a restart, finds what it had.
    pub(super) fn again(
        &self,
        members: &BTreeMap<String, Identity>,
        partitions: &BTreeSet<TopicPartition>,
        let_go: &BTreeSet<String>,
    ) -> Deal {
        let heirs = self.heirs(members);
        let mut hands: BTreeMap<&str, Vec<&TopicPartition>> =
            members.keys().map(|member| (member.as_str(), Vec::new())).collect();
        let mut free = Vec::new();
        for partition in partitions {
            let owner = self.owners.get(partition).map(String::as_str);
            let owner = owner.map(|owner| heirs.get(owner).copied().unwrap_or(owner));
            match owner.and_then(|owner| hands.get_mut(owner)) {
                Some(hand) => hand.push(partition),
                None => free.push(partition),
            }
        }
        let (each, more) = match members.len() {
            0 => (0, 0),
            count => (partitions.len() / count, partitions.len() % count),
        };
        // Those that have the most keep one more than the others.
        let mut order: Vec<&str> = hands.keys().copied().collect();
        order.sort_by_key(|member| std::cmp::Reverse(hands.get(member).map_or(0, Vec::len)));
        let target = |place: usize| each + usize::from(place < more);
        for (place, member) in order.iter().enumerate() {
            if let Some(hand) = hands.get_mut(member) {
                free.extend(hand.split_off(target(place).min(hand.len())));
            }
        }
        free.sort_unstable();
        let mut free = free.into_iter();
        for (place, member) in order.iter().enumerate() {
            if let Some(hand) = hands.get_mut(member) {
                let wanted = target(place) - hand.len();
                hand.extend(free.by_ref().take(wanted));
            }
        }
        let owners = hands.into_iter().flat_map(|(member, hand)| {
            hand.into_iter().map(move |partition| (partition.clone(), member.to_owned()))
        });
        let owners: BTreeMap<TopicPartition, String> = owners.collect();
        let from = owners.iter().filter_map(|(partition, owner)| {
            let still = self.waits_for(partition).filter(|member| !let_go.contains(*member));
            let before = self.owners.get(partition).map(String::as_str);
            let all = still.chain(before).filter(|member| member != owner && members.contains_key(*member));
            let all: BTreeSet<String> = all.map(str::to_owned).collect();
            (!all.is_empty()).then(|| (partition.clone(), all))
        });
        Deal { members: members.clone(), from: from.collect(), owners }
    }

    /// Of members that are gone, those that came for them.
    fn heirs<'a>(&'a self, members: &'a BTreeMap<String, Identity>) -> BTreeMap<&'a str, &'a str> {
        let mut new: Vec<(&str, &Identity)> = Vec::new();
        for (name, identity) in members {
            if !self.members.contains_key(name) {
                new.push((name, identity));
            }
        }
        let mut heirs = BTreeMap::new();
        for (gone, before) in self.members.iter().filter(|(name, _)| !members.contains_key(*name)) {
            let same_run = new.iter().position(|(_, now)| now.run == before.run);
            let found = same_run.or_else(|| new.iter().position(|(_, now)| now.instance == before.instance));
            if let Some(found) = found {
                heirs.insert(gone.as_str(), new.swap_remove(found).0);
            }
        }
        heirs
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn members(names: &[&str]) -> BTreeMap<String, Identity> {
        let identity = |name: &str| Identity { instance: name[..1].to_owned(), run: name.to_owned() };
        names.iter().map(|name| ((*name).to_owned(), identity(name))).collect()
    }

    fn partitions(count: i32) -> BTreeSet<TopicPartition> {
        (0..count).map(|number| TopicPartition::new("clicks", number)).collect()
    }

    fn again(before: &Deal, names: &[&str], all: &BTreeSet<TopicPartition>) -> Deal {
        before.again(&members(names), all, &BTreeSet::new())
    }

    fn sizes(deal: &Deal) -> Vec<usize> {
        deal.members.keys().map(|member| deal.share(member).len()).collect()
    }

    fn moved(before: &Deal, after: &Deal) -> usize {
        let stays =
            |(partition, owner): &(&TopicPartition, &String)| before.owners.get(*partition) == Some(*owner);
        after.owners.iter().filter(|pair| !stays(pair)).count()
    }

    #[test]
    fn one_of_five_restarted_moves_only_its_own_share() {
        let all = partitions(20);
        let five = again(&Deal::default(), &["a1", "b1", "c1", "d1", "e1"], &all);
        assert_eq!(sizes(&five), [4; 5]);
        let four = again(&five, &["a1", "b1", "d1", "e1"], &all);
        assert_eq!((sizes(&four), moved(&five, &four)), (vec![5; 4], 4));
        let back = again(&four, &["a1", "b1", "c2", "d1", "e1"], &all);
        assert_eq!((sizes(&back), moved(&four, &back)), (vec![4; 5], 4));
        let at_once = again(&five, &["a1", "b1", "c2", "d1", "e1"], &all);
        assert_eq!(at_once.share("c2"), five.share("c1"), "back before it was missed");
        assert_eq!(moved(&five, &at_once), 4);
    }

    #[test]
    fn a_member_of_another_session_and_an_instance_that_was_restarted_find_what_they_had() {
        let all = partitions(9);
        let before = again(&Deal::default(), &["a1", "b1", "c1"], &all);
        let mut now = members(&["a1", "a2", "c1"]);
        now.insert("z".to_owned(), Identity { instance: "other".to_owned(), run: "b1".to_owned() });
        now.remove("a1");
        let after = before.again(&now, &all, &BTreeSet::new());
        assert_eq!(after.share("a2"), before.share("a1"), "the instance");
        assert_eq!(after.share("z"), before.share("b1"), "the run");
        assert_eq!(after.share("c1"), before.share("c1"));
    }

    #[test]
    fn more_members_than_partitions_leave_some_idle_and_new_partitions_move_no_old_one() {
        let deal = again(&Deal::default(), &["a", "b", "c"], &partitions(2));
        assert_eq!(sizes(&deal), [1, 1, 0]);
        let more = again(&deal, &["a", "b", "c"], &partitions(3));
        assert_eq!((sizes(&more), moved(&deal, &more)), (vec![1, 1, 1], 1));
        assert_eq!(sizes(&again(&more, &["a", "b", "c"], &partitions(0))), [0, 0, 0]);
        assert_eq!(again(&more, &[], &partitions(3)).owners.len(), 0);
    }

    #[test]
    fn a_partition_that_moves_twice_waits_for_both_that_had_it_unless_they_let_go_or_are_gone() {
        let all = partitions(1);
        let first = again(&Deal::default(), &["a"], &all);
        let mut second = first.again(&members(&["a", "b"]), &all, &BTreeSet::new());
        second.owners.insert(TopicPartition::new("clicks", 0), "b".to_owned());
        second.from.insert(TopicPartition::new("clicks", 0), ["a".to_owned()].into());
        let waits = |let_go: &[&str], names: &[&str]| {
            let let_go = let_go.iter().map(|name| (*name).to_owned()).collect();
            let mut now = members(names);
            now.retain(|name, _| name != "b");
            let deal = second.again(&now, &all, &let_go);
            deal.waits_for(&TopicPartition::new("clicks", 0)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(waits(&[], &["b", "c"]), [""; 0], "both are gone");
        let deal = second.again(&members(&["a", "b", "c"]), &all, &BTreeSet::new());
        assert_eq!(
            deal.waits_for(&TopicPartition::new("clicks", 0)).collect::<Vec<_>>(),
            ["a"],
            "it stays with b"
        );
        let deal = second.again(&members(&["a", "b", "c"]), &all, &["a".to_owned()].into());
        assert_eq!(deal.waits_for(&TopicPartition::new("clicks", 0)).count(), 0);
    }

    proptest! {
        #[test]
        fn all_are_dealt_once_evenly_and_no_more_moves_than_must(
            steps in vec((btree_set("[a-f][0-2]", 1..8), 0..40_i32), 1..8)
        ) {
            let mut deal = Deal::default();
            for (names, count) in steps {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (now, all) = (members(&names), partitions(count));
                let after = deal.again(&now, &all, &BTreeSet::new());
                prop_assert!(after.fits(&now, &all));
                let sizes = sizes(&after);
                let (least, most) = (sizes.iter().min().copied(), sizes.iter().max().copied());
                prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{sizes:?}");
                // Whoever stays gains or loses, never both.
                for member in now.keys().filter(|member| deal.members.contains_key(*member)) {
                    let (had, has) = (deal.share(member), after.share(member));
                    let lost = had.iter().filter(|it| all.contains(*it) && !has.contains(*it)).count();
                    let won = has.difference(&had).count();
                    prop_assert!(lost == 0 || won == 0, "{member} lost {lost} and won {won}");
                }
                let let_go = now.keys().cloned().collect();
                let once_more = after.again(&now, &all, &let_go);
                prop_assert_eq!(&once_more.owners, &after.owners, "once dealt it stays");
                prop_assert!(once_more.from.is_empty(), "and nobody is waited for any more");
                for (partition, owner) in &after.owners {
                    let before = deal.owners.get(partition).filter(|it| *it != owner && now.contains_key(*it));
                    let waits: BTreeSet<&str> = after.waits_for(partition).collect();
                    prop_assert!(before.is_none_or(|before| waits.contains(before.as_str())), "{partition}");
                }
                deal = after;
            }
        }
    }
}
