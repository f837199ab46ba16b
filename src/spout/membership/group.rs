//! One member's picture of its group: a plain state machine. It is told what is there and what time it is,
//! and says what this member has and what it is to write.

use std::collections::{BTreeMap, BTreeSet};

use super::deal::{Deal, Identity};
use crate::client::TopicPartition;
use crate::spout::parked::Millis;

/// See the module.
#[derive(Debug)]
pub(super) struct Group {
    settle: Millis,
    /// What was wanted when it was looked last, and since when.
    wanted: Option<(Wanted, Millis)>,
}

#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    members: BTreeMap<String, Identity>,
    partitions: BTreeSet<TopicPartition>,
    /// Another deal is another beginning.
    generation: u64,
}

/// What is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct View {
    pub(super) members: BTreeMap<String, Identity>,
    /// The latest deal, and its number; 0 if there is none.
    pub(super) generation: u64,
    pub(super) deal: Deal,
    /// Members, and up to which deal each has let go of what it does not have any more.
    pub(super) let_go: BTreeMap<String, u64>,
}

impl View {
    /// What a member may have now: what it was dealt, without what others still hold. What it holds it keeps.
    pub(super) fn ready(&self, me: &str, held: &BTreeSet<TopicPartition>) -> BTreeSet<TopicPartition> {
        let mut share = self.deal.share(me);
        share.retain(|partition| {
            let mut before =
                self.deal.waits_for(partition).filter(|member| self.members.contains_key(*member));
            held.contains(partition) || before.all(|member| self.has_let_go(member))
        });
        share
    }

    fn has_let_go(&self, member: &str) -> bool {
        self.let_go.get(member).is_some_and(|until| *until >= self.generation)
    }
}

/// What follows from it.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Nothing is to be done until something changes.
    Rest,
    /// Look again at that time.
    At(Millis),
    /// Write this deal, under the number after the one seen.
    Write(Deal),
}

impl Group {
    /// Deals wait until members and partitions have not changed for that long.
    pub(super) fn new(settle: Millis) -> Self {
        Group { settle, wanted: None }
    }

    /// `partitions`: all that there are, as this member knows.
    pub(super) fn look(
        &mut self,
        view: &View,
        me: &str,
        partitions: &BTreeSet<TopicPartition>,
        now: Millis,
    ) -> Next {
        if view.deal.fits(&view.members, partitions) && view.generation > 0 {
            self.wanted = None;
            return Next::Rest;
        }
        // The first by name deals. Whoever else believes to be the first loses to who writes first.
        if view.members.keys().next().is_none_or(|first| first != me) {
            self.wanted = None;
            return Next::Rest;
        }
        let wanted = Wanted {
            members: view.members.clone(),
            partitions: partitions.clone(),
            generation: view.generation,
        };
        let since = match &self.wanted {
            Some((before, since)) if *before == wanted => *since,
            _ => now,
        };
        self.wanted = Some((wanted, since));
        match now >= since.saturating_add(self.settle) {
            true => {
                let let_go = view.members.keys().filter(|member| view.has_let_go(member)).cloned().collect();
                Next::Write(view.deal.again(&view.members, partitions, &let_go))
            }
            false => Next::At(since.saturating_add(self.settle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(names: &[&str]) -> View {
        let identity = |name: &str| Identity { instance: name.to_owned(), run: name.to_owned() };
        let members = names.iter().map(|name| ((*name).to_owned(), identity(name))).collect();
        View { members, ..View::default() }
    }

    fn partitions(count: i32) -> BTreeSet<TopicPartition> {
        (0..count).map(|number| TopicPartition::new("t", number)).collect()
    }

    #[test]
    fn the_first_member_deals_once_all_has_been_quiet_for_a_while() {
        let mut group = Group::new(3_000);
        let (all, mut view) = (partitions(4), view(&["a"]));
        assert_eq!(group.look(&view, "a", &all, 0), Next::At(3_000));
        view.members.insert("b".to_owned(), Identity::default());
        assert_eq!(group.look(&view, "a", &all, 2_000), Next::At(5_000), "another one has come");
        assert_eq!(Group::new(3_000).look(&view, "b", &all, 9_000), Next::Rest, "the first one deals");
        assert_eq!(group.look(&view, "a", &all, 4_000), Next::At(5_000));
        let Next::Write(deal) = group.look(&view, "a", &all, 5_000) else { panic!("it is time") };
        assert_eq!((deal.share("a").len(), deal.share("b").len()), (2, 2));
        (view.deal, view.generation) = (deal, 1);
        assert_eq!(group.look(&view, "a", &all, 5_001), Next::Rest);
        assert_eq!(group.look(&view, "a", &partitions(5), 6_000), Next::At(9_000), "a partition was added");
        assert_eq!(group.look(&view, "a", &all, 7_000), Next::Rest, "or not");
        assert_eq!(group.look(&view, "a", &partitions(5), 8_000), Next::At(11_000));
    }

    #[test]
    fn who_comes_first_by_name_takes_over_from_a_dealer_that_is_gone() {
        let mut group = Group::new(3_000);
        let all = partitions(2);
        let both = view(&["a", "b"]);
        let dealt = View {
            generation: 7,
            deal: Deal::default().again(&both.members, &all, &BTreeSet::new()),
            ..both
        };
        assert_eq!(group.look(&dealt, "b", &all, 0), Next::Rest);
        let alone = View { members: view(&["b"]).members, ..dealt };
        assert_eq!(group.look(&alone, "b", &all, 10), Next::At(3_010));
        let Next::Write(deal) = group.look(&alone, "b", &all, 3_010) else { panic!("it is time") };
        assert_eq!(deal.share("b"), all);
    }

    #[test]
    fn what_moves_is_begun_when_its_last_owner_has_let_go_or_is_gone() {
        let all = partitions(4);
        let first = View { generation: 1, ..view(&["a"]) };
        let one = first.deal.again(&first.members, &all, &BTreeSet::new());
        let both = view(&["a", "b"]);
        let deal = one.again(&both.members, &all, &BTreeSet::new());
        let mut view = View { generation: 2, deal, ..both };
        view.let_go.insert("a".to_owned(), 1);
        assert_eq!(view.ready("a", &all), partitions(2));
        assert_eq!(view.ready("b", &BTreeSet::new()).len(), 0);
        assert_eq!(view.ready("b", &all).len(), 2, "what it holds it keeps");
        view.let_go.insert("a".to_owned(), 2);
        assert_eq!(view.ready("b", &BTreeSet::new()).len(), 2);
        view.let_go.clear();
        view.members.remove("a");
        assert_eq!(view.ready("b", &BTreeSet::new()).len(), 2);
    }

    #[test]
    fn no_partition_is_known_yet_and_nothing_is_dealt_but_that() {
        let mut group = Group::new(0);
        let Next::Write(deal) = group.look(&view(&["a"]), "a", &BTreeSet::new(), 0) else {
            panic!("at once")
        };
        assert!(deal.owners.is_empty());
    }
}
