//! Random schedules: a reader, a writer and a cluster to which things happen, in virtual time. Each
//! offset is delivered or reported; nothing comes twice without a word; nothing stands still.
//!
//! A failing seed prints itself; `SEED=n cargo test --features testing --test streams simulation`
//! replays it, with the log of what happened.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;
use downspout::testing::Chaos;

use super::*;

/// Seeds of each kind: in a default run, and with `--all`. `SEEDS=n` says how many instead.
const SEEDS: (u64, u64) = (1_000, 333_334);

fn seeds() -> Range<u64> {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    let usual = if std::env::var_os("DOWNSPOUT_ALL").is_some() { SEEDS.1 } else { SEEDS.0 };
    0..std::env::var("SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// Chance of the test's own, apart from that of the schedule.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// At first; a schedule may add some.
const PARTITIONS: i32 = 4;

/// One partition, as its reader has seen it.
#[derive(Default)]
struct Seen {
    next: i64,
    records: BTreeMap<i64, Bytes>,
    /// Offsets that were reported as lost.
    lost: Vec<Range<i64>>,
}

/// What may happen.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Trouble with brokers, connections and answers.
    Brokers,
    /// Also records damaged on their way.
    Damage,
    /// Also records that are gone.
    Losses,
}

struct Simulation {
    brokers: Arc<EmbeddedBroker>,
    release: Release,
    seen: Vec<Seen>,
    log: String,
    began: Instant,
    written: u64,
    kind: Kind,
}

impl Simulation {
    fn note(&mut self, what: impl std::fmt::Display) {
        let at = self.began.elapsed().as_secs_f64();
        let _ = writeln!(self.log, "{at:>9.3} s  {what}");
    }

    fn partitions(&self) -> i32 {
        let has = |partition: &i32| self.brokers.with(|core| core.offsets("t", *partition).is_ok());
        (0..).take_while(has).count() as i32
    }

    /// Appends records whose values are unique.
    fn write(&mut self, dice: &mut Dice) {
        let partition = dice.below(PARTITIONS as u64) as i32;
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];
        let codec = codecs[dice.below(4) as usize];
        let format = magic(self.release);
        let codec = if format == Magic::V0 && codec == Codec::Lz4 { Codec::None } else { codec };
        let mut set = RecordSetWriter::new(format).codec(codec);
        for _ in 0..1 + dice.below(20) {
            self.written += 1;
            let value = format!("{} {}", self.written, "x".repeat(dice.below(200) as usize));
            set.push(NewRecord::value(value.as_bytes())).unwrap();
        }
        // Nobody leads it, or it is gone: the producer would wait.
        let _ = self.brokers.append("t", partition, &set.finish().unwrap());
    }

    fn take_result(&mut self, item: downspout::Result<Option<(TopicPartition, Item)>>) {
        match item {
            Ok(item) => {
                let (at, item) = item.unwrap();
                self.take(&at, item);
            }
            // Damaged twice at the same place: an error, and the next call tries once more.
            Err(why) if self.kind == Kind::Damage && matches!(why.kind(), ErrorKind::Corrupt(_)) => {
                self.note(why);
            }
            Err(why) => panic!("{why}"),
        }
    }

    fn take(&mut self, at: &TopicPartition, item: Item) {
        let partition = at.partition;
        match item {
            Item::Batch(batch) => {
                let records: Vec<_> = batch.records().map(|record| record.unwrap().to_owned()).collect();
                self.note(format!(
                    "t/{partition}: {} records from {:?}",
                    records.len(),
                    records.first().map(|record| record.offset())
                ));
                let seen = &mut self.seen[partition as usize];
                for record in records {
                    assert!(record.offset() >= seen.next, "{at}: {} after {}", record.offset(), seen.next);
                    if self.kind != Kind::Losses {
                        assert_eq!(record.offset(), seen.next, "{at}: a record was skipped");
                    }
                    seen.next = record.offset() + 1;
                    seen.records.insert(record.offset(), record.value_bytes().unwrap());
                }
                seen.next = seen.next.max(batch.next_offset());
            }
            Item::Recovered(event) => {
                self.note(format!("t/{partition}: {event}"));
                let seen = &mut self.seen[partition as usize];
                match event {
                    Recovered::OutOfRange { position, resumed_at, why } if self.kind == Kind::Losses => {
                        assert_eq!(position, seen.next, "{at}: {why}");
                        if let OutOfRange::Recreated { .. } = why {
                            seen.records.clear();
                            seen.lost.clear();
                            seen.lost.push(0..resumed_at);
                        } else {
                            seen.lost.push(position..resumed_at);
                        }
                        seen.next = resumed_at;
                    }
                    Recovered::Truncated { position, diverged_at } if self.kind == Kind::Losses => {
                        assert_eq!(position, seen.next, "{at}");
                        seen.next = diverged_at;
                    }
                    Recovered::Vanished { position } | Recovered::Returned { position }
                        if self.kind == Kind::Losses =>
                    {
                        assert!(position <= seen.next || position < 0, "{at}: {position} {}", seen.next);
                    }
                    Recovered::Stalled { .. } | Recovered::PartitionsAdded { .. } => {}
                    event => panic!("{at}: {event}"),
                }
            }
            other => panic!("{at}: {other:?}"),
        }
    }

    async fn run(&mut self, seed: u64) {
        let mut dice = Dice(seed ^ 0x5eed);
        let mut chaos = Chaos::new(seed);
        match self.kind {
            Kind::Brokers => {}
            Kind::Damage => chaos = chaos.corrupting_records(),
            Kind::Losses => chaos = chaos.losing_records(),
        }
        let builder = builder(&self.brokers)
            .memory([64 << 10, 1 << 20, 256 << 20][dice.below(3) as usize])
            .request_timeout(Duration::from_secs(5))
            .metadata_max_age(Duration::from_secs(2 + dice.below(20)));
        let cluster = loop {
            match builder.clone().connect().await {
                Ok(cluster) => break cluster,
                Err(why) => self.note(why),
            }
        };
        let stream = cluster
            .streams()
            .topic("t")
            .reset(ResetPolicy::Earliest)
            .partition_bytes([300, 4096, 1 << 20][dice.below(3) as usize])
            .max_wait(Duration::from_millis(100 + dice.below(400)));
        let mut stream = stream.await.unwrap();
        for _ in 0..40 {
            if dice.below(3) > 0 {
                self.write(&mut dice);
            }
            let happened = self.brokers.with(|core| chaos.step(core).map(|event| event.action.to_string()));
            if let Some(happened) = happened {
                self.note(happened);
            }
            if dice.below(4) == 0 {
                let (control, partition) = (stream.control(), dice.below(PARTITIONS as u64) as i32);
                control.pause("t", partition).unwrap();
                if dice.below(2) == 0 {
                    sleep(Duration::from_millis(dice.below(300))).await;
                }
                control.resume("t", partition).unwrap();
            }
            let until = Instant::now() + Duration::from_millis(20 + dice.below(200));
            // The reader gives up in the middle of waiting, again and again.
            while let Ok(item) = timeout(until - Instant::now(), stream.next()).await {
                self.take_result(item);
            }
        }
        self.brokers.with(|core| chaos.heal(core));
        self.note("healed");
        for _ in 0..8 {
            self.write(&mut dice);
        }
        self.read_to_the_end(&mut stream).await;
        self.compare().await;
    }

    /// Reads until nothing has come for a while, which must be at the ends of the logs. A while: an answer
    /// that never comes must have been given up, and a log that was cut noticed.
    async fn read_to_the_end(&mut self, stream: &mut MergedStream) {
        let brokers = Arc::clone(&self.brokers);
        let end = move |partition: i32| brokers.with(|core| core.offsets("t", partition).unwrap().end);
        let behind = |seen: &[Seen], count: i32| (0..count).find(|&at| seen[at as usize].next != end(at));
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let is_behind = behind(&self.seen, self.partitions()).is_some();
            let patience = if is_behind { deadline - Instant::now() } else { Duration::from_secs(12) };
            let Ok(item) = timeout(patience, stream.next()).await else { break };
            self.take_result(item);
        }
        if let Some(at) = behind(&self.seen, self.partitions()) {
            panic!("t/{at} stands still at {} of {}", self.seen[at as usize].next, end(at));
        }
    }

    /// All that the logs hold in the end was delivered, as it is there, or reported as lost.
    async fn compare(&self) {
        for partition in 0..self.partitions() {
            let leader = self.brokers.with(|core| core.leader("t", partition)).unwrap().0.unwrap();
            let address = &self.brokers.addrs()[leader as usize - 1];
            let consumer = SimpleConsumer::builder(address).connector(self.brokers.connector());
            let consumer = consumer.connect().await.unwrap();
            let mut offset = consumer.earliest_offset("t", partition).await.unwrap();
            let end = consumer.latest_offset("t", partition).await.unwrap();
            let seen = &self.seen[partition as usize];
            while offset < end {
                let fetched = consumer.fetch(Fetch::new("t", partition, offset)).await.unwrap();
                for batch in fetched.batches() {
                    for record in batch.unwrap().records() {
                        let record = record.unwrap();
                        let offset = record.offset();
                        let reported = seen.lost.iter().any(|lost| lost.contains(&offset));
                        match seen.records.get(&offset) {
                            Some(value) => {
                                assert_eq!(Some(&value[..]), record.value(), "t/{partition} {offset}")
                            }
                            None => assert!(
                                reported,
                                "t/{partition}: {offset} was neither delivered nor reported"
                            ),
                        }
                    }
                }
                offset = fetched.next_offset().unwrap();
            }
        }
    }
}

/// Runs one seed; gives its log, and what went wrong if something did.
fn simulate(seed: u64, kind: Kind) -> (String, Option<String>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let releases: Vec<Release> = match kind {
        // Where topics have ids, and leader epochs can be trusted.
        Kind::Losses => Release::ALL.iter().copied().filter(|release| *release >= Release::V2_8).collect(),
        _ => Release::ALL.to_vec(),
    };
    let release = releases[seed as usize % releases.len()];
    let brokers = EmbeddedBroker::builder().release(release).brokers(3).topic("t", PARTITIONS);
    runtime.block_on(async {
        let mut simulation = Simulation {
            brokers: Arc::new(brokers.in_memory()),
            release,
            seen: (0..PARTITIONS + 100).map(|_| Seen::default()).collect(),
            log: format!("seed {seed}, {release}\n"),
            began: Instant::now(),
            written: 0,
            kind,
        };
        let failure = CatchUnwind(Box::pin(simulation.run(seed))).await.err();
        (simulation.log, failure)
    })
}

/// A future whose panic is its answer.
struct CatchUnwind<F>(std::pin::Pin<Box<F>>);

impl<F: Future<Output = ()>> Future for CatchUnwind<F> {
    type Output = Result<(), String>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let poll = std::panic::AssertUnwindSafe(|| self.0.as_mut().poll(cx));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                std::task::Poll::Ready(Err(text.unwrap_or_else(|| "a panic".to_owned())))
            }
        }
    }
}

fn run_all(kind: Kind) {
    let mut failed = Vec::new();
    for seed in seeds() {
        let (log, failure) = simulate(seed, kind);
        if let Some(why) = failure {
            eprintln!("SEED={seed}: {why}");
            if failed.is_empty() {
                let tail: Vec<&str> = log.lines().rev().take(60).collect();
                eprintln!("{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn whatever_happens_to_brokers_every_record_is_delivered_once_and_in_order() {
    run_all(Kind::Brokers);
}

#[test]
fn whatever_happens_to_logs_every_offset_is_delivered_or_reported() {
    run_all(Kind::Losses);
}

#[test]
fn whatever_happens_to_bytes_no_damage_gets_through() {
    run_all(Kind::Damage);
}

#[test]
fn two_runs_of_one_seed_are_the_same() {
    for seed in 0..20 {
        let kind = [Kind::Brokers, Kind::Damage, Kind::Losses][seed as usize % 3];
        let (first, second) = (simulate(seed, kind).0, simulate(seed, kind).0);
        assert!(first.lines().count() > 20);
        assert_eq!(first, second, "seed {seed}");
    }
}
