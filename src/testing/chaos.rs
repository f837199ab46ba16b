//! Random schedules: at each step something may happen to the cluster, as a seed decides.

use std::fmt;
use std::time::Duration;

use super::action::{Action, Happening};
use super::core::Core;
use super::random::Random;
use crate::protocol::{ApiKey, ErrorCode};

/// Lets things happen to a cluster, step by step, the same ones for the same seed.
///
/// What lasts (a broker that is down, a follower that lags) ends by itself some steps later, so that
/// the cluster is never out of order for long; [`heal`](Chaos::heal) ends all of it at once.
///
/// ```
/// # use std::time::Duration;
/// use downspout::testing::{Chaos, EmbeddedBroker};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let broker = EmbeddedBroker::builder().brokers(3).topic("clicks", 6).in_memory();
/// let mut chaos = Chaos::new(42);
/// for _ in 0..100 {
///     broker.with(|cluster| chaos.step(cluster));
///     // … what is tested goes on …
///     tokio::time::sleep(Duration::from_millis(50)).await;
/// }
/// broker.with(|cluster| chaos.heal(cluster));
/// chaos.events().iter().for_each(|event| println!("{event}"));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Chaos {
    random: Random,
    loses_records: bool,
    corrupts_records: bool,
    /// Steps out of 100 at which something new happens.
    rate: u64,
    /// What ends something that lasts, and at which step.
    due: Vec<(u64, Action)>,
    steps: u64,
    events: Vec<Event>,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, since the start of the cluster.
    pub at: Duration,
    /// What.
    pub action: Action,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {}", self.at.as_secs_f64(), self.action)
    }
}

/// Steps that something lasts at most.
const LONGEST: u64 = 20;

impl Chaos {
    /// The schedule of this seed: trouble with brokers, leaders, connections and answers, all of which
    /// a client can bear without missing a record.
    ///
    /// What a client on this thread leaves to chance, the jitter of its back-offs, follows the seed from
    /// now on too.
    pub fn new(seed: u64) -> Self {
        crate::net::fix_chance(seed);
        Chaos {
            random: Random::new(seed),
            loses_records: false,
            corrupts_records: false,
            rate: 30,
            due: Vec::new(),
            steps: 0,
            events: Vec::new(),
        }
    }

    /// Also what takes records away: retention, compaction, unclean elections, topics that are
    /// deleted or created anew.
    pub fn losing_records(mut self) -> Self {
        self.loses_records = true;
        self
    }

    /// Also records damaged on their way, in places that their checksum covers.
    pub fn corrupting_records(mut self) -> Self {
        self.corrupts_records = true;
        self
    }

    /// In how many of 100 steps something new happens; 30 by default.
    pub fn rate(mut self, percent: u64) -> Self {
        self.rate = percent;
        self
    }

    /// At most one thing happens; gives it.
    pub fn step(&mut self, cluster: &mut Core) -> Option<&Event> {
        self.steps += 1;
        let ripe = self.due.iter().position(|(step, _)| *step <= self.steps);
        let action = match ripe {
            Some(index) => self.due.remove(index).1,
            None if self.random.below(100) < self.rate => self.choose(cluster)?,
            None => return None,
        };
        self.happen(cluster, action)
    }

    /// Ends everything that lasts, and takes the faults away: all brokers are up, every partition has a
    /// leader, every topic is there.
    pub fn heal(&mut self, cluster: &mut Core) {
        for (_, action) in std::mem::take(&mut self.due) {
            self.happen(cluster, action);
        }
        cluster.clear_faults();
        cluster.elect_missing();
    }

    /// What has happened so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    fn happen(&mut self, cluster: &mut Core, mut action: Action) -> Option<&Event> {
        if let Action::Lead { leader: Some(leader), .. } = &mut action
            && !cluster.is_up(*leader)
        {
            *leader = cluster.state.live_nodes().next()?.id;
        }
        // A topic may be gone meanwhile; then nothing happens.
        action.apply(cluster).ok()?;
        self.events.push(Event { at: cluster.now, action });
        self.events.last()
    }

    /// Ends something some steps from now.
    fn later(&mut self, action: Action) {
        let step = self.steps + 1 + self.random.below(LONGEST);
        self.due.push((step, action));
    }

    fn choose(&mut self, cluster: &Core) -> Option<Action> {
        match self.random.below(if self.loses_records { 24 } else { 20 }) {
            0..=8 => self.fault(cluster),
            9..=12 => self.broker_trouble(cluster),
            13..=19 => self.partition_trouble(cluster),
            _ => self.loss(cluster),
        }
    }

    /// Trouble with one broker; never so that all of them are down.
    fn broker_trouble(&mut self, cluster: &Core) -> Option<Action> {
        let nodes: Vec<i32> =
            cluster.state.live_nodes().filter(|node| !node.frozen).map(|node| node.id).collect();
        let node = *self.random.pick(&nodes)?;
        let can_spare = nodes.len() > 1;
        let (action, end) = match self.random.below(6) {
            0 | 1 if can_spare => (Action::Stop { node }, Action::Start { node }),
            2 if can_spare => (Action::Freeze { node, freeze: true }, Action::Freeze { node, freeze: false }),
            3 => (Action::HoldMetadata { node, hold: true }, Action::HoldMetadata { node, hold: false }),
            4 if can_spare => (Action::Hide { node, hide: true }, Action::Hide { node, hide: false }),
            _ => return Some(Action::ForgetSessions { node }),
        };
        self.later(end);
        Some(action)
    }

    fn partition_trouble(&mut self, cluster: &Core) -> Option<Action> {
        let (topic, partition) = self.partition(cluster)?;
        let found = cluster.state.partition(&topic, partition)?;
        let end = found.log.end();
        let live: Vec<i32> = cluster.state.live_nodes().map(|node| node.id).collect();
        let leader = self.random.pick(&live).copied();
        match self.random.below(8) {
            0..=2 => Some(Action::Lead { topic, partition, leader }),
            3 => {
                self.later(Action::Lead { topic: topic.clone(), partition, leader });
                Some(Action::Lead { topic, partition, leader: None })
            }
            4 => {
                self.later(Action::ShowEpoch { topic: topic.clone(), partition, epoch: None });
                let epoch = Some(self.random.below(found.epoch.max(0) as u64 + 1) as i32);
                Some(Action::ShowEpoch { topic, partition, epoch })
            }
            5 | 6 => {
                let node = *self.random.pick(&found.replicas)?;
                self.later(Action::HoldFollower { topic: topic.clone(), partition, node, end: None });
                let end = Some(end - self.random.below(10).min(end as u64) as i64);
                Some(Action::HoldFollower { topic, partition, node, end })
            }
            _ => {
                // Never below where it was: what consumers have seen is committed.
                let at = Some(found.log.high_watermark());
                self.later(Action::HoldHighWatermark { topic: topic.clone(), partition, at: None });
                Some(Action::HoldHighWatermark { topic, partition, at })
            }
        }
    }

    fn loss(&mut self, cluster: &Core) -> Option<Action> {
        let (topic, partition) = self.partition(cluster)?;
        let found = cluster.state.partition(&topic, partition)?;
        let (start, end) = (found.log.start(), found.log.end());
        let size = (end - start).max(0) as u64;
        let offset = start + self.random.below(size + 1) as i64;
        let partitions = cluster.state.topics.get(&topic).map_or(1, |topic| topic.partitions.len() as i32);
        match self.random.below(12) {
            0..=3 => Some(Action::DeleteBefore { topic, partition, offset }),
            4..=6 => Some(Action::Truncate { topic, partition, offset }),
            7 | 8 => Some(Action::Compact { topic, partition }),
            9 => Some(Action::AddPartitions { topic, count: partitions + 1 }),
            10 => Some(Action::Create { topic, partitions }),
            _ => {
                self.later(Action::Create { topic: topic.clone(), partitions });
                Some(Action::Delete { topic })
            }
        }
    }

    fn partition(&mut self, cluster: &Core) -> Option<(String, i32)> {
        let topics = &cluster.state.topics;
        let index = self.random.below(topics.len() as u64) as usize;
        let (name, topic) = topics.iter().nth(index)?;
        Some((name.clone(), self.random.below(topic.partitions.len() as u64) as i32))
    }

    fn fault(&mut self, cluster: &Core) -> Option<Action> {
        const APIS: &[ApiKey] = &[
            ApiKey::FETCH,
            ApiKey::FETCH,
            ApiKey::FETCH,
            ApiKey::METADATA,
            ApiKey::LIST_OFFSETS,
            ApiKey::OFFSET_FOR_LEADER_EPOCH,
            ApiKey::API_VERSIONS,
        ];
        let api = *self.random.pick(APIS)?;
        let nodes: Vec<i32> = cluster.state.nodes.iter().map(|node| node.id).collect();
        let node = if self.random.below(2) == 0 { self.random.pick(&nodes).copied() } else { None };
        let millis = Duration::from_millis(1 + self.random.below(2_000));
        let what = match self.random.below(12) {
            0..=3 => self.error(api, cluster)?,
            4 => Happening::Delay(millis),
            5 => Happening::Throttle(millis),
            6 => Happening::Close,
            7 => Happening::Silence,
            8 => Happening::Freeze,
            9 => Happening::CutAfter(self.random.below(300) as usize),
            10 if self.corrupts_records && api == ApiKey::FETCH => Happening::CorruptRecords,
            10 => Happening::CorrelationId(self.random.next() as i32),
            // Much too small, much too large, or negative.
            _ => Happening::Size(self.random.next() as i32 >> self.random.below(32)),
        };
        Some(Action::Fault { api: Some(api), node, times: 1 + self.random.below(3) as u32, what })
    }

    /// An error that brokers do give where it is put.
    fn error(&mut self, api: ApiKey, cluster: &Core) -> Option<Happening> {
        let codes: &[i16] = match api {
            ApiKey::FETCH => &[1, 3, 6, 9, 56, 74, 75, 78, -1],
            ApiKey::LIST_OFFSETS => &[3, 6, 74, 75, 78, 7],
            ApiKey::OFFSET_FOR_LEADER_EPOCH => &[3, 6, 74, 75],
            ApiKey::METADATA => &[5, 9],
            _ => &[7],
        };
        let top: &[i16] = match api {
            ApiKey::FETCH => &[70, 71, 106],
            _ => &[],
        };
        if !top.is_empty() && self.random.below(4) == 0 {
            let code = ErrorCode(*self.random.pick(top)?);
            return Some(Happening::TopError { code });
        }
        let code = ErrorCode(*self.random.pick(codes)?);
        let somewhere = self.random.below(2) == 0 && api != ApiKey::API_VERSIONS;
        Some(Happening::Error { code, at: if somewhere { self.partition(cluster) } else { None } })
    }
}
