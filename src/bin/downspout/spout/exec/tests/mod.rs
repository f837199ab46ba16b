//! A source of work for tests, and what became of it.

mod running;
mod talking;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use downspout::Error;
use downspout::client::TopicPartition;
use tokio::sync::{Notify, watch};

use super::suspects::Suspects;
use super::talk::{Counts, Phase, Shared, Terms};
use super::work::{Place, Source, Work};
use crate::output::{BytesAs, Output};
use crate::spout::voice::Voice;

/// What became of records, in order.
type Outcomes = Arc<Mutex<Vec<(u32, String)>>>;

/// A record of a test.
struct Piece {
    number: u32,
    attempt: u32,
    value: Vec<u8>,
    outcomes: Outcomes,
}

impl Piece {
    fn done(&self, outcome: &str) {
        self.outcomes.lock().unwrap().push((self.number, outcome.to_owned()));
    }
}

impl Work for Piece {
    fn id(&self) -> String {
        format!("t/0/{}/1/{}", self.number, self.attempt)
    }

    fn place(&self) -> Place {
        (TopicPartition::new("t", 0), self.number.into())
    }

    fn write(&self, line: &mut Output<Vec<u8>>) {
        line.raw(self.id().as_bytes());
        line.raw(b" ");
        line.raw(&self.value);
        line.raw(b"\n");
    }

    fn ack(self) {
        self.done("acked");
    }

    fn fail(self, reason: &str) {
        self.done(&format!("failed: {reason}"));
    }

    fn release(self) {
        self.done("released");
    }
}

/// Gives pieces; waits when there are none, until it is closed.
#[derive(Clone, Default)]
struct Pieces {
    state: Arc<Mutex<(VecDeque<Piece>, bool)>>,
    news: Arc<Notify>,
}

impl Source for Pieces {
    type Work = Piece;

    async fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            let news = self.news.notified();
            {
                let mut state = self.state.lock().unwrap();
                if let Some(piece) = state.0.pop_front() {
                    return Ok(Some(piece));
                }
                if state.1 {
                    return Ok(None);
                }
            }
            news.await;
        }
    }
}

/// A test: a source, and what is shared by the conversations.
struct Stage {
    pieces: Pieces,
    outcomes: Outcomes,
    shared: Arc<Shared<Pieces>>,
    phase: watch::Sender<Phase>,
}

impl Stage {
    fn new(concurrency: usize, numbers: std::ops::Range<u32>) -> Stage {
        let pieces = Pieces::default();
        let (phase, phases) = watch::channel(Phase::Open);
        let terms = Terms {
            spout: "test".into(),
            concurrency,
            timeout: Duration::from_secs(300),
            bytes: BytesAs::Auto,
        };
        let shared = Arc::new(Shared {
            source: Arc::new(tokio::sync::Mutex::new(pieces.clone())),
            terms,
            suspects: Suspects::default(),
            counts: Arc::new(Counts::default()),
            voice: Voice::default(),
            phase: phases,
        });
        let stage = Stage { pieces, outcomes: Outcomes::default(), shared, phase };
        numbers.for_each(|number| stage.add(number, b"v".to_vec()));
        stage
    }

    fn add(&self, number: u32, value: Vec<u8>) {
        let piece = Piece { number, attempt: 1, value, outcomes: Arc::clone(&self.outcomes) };
        self.pieces.state.lock().unwrap().0.push_back(piece);
        self.pieces.news.notify_waiters();
    }

    fn close(&self) {
        self.pieces.state.lock().unwrap().1 = true;
        self.pieces.news.notify_waiters();
    }

    fn outcomes(&self) -> Vec<(u32, String)> {
        self.outcomes.lock().unwrap().clone()
    }

    async fn until(&self, count: usize) -> Vec<(u32, String)> {
        while self.outcomes().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.outcomes()
    }

    fn unknown(&self) -> (u64, u64) {
        let load = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        (load(&self.shared.counts.unknown_lines), load(&self.shared.counts.unknown_ids))
    }
}

fn all(numbers: &[u32], outcome: &str) -> Vec<(u32, String)> {
    numbers.iter().map(|number| (*number, outcome.to_owned())).collect()
}
