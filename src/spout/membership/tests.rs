//! Members over a ZooKeeper in memory, whose sessions end, and whose answers get lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;
use crate::checkpoint::Owner;
use crate::client::TopicPartition;
use crate::testing::{MemoryZooKeeper, ZooKeeperFault, ZooKeeperOperation};

const ROOT: &str = "/downspout";

/// A member, and what it was told last.
struct One {
    zookeeper: MemoryZooKeeper,
    member: Option<Member>,
    share: Share,
}

fn partitions(count: i32) -> BTreeSet<TopicPartition> {
    (0..count).map(|number| TopicPartition::new("clicks", number)).collect()
}

fn join(zookeeper: MemoryZooKeeper, instance: &str, run: &str, count: impl Into<Option<i32>>) -> One {
    let membership = Membership::over(Arc::new(zookeeper.clone()), ROOT);
    let owner = Owner { instance: instance.to_owned(), name: "billing".to_owned(), run: run.to_owned() };
    let member = Member::join(&membership, "billing", &owner);
    if let Some(count) = count.into() {
        member.tell(partitions(count));
    }
    One { zookeeper, member: Some(member), share: Share::default() }
}

impl One {
    /// What it has by now.
    async fn share(&mut self) -> BTreeSet<TopicPartition> {
        if let Some(member) = &mut self.member {
            while let Ok(share) = tokio::time::timeout(Duration::ZERO, member.changed()).await {
                self.share = share;
            }
            // What it lost it lets go of at once.
            member.holds(self.share.partitions.clone());
        }
        self.share.partitions.clone()
    }

    async fn numbers(&mut self) -> usize {
        self.share().await.len()
    }
}

/// Lets time pass, in which all go along.
async fn pass(members: &mut [One], time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        sleep(Duration::from_millis(10)).await;
        for one in members.iter_mut() {
            one.share().await;
        }
    }
}

/// Each has its part, and nobody another one's.
async fn assert_all_dealt(members: &mut [One], count: i32) {
    let mut seen = BTreeSet::new();
    for one in members.iter_mut() {
        for partition in one.share().await {
            assert!(seen.insert(partition.clone()), "{partition} has two owners");
        }
    }
    assert_eq!(seen, partitions(count));
}

#[tokio::test(start_paused = true)]
async fn members_share_evenly_once_nobody_has_come_for_three_seconds() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members = vec![join(zookeeper.connect(), "a", "1", 10)];
    pass(&mut members, Duration::from_secs(2)).await;
    assert_eq!(members[0].numbers().await, 0, "not yet");
    members.push(join(zookeeper.connect(), "b", "2", 10));
    members.push(join(zookeeper.connect(), "c", "3", 10));
    pass(&mut members, Duration::from_millis(2_900)).await;
    assert_eq!(members[0].numbers().await, 0, "two have come");
    pass(&mut members, Duration::from_millis(300)).await;
    assert_all_dealt(&mut members, 10).await;
    for one in &mut members {
        assert!((3..=4).contains(&one.numbers().await));
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_replaced_after_the_delay_and_who_is_killed_after_its_session() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members: Vec<One> =
        ["a", "b", "c"].map(|name| join(zookeeper.connect(), name, name, 6)).into_iter().collect();
    pass(&mut members, Duration::from_secs(4)).await;
    assert_all_dealt(&mut members, 6).await;
    let mut left = members.remove(0);
    let before: Vec<_> = [members[0].share().await, members[1].share().await].into();
    left.member.take().unwrap().leave().await;
    pass(&mut members, Duration::from_secs(4)).await;
    assert_all_dealt(&mut members, 6).await;
    for (one, before) in members.iter_mut().zip(&before) {
        assert!(one.share().await.is_superset(before), "nothing else moves");
    }
    let killed = members.remove(0);
    killed.zookeeper.set_reachable(false);
    drop(killed);
    pass(&mut members, Duration::from_secs(9)).await;
    assert_eq!(members[0].numbers().await, 3, "its session lasts for ten seconds");
    pass(&mut members, Duration::from_secs(6)).await;
    assert_eq!(members[0].numbers().await, 6);
}

#[tokio::test(start_paused = true)]
async fn new_partitions_are_dealt_and_more_members_than_partitions_stay_idle() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members: Vec<One> =
        ["a", "b", "c"].map(|name| join(zookeeper.connect(), name, name, 2)).into_iter().collect();
    pass(&mut members, Duration::from_secs(4)).await;
    assert_all_dealt(&mut members, 2).await;
    members.iter().for_each(|one| one.member.as_ref().unwrap().tell(partitions(7)));
    pass(&mut members, Duration::from_secs(4)).await;
    assert_all_dealt(&mut members, 7).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_dropped_leaves_nothing_in_a_session_that_lives_on() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members: Vec<One> =
        ["a", "b"].map(|name| join(zookeeper.clone(), name, name, 4)).into_iter().collect();
    pass(&mut members, Duration::from_secs(5)).await;
    assert_all_dealt(&mut members, 4).await;
    drop(members.remove(0));
    pass(&mut members, Duration::from_secs(5)).await;
    assert_eq!(members[0].numbers().await, 4, "the others do not wait for the session");
    drop(members);
    sleep(Duration::from_secs(1)).await;
    let group = zookeeper.paths().into_iter().filter(|path| path.contains("/~group/"));
    let left: Vec<String> = group.filter(|path| !path.contains("/a-")).collect();
    assert_eq!(left, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_knows_no_partitions_or_not_all_yet_takes_none_from_the_others() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members = vec![join(zookeeper.connect(), "b", "b", 6)];
    pass(&mut members, Duration::from_secs(5)).await;
    // By its name it is the one that deals.
    members.insert(0, join(zookeeper.connect(), "a", "a", None));
    pass(&mut members, Duration::from_secs(20)).await;
    assert_eq!((members[0].numbers().await, members[1].numbers().await), (0, 6));
    for (look, known) in [(1, 2), (2, 0), (3, 2)] {
        members[0].member.as_ref().unwrap().tell(partitions(known));
        pass(&mut members, Duration::from_secs(10)).await;
        assert_all_dealt(&mut members, if look < 3 { 6 } else { 2 }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_without_an_answer_for_two_thirds_of_its_session_has_nothing_and_then_its_own_again() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members: Vec<One> =
        ["a", "b"].map(|name| join(zookeeper.connect(), name, name, 4)).into_iter().collect();
    pass(&mut members, Duration::from_secs(4)).await;
    let before = members[1].share().await;
    members[1].zookeeper.set_reachable(false);
    let began = Instant::now();
    while members[1].share.out.is_none() {
        members[1].share().await;
        sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(members[1].numbers().await, 0);
    assert_eq!(members[0].numbers().await, 2, "nobody else has them before its session is over");
    members[1].zookeeper.set_reachable(true);
    pass(&mut members, Duration::from_secs(8)).await;
    assert_all_dealt(&mut members, 4).await;
    assert_eq!(members[1].share().await, before);
    assert_eq!(members[1].share.out, None);
}

#[tokio::test(start_paused = true)]
async fn another_session_is_another_member_that_finds_what_it_had() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members: Vec<One> =
        ["a", "b", "c"].map(|name| join(zookeeper.connect(), name, name, 9)).into_iter().collect();
    pass(&mut members, Duration::from_secs(4)).await;
    let mut before = Vec::new();
    for one in &mut members {
        before.push(one.share().await);
    }
    members[1].zookeeper.lose_session();
    pass(&mut members, Duration::from_secs(12)).await;
    assert_all_dealt(&mut members, 9).await;
    for (one, before) in members.iter_mut().zip(&before) {
        assert_eq!(&one.share().await, before);
    }
    let names = zookeeper.paths().into_iter().filter(|path| path.contains("/m-")).count();
    assert_eq!(names, 3, "and leaves no ghost");
}

#[tokio::test(start_paused = true)]
async fn of_old_deals_two_are_kept_and_one_that_cannot_be_read_is_dealt_anew() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members = vec![join(zookeeper.connect(), "a", "a", 4)];
    for count in 5..10 {
        pass(&mut members, Duration::from_secs(4)).await;
        members[0].member.as_ref().unwrap().tell(partitions(count));
    }
    pass(&mut members, Duration::from_secs(10)).await;
    let deals: Vec<String> = zookeeper.paths().into_iter().filter(|path| path.contains("/a-")).collect();
    assert_eq!(deals.len(), 2, "{deals:?}");
    zookeeper.put(&deals[1], "rubbish");
    members.push(join(zookeeper.connect(), "b", "b", 9));
    pass(&mut members, Duration::from_secs(10)).await;
    assert_all_dealt(&mut members, 9).await;
}

/// Whatever is lost on the way, in the end all is dealt, and never does one have what another one was dealt later.
#[tokio::test(start_paused = true)]
async fn lost_requests_answers_and_sessions_only_delay() {
    for seed in 0..20_u64 {
        let zookeeper = MemoryZooKeeper::new();
        let chance = Arc::new(std::sync::atomic::AtomicU64::new(seed));
        let until = Instant::now() + Duration::from_secs(60);
        let mut members = Vec::new();
        for name in ["a", "b", "c", "d"] {
            let client = zookeeper.connect();
            let chance = Arc::clone(&chance);
            client.on_call(move |call| {
                let next = |now: u64| {
                    Some(now.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
                };
                let order = std::sync::atomic::Ordering::Relaxed;
                let drawn = chance.fetch_update(order, order, next).unwrap_or_default() >> 33;
                let is_bad = Instant::now() < until && drawn.is_multiple_of(7);
                let is_write =
                    matches!(call.operation, ZooKeeperOperation::Create | ZooKeeperOperation::Delete);
                is_bad.then_some(match drawn / 7 % 5 {
                    0 if is_write => ZooKeeperFault::LostAnswer,
                    1 if is_write => ZooKeeperFault::ReadAgain { done: drawn.is_multiple_of(2) },
                    2 => ZooKeeperFault::SessionLost,
                    3 => ZooKeeperFault::Late(Duration::from_secs(drawn % 9)),
                    _ => ZooKeeperFault::NoAnswer,
                })
            });
            members.push(join(client, name, name, 11));
        }
        // Two may believe to have one while one of them cannot hear; the store decides then.
        pass(&mut members, Duration::from_secs(90)).await;
        assert_all_dealt(&mut members, 11).await;
        let mut sizes = BTreeMap::new();
        for one in &mut members {
            *sizes.entry(one.numbers().await).or_insert(0) += 1;
        }
        assert_eq!(sizes, BTreeMap::from([(2, 1), (3, 3)]), "seed {seed}");
        let names = zookeeper.paths().into_iter().filter(|path| path.contains("/m-")).count();
        assert_eq!(names, 4, "seed {seed}: no ghosts");
    }
}

#[tokio::test(start_paused = true)]
async fn what_moves_is_not_begun_before_its_last_owner_has_let_go() {
    let zookeeper = MemoryZooKeeper::new();
    let mut members = vec![join(zookeeper.connect(), "a", "a", 4)];
    pass(&mut members, Duration::from_secs(4)).await;
    let old = members[0].share().await;
    let mut slow = members.remove(0);
    members.push(join(zookeeper.connect(), "b", "b", 4));
    pass(&mut members, Duration::from_secs(9)).await;
    assert_eq!(members[0].numbers().await, 0, "the other one still has all");
    let member = slow.member.as_mut().unwrap();
    let share = member.changed().await;
    assert_eq!((old.len(), share.partitions.len()), (4, 2));
    pass(&mut members, Duration::from_secs(9)).await;
    assert_eq!(members[0].numbers().await, 0, "it still works on some");
    slow.member.as_ref().unwrap().holds(share.partitions.clone());
    pass(&mut members, Duration::from_secs(1)).await;
    assert_eq!(members[0].numbers().await, 2);
    assert!(members[0].share().await.is_disjoint(&share.partitions));
}
