//! For tests: a spout without a driver, and what was said of its records.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::handle::{CloseReport, Command, Shared, SpoutHandle};
use super::lot::{Grant, Lot, Mailbox, Place, Word};
use super::spout::{Handout, Spout};
use crate::records::{Magic, NewRecord, ReadOptions, RecordSet, RecordSetWriter};

/// A spout of some records and nothing else.
pub(super) struct Stage {
    pub(super) lot: Arc<Lot>,
    pub(super) spout: Spout,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    /// The spout ends when this is dropped.
    pub(super) handouts: mpsc::UnboundedSender<Handout>,
}

/// Records of `clicks/3` with these values, from that offset on.
fn lot(first: i64, values: &[Option<&str>]) -> Arc<Lot> {
    let mut set = RecordSetWriter::new(Magic::V2).base_offset(first);
    for value in values {
        set.push(NewRecord { value: value.map(str::as_bytes), ..NewRecord::default() }).unwrap();
    }
    let set = RecordSet::new(set.finish().unwrap());
    let batch = set.batches(ReadOptions::default()).next().unwrap().unwrap();
    let place = Place::new(&"clicks".into(), 3, 1, &Arc::new(Mailbox::default()));
    let positions = batch.index().positions;
    Lot::new(&place, batch, positions)
}

/// So many records from that offset on.
pub(super) fn lot_of(first: i64, count: usize) -> Arc<Lot> {
    lot(first, &vec![None; count])
}

/// Records of `clicks/3` with these values, from offset 10 on.
pub(super) fn stage(values: &[Option<&str>]) -> Stage {
    let lot = lot(10, values);
    let to = lot.len();
    let (handouts, received) = mpsc::unbounded_channel();
    let (commands, asked) = mpsc::unbounded_channel();
    handouts.send(Handout::Grant(Grant { lot: Arc::clone(&lot), from: 0, to })).unwrap();
    let handle = SpoutHandle { shared: Arc::new(Shared::default()), commands };
    let spout = Spout::new(handle, received, Duration::ZERO);
    Stage { lot, spout, commands: asked, handouts }
}

impl Stage {
    /// Answers a close as a driver with nothing left to do would.
    pub(super) fn answer_closes(mut commands: mpsc::UnboundedReceiver<Command>) {
        tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                if let Command::Close { reply, .. } = command {
                    let _ = reply.send(Ok(CloseReport::default()));
                }
            }
        });
    }
}

/// The offsets that were acked, and what else was said since the last look.
pub(super) fn said(lot: &Lot) -> (Vec<i64>, Vec<String>) {
    let bits: Vec<u64> = lot.acked_words().collect();
    let acked = (0..lot.len()).filter(|number| bits[*number as usize / 64] >> (number % 64) & 1 == 1);
    let words = lot.place.mailbox.take().1.into_iter().map(|message| match message.word {
        Word::Failed { reason, .. } => format!("{} failed: {reason}", message.number),
        Word::Released => format!("{} released", message.number),
        Word::Dropped => format!("{} dropped", message.number),
        Word::Poison { reason } => format!("{} poison: {reason}", message.number),
        Word::Rejected { reason } => format!("{} rejected: {reason}", message.number),
    });
    (acked.map(|number| lot.offset(number)).collect(), words.collect())
}
