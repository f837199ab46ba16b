//! The conversation with one command: records go out, answers come in.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use downspout::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

use super::line::{self, Reply};
use super::lines::{Line, Lines};
use super::suspects::Suspects;
use super::work::{Source, Work, next};
use crate::output::{BytesAs, Output};
use crate::spout::voice::{Complaint, Voice};

/// What all conversations share.
#[derive(Debug)]
pub(in crate::spout) struct Shared<S> {
    pub(in crate::spout) source: Arc<Mutex<S>>,
    pub(in crate::spout) terms: Terms,
    pub(in crate::spout) suspects: Suspects,
    pub(in crate::spout) counts: Arc<Counts>,
    pub(in crate::spout) voice: Voice,
    pub(in crate::spout) phase: watch::Receiver<Phase>,
}

/// How commands are talked to.
#[derive(Debug, Clone)]
pub(in crate::spout) struct Terms {
    /// The spout's id, for the first line.
    pub(in crate::spout) spout: String,
    /// Records that one command may have at a time.
    pub(in crate::spout) concurrency: usize,
    /// So long may it have records and answer for none.
    pub(in crate::spout) timeout: Duration,
    pub(in crate::spout) bytes: BytesAs,
}

/// How far the closing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::spout) enum Phase {
    Open,
    /// No command is started any more; what is handed out may be finished.
    Closing,
    /// Everything ends now.
    Over,
}

/// What happened in all conversations.
#[derive(Debug, Default)]
pub(in crate::spout) struct Counts {
    /// Lines that were no answer.
    pub(in crate::spout) unknown_lines: AtomicU64,
    /// Answers for records that the command does not have.
    pub(in crate::spout) unknown_ids: AtomicU64,
    /// Commands that ended on their own while they were wanted.
    pub(in crate::spout) deaths: AtomicU64,
    /// Commands that were ended because they did not answer.
    pub(in crate::spout) hung: AtomicU64,
}

/// Why a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// There is no more work, and all of it was answered for.
    Finished,
    /// It was told to end.
    Over,
    /// The command said nothing for too long.
    Hung,
    /// It closed its output, mostly by ending.
    Silent,
    /// It closed its input.
    Deaf,
}

impl End {
    /// Whether the command is to blame.
    pub(super) fn is_death(self) -> bool {
        matches!(self, End::Hung | End::Silent)
    }
}

/// Without a word for so long, output may be waiting in a buffer.
const HINT_AFTER: Duration = Duration::from_secs(30);
/// What has closed its input may still answer for what it has, so long after its last answer.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Bytes gathered for a command before more work is taken.
const GATHER: usize = 64 << 10;
/// Bytes of a reason that are kept.
const REASON: usize = 1_000;

/// One command, as it is talked to.
pub(super) struct Talk<'a, S: Source> {
    shared: &'a Shared<S>,
    worker: usize,
    /// What it has.
    records: HashMap<String, S::Work>,
    /// A record that is to be run alone, and waits until the others are finished.
    waiting: Option<S::Work>,
    /// It has a record that is run alone.
    alone: bool,
    line: Output<Vec<u8>>,
    unwritten: Vec<u8>,
    written: usize,
    source_ended: bool,
    /// Since it last answered, or got work when it had none.
    since: Instant,
    /// Since anything came.
    heard: Instant,
    hinted: bool,
    /// It has answered for something.
    pub(super) answered: bool,
    rubbish: Complaint,
}

impl<'a, S: Source> Talk<'a, S> {
    pub(super) fn new(shared: &'a Shared<S>, worker: usize) -> Self {
        let now = Instant::now();
        let mut line = Output::new(Vec::new()).bytes_as(shared.terms.bytes);
        line::hello(&mut line, &shared.terms.spout, worker, shared.terms.concurrency);
        Talk {
            shared,
            worker,
            records: HashMap::new(),
            waiting: None,
            alone: false,
            unwritten: line.take(),
            line,
            written: 0,
            source_ended: false,
            since: now,
            heard: now,
            hinted: false,
            answered: false,
            rubbish: Complaint::new(),
        }
    }

    /// Talks to its end. Records that were not answered for are released, or have failed if one of them
    /// is what the command dies of.
    pub(super) async fn run<W, R>(&mut self, stdin: W, stdout: &mut Lines<R>) -> Result<End, Error>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        let end = self.talk(stdin, stdout).await;
        let is_death = matches!(end, Ok(end) if end.is_death());
        let alone = self.records.len() == 1;
        for (_, work) in self.records.drain() {
            if is_death && self.shared.suspects.died(work.place(), alone) {
                work.fail("the command died with this record three times, the last time with it alone");
            } else {
                work.release();
            }
        }
        if let Some(work) = self.waiting.take() {
            work.release();
        }
        end
    }

    async fn talk<W, R>(&mut self, stdin: W, stdout: &mut Lines<R>) -> Result<End, Error>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        let mut stdin = Some(stdin);
        let mut phase = self.shared.phase.clone();
        loop {
            self.send_waiting();
            if self.records.is_empty() {
                if self.source_ended {
                    return Ok(End::Finished);
                }
                if stdin.is_none() {
                    return Ok(End::Deaf);
                }
            }
            let wants_work = stdin.is_some() && self.has_room();
            let is_writing = self.written < self.unwritten.len();
            let is_waiting = !self.records.is_empty();
            let deadline = if stdin.is_some() { self.deadline() } else { self.since + LAST_WORDS };
            tokio::select! {
                biased;
                // The other side of it gone means the end too.
                _ = phase.wait_for(|phase| *phase == Phase::Over) => return Ok(End::Over),
                () = sleep_until(deadline), if is_waiting => {
                    match stdin {
                        None => return Ok(End::Deaf),
                        Some(_) if self.is_hung() => return Ok(End::Hung),
                        Some(_) => {}
                    }
                }
                work = next(&self.shared.source), if wants_work => match work? {
                    Some(work) => self.take(work),
                    None => self.source_ended = true,
                },
                sent = send(&mut stdin, self.unwritten.get(self.written..).unwrap_or_default()), if is_writing => {
                    match sent {
                        Ok(sent) => self.sent(sent),
                        // It does not want more. What it has, it may still answer for.
                        Err(_) => {
                            stdin = None;
                            self.since = Instant::now();
                            self.unwritten.clear();
                            self.written = 0;
                        }
                    }
                }
                more = stdout.fill() => {
                    let more = more.unwrap_or(false);
                    self.heard = Instant::now();
                    while let Some(line) = stdout.next() {
                        self.hear(&line);
                    }
                    if !more {
                        return Ok(if self.source_ended && self.records.is_empty() { End::Finished } else { End::Silent });
                    }
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        !self.source_ended
            && !self.alone
            && self.waiting.is_none()
            && self.records.len() < self.shared.terms.concurrency
            && self.unwritten.len() - self.written < GATHER
    }

    fn take(&mut self, work: S::Work) {
        if self.shared.suspects.runs_alone(&work.place()) {
            self.waiting = Some(work);
        } else {
            self.give(work);
        }
    }

    /// What is to be run alone has its turn when nothing else is there.
    fn send_waiting(&mut self) {
        if self.records.is_empty() {
            self.alone = false;
            if let Some(work) = self.waiting.take() {
                self.alone = true;
                self.give(work);
            }
        }
    }

    fn give(&mut self, work: S::Work) {
        if self.records.is_empty() {
            self.since = Instant::now();
            self.heard = self.since;
        }
        work.write(&mut self.line);
        self.unwritten.extend(self.line.take());
        match self.records.entry(work.id()) {
            Entry::Vacant(place) => drop(place.insert(work)),
            // It has this very attempt already; this cannot be told apart from it.
            Entry::Occupied(_) => work.release(),
        }
    }

    fn sent(&mut self, count: usize) {
        self.written += count;
        if self.written == self.unwritten.len() {
            self.written = 0;
            self.unwritten.clear();
            // One large record is no reason to keep its room.
            self.unwritten.shrink_to(2 * GATHER);
        } else if self.written >= GATHER {
            self.unwritten.drain(..self.written);
            self.written = 0;
        }
    }

    fn hear(&mut self, line: &Line<'_>) {
        let whole = match line {
            Line::Whole(line) => line,
            Line::Long(line) => return self.unknown_line(line),
        };
        match line::reply(whole) {
            Reply::Ack(id) => match self.records.remove(id) {
                Some(work) => self.answered(work, S::Work::ack),
                None => self.unknown_id(id),
            },
            Reply::Fail(id, reason) => match self.records.remove(id) {
                Some(work) => self.answered(work, |work| work.fail(cut(reason, REASON))),
                None => self.unknown_id(id),
            },
            Reply::Nothing => {}
            Reply::Unknown => self.unknown_line(whole),
        }
    }

    fn answered(&mut self, work: S::Work, answer: impl FnOnce(S::Work)) {
        self.since = Instant::now();
        self.answered = true;
        self.shared.suspects.clear(|| work.place());
        answer(work);
    }

    fn unknown_line(&mut self, line: &[u8]) {
        self.shared.counts.unknown_lines.fetch_add(1, Ordering::Relaxed);
        let worker = self.worker;
        self.rubbish.say(&self.shared.voice, || {
            let line = String::from_utf8_lossy(line);
            format!("worker {worker} wrote a line that is neither ack ID nor fail ID: {:?}", cut(&line, 100))
        });
    }

    fn unknown_id(&mut self, id: &str) {
        self.shared.counts.unknown_ids.fetch_add(1, Ordering::Relaxed);
        let worker = self.worker;
        self.rubbish.say(&self.shared.voice, || {
            format!("worker {worker} answered for a record that it does not have: {:?}", cut(id, 300))
        });
    }

    /// When to look whether it is still there.
    fn deadline(&self) -> Instant {
        let hung = self.since + self.shared.terms.timeout;
        if self.hinted { hung } else { hung.min(self.heard + HINT_AFTER) }
    }

    fn is_hung(&mut self) -> bool {
        let now = Instant::now();
        let (worker, records) = (self.worker, self.records.len());
        if !self.hinted && now >= self.heard + HINT_AFTER {
            self.hinted = true;
            self.shared.voice.say(&format!(
                "worker {worker} has {records} records and has written nothing for {} s. If it does answer, its \
                 output may wait in a buffer: flush after each line (python3 -u, sed -u, stdbuf -oL, awk's fflush())",
                HINT_AFTER.as_secs()
            ));
        }
        now >= self.since + self.shared.terms.timeout
    }
}

async fn send<W: AsyncWrite + Unpin>(stdin: &mut Option<W>, bytes: &[u8]) -> io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await.and_then(|sent| match sent {
            0 => Err(io::ErrorKind::WriteZero.into()),
            sent => Ok(sent),
        }),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// At most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
