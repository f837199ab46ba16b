//! Two owners under every fault, at random.

use proptest::prelude::*;

use super::*;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn fault(random: &mut Random) -> Option<ZooKeeperFault> {
    Some(match random.below(16) {
        0 => ZooKeeperFault::NoAnswer,
        1 => ZooKeeperFault::LostAnswer,
        2 => ZooKeeperFault::Late(Duration::from_millis(random.below(5000))),
        3 => ZooKeeperFault::ReadAgain { done: true },
        4 => ZooKeeperFault::ReadAgain { done: false },
        5 => ZooKeeperFault::SessionLost,
        _ => return None,
    })
}

/// An owner, as far as the test knows it.
struct Player {
    run: &'static str,
    client: MemoryZooKeeper,
    checkpoints: Box<dyn Checkpoints>,
    /// What it found when it claimed, and where it stands.
    claimed: Option<(i64, i64)>,
    /// There is a position from the beginning on, in the other layout.
    moves: bool,
}

impl Player {
    async fn new(
        tree: &MemoryZooKeeper,
        run: &'static str,
        (compat, moves): (bool, bool),
        seed: u64,
    ) -> Self {
        let client = tree.connect();
        let store = over(&client).compat_storm(compat).layout(Layout::ByTopic);
        let checkpoints = own(&store, run).await;
        let random = std::sync::Mutex::new(Random(seed));
        client.on_call(move |_| fault(&mut random.lock().unwrap()));
        Player { run, client, checkpoints, claimed: None, moves }
    }

    async fn claim(&mut self) {
        self.claimed = None;
        if let Ok(loaded) = load(&*self.checkpoints, clicks(0)).await {
            assert!(loaded.checkpoint.is_some() || !self.moves, "a position was lost");
            let offset = loaded.checkpoint.map_or(0, |checkpoint| checkpoint.offset);
            self.claimed = Some((offset, offset));
        }
    }

    /// The offset that was accepted, and what had been found when it was claimed.
    async fn commit(&mut self) -> Option<(i64, i64)> {
        let (found, at) = self.claimed?;
        // Small steps from the same place: both write the same bytes again and again.
        self.claimed = Some((found, at + 1));
        let mut offer = offer(clicks(0), at + 1, self.run, 1);
        // Not even their names tell them apart.
        offer.checkpoint.extras = offer.checkpoint.extras.filter(|_| at % 3 > 0);
        match commit(&*self.checkpoints, offer).await {
            Ok(_) => Some((at + 1, found)),
            Err(why) => {
                if matches!(
                    why.kind(),
                    ErrorKind::Checkpoint(Problem::Foreign { .. } | Problem::Changed { .. })
                ) {
                    self.claimed = None;
                }
                None
            }
        }
    }
}

/// What has been accepted: by whom, and up to where.
#[derive(Default)]
struct Accepted {
    by: Option<&'static str>,
    offset: i64,
    seen: i64,
    commits: u64,
    hands: u64,
}

impl Accepted {
    fn add(&mut self, run: &'static str, accepted: Option<(i64, i64)>) {
        let Some((offset, found)) = accepted else { return };
        self.commits += 1;
        if self.by.is_some_and(|by| by != run) {
            self.hands += 1;
            assert!(
                found >= self.offset,
                "{run} was accepted at {offset}, and claimed at {found}, before {:?} was accepted at {}",
                self.by,
                self.offset
            );
        }
        assert!(offset >= self.offset, "{run} was accepted at {offset} after {}", self.offset);
        (self.by, self.offset) = (Some(run), offset);
    }

    fn look(&mut self, tree: &MemoryZooKeeper) {
        let Some(node) = tree.peek(BY_TOPIC) else { return assert_eq!(self.seen, 0) };
        let offset = as_java_reads(std::str::from_utf8(&node.data).unwrap()).unwrap();
        assert!(offset >= self.seen, "the checkpoint went back from {} to {offset}", self.seen);
        assert!(offset >= self.offset, "it says {offset}, and {} was accepted", self.offset);
        self.seen = offset;
    }
}

async fn play(seed: u64, (compat, moves): (bool, bool), steps: u64) -> Accepted {
    let tree = MemoryZooKeeper::new();
    if moves {
        tree.put(FLAT, java("clicks", 0, 5));
    }
    let mut random = Random(seed);
    let mut one = Player::new(&tree, "a", (compat, moves), random.below(u64::MAX)).await;
    let mut two = Player::new(&tree, "b", (compat, moves), random.below(u64::MAX)).await;
    let mut accepted = Accepted::default();
    for _ in 0..steps {
        if random.below(8) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(3000))).await;
        }
        if random.below(20) == 0 {
            one.client.set_reachable(random.below(3) > 0);
        }
        match random.below(10) {
            // One after another.
            0 => one.claim().await,
            1 => two.claim().await,
            2..=4 => {
                let done = one.commit().await;
                accepted.look(&tree);
                accepted.add("a", done);
            }
            5..=7 => {
                let done = two.commit().await;
                accepted.look(&tree);
                accepted.add("b", done);
            }
            // Both at once: whoever claimed last goes on.
            8 => drop(tokio::join!(one.claim(), two.claim())),
            _ => {
                let (first, second) = tokio::join!(one.commit(), two.commit());
                assert!(first.is_none() || second.is_none(), "both were accepted: {first:?}, {second:?}");
                accepted.look(&tree);
                accepted.add("a", first);
                accepted.add("b", second);
            }
        }
        accepted.look(&tree);
    }
    accepted
}

fn run(seed: u64, how: (bool, bool), steps: u64) -> Accepted {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(play(seed, how, steps))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn of_two_owners_one_is_accepted_and_the_checkpoint_never_goes_back(seed: u64, compat: bool) {
        run(seed, (compat, false), 60);
    }

    #[test]
    fn of_two_that_take_over_the_other_layout_at_once_one_is_accepted_and_nothing_is_lost(seed: u64, compat: bool) {
        run(seed, (compat, true), 40);
    }
}

#[test]
fn in_these_schedules_much_is_accepted_and_changes_hands_often() {
    let runs: Vec<Accepted> = (0..20).map(|seed| run(seed, (seed % 2 == 0, seed % 4 < 2), 200)).collect();
    let commits: u64 = runs.iter().map(|run| run.commits).sum();
    let hands: u64 = runs.iter().map(|run| run.hands).sum();
    assert!(commits > 300 && hands > 60, "{commits} commits, {hands} hand-overs");
}
