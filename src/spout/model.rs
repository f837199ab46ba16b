//! A partition manager beside a simple model of what at-least-once means: random sequences of reading,
//! acks, failures, drops, time, retention, truncation, crashes, reassignments, and a store that answers
//! late, wrongly or not at all.
//!
//! `SEEDS=n` sets how many sequences run, `SEED=n` runs one and shows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::commit::Offered;
use super::dead_letter::{DeadLetters, Letter};
use super::lot::{Lot, Mailbox, Place, Word};
use super::parked::Millis;
use super::partition_manager::{Effect, PartitionManager, Start};
use super::settings::{Limits, OnExhausted, Order, RetryMode, SpoutSettings};
use crate::checkpoint::{Extras, Stored};
use crate::client::{LogBounds, OutOfRange, Recovered};
use crate::error::{Error, ErrorKind};
use crate::records::{Batch, Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

/// A number by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit.max(1)
    }

    fn one_in(&mut self, limit: u64) -> bool {
        self.below(limit) == 0
    }
}

/// A record of one history of the log: another one may have the same offset after a truncation.
type Identity = (i64, u32);

struct Out {
    lot: Arc<Lot>,
    number: u32,
    identity: Identity,
    life: u32,
}

struct World {
    chance: Chance,
    settings: Arc<SpoutSettings>,
    mailbox: Arc<Mailbox>,
    manager: PartitionManager,
    now: Millis,
    life: u32,
    // The log.
    log: Vec<Vec<Identity>>,
    start: i64,
    end: i64,
    history: u32,
    /// Next offset to be read.
    position: i64,
    // What was handed out.
    queue: VecDeque<(Arc<Lot>, u32)>,
    out: Vec<Out>,
    /// Answered for: acked, given up, or reported as lost.
    done: BTreeSet<Identity>,
    /// Done in this life, by an answer that counted.
    done_in_life: BTreeSet<Identity>,
    was_out: BTreeSet<Identity>,
    /// What failed, and when it is due.
    due: BTreeMap<Identity, Millis>,
    refetch: Vec<Vec<i64>>,
    letters: Vec<Letter>,
    // The store.
    kept: Option<(i64, Option<Extras>)>,
    offer: Option<Offered>,
    trace: bool,
}

const KEYS: i64 = 3;

fn key_of(offset: i64) -> Option<String> {
    (offset % (KEYS + 1) != 0).then(|| (offset % (KEYS + 1)).to_string())
}

fn settings(chance: &mut Chance) -> SpoutSettings {
    let mut settings = SpoutSettings {
        window: Limits { records: 1 + chance.below(12) as usize, bytes: 1 << 20 },
        parked: Limits {
            records: 1 + chance.below(8) as usize,
            bytes: [0, 60, 1 << 20][chance.below(3) as usize],
        },
        compat_storm: chance.one_in(4),
        ..SpoutSettings::default()
    };
    settings.retry = match chance.below(4) {
        0 => RetryMode::FailedSet,
        1 => RetryMode::Rewind,
        _ => RetryMode::Backoff(super::Backoff { jitter: 0.0, ..super::Backoff::default() }),
    };
    if chance.one_in(3) && !matches!(settings.retry, RetryMode::Rewind) {
        settings.order = Order::ByKey { null_is_a_key: chance.one_in(2) };
    }
    if chance.one_in(2) {
        settings.retry_limit = Some(1 + chance.below(3) as u32);
        settings.on_exhausted = Some(match chance.below(2) {
            0 => OnExhausted::Skip,
            _ => OnExhausted::DeadLetter(DeadLetters { break_at: 2.0, ..DeadLetters::to("dead") }),
        });
        settings.give_up_under_pressure = chance.one_in(3);
    }
    if chance.one_in(4) {
        settings.ack_timeout = Some(std::time::Duration::from_secs(30));
    }
    settings.check().unwrap();
    settings
}

impl World {
    fn new(seed: u64, trace: bool) -> Self {
        let mut chance = Chance(seed);
        let settings = Arc::new(settings(&mut chance));
        if trace {
            println!("{settings:#?}");
        }
        let mailbox: Arc<Mailbox> = Arc::default();
        let start = chance.below(3) as i64;
        let first = Start { offset: start, ..Start::default() };
        let place = Place::new(&"t".into(), 0, 1, &mailbox);
        World {
            manager: PartitionManager::new(place, &settings, first, None, 0),
            chance,
            settings,
            mailbox,
            now: 0,
            life: 1,
            log: Vec::new(),
            start,
            end: start,
            history: 0,
            position: start,
            queue: VecDeque::new(),
            out: Vec::new(),
            done: BTreeSet::new(),
            done_in_life: BTreeSet::new(),
            was_out: BTreeSet::new(),
            due: BTreeMap::new(),
            refetch: Vec::new(),
            letters: Vec::new(),
            kept: None,
            offer: None,
            trace,
        }
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>6} {}", self.now, what());
        }
    }

    // The log.

    fn append(&mut self) {
        let mut batch = Vec::new();
        // Holes in front, between and behind.
        for _ in 0..1 + self.chance.below(6) {
            if !self.chance.one_in(5) {
                batch.push((self.end, self.history));
            }
            self.end += 1;
        }
        self.say(|| format!("append {batch:?}, end {}", self.end));
        self.log.push(batch);
    }

    fn truncate(&mut self) {
        let floor = self.start.max(self.end - 6);
        let to = floor + self.chance.below((self.end - floor + 1) as u64) as i64;
        self.say(|| format!("truncate to {to}"));
        for batch in &mut self.log {
            batch.retain(|(offset, _)| *offset < to);
        }
        self.end = to;
        self.history += 1;
        if self.position > to {
            let event = Recovered::Truncated { position: self.position, diverged_at: to };
            self.manager.on_recovered(&event);
            self.position = to;
        }
        // The store may know of what is gone: like the driver, a start asks for the epoch's end.
        let tells_of_it = |extras: &Extras| extras.done.last().is_some_and(|run| run.end > to);
        if let Some((offset, extras)) = &mut self.kept
            && (*offset > to || extras.as_ref().is_some_and(tells_of_it))
        {
            *offset = (*offset).min(to);
            *extras = None;
        }
        self.offer_is_of_another_log();
    }

    /// An offer that is under way tells of records that are gone: it is never kept in this model, where
    /// the driver would find out at the next start.
    fn offer_is_of_another_log(&mut self) {
        if let Some(offer) = self.offer.take() {
            self.manager.on_committed(offer.serial, Err(Error::new(ErrorKind::Closed)), self.now);
        }
    }

    fn retain(&mut self) {
        let to = self.start + self.chance.below((self.end - self.start + 1) as u64) as i64;
        self.say(|| format!("log starts at {to}"));
        self.start = to;
        for batch in &mut self.log {
            for gone in batch.extract_if(.., |(offset, _)| *offset < to) {
                // Reported as lost, or finished before, by whoever looks for it.
                self.done.insert(gone);
            }
        }
    }

    fn batch_from(&self, from: i64, only: Option<i64>) -> Option<Batch> {
        let batch = self.log.iter().find(|batch| batch.last().is_some_and(|(offset, _)| *offset >= from))?;
        let mut set = RecordSetWriter::new(Magic::V2).base_offset(batch.first()?.0);
        set = set.leader_epoch(batch.first()?.1 as i32);
        for (offset, history) in batch {
            let (key, value) = (key_of(*offset), format!("{offset} {history}"));
            let record =
                NewRecord { key: key.as_deref().map(str::as_bytes), ..NewRecord::value(value.as_bytes()) };
            set.push(NewRecord { offset: Some(*offset), ..record }).unwrap();
        }
        let set = RecordSet::new(set.finish().unwrap());
        let options = ReadOptions { from_offset: only.unwrap_or(from), ..ReadOptions::default() };
        Some(set.batches(options).next().unwrap().unwrap())
    }

    fn read(&mut self) {
        if self.position < self.start {
            let event = Recovered::OutOfRange {
                position: self.position,
                resumed_at: self.start,
                why: OutOfRange::BelowStart { log: LogBounds { start: self.start, end: self.end } },
            };
            self.say(|| event.to_string());
            self.manager.on_recovered(&event);
            self.position = self.start;
        } else if let Some(batch) = self.batch_from(self.position, None) {
            self.say(|| {
                format!(
                    "read {:?}",
                    batch.records().map(|record| record.unwrap().offset()).collect::<Vec<_>>()
                )
            });
            self.position = batch.next_offset();
            self.manager.on_batch(batch, self.now);
        } else if self.position < self.end {
            self.position = self.end;
            self.manager.on_reached(self.end);
        }
    }

    // What the manager says.

    fn settle(&mut self) {
        self.manager.pump(self.now, true);
        for effect in self.manager.take_effects() {
            match effect {
                Effect::Grant(grant) => {
                    self.say(|| {
                        format!(
                            "grant {:?}",
                            (grant.from..grant.to).map(|number| grant.lot.offset(number)).collect::<Vec<_>>()
                        )
                    });
                    self.queue.extend((grant.from..grant.to).map(|number| (Arc::clone(&grant.lot), number)));
                }
                Effect::Seek(offset) => {
                    self.say(|| format!("seek {offset}"));
                    self.position = offset;
                }
                Effect::Refetch(offsets) => self.refetch.push(offsets),
                Effect::DeadLetter(letter) => self.letters.push(*letter),
                Effect::Commit => self.commit(),
                Effect::Stop => {}
            }
        }
        self.check();
    }

    fn hand_out(&mut self) {
        let Some((lot, number)) = self.queue.pop_front() else { return };
        self.mailbox.set_clock(self.now);
        if !lot.hand_out(number) {
            return;
        }
        let record = lot.record(number).unwrap();
        let value = std::str::from_utf8(record.value().unwrap()).unwrap();
        let (offset, history) = value.split_once(' ').unwrap();
        let identity = (offset.parse().unwrap(), history.parse().unwrap());
        self.say(|| format!("out {identity:?}, attempt {}", lot.attempt));
        assert_eq!(record.offset(), identity.0);
        // What timed out may be acked after it was granted again.
        let may_repeat = self.settings.ack_timeout.is_some() || self.rewinds();
        assert!(
            may_repeat || !self.done_in_life.contains(&identity),
            "{identity:?} was done, and came again"
        );
        if let Some(due) = self.due.remove(&identity) {
            assert!(self.now >= due, "{identity:?} came at {}, and was due at {due}", self.now);
        }
        if let Order::ByKey { null_is_a_key } = self.settings.order {
            let key = key_of(identity.0);
            let other = self.out.iter().find(|out| {
                key_of(out.identity.0) == key
                    && (key.is_some() || null_is_a_key)
                    // A time-out lets the next one go, though the old one may still run.
                    && self.settings.ack_timeout.is_none()
            });
            assert!(other.is_none(), "{identity:?} runs beside {:?}", other.map(|out| out.identity));
        }
        self.was_out.insert(identity);
        self.out.push(Out { lot, number, identity, life: self.life });
    }

    fn rewinds(&self) -> bool {
        matches!(self.settings.retry, RetryMode::Rewind)
    }

    fn take_out(&mut self) -> Option<Out> {
        match self.out.is_empty() {
            true => None,
            false => Some(self.out.swap_remove(self.chance.below(self.out.len() as u64) as usize)),
        }
    }

    fn ack(&mut self) {
        let Some(Out { lot, number, identity, life }) = self.take_out() else { return };
        self.say(|| format!("ack {identity:?}"));
        lot.ack(number);
        // An ack is an ack, whoever still counts it.
        self.done.insert(identity);
        if life == self.life && lot.limit() > number {
            self.due.remove(&identity);
            self.done_in_life.insert(identity);
        }
        if self.chance.one_in(3) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let (dirty, messages) = self.mailbox.take();
        for lot in dirty {
            lot.begin_sweep();
            if lot.place.assignment == self.manager.place.assignment {
                self.manager.on_acks(&lot);
            } else {
                self.manager.on_stale(&lot, &lot.new_acks());
            }
        }
        for message in messages {
            if message.lot.place.assignment == self.manager.place.assignment {
                self.manager.on_word(&message.lot, message.number, message.word, self.now);
            } else {
                self.manager.on_stale(&message.lot, &[message.number]);
            }
        }
    }

    fn answer(&mut self) {
        let Some(Out { lot, number, identity, life }) = self.take_out() else { return };
        let word = match self.chance.below(5) {
            0 => Word::Released,
            1 => Word::Dropped,
            2 => Word::Rejected { reason: "no".to_owned() },
            _ => Word::Failed { reason: "no".to_owned(), after: None },
        };
        self.say(|| format!("{word:?} {identity:?}"));
        self.sweep();
        let failed = matches!(word, Word::Failed { .. });
        let before = self.manager.counters.failed;
        lot.tell(number, word);
        self.sweep();
        let counted = self.manager.counters.failed > before;
        if failed && counted && life == self.life && matches!(self.settings.retry, RetryMode::Backoff(_)) {
            let failures = self
                .manager
                .parked()
                .find(|(offset, _)| *offset == identity.0)
                .map(|(_, node)| node.failures);
            if let Some(failures) =
                failures.filter(|failures| self.settings.retry_limit.is_none_or(|limit| *failures <= limit))
            {
                let delay = 100u64.saturating_mul(1 << (failures - 1).min(20)).min(60_000);
                self.due.insert(identity, self.now + delay);
            }
        }
    }

    /// What the manager gave up, or lost, is answered for.
    fn take_given_up(&mut self) {
        while let Some(letter) = self.letters.pop() {
            let value = String::from_utf8(letter.record.value().unwrap().to_vec()).unwrap();
            let (offset, history) = value.split_once(' ').unwrap();
            let written = !self.chance.one_in(3);
            self.say(|| format!("dead letter {value}: {written}"));
            if written {
                self.done.insert((offset.parse().unwrap(), history.parse().unwrap()));
            }
            let answer = if written { Ok(()) } else { Err(Error::new(ErrorKind::Closed)) };
            self.manager.on_dead_letter(letter.offset, answer, self.now);
        }
    }

    fn fetch_again(&mut self) {
        let Some(offsets) = self.refetch.pop() else { return };
        if self.chance.one_in(4) {
            self.manager.on_refetch_failed(&offsets, self.now, 1_000);
            return;
        }
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for offset in &offsets {
            if *offset < self.start {
                continue;
            }
            let record = self.batch_from(*offset, Some(*offset)).and_then(|batch| {
                let position = batch.index().positions.first().copied()?;
                (batch.record_at(position)?.offset() == *offset).then(|| batch.only(position))
            });
            match record {
                Some(only) => found.push((*offset, only)),
                None => missing.push(*offset),
            }
        }
        self.say(|| format!("again {offsets:?}: missing {missing:?}"));
        self.manager.on_refetched(found, &missing, self.now);
        if offsets.iter().any(|offset| *offset < self.start) {
            self.manager.prune_below(self.start);
        }
        self.manager.on_refetch_failed(&offsets, self.now, 0);
    }

    // The store.

    fn commit(&mut self) {
        if let Some(offer) = self.manager.offer(false, self.now) {
            self.say(|| format!("offer {offer:?}"));
            self.offer = Some(offer);
        }
    }

    fn store_answers(&mut self) {
        let Some(offer) = self.offer.take() else { return };
        let (kept, told) = match self.chance.below(4) {
            0 => (false, false),
            // The answer is lost.
            1 => (true, false),
            _ => (true, true),
        };
        self.say(|| format!("the store keeps {kept}, tells {told}"));
        if kept {
            self.check_offer(&offer);
            self.kept = Some((offer.offset, offer.extras.clone()));
        }
        let runs = offer.extras.as_ref().and_then(|extras| extras.done.last().map(|run| run.end));
        let answer = match told {
            true => Ok(Stored { done_until: runs.unwrap_or(offer.offset) }),
            false => Err(Error::new(ErrorKind::Closed)),
        };
        self.manager.on_committed(offer.serial, answer, self.now);
    }

    /// Nothing that an offer calls done is unfinished. It tells of what leaders up to its epoch wrote.
    fn check_offer(&self, offer: &Offered) {
        for identity in self.log.iter().flatten() {
            let extras = offer.extras.as_ref();
            let told =
                extras.and_then(|extras| extras.leader_epoch).is_none_or(|epoch| identity.1 as i32 <= epoch);
            let mut runs = extras.iter().flat_map(|extras| &extras.done);
            let says = identity.0 < offer.offset || told && runs.any(|run| run.contains(&identity.0));
            assert!(!says || self.is_done(*identity), "{identity:?} is not done, and {offer:?} says so");
        }
    }

    /// Skipped records are not told one by one: they were out once, of a spout that skips.
    fn is_done(&self, identity: Identity) -> bool {
        let skips = matches!(self.settings.on_exhausted, Some(OnExhausted::Skip));
        self.done.contains(&identity) || skips && self.was_out.contains(&identity)
    }

    /// Another life: after a crash, or the partition comes back to the same process.
    fn begin_anew(&mut self, crash: bool) {
        self.say(|| format!("a new life, crash: {crash}, from {:?}", self.kept));
        if crash {
            self.out.clear();
            self.mailbox.take();
        }
        self.sweep();
        self.life += 1;
        self.queue.clear();
        self.refetch.clear();
        self.letters.clear();
        self.offer = None;
        self.due.clear();
        self.done_in_life.clear();
        let (offset, extras) = self.kept.clone().unwrap_or((self.first(), None));
        let mut extras = extras.unwrap_or_default();
        // Dying again and again is another matter.
        extras.deaths = 0;
        let start = Start { offset, extras, stored: self.kept.is_some(), fell_from: None };
        let place = Place::new(&"t".into(), 0, u64::from(self.life), &self.mailbox);
        let idle = PartitionManager::new(Arc::clone(&place), &self.settings, Start::default(), None, 0);
        let old = std::mem::replace(&mut self.manager, idle);
        // The locks on keys go with a partition that comes back to the same process.
        let keys = old.into_keys().filter(|_| !crash);
        self.manager = PartitionManager::new(place, &self.settings, start, keys, self.now);
        self.position = offset;
    }

    fn first(&self) -> i64 {
        self.start.min(2)
    }

    // What must hold.

    fn check(&mut self) {
        self.manager.check().unwrap();
        let point = self.manager.point();
        for identity in self.log.iter().flatten() {
            if identity.0 < point {
                assert!(self.is_done(*identity), "{identity:?} is not done, and the commit point is {point}");
            }
        }
        let limit = self.settings.window.records;
        assert!(
            self.manager.in_window() <= limit.max(1) + self.settings.parked.records * 10,
            "{} in the window",
            self.manager.in_window()
        );
    }

    fn step(&mut self) {
        match self.chance.below(40) {
            0..=4 => self.append(),
            5..=10 => {
                if self.manager.wants_more() {
                    self.read();
                }
            }
            11..=18 => self.hand_out(),
            19..=24 => self.ack(),
            25..=28 => self.answer(),
            29 => self.sweep(),
            30..=31 => self.now += self.chance.below(500),
            32 => self.now += self.chance.below(70_000),
            33 => self.commit(),
            34 => self.store_answers(),
            35 => self.fetch_again(),
            36 => self.take_given_up(),
            37 => {
                self.manager.look_for_old(self.now);
                self.manager.relieve(self.now);
            }
            38 => match self.chance.below(4) {
                0 => self.retain(),
                1 => self.truncate(),
                2 => self.begin_anew(true),
                _ => self.begin_anew(false),
            },
            _ => self.sweep(),
        }
        self.settle();
    }

    /// With a handler that works and a store that answers, everything comes to its end.
    fn finish(&mut self) {
        self.say(|| "now all goes well".to_owned());
        for _ in 0..10_000 {
            self.sweep();
            self.take_given_up();
            self.fetch_again();
            self.settle();
            if self.manager.wants_more() {
                self.read();
            }
            self.settle();
            while !self.queue.is_empty() {
                self.hand_out();
            }
            while !self.out.is_empty() {
                self.ack();
            }
            self.sweep();
            self.commit();
            if let Some(offer) = self.offer.take() {
                self.check_offer(&offer);
                let runs = offer.extras.as_ref().and_then(|extras| extras.done.last().map(|run| run.end));
                self.kept = Some((offer.offset, offer.extras.clone()));
                let stored = Stored { done_until: runs.unwrap_or(offer.offset) };
                self.manager.on_committed(offer.serial, Ok(stored), self.now);
            }
            self.settle();
            let over =
                self.manager.point() >= self.end && self.position >= self.end && self.manager.waiting() == 0;
            if over && self.kept.as_ref().is_some_and(|(offset, _)| *offset >= self.end) {
                return;
            }
            self.now = self.manager.next_due().map_or(self.now + 1_000, |due| due.max(self.now + 1));
        }
        panic!(
            "it never ends: point {}, end {}, read to {}, {} waiting, kept {:?}",
            self.manager.point(),
            self.end,
            self.position,
            self.manager.waiting(),
            self.kept
        );
    }
}

fn run(seed: u64, trace: bool) {
    let mut world = World::new(seed, trace);
    let steps = 40 + world.chance.below(80);
    for _ in 0..steps {
        world.step();
    }
    world.finish();
}

#[test]
fn pc8_1_to_34_random_histories_lose_nothing_and_come_to_their_end() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, true);
        return;
    }
    let all = std::env::var_os("DOWNSPOUT_ALL").is_some();
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = seeds.unwrap_or(if all { 1_000_000 } else { 10_000 });
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| run(seed, false));
        assert!(result.is_ok(), "SEED={seed}");
    }
    println!("{seeds} histories");
}
