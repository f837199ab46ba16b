//! Who gets which partitions: sticky and balanced. Plain functions.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::TopicPartition;

/// Partitions, and the member that has each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Deal {
    pub(super) members: BTreeMap<String, Identity>,
    pub(super) owners: BTreeMap<TopicPartition, String>,
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

    /// Deals anew. Each member gets as many as the others, or one more; whoever has too many gives up the
    /// last ones, and nothing else moves. A member that came back under another name, the same run in another
    /// session or the same instance after a restart, finds what it had.
    pub(super) fn again(
        &self,
        members: &BTreeMap<String, Identity>,
        partitions: &BTreeSet<TopicPartition>,
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
        Deal { members: members.clone(), owners: owners.collect() }
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
        let five = Deal::default().again(&members(&["a1", "b1", "c1", "d1", "e1"]), &all);
        assert_eq!(sizes(&five), [4; 5]);
        let four = five.again(&members(&["a1", "b1", "d1", "e1"]), &all);
        assert_eq!((sizes(&four), moved(&five, &four)), (vec![5; 4], 4));
        let back = four.again(&members(&["a1", "b1", "c2", "d1", "e1"]), &all);
        assert_eq!((sizes(&back), moved(&four, &back)), (vec![4; 5], 4));
        let at_once = five.again(&members(&["a1", "b1", "c2", "d1", "e1"]), &all);
        assert_eq!(at_once.share("c2"), five.share("c1"), "back before it was missed");
        assert_eq!(moved(&five, &at_once), 4);
    }

    #[test]
    fn a_member_of_another_session_and_an_instance_that_was_restarted_find_what_they_had() {
        let all = partitions(9);
        let before = Deal::default().again(&members(&["a1", "b1", "c1"]), &all);
        let mut now = members(&["a1", "a2", "c1"]);
        now.insert("z".to_owned(), Identity { instance: "other".to_owned(), run: "b1".to_owned() });
        now.remove("a1");
        let after = before.again(&now, &all);
        assert_eq!(after.share("a2"), before.share("a1"), "the instance");
        assert_eq!(after.share("z"), before.share("b1"), "the run");
        assert_eq!(after.share("c1"), before.share("c1"));
    }

    #[test]
    fn more_members_than_partitions_leave_some_idle_and_new_partitions_move_no_old_one() {
        let deal = Deal::default().again(&members(&["a", "b", "c"]), &partitions(2));
        assert_eq!(sizes(&deal), [1, 1, 0]);
        let more = deal.again(&members(&["a", "b", "c"]), &partitions(3));
        assert_eq!((sizes(&more), moved(&deal, &more)), (vec![1, 1, 1], 1));
        assert_eq!(sizes(&more.again(&members(&["a", "b", "c"]), &partitions(0))), [0, 0, 0]);
        assert_eq!(more.again(&BTreeMap::new(), &partitions(3)).owners.len(), 0);
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
                let after = deal.again(&now, &all);
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
                prop_assert_eq!(&after.again(&now, &all), &after, "once dealt it stays");
                deal = after;
            }
        }
    }
}
